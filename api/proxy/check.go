package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"onced/saga"
	"onced/saga/idemhttp"
)

// lookUp asks the upstream what became of a request.
func (rt *route) lookUp(
	ctx context.Context, x *idemhttp.Exchange, d saga.Doubt,
) (*idemhttp.Response, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, rt.Check.Timeout)
	defer cancel()
	req, err := rt.lookUpRequest(ctx, x.Key, d.DownstreamKey)
	if err != nil {
		return nil, false, err
	}
	resp, err := rt.proxy.others.RoundTrip(req)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(rt.keep)+1))
	if err != nil {
		return nil, false, fmt.Errorf("proxy: the look-up's answer broke off: %w", err)
	}
	if len(body) > rt.keep {
		return nil, false, &lookUpError{"the answer is larger than max_response"}
	}
	found := &idemhttp.Response{Status: rt.Check.ReplyStatus, Body: body, Header: http.Header{}}
	if types := resp.Header.Values("Content-Type"); len(types) > 0 {
		found.Header["Content-Type"] = types[:1]
	}
	return rt.recognise(answer{resp.StatusCode, body}, found, retryAfter(resp.Header))
}

// recognise says what an answer means. found is the answer to store.
func (rt *route) recognise(
	a answer, found *idemhttp.Response, after time.Duration,
) (*idemhttp.Response, bool, error) {
	c := rt.Check
	if entry, ok := a.matches(c.Done, one); ok {
		if err := rt.cutReply(a, found, entry); err != nil {
			return nil, false, err
		}
		return found, true, nil
	}
	if entry, ok := a.matches(c.Refused, every); ok {
		if err := rt.cutReply(a, found, entry); err != nil {
			return nil, false, err
		}
		found.Status = http.StatusUnprocessableEntity
		return nil, false, idemhttp.Refusal(found)
	}
	if _, ok := a.matches(c.Absent, every); ok {
		return nil, false, nil
	}
	var err error = &lookUpError{fmt.Sprintf("an answer with %d that neither done, refused nor absent "+
		"recognises", a.status)}
	if after > 0 {
		err = saga.RetryAfter(after, err)
	}
	return nil, false, err
}

// cutReply leaves the part of an answer that is to be stored. Without that part
// nothing is: a person can still correct the configuration, and not what was stored.
func (rt *route) cutReply(a answer, found *idemhttp.Response, entry int) error {
	if rt.Check.ReplyField == "" {
		return nil
	}
	part, ok := a.part(rt.Check.ReplyField, entry)
	if !ok {
		return &lookUpError{"the answer is recognised, but has nothing at reply_field"}
	}
	found.Body = part
	if _, ok := found.Header["Content-Type"]; !ok {
		found.Header.Set("Content-Type", "application/json")
	}
	return nil
}

// retryAfter reads the seconds of the header; a date is not worth a clock.
func retryAfter(h http.Header) time.Duration {
	n, err := strconv.ParseUint(h.Get("Retry-After"), 10, 16)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Second
}

// lookUpError is a look-up that tells nothing.
type lookUpError struct{ reason string }

// Error is the reason.
func (e *lookUpError) Error() string { return "proxy: " + e.reason }

// Reason is the text for operators; it holds no secret.
func (e *lookUpError) Reason() string { return e.reason }

// lookUpRequest is the request of a look-up. The keys fill parts of segments and
// of values, and never make a new one.
func (rt *route) lookUpRequest(ctx context.Context, key, downstream string) (*http.Request, error) {
	fill := func(text string, escape func(string) string) string {
		return strings.NewReplacer("{key}", escape(key), "{downstream_key}", escape(downstream)).Replace(text)
	}
	plain := func(s string) string { return s }
	u := rt.Upstream.URL
	u.RawPath = strings.TrimSuffix(u.EscapedPath(), "/") + fill(rt.Check.Path, url.PathEscape)
	path, err := url.PathUnescape(u.RawPath)
	if err != nil {
		return nil, errors.New("proxy: check.path is not a path")
	}
	u.Path = path
	if why := dangerous(path); why != "" || u.EscapedPath() != u.RawPath {
		return nil, &lookUpError{"the key cannot be part of the path of the look-up"}
	}
	query := url.Values{}
	for name, text := range rt.Check.Query {
		query.Set(name, fill(text, plain))
	}
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, rt.Check.Method, u.String(), http.NoBody)
	if err != nil {
		return nil, errors.New("proxy: the look-up's URL cannot be made")
	}
	req.Header.Set("User-Agent", "onced")
	rt.setOwn(req.Header)
	for name, text := range rt.Check.Headers {
		req.Header.Set(name, fill(text, plain))
	}
	return req, nil
}
