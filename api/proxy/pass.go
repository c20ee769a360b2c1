package proxy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"sync/atomic"
	"time"

	"onced/api/problem"
	"onced/saga/idemhttp"
)

// newPass makes the proxy of requests that are not guarded.
func (rt *route) newPass() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL, r.Out.Host = rt.target(r.In.URL), ""
			rt.setHeaders(r.Out.Header, r.In)
		},
		Transport:     &begins{next: rt.proxy.others, within: rt.Timeout},
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(rt.proxy.cfg.Logger.Handler(), slog.LevelWarn),
		ModifyResponse: func(resp *http.Response) error {
			if resp.StatusCode != http.StatusSwitchingProtocols && (resp.StatusCode < 200 ||
				resp.StatusCode > 599) {
				return errStatus
			}
			if rt.ourCredentials(resp.Request, resp.StatusCode) {
				rt.logCredentials(resp.Request.Context(), resp.StatusCode)
				return errCredentials
			}
			clean := resp.Header
			if resp.StatusCode != http.StatusSwitchingProtocols {
				clean = idemhttp.EndToEnd(resp.Header)
			}
			clean.Del("Request-Id")
			clean.Del(idemhttp.ReplayedHeader)
			clean.Del(idemhttp.OutcomeHeader)
			resp.Header = clean
			return nil
		},
		ErrorHandler: rt.passFailed,
	}
}

// passThrough serves a request that is not guarded.
func (rt *route) passThrough(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength > rt.maxBody {
		w.Header().Set("Connection", "close")
		rt.passFailed(w, r, &http.MaxBytesError{Limit: rt.maxBody})
		return
	}
	if r.Body != nil && r.Body != http.NoBody {
		body := &clientBody{ReadCloser: r.Body, conn: http.NewResponseController(w)}
		r = r.WithContext(context.WithValue(r.Context(), bodyKey{}, body))
		r.Body = http.MaxBytesReader(w, body, rt.maxBody)
	}
	rt.pass.ServeHTTP(w, r)
}

type bodyKey struct{}

// bodyOf is the body of a request that passes through, or nil.
func bodyOf(r *http.Request) *clientBody {
	b, _ := r.Context().Value(bodyKey{}).(*clientBody)
	return b
}

// clientBody knows whether it is the client that keeps us waiting.
type clientBody struct {
	io.ReadCloser

	conn    *http.ResponseController
	waiting atomic.Bool           // a Read is under way
	closed  atomic.Bool           // nobody wants more
	left    atomic.Bool           // that was so while a Read was under way
	failed  atomic.Pointer[error] // of the Read that failed before
}

// leave ends a Read that is under way, for which net/http would wait with the
// error of the request, and then with the answer.
func (b *clientBody) leave() {
	if b == nil {
		return
	}
	b.closed.Store(true)
	if b.waiting.Load() {
		b.left.Store(true)
		_ = b.conn.SetReadDeadline(time.Unix(1, 0)) // a server that cannot waits
	}
}

// Read implements [io.Reader].
func (b *clientBody) Read(p []byte) (int, error) {
	b.waiting.Store(true)
	defer b.waiting.Store(false)
	if b.closed.Load() {
		return 0, net.ErrClosed
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && !b.closed.Load() {
		b.failed.Store(&err)
	}
	return n, err
}

// problem is what the client did wrong, if a request that ended with err has no
// answer by its fault; else nil. An upstream that takes nothing more of a body
// leaves nothing to wait for.
func (b *clientBody) problem(err error) *problem.Problem {
	if b == nil {
		return nil
	}
	failed := b.failed.Load()
	if failed != nil && !isTimeout(*failed) {
		return problem.New(problem.BadRequest, "the body of the request did not arrive whole")
	}
	if failed != nil || b.left.Load() && (isTimeout(err) || errors.Is(err, errNotBegun)) {
		return problem.New(problem.RequestTimeout, "the body of the request did not arrive in time")
	}
	return nil
}

func (rt *route) passFailed(w http.ResponseWriter, r *http.Request, err error) {
	p := problem.New(problem.UpstreamFailed, "the service behind did not answer properly")
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		p = problem.From(large)
	} else if errors.Is(err, errCredentials) {
		p = problem.New(problem.UpstreamCredentials, credentialsDetail)
	} else if theirs := bodyOf(r).problem(err); theirs != nil {
		p = theirs
		w.Header().Set("Connection", "close") // the rest of the body is still to come
	} else if isTimeout(err) || errors.Is(context.Cause(r.Context()), errNotBegun) || errors.Is(err,
		errNotBegun) {
		p = problem.New(problem.UpstreamTimeout, "the service behind did not begin to answer in time")
	}
	if r.Context().Err() == nil {
		rt.proxy.cfg.Logger.WarnContext(r.Context(), "an upstream did not answer", "route", rt.name,
			"error", err)
	}
	problem.Write(w, r, p)
}

var (
	errNotBegun    = errors.New("proxy: the answer did not begin in time")
	errCredentials = errors.New("proxy: the upstream does not accept our credentials")
)

// begins bounds the time until an answer begins, and not that of its body.
type begins struct {
	next   *passing
	within time.Duration
}

// RoundTrip implements [http.RoundTripper].
func (b *begins) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	t := time.AfterFunc(b.within, func() {
		cancel(errNotBegun)
		bodyOf(r).leave()
	})
	resp, err := b.next.RoundTrip(r.WithContext(ctx))
	t.Stop()
	if err != nil {
		if errors.Is(context.Cause(ctx), errNotBegun) {
			err = errNotBegun
		}
		cancel(nil)
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols { // the body of that is the tunnel
		resp.Body = &rest{ReadCloser: resp.Body, cancel: func() { cancel(nil) }}
	}
	return resp, nil
}

var _ io.ReadCloser = (*rest)(nil)
