package proxy

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"onced/saga/egress/sendonce"
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
	// tlsTime bounds a handshake.
	tlsTime = 10 * time.Second
)

// tracer makes a span of a request that is sent; see Config.TraceSend. Nil makes none.
type tracer func(*http.Request) (*http.Request, func(status int, err error))

// begin returns r with ctx, in its span, and what is told when the answer begins.
func (t tracer) begin(ctx context.Context, r *http.Request) (*http.Request, func(int, error)) {
	if t == nil {
		return r, func(int, error) {}
	}
	return t(r.WithContext(ctx))
}

func dialer() *net.Dialer { return &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 15 * time.Second} }

// guarded sends guarded requests, each once, and knows whether anything of one was
// handed to a connection.
type guarded struct {
	base  *sendonce.Transport
	trace tracer
}

func newGuarded(cfg *tls.Config, trace tracer) *guarded {
	return &guarded{sendonce.New(sendonce.Config{
		Dial:           dialer().DialContext,
		TLS:            cfg,
		MaxIdlePerHost: maxIdle,
		IdleTimeout:    idleTime,
		MaxHeader:      maxResponseHeader,
		TLSTimeout:     tlsTime,
	}), trace}
}

// send sends r with ctx in place of its own, over a connection of its own if fresh. When
// there is an error, sent says whether any of it may have reached the upstream; from
// then on nothing more of it will.
func (g *guarded) send(
	ctx context.Context, r *http.Request, fresh bool,
) (resp *http.Response, sent bool, err error) {
	r, ended := g.trace.begin(ctx, r)
	if g.trace != nil {
		ctx = r.Context()
	}
	resp, fate, err := g.base.Send(ctx, r, fresh)
	if err != nil {
		ended(0, err)
		return nil, fate != sendonce.NotSent, err
	}
	ended(resp.StatusCode, nil)
	return resp, true, nil
}

// passing sends what is not guarded, and look-ups. It never sends a request of an unsafe
// method again.
type passing struct {
	base  *http.Transport
	trace tracer
}

func newPassing(cfg *tls.Config, trace tracer) *passing {
	return &passing{&http.Transport{
		Proxy:                  nil,
		DialContext:            dialer().DialContext,
		TLSClientConfig:        cfg,
		DisableCompression:     true, // answers are passed on byte for byte
		MaxIdleConns:           4 * maxIdle,
		MaxIdleConnsPerHost:    maxIdle,
		IdleConnTimeout:        idleTime,
		MaxResponseHeaderBytes: maxResponseHeader,
		TLSHandshakeTimeout:    tlsTime,
	}, trace}
}

// RoundTrip implements [http.RoundTripper].
func (p *passing) RoundTrip(r *http.Request) (*http.Response, error) {
	r, ended := p.trace.begin(r.Context(), r)
	if !alwaysRepeated(r.Method) {
		once := *r
		once.GetBody, once.Header = nil, hideKeys(r.Header)
		r = &once
	}
	resp, err := p.base.RoundTrip(r)
	if err != nil {
		ended(0, err)
		return nil, err
	}
	ended(resp.StatusCode, nil)
	return resp, nil
}

// alwaysRepeated reports whether net/http takes a method for repeatable by itself. The
// empty one is GET.
func alwaysRepeated(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// hideKeys returns h with two headers spelled as net/http does not look for them: it
// takes their presence for leave to send a request without a body again when a reused
// connection breaks. Names of headers do not depend on case. h is not changed.
func hideKeys(h http.Header) http.Header {
	if h["Idempotency-Key"] == nil && h["X-Idempotency-Key"] == nil {
		return h
	}
	out := make(http.Header, len(h))
	for name, values := range h {
		switch name {
		case "Idempotency-Key":
			name = "Idempotency-key"
		case "X-Idempotency-Key":
			name = "X-Idempotency-key"
		}
		out[name] = values
	}
	return out
}
