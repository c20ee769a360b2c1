package proxy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
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
		Transport:     &begins{next: rt.proxy.reused, within: rt.Timeout},
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(rt.proxy.cfg.Logger.Handler(), slog.LevelWarn),
		ModifyResponse: func(resp *http.Response) error {
			if resp.StatusCode != http.StatusSwitchingProtocols && (resp.StatusCode < 200 ||
				resp.StatusCode > 599) {
				return errStatus
			}
			clean := resp.Header
			if resp.StatusCode != http.StatusSwitchingProtocols {
				clean = idemhttp.EndToEnd(resp.Header)
			}
			clean.Del("Request-Id")
			clean.Del(idemhttp.ReplayedHeader)
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
		r.Body = http.MaxBytesReader(w, r.Body, rt.maxBody)
	}
	rt.pass.ServeHTTP(w, r)
}

func (rt *route) passFailed(w http.ResponseWriter, r *http.Request, err error) {
	p := problem.New(problem.UpstreamFailed, "the service behind did not answer properly")
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		p = problem.From(large)
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

var errNotBegun = errors.New("proxy: the answer did not begin in time")

// begins bounds the time until an answer begins, and not that of its body.
type begins struct {
	next   *transport
	within time.Duration
}

// RoundTrip implements [http.RoundTripper].
func (b *begins) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	t := time.AfterFunc(b.within, func() { cancel(errNotBegun) })
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
