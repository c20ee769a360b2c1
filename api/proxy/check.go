package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"onced/api/config"
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
	resp, err := rt.proxy.reused.RoundTrip(req)
	if err != nil {
		return nil, false, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(rt.keep)+1))
	if err != nil {
		return nil, false, fmt.Errorf("proxy: the look-up's answer broke off: %w", err)
	}
	if len(body) > rt.keep {
		return nil, false, &lookUpError{"the look-up's answer is larger than max_response"}
	}
	found := &idemhttp.Response{Status: rt.Check.ReplyStatus, Body: body, Header: http.Header{}}
	if types := resp.Header.Values("Content-Type"); len(types) > 0 {
		found.Header["Content-Type"] = types[:1]
	}
	switch c := rt.Check; {
	case matches(c.Done, resp.StatusCode, body):
		return found, true, nil
	case matches(c.Refused, resp.StatusCode, body):
		found.Status = http.StatusUnprocessableEntity
		return nil, false, idemhttp.Refusal(found)
	case matches(c.Absent, resp.StatusCode, body):
		return nil, false, nil
	}
	err = &lookUpError{fmt.Sprintf("the look-up was answered with %d, which tells nothing", resp.StatusCode)}
	if n, bad := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16); bad == nil && n > 0 {
		err = saga.RetryAfter(time.Duration(n)*time.Second, err)
	}
	return nil, false, err
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

// matches recognises an answer.
func matches(m config.Match, status int, body []byte) bool {
	if !m.Status.Has(status) {
		return false
	}
	if m.Field == "" {
		return true
	}
	text, ok := fieldOf(body, m.Field)
	return ok && (len(m.Equals) == 0 || slices.Contains(m.Equals, text))
}

// fieldOf reads a value out of one JSON document. Objects, arrays and null are no
// text; an object or array is there all the same.
func fieldOf(body []byte, path string) (text string, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return "", false
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return "", false // more than one document
	}
	for name := range strings.SplitSeq(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			v = at[name]
		case []any:
			i, err := strconv.ParseUint(name, 10, 31)
			if err != nil || i >= uint64(len(at)) {
				return "", false
			}
			v = at[i]
		default:
			return "", false
		}
	}
	switch v := v.(type) {
	case nil:
		return "", false
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", true
}
