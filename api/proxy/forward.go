package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"

	"onced/api/config"
	"onced/api/problem"
	"onced/saga"
	"onced/saga/idemhttp"
)

// Problems that only the proxy has.
const (
	codeFailed      = idemhttp.Code(problem.UpstreamFailed)
	codeTimeout     = idemhttp.Code(problem.UpstreamTimeout)
	codeCredentials = idemhttp.Code(problem.UpstreamCredentials)
)

// OutcomeCredentials is what an [Observer] is told of a request that did not happen
// because the upstream does not accept our credentials. It calls for an operator.
const OutcomeCredentials = "credentials"

// observed is perform for those who count.
func (rt *route) observed(ctx context.Context, x *idemhttp.Exchange) (*idemhttp.Response, error) {
	if rt.proxy.cfg.Observer == nil {
		return rt.perform(ctx, x)
	}
	clock := rt.proxy.cfg.Clock
	began := clock.Now()
	resp, err := rt.perform(ctx, x)
	outcome := saga.OutcomeOf(err).String()
	if err == nil {
		outcome = rt.classify(resp).String()
	}
	if p, ok := errors.AsType[*idemhttp.Problem](err); ok && p.Code == codeCredentials {
		outcome = OutcomeCredentials
	}
	rt.proxy.cfg.Observer.UpstreamDone(rt.name, outcome, clock.Now().Sub(began))
	return resp, err
}

// perform sends a guarded request to the upstream, once.
func (rt *route) perform(ctx context.Context, x *idemhttp.Exchange) (*idemhttp.Response, error) {
	key := saga.DownstreamKey(ctx)
	ctx, cancel := rt.detached(ctx)
	req := &http.Request{
		Method: x.Request.Method, URL: rt.target(x.Request.URL), Header: rt.guardedHeader(x.Request, key),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody,
	}
	if len(x.Body) > 0 {
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(x.Body)), nil }
		req.Body, _ = req.GetBody() // it does not fail
		req.ContentLength = int64(len(x.Body))
	}
	resp, sent, err := rt.proxy.send.send(ctx, req, rt.fresh)
	if err != nil {
		cancel()
		level := slog.LevelWarn
		if sent {
			level = slog.LevelInfo // idemhttp warns of the outcome, which is unknown
		}
		rt.proxy.cfg.Logger.Log(ctx, level, "an upstream did not answer", "route", rt.name,
			"downstream_key", key, "sent", sent, "error", err)
		return nil, rt.failure(err, sent)
	}
	if rt.ourCredentials(x.Request, resp.StatusCode) && rt.Outcomes.Retry.Has(resp.StatusCode) {
		cancel()
		_ = resp.Body.Close() // it is for us, and says nothing to the client
		rt.logCredentials(ctx, resp.StatusCode)
		return nil, saga.NotDone(&idemhttp.Problem{Code: codeCredentials, Detail: credentialsDetail,
			Cause: fmt.Sprintf("the service behind answered %d: it does not accept onced's credentials",
				resp.StatusCode)})
	}
	out, err := rt.receive(x, resp, cancel)
	if err != nil {
		cancel()
		_ = resp.Body.Close() // it is broken
		rt.proxy.cfg.Logger.InfoContext(ctx, "an upstream's answer cannot be used", "route", rt.name,
			"downstream_key", key, "status", resp.StatusCode, "error", err)
		return nil, rt.failure(err, true)
	}
	return out, nil
}

const credentialsDetail = "the service behind does not accept onced's credentials; nothing was done, " +
	"and your token is not at fault"

// ourCredentials reports that a status complains of what the route sent, and not
// of what the client did.
func (rt *route) ourCredentials(in *http.Request, status int) bool {
	switch status {
	case http.StatusProxyAuthRequired:
		return true // the client's are not passed on
	case http.StatusUnauthorized:
		passedOn := rt.Principal != token && in.Header.Get("Authorization") != "" &&
			!slices.ContainsFunc(rt.Headers, isAuthorization)
		return !passedOn
	}
	return false
}

func isAuthorization(h config.Header) bool { return strings.EqualFold(h.Name, "Authorization") }

func (rt *route) logCredentials(ctx context.Context, status int) {
	rt.proxy.cfg.Logger.ErrorContext(ctx, "an upstream does not accept our credentials; correct the route's "+
		"headers", "route", rt.name, "status", status)
}

// failure says what became of a request that has no answer. One that was not
// sent definitely did not happen; every other may have.
func (rt *route) failure(err error, sent bool) error {
	p := &idemhttp.Problem{Code: codeFailed, Detail: "the service behind could not be reached; nothing was " +
		"done"}
	timeout := isTimeout(err)
	if timeout {
		p.Code, p.Detail = codeTimeout, "the service behind could not be reached in time; nothing was done"
	}
	if !sent {
		return saga.NotDone(p)
	}
	p.Cause = "the service behind has the request, but its answer did not arrive whole"
	if timeout {
		p.Cause = "the service behind has the request, but did not answer in time"
	}
	p.Detail = p.Cause + "; it may have happened. "
	if rt.Check == nil && !rt.Repeatable {
		p.Detail += "A person has to find out and resolve the claim; do not use another key"
	} else {
		p.Detail += "Send the same request with the same key again, never another key"
	}
	return p
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

var (
	errStatus   = errors.New("proxy: the answer's status is none of a final answer")
	errBrokeOff = errors.New("proxy: the answer broke off")
)

// receive takes in an answer. cancel ends the request; it is called when the
// whole answer is there, or with the rest of one that is too long to hold.
func (rt *route) receive(
	x *idemhttp.Exchange, resp *http.Response, cancel context.CancelFunc,
) (*idemhttp.Response, error) {
	if resp.StatusCode < 200 || resp.StatusCode > 599 {
		return nil, errStatus
	}
	out := &idemhttp.Response{Status: resp.StatusCode, Header: resp.Header}
	for _, name := range []string{"Request-Id", idemhttp.ReplayedHeader, idemhttp.OutcomeHeader} {
		out.Header.Del(name) // they are ours to say
	}
	body, whole, err := rt.hold(x, resp)
	if err != nil {
		return nil, errors.Join(errBrokeOff, err)
	}
	out.Body = body
	if !whole {
		out.Rest = &rest{ReadCloser: resp.Body, cancel: cancel}
		return out, nil
	}
	_ = resp.Body.Close() // all of it has been read
	cancel()
	out.Trailer = resp.Trailer
	return out, nil
}

// firstRead is how much of a body without a length is read at first, in bytes.
const firstRead = 2 << 10

// hold reads the body of an answer as far as it is kept, or as there is room for it.
// whole says that nothing is left.
func (rt *route) hold(x *idemhttp.Exchange, resp *http.Response) (body []byte, whole bool, err error) {
	size := firstRead
	if resp.ContentLength >= 0 {
		size = int(min(resp.ContentLength, int64(rt.keep)+1))
	}
	if size > idemhttp.ResponseRoom && !x.Room(size) {
		size = idemhttp.ResponseRoom
	}
	buf := make([]byte, 0, size)
	for {
		switch {
		case len(buf) > rt.keep:
			return buf, false, nil
		case int64(len(buf)) == resp.ContentLength:
			return buf, true, nil
		case len(buf) == cap(buf):
			more := min(2*cap(buf), rt.keep+1)
			if more > idemhttp.ResponseRoom && !x.Room(more) {
				return buf, false, nil
			}
			buf = append(make([]byte, 0, more), buf...)
		}
		n, err := resp.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if errors.Is(err, io.EOF) {
			return buf, len(buf) <= rt.keep, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
}

// rest is the end of a long answer.
type rest struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close ends the request too.
func (r *rest) Close() error {
	defer r.cancel()
	return r.ReadCloser.Close()
}
