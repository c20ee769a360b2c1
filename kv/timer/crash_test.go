package timer

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"onced/kv"
	"onced/kv/faultkv"
	"onced/kv/invariant"
	"onced/kv/memkv"
)

// hooked calls a function after a View, where a lane is between looking and
// sleeping.
type hooked struct {
	kv.Store
	after func()
}

func (h hooked) View(ctx context.Context, fn func(kv.Reader) error) error {
	err := h.Store.View(ctx, fn)
	h.after()
	return err
}

func TestACommitBetweenLookingAndSleepingIsNotMissed(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.runner()
		w.handle(r, "test", Handler{Tx: note(w.start)})
		w.set(r, w.in("first", time.Hour), w.in("far", 10*time.Hour))
		var views atomic.Int64
		r.store = hooked{w.store, func() {
			switch views.Add(1) {
			case 2: // the first look of the lane; it will sleep for the first timer
				w.set(r, w.in("early", time.Minute))
			case 7: // it has fired the first, and will sleep for the far one
				w.set(r, w.in("near", 5*time.Hour))
			}
		}}
		defer w.run(r)()
		w.sleep(2 * time.Hour)
		w.wantFired("early@1m0s first@1h0m0s")
		if n := views.Load(); n != 8 {
			w.Fatalf("%d reads; the hooks are not where they should be", n)
		}
		w.sleep(9 * time.Hour)
		w.wantFired("early@1m0s first@1h0m0s near@5h0m0s far@10h0m0s")
	})
}

// crashRun sets timers, lets them fire, and stops when nothing is left or the
// store is gone. Started again on the same rows it goes on where it was.
func crashRun(ctx context.Context, s kv.Store, calls *sync.Map) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := New(s, Config{})
	count := func(w kv.Writer, owner string) error {
		old, err := w.Get("effect", []byte(owner))
		if err != nil {
			return err
		}
		return w.Put("effect", []byte(owner), append(old, 'x'))
	}
	_ = r.Handle("tx", Handler{Tx: func(_ context.Context, w kv.Writer, t Timer) error {
		if t.Owner == "bad" && t.Attempts == 0 {
			return context.DeadlineExceeded
		}
		return count(w, t.Owner)
	}})
	_ = r.Handle("outside", Handler{Workers: 1, Outside: func(ctx context.Context, t Timer) error {
		n, _ := calls.LoadOrStore(t.Owner, 0)
		calls.Store(t.Owner, n.(int)+1)
		if t.Owner == "plain" {
			return nil // the runner removes it
		}
		return s.Update(ctx, func(w kv.Writer) error {
			if err := r.Delete(w, t); err != nil {
				return err
			}
			return count(w, t.Owner)
		})
	}})
	_ = s.Update(ctx, func(w kv.Writer) error {
		if done, err := w.Get("begun", []byte("x")); err != nil || done != nil {
			return err
		}
		start := w.Now().Add(time.Second) // one after the other: the same commits each time
		for i, owner := range []string{"a", "bad", "c"} {
			at := start.Add(time.Duration(i) * time.Minute)
			if err := r.Set(w, Timer{Kind: "tx", Owner: owner, Due: at}); err != nil {
				return err
			}
		}
		for i, owner := range []string{"own", "plain"} {
			at := start.Add(time.Duration(i+10) * time.Minute)
			if err := r.Set(w, Timer{Kind: "outside", Owner: owner, Due: at}); err != nil {
				return err
			}
		}
		return w.Put("begun", []byte("x"), []byte{1})
	})
	done := make(chan struct{})
	go func() {
		_ = r.Run(ctx) // an error of a plan, or none
		close(done)
	}()
	time.Sleep(time.Hour)
	cancel()
	<-done
}

func TestKilledAtEveryCommitEachTimerFires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := faultkv.New(memkv.New(memkv.Options{}))
		crashRun(t.Context(), rec, &sync.Map{})
		points := rec.Points()
		plans := faultkv.Plans(points)
		t.Logf("%d commits, %d plans", len(points), len(plans))
		if len(points) < 7 { // set, a, bad moved, bad, c, own, plain
			t.Fatalf("the list of commits shrank to %d", len(points))
		}
		for _, plan := range plans {
			disk := memkv.NewDisk()
			var calls sync.Map
			s := faultkv.New(memkv.Open(disk, memkv.Options{}), plan)
			crashRun(t.Context(), s, &calls)
			if s.Crashed() {
				<-s.Down()
			}
			after := memkv.Open(disk, memkv.Options{})
			crashRun(t.Context(), after, &calls)
			for _, owner := range []string{"a", "bad", "c", "own"} {
				var effect []byte
				err := after.View(t.Context(), func(rd kv.Reader) error {
					v, err := rd.Get("effect", []byte(owner))
					effect = v
					return err
				})
				if err != nil || string(effect) != "x" {
					t.Errorf("%s: %s had %d effects, %v", plan, owner, len(effect), err)
				}
			}
			for _, owner := range []string{"own", "plain"} {
				// Called again after the error, and once more after the restart.
				if n, _ := calls.Load(owner); n == nil || n.(int) > 3 {
					t.Errorf("%s: %s was called %v times", plan, owner, n)
				}
			}
			invariant.RequireNow(t, after, Rules(0)...)
		}
	})
}
