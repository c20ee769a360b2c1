package problem

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// PathPrefix is where the pages of the problems are served.
const PathPrefix = "/problems/"

// ContentType is the media type of a problem.
const ContentType = "application/problem+json"

// Problem is a problem document and an error. Make one with [New].
type Problem struct {
	// Type is the path of a page about the problem.
	Type string `json:"type"`
	// Title is short and stable per code.
	Title string `json:"title"`
	// Status is the HTTP status.
	Status int `json:"status"`
	// Detail tells people what is wrong this time. It holds no secret.
	Detail string `json:"detail,omitempty"`
	// Instance is the path of the resource that the problem is about.
	Instance string `json:"instance,omitempty"`
	// Code is stable and what programs branch on.
	Code Code `json:"code"`
	// Param names the member, parameter or header at fault.
	Param string `json:"param,omitempty"`
	// RequestID is the id of the request, for the log.
	RequestID string `json:"request_id,omitempty"`
	// RetryAfter is when to repeat, in seconds; 0 is no hint.
	RetryAfter int `json:"retry_after_s,omitempty"`
	// Errors lists several faults at once.
	Errors []Fault `json:"errors,omitempty"`
	// Problems lists what is wrong with a document.
	Problems []Place `json:"problems,omitempty"`
}

// Place is one thing that is wrong with a document, and where.
type Place struct {
	Line    int    `json:"line,omitempty"`   // from 1; 0 is not known
	Column  int    `json:"column,omitempty"` // from 1; 0 is not known
	Field   string `json:"field,omitempty"`  // the path of the field
	Message string `json:"message"`          // what is wrong with it and the remedy
}

// Fault is one fault of a request.
type Fault struct {
	Param  string `json:"param"`  // the member, parameter or header at fault
	Detail string `json:"detail"` // what is wrong with it and the remedy
}

// New returns the problem of a code. A code outside the catalogue is taken for
// [Internal]. The detail may be empty.
func New(c Code, detail string) *Problem {
	e, ok := Lookup(c)
	if !ok {
		e, _ = Lookup(Internal)
		detail = ""
	}
	return &Problem{Type: PathPrefix + string(e.Code), Title: e.Title, Status: e.Status, Detail: detail,
		Code: e.Code, RetryAfter: e.RetryAfter}
}

// Error is the title and the detail.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Title
	}
	return p.Title + ": " + p.Detail
}

// At names the member, parameter or header at fault, and returns p.
func (p *Problem) At(param string) *Problem {
	p.Param = param
	return p
}

// About names the path of the resource that the problem is about, and returns p.
func (p *Problem) About(path string) *Problem {
	p.Instance = path
	return p
}

// After sets when to repeat, rounded up to whole seconds and at least one, and
// returns p. With 0 or less it changes nothing.
func (p *Problem) After(d time.Duration) *Problem {
	if d > 0 {
		p.RetryAfter = int((d + time.Second - 1) / time.Second)
	}
	return p
}

type requestIDKey struct{}

// Context is a context that carries the id of a request, for contexts that carry more.
type Context struct {
	context.Context

	ID string // of the request
}

// Value implements [context.Context].
func (c *Context) Value(key any) any {
	if key == (requestIDKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// WithRequestID returns a context that carries the id of the request.
func WithRequestID(ctx context.Context, id string) context.Context {
	return &Context{Context: ctx, ID: id}
}

// RequestID returns the id of the request, or "".
func RequestID(ctx context.Context) string {
	if c, ok := ctx.Value(requestIDKey{}).(*Context); ok {
		return c.ID
	}
	return ""
}

// Write answers with p. It sets Retry-After, and takes the request id from the
// request's context. Headers that p does not set stay as they are, except those
// that describe another body. p itself is not changed.
func Write(w http.ResponseWriter, r *http.Request, p *Problem) {
	out := *p
	if out.RequestID == "" {
		out.RequestID = RequestID(r.Context())
	}
	h := w.Header()
	for _, name := range []string{"Content-Encoding", "Content-Length", "ETag", "Last-Modified"} {
		h.Del(name)
	}
	h.Set("Content-Type", ContentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Del("Retry-After")
	if out.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(out.RetryAfter))
	}
	if out.Code == Unauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="onced"`)
	}
	body, err := json.Marshal(&out)
	if err != nil { // a struct of texts and numbers
		body = []byte(`{"code":"internal","status":500}`)
	}
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	w.WriteHeader(out.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(append(body, '\n')) // a client that has gone cannot be told
	}
}
