// Package sendonce is for transports of net/http that must not send a request twice,
// and must know whether they have sent it. It is below onced's two HTTP clients: that
// of the proxy's routes and saga/egress.
//
//	conn, err := dialer.DialContext(ctx, network, addr)
//	return sendonce.Count(conn), err        // in the transport's DialContext
//
//	var out sendonce.Handover
//	resp, err := transport.RoundTrip(req.WithContext(out.Watch(ctx)))
//	if err != nil { sent = out.Seal() }
//
// # What is guaranteed
//
// When [Handover.Seal] returns false, no byte of the request was handed to a
// connection, and none will be. With [HideKeys] net/http does not send a request of
// its own accord because it carries an Idempotency-Key. With [Handover].Once a request
// that was written to one connection is written to no other.
//
// # What is not
//
// That what was handed over has arrived: true means that it may have. Methods for
// which [AlwaysRepeated] is true are sent again by net/http over reused connections,
// with hidden keys or not.
//
// # What survives a crash
//
// Nothing is kept.
//
// # What the caller must do
//
// Give every connection of the transport through [Count]; one that was not counts as
// written to. Use HTTP/1.1, or set [Handover].Shared. For [Handover].Once have [NoProxy]
// as the transport's Proxy.
package sendonce

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
)

// AlwaysRepeated reports whether net/http takes a method for repeatable by itself. The
// empty one is GET.
func AlwaysRepeated(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// HideKeys returns h with two headers spelled as net/http does not look for them: it
// takes their presence for leave to send a request without a body again when a reused
// connection breaks. Names of headers do not depend on case. h is not changed.
func HideKeys(h http.Header) http.Header {
	if h["Idempotency-Key"] == nil && h["X-Idempotency-Key"] == nil {
		return h
	}
	out := make(http.Header, len(h))
	for name, values := range h {
		out[HiddenName(name)] = values
	}
	return out
}

// HiddenName is the canonical name of a header as [HideKeys] spells it.
func HiddenName(name string) string {
	switch name {
	case "Idempotency-Key":
		return "Idempotency-key"
	case "X-Idempotency-Key":
		return "X-Idempotency-key"
	}
	return name
}

// Handover is what is known of the connections that one request was given. The zero
// value is ready for one request; it must not be copied.
type Handover struct {
	// Shared says that connections of HTTP/2 carry other requests too: they are not
	// sealed, and count as written to.
	Shared bool
	// Once stops a request that was written to a connection, and may have to be written to
	// another one: net/http gives one that it takes for repeatable to every idle connection
	// in turn. See [Handover.Stopped].
	Once bool

	trace httptrace.ClientTrace
	ctx   watched

	mu    sync.Mutex
	conns []given
	other bool // one that cannot be counted
	ended bool
	room  [2]given
}

// given is a connection, and what had been written to it before.
type given struct {
	conn *countedConn
	base int64
}

// watched is the context of a request, which knows its handover.
type watched struct {
	context.Context

	handover *Handover
}

type handoverKey struct{}

// Value implements [context.Context].
func (w *watched) Value(key any) any {
	if key == (handoverKey{}) {
		return w.handover
	}
	return w.Context.Value(key)
}

// Watch returns a context that tells of the connections. It is called once.
func (h *Handover) Watch(ctx context.Context) context.Context {
	h.conns = h.room[:0]
	h.trace.GotConn = h.gotConn
	h.ctx = watched{ctx, h}
	return httptrace.WithClientTrace(&h.ctx, &h.trace)
}

// NoProxy is for [http.Transport].Proxy: there is none. A transport asks for it each time
// before it takes a connection for a request, and not without one; so it is where a
// request is stopped, see [Handover].Once.
func NoProxy(r *http.Request) (*url.URL, error) {
	if h, ok := r.Context().Value(handoverKey{}).(*Handover); ok && h.stop() {
		return nil, errStopped
	}
	return nil, nil
}

// stop stops a request that must not be written again.
func (h *Handover) stop() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = h.ended || h.Once && h.wrote()
	return h.ended
}

func (h *Handover) gotConn(info httptrace.GotConnInfo) {
	h.mu.Lock()
	defer h.mu.Unlock()
	conn := info.Conn
	if t, ok := conn.(*tls.Conn); ok {
		if h.Shared && t.ConnectionState().NegotiatedProtocol == "h2" {
			h.other = true
			return
		}
		conn = t.NetConn()
	}
	c, ok := conn.(*countedConn)
	if !ok {
		h.other = true
		return
	}
	if h.Once && h.wrote() { // the transport has not asked NoProxy
		c.seal()
		h.ended = true
	}
	h.conns = append(h.conns, given{c, c.written()})
}

var errStopped = errors.New("sendonce: the request was written to a connection before")

// wrote reports that something was written to a connection that was given before.
func (h *Handover) wrote() bool {
	for _, g := range h.conns {
		if g.conn.written() != g.base {
			return true
		}
	}
	return false
}

// Stopped reports that Once has stopped the request: it was written to one connection,
// which broke, and will be written to no other.
func (h *Handover) Stopped() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended
}

// Seal stops all writing and reports whether anything may have been written. It is for
// requests that have failed: their connections cannot be used any more.
func (h *Handover) Seal() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	sent := h.other
	for _, g := range h.conns {
		sent = g.conn.seal() != g.base || sent
	}
	return sent
}

// Count returns conn with its writes counted, as [Handover] needs it; nil for nil.
func Count(conn net.Conn) net.Conn {
	if conn == nil {
		return nil
	}
	return &countedConn{Conn: conn}
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
