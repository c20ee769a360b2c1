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
			return sendonce.Count(conn), nil
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
	out, ended := &sendonce.Handover{}, func(int, error) {}
	if t.trace != nil {
		r, ended = t.trace(r.WithContext(ctx))
		ctx = r.Context()
	}
	r = r.WithContext(out.Watch(ctx))
	if !sendonce.AlwaysRepeated(r.Method) {
		r.GetBody = nil
		r.Header = sendonce.HideKeys(r.Header)
	}
	resp, err = t.base.RoundTrip(r)
	if err != nil {
		sent = out.Seal()
		ended(0, err)
		return nil, sent, err
	}
	ended(resp.StatusCode, nil)
	return resp, true, nil
}
