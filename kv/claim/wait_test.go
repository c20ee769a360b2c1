package claim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"onced/kv"
	"onced/kv/memkv"
)

// race runs n callers at once, who ask with tokens of their own and, when they
// get the key, do what own says. It returns the decisions.
func race(r *rig, n int, own func(ref Ref) error) []Decision {
	var ready, done sync.WaitGroup
	release := make(chan struct{})
	out := make([]Decision, n)
	for i := range n {
		ready.Add(1)
		done.Go(func() {
			b := ask("A")
			b.Token = fmt.Sprintf("token-%020d", i)
			ready.Done()
			<-release
			d, err := r.book.BeginWait(r.Context(), b, time.Hour)
			if err == nil && d.Kind == Acquired {
				err = own(b.Ref())
			}
			if err != nil {
				r.Errorf("caller %d: %v", i, err)
			}
			out[i] = d
		})
	}
	ready.Wait()
	close(release)
	done.Wait()
	return out
}

// countUpdates counts the calls of Update.
type countUpdates struct {
	kv.Store
	n atomic.Int64
}

func (c *countUpdates) Update(ctx context.Context, fn func(kv.Writer) error) error {
	c.n.Add(1)
	return c.Store.Update(ctx, fn)
}

func TestIK02_HundredCallersOneEffect(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(r *rig) {
		counted := &countUpdates{Store: r.store}
		r.store = counted
		book, err := New(r.Context(), counted, r.cfg)
		if err != nil {
			r.Fatal(err)
		}
		r.book = book
		var effects atomic.Int64
		got := race(r, 100, func(ref Ref) error {
			n := effects.Add(1)
			_, err := r.book.Done(r.Context(), ref, text(fmt.Sprint("effect ", n)))
			return err
		})
		replays := 0
		for _, d := range got {
			if d.Kind == Replay && string(d.Record.Result.Data) == "effect 1" {
				replays++
			}
		}
		if effects.Load() != 1 || replays != 99 {
			r.Errorf("%d effects and %d equal replays", effects.Load(), replays)
		}
		if n := counted.n.Load(); n != 2 {
			r.Errorf("%d transactions; one to begin and one to end suffice", n)
		}
	})
}

func TestIK03_AllLosersGetTheStoredFailure(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var tries atomic.Int64
	got := race(r, 100, func(ref Ref) error {
		tries.Add(1)
		_, err := r.book.Refused(r.Context(), ref, text("card declined"))
		return err
	})
	for _, d := range got {
		if d.Kind != Acquired && (d.Kind != Replay || d.Record.State != Refused ||
			string(d.Record.Result.Data) != "card declined") {
			t.Errorf("a loser got %v %v", d.Kind, d.Record.State)
		}
	}
	if tries.Load() != 1 {
		t.Errorf("%d tries", tries.Load())
	}
}

func TestIK03_IK13_ExactlyOneLoserTakesOverAfterARelease(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(r *rig) {
		before := r.commits.Load()
		var owners, effects atomic.Int64
		got := race(r, 100, func(ref Ref) error {
			if owners.Add(1) <= 3 {
				_, err := r.book.Release(r.Context(), ref)
				return err
			}
			effects.Add(1)
			_, err := r.book.Done(r.Context(), ref, text("paid"))
			return err
		})
		replays := 0
		for _, d := range got {
			if d.Kind == Replay {
				replays++
			}
		}
		if owners.Load() != 4 || effects.Load() != 1 || replays != 96 {
			r.Errorf("%d owners, %d effects, %d replays", owners.Load(), effects.Load(), replays)
		}
		if n := r.commits.Load() - before; n > 8 {
			r.Errorf("%d commits for 4 owners", n)
		}
	})
}

// bubble runs test inside a bubble of fake time, with a store on its clock.
func bubble(t *testing.T, test func(r *rig)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := bareRig(t)
		r.memkv(memkv.Options{Rerun: true, Clock: kv.ClockFunc(time.Now)})
		test(r)
	})
}

func TestIK16_BeatingOwnerIsNotTakenOver(t *testing.T) {
	bubble(t, func(r *rig) {
		r.want(Acquired)(r.begin(ask("A", remote(10*time.Second))))
		go func() {
			for range 10 {
				time.Sleep(9 * time.Second)
				r.want(Extended)(r.book.Heartbeat(r.Context(), ref("A"), 10*time.Second))
			}
			r.want(Finished)(r.done("A", "paid"))
		}()
		began := time.Now()
		r.want(Replay)(r.book.BeginWait(r.Context(), ask("B", takeOver), time.Hour))
		if d := time.Since(began); d != 90*time.Second {
			r.Errorf("waited %v", d)
		}
	})
}

func TestIK17_WaitingHasALimit(t *testing.T) {
	bubble(t, func(r *rig) {
		r.want(Acquired)(r.begin(ask("A")))
		began := time.Now()
		d := r.want(InFlight)(r.book.BeginWait(r.Context(), ask("B"), 10*time.Second))
		if time.Since(began) != 10*time.Second || d.RetryAfter != time.Second {
			r.Errorf("waited %v, hint %v", time.Since(began), d.RetryAfter)
		}
		r.want(InFlight)(r.book.BeginWait(r.Context(), ask("B"), 0))
		if time.Since(began) != 10*time.Second {
			r.Errorf("no limit waited %v", time.Since(began)-10*time.Second)
		}
		c, ok, err := r.book.Wait(r.Context(), theID, time.Second)
		if err != nil || !ok || c.Record.State != Pending || time.Since(began) != 11*time.Second {
			r.Errorf("wait: %v %v %v after %v", c.Record.State, ok, err, time.Since(began))
		}
		r.want(Finished)(r.done("A", "paid"))
		r.want(Replay)(r.begin(ask("B")))
		if len(r.book.waiters.m) != 0 {
			r.Errorf("%d waiters are left", len(r.book.waiters.m))
		}
	})
}

func TestIK18_CallerGoneLeavesTheOwnerAlone(t *testing.T) {
	bubble(t, func(r *rig) {
		r.want(Acquired)(r.begin(ask("A")))
		ctx, cancel := context.WithCancelCause(r.Context())
		gone := errors.New("the client has gone")
		time.AfterFunc(5*time.Second, func() { cancel(gone) })
		began := time.Now()
		r.wantErr(gone)(r.book.BeginWait(ctx, ask("B"), time.Hour))
		if _, _, err := r.book.Wait(ctx, theID, time.Hour); !errors.Is(err, gone) {
			r.Errorf("wait: %v", err)
		}
		if time.Since(began) != 5*time.Second {
			r.Errorf("waited %v", time.Since(began))
		}
		r.want(Finished)(r.done("A", "paid"))
		r.want(Replay)(r.begin(ask("B")))
		if len(r.book.waiters.m) != 0 {
			r.Errorf("%d waiters are left", len(r.book.waiters.m))
		}
	})
}

func TestEndOfALeaseWakesThoseWhoWait(t *testing.T) {
	bubble(t, func(r *rig) {
		r.want(Acquired)(r.begin(ask("A", remote(30*time.Second))))
		began := time.Now()
		waited := make(chan Claim)
		go func() {
			c, _, err := r.book.Wait(r.Context(), theID, time.Hour)
			if err != nil {
				r.Error(err)
			}
			waited <- c
		}()
		r.want(InDoubt)(r.book.BeginWait(r.Context(), ask("B"), time.Hour))
		if d := time.Since(began); d != 30*time.Second {
			r.Errorf("waited %v", d)
		}
		if c := <-waited; c.Record.State != Unknown || c.Record.Cause != CauseLeaseEnded {
			r.Errorf("waited for %+v", c.Record)
		}
	})
}

func TestEveryChangeWakesThoseWhoWait(t *testing.T) {
	for name, end := range map[string]func(r *rig) (Decision, error){
		"done": func(r *rig) (Decision, error) { return r.done("A", "paid") },
		"refused": func(r *rig) (Decision, error) {
			return r.book.Refused(r.Context(), ref("A"), text("no"))
		},
		"release": func(r *rig) (Decision, error) { return r.book.Release(r.Context(), ref("A")) },
		"unknown": func(r *rig) (Decision, error) { return r.book.Unknown(r.Context(), ref("A"), "?") },
		"looked up": func(r *rig) (Decision, error) {
			return r.book.LookedUp(r.Context(), ref("A"), Finding{})
		},
		"in the caller's transaction": func(r *rig) (d Decision, err error) {
			err = r.store.Update(r.Context(), func(w kv.Writer) error {
				_, err := r.book.DoneTx(w, ref("A"), text("paid"))
				return err
			})
			return Decision{}, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.want(Acquired)(r.begin(ask("A")))
				began := time.Now()
				go func() {
					time.Sleep(time.Minute)
					if _, err := end(r); err != nil {
						r.Error(err)
					}
				}()
				d, err := r.book.BeginWait(r.Context(), ask("B"), time.Hour)
				if err != nil || d.Kind == InFlight || time.Since(began) != time.Minute {
					r.Errorf("%v, %v after %v", d.Kind, err, time.Since(began))
				}
			})
		})
	}
}

// hooked calls after each View what is in after, once.
type hooked struct {
	kv.Store
	after func()
}

func (h *hooked) View(ctx context.Context, fn func(kv.Reader) error) error {
	err := h.Store.View(ctx, fn)
	if f := h.after; f != nil {
		h.after = nil
		f()
	}
	return err
}

func TestChangeBetweenReadingAndWaitingIsNotMissed(t *testing.T) {
	bubble(t, func(r *rig) {
		h := &hooked{Store: r.store}
		book, err := New(r.Context(), h, r.cfg)
		if err != nil {
			r.Fatal(err)
		}
		r.want(Acquired)(book.Begin(r.Context(), ask("A")))
		began := time.Now()
		h.after = func() { r.want(Finished)(book.Done(r.Context(), ref("A"), text("paid"))) }
		r.want(Replay)(book.BeginWait(r.Context(), ask("B"), time.Hour))
		b := ask("C", withID("s", "k"))
		r.want(Acquired)(book.Begin(r.Context(), b))
		h.after = func() { r.want(Finished)(book.Done(r.Context(), b.Ref(), text("paid"))) }
		c, _, err := book.Wait(r.Context(), b.ID, time.Hour)
		if err != nil || c.Record.State != Done || time.Since(began) != 0 {
			r.Errorf("%v, %v after %v", c.Record.State, err, time.Since(began))
		}
	})
}

// TestStarterThatFailsLetsTheNextOneAsk: the one who asks for all is refused.
func TestStarterThatFailsLetsTheNextOneAsk(t *testing.T) {
	bubble(t, func(r *rig) {
		r.full.Store(true)
		errs := make(chan error)
		for i := range 10 {
			go func() {
				b := ask("A")
				b.Token = fmt.Sprintf("token-%020d", i)
				_, err := r.book.BeginWait(r.Context(), b, time.Hour)
				errs <- err
			}()
		}
		began := time.Now()
		for range 10 {
			if err := <-errs; !errors.Is(err, kv.ErrNoSpace) {
				r.Errorf("got %v", err)
			}
		}
		if time.Since(began) != 0 {
			r.Errorf("waited %v", time.Since(began))
		}
	})
}

func TestStandingClockDoesNotSpin(t *testing.T) {
	t.Parallel()
	r := newRig(t) // its clock stands still
	r.want(Acquired)(r.begin(ask("A", remote(time.Second))))
	r.clock.Add(time.Second - time.Nanosecond)
	r.want(InFlight)(r.book.BeginWait(r.Context(), ask("B"), 20*time.Millisecond))
}
