package idemhttp

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"

	"onced/kv/claim"
	"onced/saga"
)

// Middleware returns a function that wraps a handler so that it runs once per
// key. Handlers that it wraps share their keys, for they are one Operation. Its
// error is a saga.ConfigError. The handler sees a ResponseWriter without Hijacker
// whose Flush does nothing. What a framework does with a handler's error has to
// happen inside: a handler that has written nothing has answered 200.
func Middleware(claims *claim.Book, cfg Config) (func(http.Handler) http.Handler, error) {
	h, err := New(claims, cfg, runHandler(http.NotFoundHandler()))
	if err != nil {
		return nil, err
	}
	return func(next http.Handler) http.Handler {
		own := *h // the operation is one and the same
		own.cfg.Pass, own.perform = next, runHandler(next)
		return &own
	}, nil
}

type progressKey struct{}

// progress is what a handler said about its effect.
type progress struct{ nothing atomic.Bool }

// NotDone says, inside a guarded handler, that nothing has happened yet. If the
// handler ends before it calls [Begun], by whatever response or by a panic, the
// key is free again and the response is passed on and not stored: what a handler
// wants that validates its input first. Outside it does nothing.
func NotDone(ctx context.Context) { setNothing(ctx, true) }

// Begun says that from now on the effect may have happened. A handler that never
// calls [NotDone] counts as begun from its start.
func Begun(ctx context.Context) { setNothing(ctx, false) }

func setNothing(ctx context.Context, nothing bool) {
	if p, ok := ctx.Value(progressKey{}).(*progress); ok {
		p.nothing.Store(nothing)
	}
}

// runHandler performs a request by a handler.
func runHandler(next http.Handler) Perform {
	return func(ctx context.Context, x *Exchange) (resp *Response, err error) {
		p := &progress{}
		ctx = context.WithValue(ctx, progressKey{}, p)
		rec := &recorder{header: http.Header{}}
		defer func() {
			if p.nothing.Load() {
				if v := recover(); v != nil {
					resp, err = nil, saga.NotDone(&saga.PanicError{Value: v, Stack: debug.Stack()})
				}
			}
		}()
		req := x.Request.WithContext(ctx)
		req.Body, req.GetBody = io.NopCloser(bytes.NewReader(x.Body)), nil
		req.ContentLength, req.TransferEncoding = int64(len(x.Body)), nil
		defer func() {
			if req.MultipartForm != nil {
				_ = req.MultipartForm.RemoveAll() // net/http does it for the request it knows
			}
		}()
		next.ServeHTTP(rec, req)
		resp = rec.response()
		if p.nothing.Load() {
			return nil, saga.NotDone(&nothingDone{resp})
		}
		return resp, nil
	}
}

// nothingDone carries the response of a handler that did nothing.
type nothingDone struct{ resp *Response }

// Error names the status.
func (e *nothingDone) Error() string { return (&statusError{e.resp.Status}).Error() }

// recorder takes in the response of a handler.
type recorder struct {
	header http.Header
	sent   http.Header // as it was at the first final WriteHeader
	status int
	body   []byte
}

// Header implements [http.ResponseWriter].
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader notes the first final status and drops informational ones.
func (r *recorder) WriteHeader(status int) {
	if r.status != 0 || status < 200 {
		return
	}
	r.status, r.sent = status, r.header.Clone()
}

// Write takes in a part of the body.
func (r *recorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if !(&Response{Status: r.status}).mayHaveBody() {
		return 0, http.ErrBodyNotAllowed
	}
	r.body = append(r.body, b...)
	return len(b), nil
}

// Flush begins the response; nothing leaves before its outcome is stored.
func (r *recorder) Flush() { r.WriteHeader(http.StatusOK) }

// response is what the handler answered. Trailers are the headers that it
// announced in Trailer, and those with http.TrailerPrefix.
func (r *recorder) response() *Response {
	r.WriteHeader(http.StatusOK)
	resp := &Response{Status: r.status, Header: r.sent, Body: r.body}
	set := func(name string, values []string) {
		if resp.Trailer == nil {
			resp.Trailer = http.Header{}
		}
		resp.Trailer[http.CanonicalHeaderKey(name)] = slices.Clone(values)
	}
	for _, list := range r.sent["Trailer"] {
		for name := range strings.SplitSeq(list, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if values := r.header[name]; len(values) > 0 {
				set(name, values)
			}
			delete(resp.Header, name)
		}
	}
	for name, values := range r.header {
		if trailer, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			set(trailer, values)
			delete(resp.Header, name)
		}
	}
	if _, ok := resp.Header["Content-Type"]; !ok && len(r.body) > 0 &&
		resp.Header.Get("Content-Encoding") == "" {
		resp.Header.Set("Content-Type", http.DetectContentType(r.body)) // as net/http does
	}
	return resp
}
