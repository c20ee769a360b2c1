package idemhttp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"onced/kv/claim"
	"onced/saga"
)

// Exchange is one guarded request.
type Exchange struct {
	// Request is the request. Its body has been read, and is in Body.
	Request *http.Request
	// Body is the whole body. It must not be changed.
	Body []byte
	// Key is the client's key, and Principal whose it is.
	Key, Principal string

	perform     Perform
	fingerprint [32]byte
	performed   bool      // by this call
	answer      *Response // of the perform of this call
	room        room
	flight      *flight
	offered     *notDone // what this call has offered to its flight
	shared      *notDone // what it got from there

	replayed, size [1]string // values of headers
}

// safe are the methods that have no effect to repeat.
func safe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// admit says whether a request is guarded, passes through, or is refused. x is
// nil for one that passes.
func (h *Handler) admit(w http.ResponseWriter, r *http.Request) (x *Exchange, p *Problem) {
	if !slices.Contains(h.cfg.Methods, r.Method) {
		// "post" is another method than POST, but many a handler takes it for that.
		same := func(m string) bool { return strings.EqualFold(m, r.Method) }
		if !h.cfg.RefuseOthers && !slices.ContainsFunc(h.cfg.Methods, same) {
			return nil, nil
		}
		w.Header()["Allow"] = slices.Clone(h.cfg.Methods)
		return nil, &Problem{Code: CodeMethodNotAllowed, Detail: "this path takes other methods; see the " +
			"header Allow"}
	}
	key, ok, p := keyOf(r.Header, h.cfg.KeyHeader)
	switch {
	case p != nil:
		return nil, p
	case !ok && h.cfg.KeyOptional:
		return nil, nil
	case !ok:
		return nil, &Problem{Code: CodeKeyMissing, Param: h.cfg.KeyHeader, Detail: "send the header " +
			h.cfg.KeyHeader + " with 1 to 255 bytes: new for each intent, the same for its retries"}
	}
	return &Exchange{Request: r, Key: key, perform: h.perform}, nil
}

// read takes in the body. gone is true when the client is not there any more.
func (h *Handler) read(w http.ResponseWriter, r *http.Request, x *Exchange) (p *Problem, gone bool) {
	limit := h.bound(w)
	body, err := readBody(w, r, h.cfg.MaxBody)
	h.unbound(limit)
	if err != nil {
		w.Header().Set("Connection", "close") // the rest of the body is still to come
		p := bodyProblem(err)
		// A time limit ends the request's context too, with the client still there.
		return p, p.Code == CodeBadRequest && r.Context().Err() != nil
	}
	x.room.arrived(len(body))
	x.Body = body
	x.fingerprint = h.fingerprint(r, body)
	return nil, false
}

// deadline ends reads of a connection when its time is over. Deadlines are used
// again: each request needs one, and hardly any fires.
type deadline struct {
	timer *time.Timer
	w     http.ResponseWriter
	fired chan struct{}
}

// newDeadlines returns a pool of deadlines.
func newDeadlines() *sync.Pool {
	return &sync.Pool{New: func() any {
		d := &deadline{fired: make(chan struct{})}
		d.timer = time.AfterFunc(time.Hour, d.fire)
		d.timer.Stop()
		return d
	}}
}

// fire lets reads fail by a deadline in the past: that needs no clock.
func (d *deadline) fire() {
	defer close(d.fired)
	conn := http.NewResponseController(d.w)
	_ = conn.SetReadDeadline(time.Unix(1, 0)) // a server that cannot has its own limit
}

// bound lets reads of the connection fail after BodyTime, until unbound is called.
func (h *Handler) bound(w http.ResponseWriter) *deadline {
	if h.cfg.BodyTime == 0 {
		return nil
	}
	d, _ := h.deadlines.Get().(*deadline)
	d.w = w
	d.timer.Reset(h.cfg.BodyTime)
	return d
}

func (h *Handler) unbound(d *deadline) {
	if d == nil {
		return
	}
	if !d.timer.Stop() {
		<-d.fired
		_ = http.NewResponseController(d.w).SetReadDeadline(time.Time{})
		return // it is used up
	}
	d.w = nil
	h.deadlines.Put(d)
}

// smallBody is up to what size a body is believed to have the length that it
// says; for a larger one memory is taken as it arrives.
const smallBody = 64 << 10

func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if r.ContentLength > 0 && r.ContentLength <= smallBody { // it has no more than it says
		buf := make([]byte, r.ContentLength)
		_, err := io.ReadFull(r.Body, buf)
		return buf, err
	}
	return io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
}

func bodyProblem(err error) *Problem {
	var timeout net.Error
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &Problem{Code: CodeTooLarge,
			Detail: "the body is larger than " + itoa(int(large.Limit)) +
				" bytes, which is the limit here; nothing was done"}
	}
	if errors.As(err, &timeout) && timeout.Timeout() {
		return &Problem{Code: CodeRequestTimeout, Detail: "the body did not arrive in time; nothing was done"}
	}
	return &Problem{Code: CodeBadRequest, Detail: "the body did not arrive whole; nothing was done"}
}

// fingerprint identifies the request under its key.
func (h *Handler) fingerprint(r *http.Request, body []byte) [32]byte {
	var room [512]byte // of all parts but the body, most often
	parts := claim.AppendPart(room[:0], r.Method)
	parts = claim.AppendPart(parts, r.URL.EscapedPath())
	parts = claim.AppendPart(parts, r.URL.RawQuery)
	for _, name := range h.cfg.FingerprintHeaders {
		values := r.Header[name]
		parts = claim.AppendPart(parts, name)
		parts = claim.AppendPart(parts, itoa(len(values)))
		for _, v := range values {
			parts = claim.AppendPart(parts, v)
		}
	}
	return claim.FingerprintWith(parts, body)
}

// intentOf is what operators see of a request under way. It leaves out the query
// and the body, which may hold secrets.
func intentOf(x *Exchange) []byte {
	path := x.Request.URL.EscapedPath()
	if len(path) > 1<<10 {
		path = path[:1<<10]
	}
	if !plainJSON(x.Request.Method) || !plainJSON(path) {
		data, err := json.Marshal(struct {
			Method string `json:"method"`
			Path   string `json:"path"`
		}{x.Request.Method, path})
		if err != nil { // two texts
			return nil
		}
		return data
	}
	data := make([]byte, 0, len(`{"method":"","path":""}`)+len(x.Request.Method)+len(path))
	data = append(append(data, `{"method":"`...), x.Request.Method...)
	return append(append(append(data, `","path":"`...), path...), `"}`...)
}

// plainJSON reports that a text is the same inside of a JSON string.
func plainJSON(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"\<>&`, c) >= 0 {
			return false
		}
	}
	return true
}

// DownstreamKey is the key to send to the callee inside a [Perform] and inside
// Config.Check.
func DownstreamKey(ctx context.Context) string { return saga.DownstreamKey(ctx) }
