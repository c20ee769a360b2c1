package idemhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"onced/kv/claim"
	"onced/saga"
)

// Exchange is one guarded request.
type Exchange struct {
	// Request is the request; its body reads Body, and may be read once.
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
	return &Exchange{Key: key, Principal: h.cfg.Principal(r), perform: h.perform}, nil
}

// read takes in the body. gone is true when the client is not there any more.
func (h *Handler) read(w http.ResponseWriter, r *http.Request, x *Exchange) (p *Problem, gone bool) {
	stop := bound(w, h.cfg.BodyTime)
	body, err := readBody(w, r, h.cfg.MaxBody)
	stop()
	if err != nil {
		w.Header().Set("Connection", "close") // the rest of the body is still to come
		p := bodyProblem(err, h.cfg.MaxBody)
		// A time limit ends the request's context too, with the client still there.
		return p, p.Code == CodeBadRequest && r.Context().Err() != nil
	}
	x.room.arrived(len(body))
	x.Body = body
	x.Request = r.WithContext(r.Context())
	x.Request.Body = io.NopCloser(bytes.NewReader(body))
	x.Request.GetBody = nil
	x.Request.ContentLength, x.Request.TransferEncoding = int64(len(body)), nil
	x.fingerprint = h.fingerprint(r, body)
	return nil, false
}

// bound lets reads of the connection fail after d, until stop is called. The
// deadline is one in the past, set when the time is over: that needs no clock.
func bound(w http.ResponseWriter, d time.Duration) (stop func()) {
	if d == 0 {
		return func() {}
	}
	conn, fired := http.NewResponseController(w), make(chan struct{})
	t := time.AfterFunc(d, func() {
		defer close(fired)
		_ = conn.SetReadDeadline(time.Unix(1, 0)) // a server that cannot has its own limit
	})
	return func() {
		if !t.Stop() {
			<-fired
			_ = conn.SetReadDeadline(time.Time{})
		}
	}
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
	body := http.MaxBytesReader(w, r.Body, limit)
	if r.ContentLength > 0 && r.ContentLength <= smallBody {
		buf := make([]byte, r.ContentLength)
		_, err := io.ReadFull(body, buf)
		return buf, err
	}
	return io.ReadAll(body)
}

func bodyProblem(err error, limit int64) *Problem {
	var timeout net.Error
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		limit = large.Limit
		return &Problem{Code: CodeTooLarge,
			Detail: "the body is larger than " + itoa(int(limit)) +
				" bytes, which is the limit here; nothing was done"}
	}
	if errors.As(err, &timeout) && timeout.Timeout() {
		return &Problem{Code: CodeRequestTimeout, Detail: "the body did not arrive in time; nothing was done"}
	}
	return &Problem{Code: CodeBadRequest, Detail: "the body did not arrive whole; nothing was done"}
}

// fingerprint identifies the request under its key.
func (h *Handler) fingerprint(r *http.Request, body []byte) [32]byte {
	parts := make([][]byte, 0, 4+2*len(h.cfg.FingerprintHeaders))
	parts = append(parts, []byte(r.Method), []byte(r.URL.EscapedPath()), []byte(r.URL.RawQuery))
	for _, name := range h.cfg.FingerprintHeaders {
		values := r.Header.Values(name)
		parts = append(parts, []byte(name), []byte(itoa(len(values))))
		for _, v := range values {
			parts = append(parts, []byte(v))
		}
	}
	return claim.FingerprintOf(append(parts, body)...)
}

// intentOf is what operators see of a request under way. It leaves out the query
// and the body, which may hold secrets.
func intentOf(x *Exchange) []byte {
	path := x.Request.URL.EscapedPath()
	if len(path) > 1<<10 {
		path = path[:1<<10]
	}
	data, err := json.Marshal(struct {
		Method string `json:"method"`
		Path   string `json:"path"`
	}{x.Request.Method, path})
	if err != nil { // two texts
		return nil
	}
	return data
}

// DownstreamKey is the key to send to the callee inside a [Perform] and inside
// Config.Check.
func DownstreamKey(ctx context.Context) string { return saga.DownstreamKey(ctx) }
