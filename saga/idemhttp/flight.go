package idemhttp

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"onced/saga"
)

// errShared ends the wait of those who get the answer of another request.
var errShared = errors.New("idemhttp: the request that this one waited for did not happen")

// leastPause is what those are told to wait at least who share an answer that does
// not say it: they come back together.
const leastPause = time.Second

// flightKey says which requests are equal: one key, one content.
type flightKey struct {
	principal, key string
	fingerprint    [32]byte
}

// flights are the equal requests that are under way together. When the one that
// was sent has not happened, the others would be sent one after the other, to a
// callee that has just said that it is too much; they get its answer instead.
type flights struct {
	mu sync.Mutex
	m  map[flightKey]*flight
}

// flight is one group of equal requests. It ends with the last of them, or when
// it has an answer for all; who comes later is in another one.
type flight struct {
	of  *flights
	key flightKey

	n    int                       // who is in it
	ends []context.CancelCauseFunc // of those who wait
	// unproven is what one of them was answered whose key is not known to be free
	// yet. It counts for whoever has got that key since, for then it is.
	unproven *notDone
	shared   *notDone // for all
}

// notDone is an answer that says that the request did not happen.
type notDone struct {
	resp    *Response // or nil
	problem *Problem
}

// join puts x into the flight of its equals; first says that it is alone there.
func (s *flights) join(x *Exchange) (f *flight, first bool) {
	k := flightKey{x.Principal, x.Key, x.fingerprint}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f = s.m[k]; f == nil {
		f, first = &flight{of: s, key: k}, true
		if s.m == nil {
			s.m = map[flightKey]*flight{}
		}
		s.m[k] = f
	}
	f.n++
	return f, first
}

// leave takes one request out.
func (f *flight) leave() {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if f.n--; f.n == 0 {
		f.end()
	}
}

// end lets no further request in. The caller holds the lock.
func (f *flight) end() {
	if f.of.m[f.key] == f {
		delete(f.of.m, f.key)
	}
}

// offer notes the answer of one that did not happen; prove and withdraw say
// whether its key became free.
func (f *flight) offer(a *notDone) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.unproven = a
}

// prove gives an offered answer to all who are in the flight.
func (f *flight) prove(a *notDone) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.end()
	if f.shared != nil {
		return
	}
	f.shared = a
	for _, end := range f.ends {
		end(errShared)
	}
	f.ends = nil
}

// withdraw forgets an offered answer: an earlier try may have happened.
func (f *flight) withdraw(a *notDone) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if f.unproven == a {
		f.unproven = nil
	}
}

// answer is the answer for all, or nil. For the owner of the key one that is
// only offered counts too.
func (f *flight) answer(owner bool) *notDone {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if f.shared == nil && owner {
		return f.unproven
	}
	return f.shared
}

// onAnswer calls end when there is an answer for all.
func (f *flight) onAnswer(end context.CancelCauseFunc) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if f.shared != nil {
		end(errShared)
		return
	}
	f.ends = append(f.ends, end)
}

// waiting is the context of a request in a flight: it ends with errShared when
// there is an answer for all. Most requests never wait, and pay for it only
// when somebody asks for Done.
type waiting struct {
	context.Context

	f     *flight
	once  sync.Once
	inner atomic.Pointer[cancelled]
}

// cancelled is a context that can be ended.
type cancelled struct {
	context.Context

	end context.CancelCauseFunc
}

// now is the context that tells the truth.
func (w *waiting) now() context.Context {
	if c := w.inner.Load(); c != nil {
		return c.Context
	}
	return w.Context
}

// Done implements [context.Context].
func (w *waiting) Done() <-chan struct{} {
	w.once.Do(func() {
		ctx, end := context.WithCancelCause(w.Context)
		w.inner.Store(&cancelled{ctx, end})
		w.f.onAnswer(end)
	})
	return w.now().Done()
}

// Err implements [context.Context].
func (w *waiting) Err() error { return w.now().Err() }

// Value implements [context.Context]; context.Cause asks it.
func (w *waiting) Value(key any) any { return w.now().Value(key) }

// close ends the context.
func (w *waiting) close() {
	if c := w.inner.Load(); c != nil {
		c.end(context.Canceled)
	}
}

// do runs the operation for one of a flight.
func (h *Handler) do(ctx context.Context, x *Exchange) (saga.Result[*stored], error) {
	f, first := h.flights.join(x)
	x.flight = f
	defer f.leave()
	if !first { // who is first seldom waits
		w := &waiting{Context: ctx, f: f}
		defer w.close()
		ctx = w
	}
	res, err := h.op.Do(ctx, x)
	if a := x.offered; a != nil {
		//nolint:errorlint // what Do returns itself; it may hold another
		if _, free := err.(*saga.NotDoneError); free {
			x.flight.prove(a)
		} else {
			x.flight.withdraw(a)
		}
	}
	//nolint:errorlint // as above
	if _, doubt := err.(*saga.UnknownError); !doubt && errors.Is(err, errShared) {
		x.shared = x.flight.answer(true)
	}
	return res, err
}

// instead is the answer of another request in the flight that is to be given
// instead of performing x, which owns the key; or nil.
func (x *Exchange) instead() error {
	if x.flight.answer(true) == nil {
		return nil
	}
	return saga.NotDone(errShared)
}

// offer lets x's flight have the answer to x, which did not happen.
func (x *Exchange) offer(resp *Response, p *Problem) {
	a := &notDone{resp: resp}
	if resp != nil {
		if resp.Header.Get("Retry-After") == "" {
			resp.Header.Set("Retry-After", seconds(leastPause))
		}
	} else {
		shared := *p
		shared.RetryAfter = max(p.RetryAfter, leastPause)
		a.problem = &shared
	}
	x.offered = a
	x.flight.offer(a)
}

// answer is the answer for one of those that share it.
func (a *notDone) answer() (*Response, *Problem) {
	if a.resp != nil && a.resp.Omitted {
		return nil, &Problem{Code: CodeInFlight, Status: a.resp.Status, RetryAfter: max(leastPause,
			retryAfter(a.resp.Header)), Detail: "an equal request was answered with this status, and did " +
			"not happen; send it again with the same key"}
	}
	return a.resp, a.problem
}

func seconds(d time.Duration) string { return itoa(int(d / time.Second)) }
