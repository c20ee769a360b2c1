package timer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"onced/kv"
)

// recheck bounds one sleep by the monotonic clock, so that a wall clock that
// jumped ahead is noticed. Looking costs a call of the clock, not of the store.
const recheck = time.Minute

// storePause is how long a lane waits after an error of the store, doubled each
// time up to storePauseMax.
const (
	storePause    = 100 * time.Millisecond
	storePauseMax = 30 * time.Second
)

// lane fires the timers of one kind, on one goroutine that owns all but the
// fields under mu.
type lane struct {
	r    *Runner
	kind string
	h    Handler
	wake chan struct{} // holds one token

	inFlight map[string]struct{} // positions handed to Outside, see slot
	done     chan outcome        // buffered: a worker never waits for the lane

	mu    sync.Mutex
	until time.Time // a timer due before this wakes the lane
}

// outcome is how a call of Outside ended.
type outcome struct {
	slot  string
	again bool  // a row is left that must be looked at
	err   error // of the store
}

func newLane(r *Runner, kind string, h Handler) *lane {
	return &lane{r: r, kind: kind, h: h, wake: make(chan struct{}, 1), inFlight: map[string]struct{}{},
		done: make(chan outcome, h.Workers)}
}

// slot is the identity of a row while it is in flight.
func slot(t Timer) string { return string(key(t.Kind, t.position(), t.Owner)) }

// notify wakes the lane for a timer at due. Tokens coalesce.
func (l *lane) notify(due time.Time) {
	l.mu.Lock()
	earlier := l.until.IsZero() || due.Before(l.until)
	l.mu.Unlock()
	if !earlier {
		return
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// sleepUntil sets what wakes the lane. Zero means everything: it is set before
// the store is read, so that no commit falls between reading and sleeping.
func (l *lane) sleepUntil(t time.Time) {
	l.mu.Lock()
	l.until = t
	l.mu.Unlock()
}

// look is what one reading of the store found.
type look struct {
	now  time.Time // the store's instant
	due  []Timer   // in order
	next time.Time // when the first timer beyond them is due; zero when none is known

	damaged []*DamagedError // rows that were passed over, the first ones
}

func (l *lane) run(ctx context.Context) error {
	defer l.drain()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // first: when the store has ended, calls may wait for no more than that
	pause := storePause
	for ctx.Err() == nil {
		l.sleepUntil(time.Time{})
		err := l.step(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			pause = storePause
			continue
		}
		if err := l.r.await(ctx, err, &pause, "kind", l.kind); err != nil {
			return fmt.Errorf("timer: kind %s: %w", l.kind, err)
		}
	}
	return nil
}

// await lets some time pass after an error of the store, the more the more there
// were. It returns the error when the store has ended, and trying again is no use.
func (r *Runner) await(ctx context.Context, err error, pause *time.Duration, who ...any) error {
	if errors.Is(err, kv.ErrClosed) || errors.Is(err, kv.ErrStopped) || errors.Is(err, errGoexit) {
		return err
	}
	r.cfg.Logger.Error("timers wait for the store", append(who, "error", err)...)
	timer := time.NewTimer(*pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	*pause = min(2**pause, storePauseMax)
	return nil
}

// step fires what is due, or sleeps when nothing is.
func (l *lane) step(ctx context.Context) error {
	lk, err := l.look(ctx, l.h.Batch+len(l.inFlight))
	if err != nil {
		return err
	}
	fresh := lk.due[:0]
	for _, t := range lk.due {
		if _, taken := l.inFlight[slot(t)]; !taken {
			fresh = append(fresh, t)
		}
	}
	fresh = fresh[:min(len(fresh), l.h.Batch)] // the rest is seen by the next look
	switch {
	case len(fresh) == 0:
		return l.sleep(ctx, lk)
	case l.h.Tx != nil:
		return l.fire(ctx, fresh)
	}
	return l.start(ctx, fresh)
}

// look reads the first limit timers of the kind. As many as can be in flight and
// one batch more are read, so that those in flight hide no other. Rows that
// cannot be read are passed over and hide none either.
func (l *lane) look(ctx context.Context, limit int) (lk look, err error) {
	err = l.r.store.View(ctx, func(rd kv.Reader) error {
		got := look{now: rd.Now()}
		r := kv.Key{}.String(l.kind).Range()
		r.Limit = limit + 1
		for more := true; more; {
			var err error
			if more, err = got.page(rd, &r); err != nil {
				return err
			}
		}
		lk = got
		return nil
	})
	for _, d := range lk.damaged {
		l.r.damaged(d)
	}
	return lk, err
}

// page reads the next rows of r and moves r behind them. more reports that it
// found fewer timers than r.Limit in as many rows.
func (lk *look) page(rd kv.Reader, r *kv.Range) (more bool, err error) {
	n := 0
	for e, err := range rd.Scan(dueTable.ID(), *r) {
		if err != nil {
			return false, err
		}
		n++
		r.From = after(e.Key)
		t, err := decodeEntry(e)
		var damaged *DamagedError
		switch {
		case errors.As(err, &damaged):
			if len(lk.damaged) < maxTold {
				lk.damaged = append(lk.damaged, damaged)
			}
			continue
		case t.position().After(lk.now):
			lk.next = t.position()
			return false, nil
		}
		lk.due = append(lk.due, t)
	}
	return n == r.Limit && len(lk.due) < r.Limit, nil
}

// sleep returns when the lane must look again, or an outside call ended badly.
func (l *lane) sleep(ctx context.Context, lk look) error {
	if lk.next.IsZero() {
		l.sleepUntil(maxDue.Add(time.Hour))
	} else {
		l.sleepUntil(lk.next)
	}
	left := lk.next.Sub(lk.now)
	part := min(left, recheck)
	var tick <-chan time.Time // never, when there is nothing to wait for
	var timer *time.Timer
	if !lk.next.IsZero() {
		timer = time.NewTimer(part)
		defer timer.Stop()
		tick = timer.C
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.wake:
			return nil
		case out := <-l.done:
			if again, err := l.settle(out); again || err != nil {
				return err
			}
		case <-tick:
			left -= part
			if left <= 0 || !l.r.cfg.Clock.Now().Before(lk.next) {
				return nil
			}
			part = min(left, recheck)
			timer.Reset(part)
		}
	}
}
