package httpstep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"onced/saga/egress"
)

// Limits of a request.
const (
	// MaxURL is the longest URL, in bytes.
	MaxURL = 8 << 10
	// MaxHeader is the largest header of a request, in bytes of names and values.
	MaxHeader = 64 << 10
	// MaxBody is the largest body of a request, in bytes.
	MaxBody = 4 << 20
)

// DefaultKeyHeader is the header of the downstream key.
const DefaultKeyHeader = "Idempotency-Key"

// Request is one HTTP call. It is not changed, and may be used again.
type Request struct {
	// Method is the method in capitals; URL is the whole URL, its path and query
	// escaped.
	Method, URL string
	// Endpoint is URL as it was read before; that of another URL does not count, nor does nil.
	Endpoint *Endpoint
	// Header is sent besides what this package sets: the key, traceparent, User-Agent,
	// and for a body Content-Type application/json; the last two only where Header has
	// none. See [CheckHeader].
	Header http.Header
	// Body is sent when it has any byte. It must never be changed: a connection that
	// broke may still read it.
	Body []byte

	// Key is the downstream key, sent as KeyHeader ("" means DefaultKeyHeader); "" sends
	// none, as for a look-up.
	Key, KeyHeader string
	// Trust is egress.Guarded unless it is said otherwise.
	Trust egress.Trust
	// Resend says that the request may reach the callee more than once: it honours the
	// key, or the request changes nothing. Without it a request over a connection that
	// breaks is not sent again, and GET and HEAD get a new connection each. Set it for
	// steps that are repeatable and for look-ups.
	Resend bool
	// Fresh sends it over a connection of its own. Set it for steps whose outcome
	// nothing can settle: without a look-up and not repeatable.
	Fresh bool
	// Timeout bounds the call, up to the last byte of the reply; 0 means the time limit
	// of the context, or saga.DefaultTimeout when it has none.
	Timeout time.Duration
	// Outcomes say what a status means; nil means [DefaultOutcomes].
	Outcomes *Outcomes
	// MaxPause bounds what Retry-After of a reply may ask for that leaves the outcome
	// unknown, so that the next try is made while the callee still knows the key; 0 is
	// MaxRetryAfter.
	MaxPause time.Duration
	// MaxReply is how much of the reply's body is kept, in bytes; 0 means that of the
	// Config.
	MaxReply int
	// Secrets are texts that must not get into an error: what the request carries of
	// secrets, besides the values of credential headers. A callee may repeat them.
	Secrets []string
}

// hopHeaders belong to the connection, or are made here.
var hopHeaders = map[string]bool{
	"Connection": true, "Content-Length": true, "Expect": true, "Host": true, "Keep-Alive": true,
	"Proxy-Connection": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

// CheckHeader reports a name that is none, and a header that a request cannot set
// because it belongs to the connection. The header of the key is for the caller to
// check.
func CheckHeader(name string) error {
	if name == "" {
		return errors.New("a header has no name")
	}
	for _, c := range []byte(name) {
		if !isToken(c) {
			return fmt.Errorf("%q is not the name of a header", name)
		}
	}
	if hopHeaders[http.CanonicalHeaderKey(name)] {
		return fmt.Errorf("the header %s belongs to the connection and cannot be set", name)
	}
	return nil
}

func isToken(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// CheckMethod reports a method that cannot be sent.
func CheckMethod(method string) error { return egress.CheckMethod(method) }

// Endpoint is a URL that is read and checked once, for many requests. It is immutable.
type Endpoint struct {
	text string
	url  *url.URL
}

// NewEndpoint reads a URL as [Caller.Ask] does. Its error holds nothing of the URL.
func NewEndpoint(text string) (*Endpoint, error) {
	u, err := parseURL(text)
	if err != nil {
		return nil, err
	}
	return &Endpoint{text, u}, nil
}

func parseURL(text string) (*url.URL, error) {
	if len(text) > MaxURL {
		return nil, fmt.Errorf("the URL has %d bytes, the limit is %d", len(text), MaxURL)
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("the URL cannot be read") // its text may hold a secret
	}
	return u, egress.CheckURL(u)
}

// build makes the request for net/http. Its errors hold no value of a header, and
// nothing of the URL.
func (c *Caller) build(ctx context.Context, req *Request, r *http.Request) (err error) {
	if err := egress.CheckMethod(req.Method); err != nil {
		return err
	}
	if len(req.Body) > MaxBody {
		return fmt.Errorf("the body has %d bytes, the limit is %d", len(req.Body), MaxBody)
	}
	if at := req.Endpoint; at != nil && at.text == req.URL {
		r.URL = at.url
	} else if r.URL, err = parseURL(req.URL); err != nil {
		return err
	}
	if r.Header, err = c.header(ctx, req); err != nil {
		return err
	}
	r.Method, r.Host = req.Method, r.URL.Host
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	if body := req.Body; len(body) > 0 {
		r.ContentLength = int64(len(body))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		r.Body, err = r.GetBody()
	}
	return err
}

// header makes the header of the request. It shares the values with req.
func (c *Caller) header(ctx context.Context, req *Request) (http.Header, error) {
	h := make(http.Header, len(req.Header)+4)
	size := 0
	for name, values := range req.Header {
		if err := CheckHeader(name); err != nil {
			return nil, err
		}
		for _, v := range values {
			if !validValue(v) {
				return nil, fmt.Errorf("the value of the header %s has a control character", name)
			}
			size += len(name) + len(v) + len(": \r\n")
		}
		if name = http.CanonicalHeaderKey(name); h[name] != nil { // it is there in other letters too
			values = slices.Concat(h[name], values)
		}
		h[name] = values
	}
	if size > MaxHeader {
		return nil, fmt.Errorf("the header has %d bytes, the limit is %d", size, MaxHeader)
	}
	if h["User-Agent"] == nil {
		h["User-Agent"] = c.agent
	}
	if len(req.Body) > 0 && h["Content-Type"] == nil {
		h["Content-Type"] = jsonType
	}
	if c.cfg.Traceparent != nil && h["Traceparent"] == nil {
		if parent := c.cfg.Traceparent(ctx); parent != "" {
			h["Traceparent"] = []string{parent}
		}
	}
	if req.Key == "" {
		return h, nil
	}
	name := DefaultKeyHeader
	if req.KeyHeader != "" {
		if err := CheckHeader(req.KeyHeader); err != nil {
			return nil, err
		}
		name = http.CanonicalHeaderKey(req.KeyHeader)
	}
	if !validValue(req.Key) {
		return nil, errors.New("the key has a control character")
	}
	h[name] = []string{req.Key}
	return h, nil
}

var jsonType = []string{"application/json"}

// validValue reports what may be the value of a header.
func validValue(v string) bool {
	for _, c := range []byte(v) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
