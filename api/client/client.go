package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"onced/api/problem"
)

// maxAnswer bounds what is read of an answer, in bytes: a page of claims, or one
// result in base64.
const maxAnswer = 32 << 20

// Config are the settings of a Client. The zero value talks without a token.
type Config struct {
	// Token is the secret for the Authorization header; empty sends none.
	Token string
	// HTTP sends the requests; nil means a client of its own, with a time-out of
	// 60 s beyond what a request asks to wait, no redirects and no proxy.
	HTTP *http.Client
	// UserAgent names the caller; empty means "onced".
	UserAgent string
}

// Client talks to one server. It is safe for concurrent use.
type Client struct {
	base string
	cfg  Config
	http *http.Client
	// timeout bounds a request, and does not count what it asks to wait; 0 is none.
	timeout time.Duration
}

// New returns a client of the server at base, for example
// "http://127.0.0.1:8080". It fails on a base that is not such a URL.
func New(base string, cfg Config) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil ||
		u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("client: the address of the server must be like http://127.0.0.1:8080, " +
			"without user, query and fragment")
	}
	if strings.ContainsAny(cfg.Token, " \t\r\n") {
		return nil, errors.New("client: the token holds a space or a line break; pass it without")
	}
	c := &Client{base: strings.TrimSuffix(base, "/"), cfg: cfg, http: cfg.HTTP}
	if c.http == nil {
		c.timeout = time.Minute
		c.http = &http.Client{
			Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			},
		}
	}
	if c.cfg.UserAgent == "" {
		c.cfg.UserAgent = "onced"
	}
	return c, nil
}

// StatusError is an answer that is not of the API, for example of a proxy on the
// way. What became of the call is not known.
type StatusError struct {
	Status int // the HTTP status
}

// Error names the status.
func (e *StatusError) Error() string {
	return fmt.Sprintf("client: an answer with status %d that is not of onced; check the address", e.Status)
}

// Code returns the code of the problem in err, or "".
func Code(err error) problem.Code {
	if p, ok := errors.AsType[*problem.Problem](err); ok {
		return p.Code
	}
	return ""
}

// call is one request.
type call struct {
	method, path string
	query        url.Values
	ifMatch      string
	body         any
	raw          []byte // instead of body, of contentType
	contentType  string
	wait         time.Duration // for the header Prefer
}

// reply is what counts of an answer beside its body.
type reply struct {
	status int
	etag   string
}

// do sends c and decodes the answer into out, unless that is nil. It returns the
// answer's ETag. Statuses listed in also are answers too.
func (c *Client) do(ctx context.Context, k call, out any, also ...int) (etag string, err error) {
	r, err := c.send(ctx, k, out, also...)
	return r.etag, err
}

func (c *Client) send(ctx context.Context, k call, out any, also ...int) (reply, error) {
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout+k.wait)
		defer cancel()
	}
	req, err := c.request(ctx, k)
	if err != nil {
		return reply{}, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return reply{}, fmt.Errorf("client: %s %s: %w", k.method, k.path, err)
	}
	defer resp.Body.Close() //nolint:errcheck // what was needed is read
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(raw) > maxAnswer {
		err = fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	}
	if err != nil {
		return reply{}, fmt.Errorf("client: %s %s: %w", k.method, k.path, err)
	}
	got := reply{status: resp.StatusCode, etag: resp.Header.Get("ETag")}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	ok := resp.StatusCode >= 200 && resp.StatusCode < 300
	for _, s := range also {
		ok = ok || s == resp.StatusCode
	}
	if !ok || media != "application/json" {
		return got, failure(resp.StatusCode, media, raw)
	}
	if out == nil {
		return got, nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return got, fmt.Errorf("client: %s %s: the answer cannot be read: %w", k.method, k.path, err)
	}
	return got, nil
}

func failure(status int, media string, raw []byte) error {
	var p problem.Problem
	if media == problem.ContentType && json.Unmarshal(raw, &p) == nil && p.Code != "" {
		return &p
	}
	return &StatusError{Status: status}
}

func (c *Client) request(ctx context.Context, k call) (*http.Request, error) {
	var body io.Reader
	if k.body != nil {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(k.body); err != nil {
			return nil, fmt.Errorf("client: %s %s: %w", k.method, k.path, err)
		}
		body, k.contentType = &b, "application/json"
	} else if k.raw != nil {
		body = bytes.NewReader(k.raw)
	}
	target := c.base + k.path
	if len(k.query) > 0 {
		target += "?" + k.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, k.method, target, body)
	if err != nil {
		return nil, fmt.Errorf("client: %s %s: %w", k.method, k.path, err)
	}
	req.Header.Set("User-Agent", c.cfg.UserAgent)
	if body != nil {
		req.Header.Set("Content-Type", k.contentType)
	}
	if k.wait >= time.Second {
		req.Header.Set("Prefer", "wait="+strconv.Itoa(int(k.wait/time.Second)))
	}
	if c.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	}
	if k.ifMatch != "" {
		req.Header.Set("If-Match", k.ifMatch)
	}
	return req, nil
}

// Health is the answer of the health checks.
type Health struct {
	// Status is "ok", "ready" or "not_ready".
	Status string `json:"status"`
	// Conditions are what readiness depends on.
	Conditions []Condition `json:"conditions,omitempty"`
}

// Condition is one thing that readiness depends on.
type Condition struct {
	Name   string `json:"name"`             // for example "store"
	OK     bool   `json:"ok"`               // whether it is as it should be
	Reason string `json:"reason,omitempty"` // why not
}

// Livez asks whether the process answers.
func (c *Client) Livez(ctx context.Context) (Health, error) {
	var h Health
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/livez"}, &h)
	return h, err
}

// Readyz asks whether the process can do its work. That it cannot is no error:
// see the Status.
func (c *Client) Readyz(ctx context.Context) (Health, error) {
	var h Health
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/readyz"}, &h, http.StatusServiceUnavailable)
	return h, err
}
