package egress

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"sync"
	"syscall"
)

// dial opens a connection. Each address that is about to be connected to is looked
// at, also when a name has several, and after every look-up of a name.
func (c *Client) dial(ctx context.Context, network, addr string, trust Trust) (net.Conn, error) {
	d := c.dialer
	if trust != Trusted {
		named := c.allow.named(addr)
		d.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
			return c.allow.check(address, named)
		}
	}
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &countedConn{Conn: conn}, nil
}

// outgoing is what is known of the connections that one request was given.
type outgoing struct {
	shared bool // connections carry other requests too, and cannot be sealed
	trace  httptrace.ClientTrace

	mu    sync.Mutex
	conns []given
	other bool // one that cannot be counted
	room  [2]given
}

// given is a connection, and what had been written to it before.
type given struct {
	conn *countedConn
	base int64
}

// watch returns a context that tells of the connections.
func (o *outgoing) watch(ctx context.Context) context.Context {
	o.conns = o.room[:0]
	o.trace.GotConn = o.gotConn
	return httptrace.WithClientTrace(ctx, &o.trace)
}

func (o *outgoing) gotConn(info httptrace.GotConnInfo) {
	o.mu.Lock()
	defer o.mu.Unlock()
	conn := info.Conn
	if t, ok := conn.(*tls.Conn); ok {
		if o.shared && t.ConnectionState().NegotiatedProtocol == "h2" {
			o.other = true
			return
		}
		conn = t.NetConn()
	}
	c, ok := conn.(*countedConn)
	if !ok {
		o.other = true
		return
	}
	o.conns = append(o.conns, given{c, c.written()})
}

// seal stops all writing and reports whether anything may have been written.
func (o *outgoing) seal() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	sent := o.other
	for _, g := range o.conns {
		sent = g.conn.seal() != g.base || sent
	}
	return sent
}

// countedConn counts the writes that may have put something on the wire.
type countedConn struct {
	net.Conn

	mu     sync.Mutex
	writes int64
	sealed bool
}

// Write counts itself before it begins, unless it then puts out nothing.
func (c *countedConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	if c.sealed {
		c.mu.Unlock()
		return 0, net.ErrClosed
	}
	c.writes++
	c.mu.Unlock()
	n, err := c.Conn.Write(b)
	if n == 0 && err != nil {
		c.mu.Lock()
		c.writes--
		c.mu.Unlock()
	}
	return n, err
}

func (c *countedConn) written() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes
}

// seal lets no further write begin and returns the count.
func (c *countedConn) seal() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sealed = true
	return c.writes
}
