package idemhttp

import (
	"net/http"
	"sync"
)

// ResponseRoom is what each guarded request is allowed for its response from the
// start, in bytes. A larger one needs room of its own; see [Exchange.Room].
const ResponseRoom = 64 << 10

// Limit bounds the guarded requests under way and the bytes that they hold: the
// body of each, as it is announced or, without that, up to MaxBody, and the body of
// its response. What does not fit is answered 503 busy before its body is read and
// before anything is claimed. A response that comes from a handler or out of the
// store is there already: it is counted, and keeps others out, but is not refused.
// Copies that encoding and the store make for a moment are not counted; reckon with
// three times the bytes. It is safe for concurrent use; handlers may share one.
type Limit struct {
	mu       sync.Mutex
	requests int
	bytes    int64

	maxRequests int
	maxBytes    int64
}

// NewLimit returns a limit of so many requests and bytes. The bytes have to be at
// least MaxBody and [ResponseRoom] of every handler that has it.
func NewLimit(requests int, bytes int64) *Limit {
	return &Limit{maxRequests: requests, maxBytes: bytes}
}

// InUse returns the guarded requests under way and the bytes that they hold.
func (l *Limit) InUse() (requests int, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.requests, l.bytes
}

// room is what one request holds of a limit. Without a limit it is endless.
type room struct {
	of             *Limit
	body, response int64
}

// enter takes the room of one more request, if there is any.
func (l *Limit) enter(body int64) (room, bool) {
	r := room{of: l, body: body, response: ResponseRoom}
	if l == nil {
		return r, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.requests >= l.maxRequests || l.bytes+r.body+r.response > l.maxBytes {
		return room{}, false
	}
	l.requests++
	l.bytes += r.body + r.response
	return r, true
}

// arrived says how large the body is that was let in.
func (r *room) arrived(n int) {
	if r.of == nil {
		return
	}
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.of.bytes += int64(n) - r.body
	r.body = int64(n)
}

// grow makes room for a response of n bytes in all. With force it is taken though
// there is none.
func (r *room) grow(n int64, force bool) bool {
	if r.of == nil || n <= r.response {
		return true
	}
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	more := n - r.response
	if !force && r.of.bytes+more > r.of.maxBytes {
		return false
	}
	r.of.bytes += more
	r.response = n
	return true
}

// leave gives everything back.
func (r *room) leave() {
	if r.of == nil {
		return
	}
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.of.requests--
	r.of.bytes -= r.body + r.response
}

// Room makes room in memory for n bytes of the response's body in all, and reports
// whether there is any: without it the response is sent on, and not held. It is for
// a [Perform] that reads a body which may be larger than [ResponseRoom].
func (x *Exchange) Room(n int) bool { return x.room.grow(int64(n), false) }

// enter lets a guarded request in, or says that there is no room.
func (h *Handler) enter(w http.ResponseWriter, r *http.Request, x *Exchange) *Problem {
	body := r.ContentLength
	switch {
	case body < 0:
		body = h.cfg.MaxBody
	case body > h.cfg.MaxBody:
		body = 0 // it will not be read
	}
	got, ok := h.cfg.Limit.enter(body)
	if !ok {
		if h.cfg.OnBusy != nil {
			h.cfg.OnBusy(r)
		}
		if r.ContentLength != 0 {
			w.Header().Set("Connection", "close") // nobody will read the body
		}
		return &Problem{Code: CodeBusy, Detail: "nothing was done; send the same request with the same key " +
			"after Retry-After"}
	}
	x.room = got
	return nil
}
