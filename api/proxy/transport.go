package proxy

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"
)

const (
	// maxResponseHeader bounds the header of an answer, in bytes.
	maxResponseHeader = 64 << 10
	// maxIdle bounds the idle connections to one upstream: as many as were busy a
	// moment ago, or a burst would make most of its connections anew.
	maxIdle = 512
	// idleTime is below what upstreams keep idle connections for, so that they
	// seldom close one just as it is used.
	idleTime = 4 * time.Second
)

// transport sends requests, each once: it never sends a request of an unsafe
// method again, and knows whether anything of one was handed to a connection.
type transport struct {
	base  *http.Transport
	trace func(*http.Request) (*http.Request, func(status int, err error)) // nil makes no spans
}

func newTransport(cfg *tls.Config, reuse bool) *transport {
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 15 * time.Second}
	return &transport{base: &http.Transport{
		Proxy: nil,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &countedConn{Conn: conn}, nil
		},
		TLSClientConfig:        cfg,
		DisableKeepAlives:      !reuse,
		DisableCompression:     true, // answers are passed on byte for byte
		MaxIdleConns:           4 * maxIdle,
		MaxIdleConnsPerHost:    maxIdle,
		IdleConnTimeout:        idleTime,
		MaxResponseHeaderBytes: maxResponseHeader,
		TLSHandshakeTimeout:    10 * time.Second,
	}}
}

func (t *transport) close() { t.base.CloseIdleConnections() }

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, _, err := t.send(r.Context(), r)
	return resp, err
}

// send sends r with ctx in place of its own. When there is an error, sent says whether any of it may have
// reached the upstream; from then on nothing more of it will.
func (t *transport) send(ctx context.Context, r *http.Request) (resp *http.Response, sent bool, err error) {
	out, ended := &outgoing{}, func(int, error) {}
	if t.trace != nil {
		r, ended = t.trace(r.WithContext(ctx))
		ctx = r.Context()
	}
	r = r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: out.gotConn}))
	if !safe(r.Method) {
		r.GetBody = nil
		r.Header = hideKeys(r.Header)
	}
	resp, err = t.base.RoundTrip(r)
	if err != nil {
		sent = out.seal()
		ended(0, err)
		return nil, sent, err
	}
	ended(resp.StatusCode, nil)
	return resp, true, nil
}

// safe are the methods that may be sent again by anybody.
func safe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// hideKeys spells two headers as the transport of net/http does not look for
// them: it takes their presence for leave to send a request without a body again
// when a reused connection breaks. Names of headers do not depend on case.
func hideKeys(h http.Header) http.Header {
	if h["Idempotency-Key"] == nil && h["X-Idempotency-Key"] == nil {
		return h
	}
	out := make(http.Header, len(h))
	for name, values := range h {
		out[hidden(name)] = values
	}
	return out
}

// hidden is name as hideKeys spells it.
func hidden(name string) string {
	switch name {
	case "Idempotency-Key":
		return "Idempotency-key"
	case "X-Idempotency-Key":
		return "X-Idempotency-key"
	}
	return name
}

// outgoing is what is known of the connections that one request was given.
type outgoing struct {
	mu    sync.Mutex
	given []givenConn
	one   [1]givenConn // there are seldom more
	other bool         // a connection that cannot be counted
}

// givenConn is a connection and what had been written to it before.
type givenConn struct {
	*countedConn

	before int64
}

func (o *outgoing) gotConn(info httptrace.GotConnInfo) {
	o.mu.Lock()
	defer o.mu.Unlock()
	conn := info.Conn
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	c, ok := conn.(*countedConn)
	if !ok {
		o.other = true
		return
	}
	if o.given == nil {
		o.given = o.one[:0]
	}
	o.given = append(o.given, givenConn{c, c.written()})
}

// seal stops all writing and reports whether anything was written.
func (o *outgoing) seal() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	sent := o.other
	for _, c := range o.given {
		sent = c.seal() != c.before || sent
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
