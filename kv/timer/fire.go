package timer

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"onced/kv"
)

// failure is an error of a handler, told apart from the store's.
type failure struct {
	t    Timer
	err  error
	text string // what may be kept and logged of err
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// PanicError is the failure of a handler that panicked.
type PanicError struct {
	Value any // what it panicked with
}

// Error names the type of the value only: the value may hold a secret.
func (e *PanicError) Error() string {
	return fmt.Sprintf("timer: the handler panicked with a value of type %T", e.Value)
}

// plain are errors whose own text holds nothing of a row or a request.
var plain = []error{kv.ErrCorrupt, kv.ErrNewer, kv.ErrNested, kv.ErrTxDone, kv.ErrNoSpace,
	context.DeadlineExceeded, context.Canceled}

// describe is what is told of an error unless the caller chooses.
func describe(err error) string {
	if panicked, ok := errors.AsType[*PanicError](err); ok {
		return panicked.Error()
	}
	for _, p := range plain {
		if errors.Is(err, p) {
			return p.Error()
		}
	}
	for next := err; next != nil; next = errors.Unwrap(err) {
		err = next
	}
	return fmt.Sprintf("an error of type %T; Config.OnError has it", err)
}

// failed makes a failure of a handler's error.
func (l *lane) failed(t Timer, err error) *failure {
	text := l.r.cfg.Describe(err)
	if len(text) > MaxErrorText {
		text = text[:MaxErrorText]
	}
	return &failure{t: t, err: err, text: strings.ToValidUTF8(text, "")}
}

// fire acts on due timers in one transaction. When a handler fails, its writes
// must go and the others' must stay: then each timer gets its own transaction,
// and those that fail are moved together at the end. So it is when all of them
// together are too much for one.
func (l *lane) fire(ctx context.Context, batch []Timer) error {
	err := l.act(ctx, batch)
	f, failed := errors.AsType[*failure](err)
	_, tooMuch := errors.AsType[*kv.LimitError](err)
	switch {
	case len(batch) > 1 && (failed || tooMuch):
		moved, err := l.fireEach(ctx, batch)
		return errors.Join(err, l.postpone(ctx, moved))
	case failed:
		return l.postpone(ctx, []*failure{f})
	}
	return err
}

func (l *lane) fireEach(ctx context.Context, batch []Timer) (failed []*failure, err error) {
	for i := range batch {
		if ctx.Err() != nil {
			break // what is left fires after the next start
		}
		var f *failure
		if err := l.act(ctx, batch[i:i+1]); errors.As(err, &f) {
			failed = append(failed, f)
		} else if err != nil {
			return failed, err
		}
	}
	return failed, nil //nolint:nilerr // that it ends is no failure
}

// act removes the timers and runs their handlers in one transaction.
func (l *lane) act(ctx context.Context, batch []Timer) error {
	return l.r.store.Update(ctx, func(w kv.Writer) error {
		for _, seen := range batch {
			t, ok, err := find(w, seen)
			if err != nil {
				return err
			}
			if !ok || t.position().After(w.Now()) {
				continue
			}
			if err := remove(w, t); err != nil {
				return err
			}
			if err := l.guard(t, func() error { return l.h.Tx(ctx, w, t) }); err != nil {
				return l.failed(t, err)
			}
		}
		return nil
	})
}

// guard turns a handler's panic into an error. The stack goes to the log only.
func (l *lane) guard(t Timer, fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p}
			l.r.cfg.Logger.Error("timer handler panicked", "kind", t.Kind, "owner", t.Owner,
				"stack", string(debug.Stack()))
		}
	}()
	return fn()
}

// postpone moves timers whose handlers failed, in one transaction.
func (l *lane) postpone(ctx context.Context, failed []*failure) error {
	if len(failed) == 0 {
		return nil
	}
	next := make([]time.Time, len(failed))
	err := l.r.store.Update(ctx, func(w kv.Writer) error {
		got := make([]time.Time, len(failed))
		for i, f := range failed {
			t, ok, err := find(w, f.t)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			to := w.Now().Add(max(l.r.cfg.Backoff(t.Attempts+1), time.Millisecond))
			if to.After(maxDue) { // no row holds it, and nobody would find the timer again
				to = maxDue
			}
			if got[i], err = move(w, t, to, f.text); err != nil {
				return err
			}
		}
		copy(next, got)
		return nil
	})
	if err != nil {
		return err
	}
	for i, f := range failed {
		l.r.failed(f, next[i])
	}
	return nil
}

// start hands timers to outside workers as these become free.
func (l *lane) start(ctx context.Context, batch []Timer) error {
	for _, t := range batch {
		for len(l.inFlight) >= l.h.Workers {
			select {
			case <-ctx.Done():
				return nil
			case out := <-l.done:
				if _, err := l.settle(out); err != nil {
					return err
				}
			}
		}
		l.inFlight[slot(t)] = struct{}{}
		go l.outside(ctx, t)
	}
	return nil
}

// settle takes note of an ended call.
func (l *lane) settle(out outcome) (again bool, err error) {
	delete(l.inFlight, out.slot)
	return out.again, out.err
}

// drain waits for the calls under way.
func (l *lane) drain() {
	for len(l.inFlight) > 0 {
		if _, err := l.settle(<-l.done); err != nil {
			l.r.cfg.Logger.Error("a timer is left and will be told again", "kind", l.kind, "error", err)
		}
	}
}

// outside calls the handler for one timer, on a goroutine of its own.
func (l *lane) outside(ctx context.Context, seen Timer) {
	out := outcome{slot: slot(seen), err: errGoexit}
	defer func() { l.done <- out }()
	t, ok, err := l.still(ctx, seen)
	if err != nil || !ok {
		out.again, out.err = true, err
		return
	}
	err = l.guard(t, func() error { return l.h.Outside(ctx, t) })
	if err != nil && ctx.Err() != nil {
		out.err = nil // cut short, and told again after the next start
		return
	}
	if err != nil {
		out.again, out.err = true, l.postpone(context.WithoutCancel(ctx), []*failure{l.failed(t, err)})
		return
	}
	out.again, out.err = l.finish(context.WithoutCancel(ctx), t) // also while stopping
}

// still reads the timer again: it may have waited long for a worker.
func (l *lane) still(ctx context.Context, seen Timer) (t Timer, ok bool, err error) {
	err = l.r.store.View(ctx, func(rd kv.Reader) error {
		got, found, err := find(rd, seen)
		t, ok = got, found
		return err
	})
	return t, ok, err
}

// finish removes the timer if the handler has not. again reports that a timer
// of the same identity was set meanwhile, which is another one.
func (l *lane) finish(ctx context.Context, t Timer) (again bool, err error) {
	var left bool
	err = l.r.store.View(ctx, func(rd kv.Reader) error {
		raw, err := rd.Get(dueTable.ID(), key(t.Kind, t.position(), t.Owner))
		left = raw != nil
		return err
	})
	if err != nil || !left {
		return false, err
	}
	err = l.r.store.Update(ctx, func(w kv.Writer) error {
		got, ok, err := find(w, t)
		again = !ok
		if err != nil || !ok {
			return err
		}
		return remove(w, got)
	})
	return again, err
}
