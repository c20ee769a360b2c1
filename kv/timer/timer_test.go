package timer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"onced/kv"
	"onced/kv/group"
	"onced/kv/invariant"
	"onced/kv/memkv"
)

// world is a store in a bubble of testing/synctest, whose clock stands still
// while anybody works and jumps when everybody waits.
type world struct {
	*testing.T
	disk    *memkv.Disk
	store   *memkv.Store
	start   time.Time
	commits atomic.Int64
	offset  atomic.Int64 // of the wall clock, in ns
}

// inBubble runs a test with closures run twice and with the rules checked when
// all is quiet.
func inBubble(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		test(w)
		invariant.RequireNow(t, w.store, Rules(0)...)
		w.store.Close()
	})
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, disk: memkv.NewDisk(), start: time.Now()}
	w.open()
	return w
}

func (w *world) open() {
	w.store = memkv.Open(w.disk, memkv.Options{Rerun: true, Clock: kv.ClockFunc(w.Now),
		Observer: func(c group.Commit) {
			if c.Changes > 0 {
				w.commits.Add(1)
			}
		}})
}

// Now is the wall clock, which a test may set.
func (w *world) Now() time.Time { return time.Now().Add(time.Duration(w.offset.Load())) }

// run starts the runner; the result stops it and returns what Run returned.
func (w *world) run(r *Runner) (stop func() error) {
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	synctest.Wait()
	return func() error { cancel(); return <-done }
}

func (w *world) runner() *Runner { return New(w.store, Config{Clock: kv.ClockFunc(w.Now)}) }

// sleep lets d pass and waits until everybody has done what was due by then.
func (w *world) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) update(fn func(kv.Writer) error) {
	w.Helper()
	if err := w.store.Update(w.Context(), fn); err != nil {
		w.Fatal(err)
	}
}

func (w *world) set(r *Runner, timers ...Timer) {
	w.Helper()
	w.update(func(tx kv.Writer) error {
		for _, t := range timers {
			if err := r.Set(tx, t); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *world) handle(r *Runner, kind string, h Handler) {
	w.Helper()
	if err := r.Handle(kind, h); err != nil {
		w.Fatal(err)
	}
}

// in makes a timer of the kind "test", due so long after the start.
func (w *world) in(owner string, d time.Duration) Timer {
	return Timer{Kind: "test", Owner: owner, Due: w.start.Add(d)}
}

func (w *world) list(kind string) (out []Timer) {
	w.Helper()
	for t, err := range List(w.Context(), w.store, kind) {
		if err != nil {
			w.Fatal(err)
		}
		out = append(out, t)
	}
	return out
}

// note writes an effect of a timer: when and in which order it fired.
func note(start time.Time) func(context.Context, kv.Writer, Timer) error {
	return func(_ context.Context, tx kv.Writer, t Timer) error {
		n := 0
		for _, err := range tx.Scan("fired", kv.Range{}) {
			if err != nil {
				return err
			}
			n++
		}
		text := fmt.Appendf(nil, "%s@%s", t.Owner, tx.Now().Sub(start))
		return tx.Put("fired", kv.Key{}.Uint(uint64(n)), text)
	}
}

func (w *world) fired() string {
	w.Helper()
	var out []string
	for e, err := range kv.Pages(w.Context(), w.store, "fired", kv.Range{}, 0) {
		if err != nil {
			w.Fatal(err)
		}
		out = append(out, string(e.Value))
	}
	return strings.Join(out, " ")
}

func (w *world) wantFired(want string) {
	w.Helper()
	if got := w.fired(); got != want {
		w.Errorf("fired %q, want %q", got, want)
	}
}

func TestTimersFireAtTheirTimeInOrder(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.runner()
		w.handle(r, "test", Handler{Tx: note(w.start)})
		w.set(r, w.in("c", 3*time.Second), w.in("a", time.Second), w.in("b", time.Second),
			w.in("z", -time.Hour))
		stop := w.run(r)
		w.wantFired("z@0s")
		w.sleep(time.Second - 1)
		w.wantFired("z@0s")
		w.sleep(time.Hour)
		w.wantFired("z@0s a@1s b@1s c@3s")
		if err := stop(); err != nil {
			w.Error(err)
		}
		if left := w.list(""); len(left) > 0 {
			w.Errorf("left are %v", left)
		}
	})
}

func TestAnEarlierTimerWakesTheRunner(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.runner()
		w.handle(r, "test", Handler{Tx: note(w.start)})
		defer w.run(r)()
		w.set(r, w.in("far", 10*time.Hour)) // wakes one that sleeps for ever
		w.sleep(time.Minute)
		w.set(r, w.in("near", time.Hour))
		w.set(r, w.in("now", time.Minute))
		synctest.Wait()
		w.wantFired("now@1m0s")
		boom := errors.New("boom")
		err := w.store.Update(w.Context(), func(tx kv.Writer) error {
			if err := r.Set(tx, w.in("never", 2*time.Minute)); err != nil {
				return err
			}
			return boom
		})
		if !errors.Is(err, boom) {
			w.Fatal(err)
		}
		w.sleep(11 * time.Hour)
		w.wantFired("now@1m0s near@1h0m0s far@10h0m0s")
	})
}

func TestNothingHappensWhenIdle(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.runner()
		var calls atomic.Int64
		w.handle(r, "test", Handler{Tx: note(w.start)})
		w.handle(r, "outside", Handler{Outside: func(context.Context, Timer) error { return nil }})
		r.store = viewCounter{w.store, &calls}
		w.set(r, w.in("far", 1000*time.Hour))
		defer w.run(r)()
		commits, views := w.commits.Load(), calls.Load()
		w.sleep(999 * time.Hour)
		if n := w.commits.Load() - commits; n != 0 {
			w.Errorf("%d commits while idle", n)
		}
		if n := calls.Load() - views; n != 0 {
			w.Errorf("%d reads while idle", n)
		}
		w.sleep(2 * time.Hour)
		w.wantFired("far@1000h0m0s")
		if n := w.commits.Load() - commits; n != 1 {
			w.Errorf("firing one timer made %d commits", n)
		}
	})
}

type viewCounter struct {
	kv.Store
	n *atomic.Int64
}

func (v viewCounter) View(ctx context.Context, fn func(kv.Reader) error) error {
	v.n.Add(1)
	return v.Store.View(ctx, fn)
}

func TestRestartFiresWhatBecameDue(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.runner()
		w.handle(r, "test", Handler{Tx: note(w.start)})
		stop := w.run(r)
		w.set(r, w.in("a", time.Hour), w.in("b", 2*time.Hour), w.in("c", 4*time.Hour))
		w.sleep(90 * time.Minute)
		if err := stop(); err != nil {
			w.Fatal(err)
		}
		w.store.Close()
		w.sleep(90 * time.Minute)
		w.open()
		r = w.runner()
		w.handle(r, "test", Handler{Tx: note(w.start)})
		defer w.run(r)()
		w.wantFired("a@1h0m0s b@3h0m0s")
		w.sleep(2 * time.Hour)
		w.wantFired("a@1h0m0s b@3h0m0s c@4h0m0s")
	})
}

func TestAClockSetBackFiresNothingEarlyAndOneSetAheadIsSeen(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.runner()
		w.handle(r, "test", Handler{Tx: note(w.start)})
		defer w.run(r)()
		w.set(r, w.in("a", time.Hour), w.in("b", 10*time.Hour))
		w.offset.Store(int64(-30 * time.Minute))
		w.sleep(89 * time.Minute)
		w.wantFired("")
		w.sleep(2 * time.Minute)
		w.wantFired("a@1h0m0s")
		w.offset.Add(int64(20 * time.Hour)) // a suspended laptop
		w.sleep(recheck)
		if got := w.fired(); !strings.HasPrefix(got, "a@1h0m0s b@") {
			w.Errorf("fired %q", got)
		}
	})
}

func TestFailuresAreMovedAndHinderNobody(t *testing.T) {
	inBubble(t, func(w *world) {
		var reports []string
		r := New(w.store, Config{Clock: kv.ClockFunc(w.Now), OnError: func(t Timer, err error) {
			reports = append(reports, fmt.Sprintf("%s/%d: %v", t.Owner, t.Attempts, err))
		}, Describe: func(err error) string { return "said: " + err.Error() }})
		good := note(w.start)
		w.handle(r, "test", Handler{Tx: func(ctx context.Context, tx kv.Writer, t Timer) error {
			if err := good(ctx, tx, t); err != nil { // written, and to be undone
				return err
			}
			switch {
			case t.Owner == "error" && t.Attempts < 2:
				return errors.New("boom")
			case t.Owner == "panic" && t.Attempts < 1:
				panic("bug")
			}
			return nil
		}})
		stop := w.run(r)
		w.set(r, w.in("a", time.Second), w.in("error", time.Second), w.in("m", time.Second),
			Timer{Kind: "test", Owner: "panic", Due: w.start.Add(time.Second), Payload: []byte("note")},
			w.in("z", time.Second))
		w.sleep(time.Second)
		w.wantFired("a@1s m@1s z@1s")
		left := w.list("test")
		if len(left) != 2 || left[0].Owner != "error" || left[0].Attempts != 1 ||
			left[0].LastError != "said: boom" ||
			!left[0].Due.Equal(w.start.Add(time.Second)) ||
			!left[0].NextTry.Equal(w.start.Add(2*time.Second)) ||
			left[1].Owner != "panic" || string(left[1].Payload) != "note" ||
			left[1].LastError != "said: timer: the handler panicked with a value of type string" {
			w.Errorf("left are %+v", left)
		}
		w.sleep(time.Hour)
		w.wantFired("a@1s m@1s z@1s panic@2s error@4s")
		if err := stop(); err != nil {
			w.Error(err)
		}
		want := []string{"error/0: boom",
			"panic/0: timer: the handler panicked with a value of type string", "error/1: boom"}
		if !slices.Equal(reports, want) {
			w.Errorf("reported %q, want %q", reports, want)
		}
		if left := w.list(""); len(left) > 0 {
			w.Errorf("left are %v", left)
		}
	})
}

func TestAFailedTimerIsFoundByItsOwner(t *testing.T) {
	inBubble(t, func(w *world) {
		r := New(w.store, Config{Clock: kv.ClockFunc(w.Now), Describe: error.Error})
		fail := true
		good := note(w.start)
		w.handle(r, "test", Handler{Tx: func(ctx context.Context, tx kv.Writer, t Timer) error {
			if fail {
				return errors.New(strings.Repeat("é", 600))
			}
			return good(ctx, tx, t)
		}})
		defer w.run(r)()
		gone, again, other := w.in("gone", 0), w.in("again", 0), w.in("again", time.Second)
		w.set(r, gone, again)
		synctest.Wait()
		left := w.list("")
		if len(left) != 2 || left[0].Attempts != 1 || len(left[0].LastError) > MaxErrorText {
			w.Fatalf("left are %+v", left)
		}
		// The failed timer waits at start+1s: another of its owner at that instant
		// neither replaces it nor is removed for it.
		w.set(r, other)
		if left := w.list(""); len(left) != 3 {
			w.Fatalf("left are %+v", left)
		}
		w.update(func(tx kv.Writer) error { return errors.Join(r.Delete(tx, gone), r.Delete(tx, gone)) })
		left = w.list("")
		if len(left) != 2 || left[0].Attempts != 0 || left[1].Attempts != 1 || !left[1].Due.Equal(again.Due) {
			w.Fatalf("left are %+v", left)
		}
		w.update(func(tx kv.Writer) error { return r.Delete(tx, other) })
		if left = w.list(""); len(left) != 1 || left[0].Attempts != 1 {
			w.Fatalf("left are %+v", left)
		}
		fail = false
		w.set(r, again) // set anew, it fires at once and once
		synctest.Wait()
		w.sleep(time.Hour)
		w.wantFired("again@0s")
	})
}

func TestTwoFailedTimersOfOneOwnerDoNotMeet(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.runner()
		w.handle(r, "test", Handler{Tx: func(_ context.Context, _ kv.Writer, t Timer) error {
			if t.Attempts < 3 {
				return errors.New("boom")
			}
			return nil
		}})
		stop := w.run(r)
		w.set(r, w.in("a", -1), w.in("a", -2), w.in("a", -3), w.in("b", -1))
		synctest.Wait()
		if left := w.list(""); len(left) != 4 {
			t.Errorf("left are %v", left)
		}
		invariant.RequireNow(t, w.store, Rules(0)...)
		w.sleep(time.Hour)
		if left := w.list(""); len(left) != 0 {
			t.Errorf("left are %v", left)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestTenThousandDueTimersFireInOrderInBatches(t *testing.T) {
	inBubble(t, func(w *world) {
		const n = 10_000
		r := w.runner()
		w.handle(r, "test", Handler{Batch: 500, Tx: func(_ context.Context, tx kv.Writer, t Timer) error {
			raw, err := tx.Get("last", []byte("x"))
			if err != nil {
				return err
			}
			if string(raw) >= t.Owner {
				return fmt.Errorf("%s after %s", t.Owner, raw)
			}
			return tx.Put("last", []byte("x"), []byte(t.Owner))
		}})
		for i := range 10 {
			var some []Timer
			for j := range n / 10 {
				k := j*10 + i
				some = append(some, w.in(fmt.Sprintf("%05d", k), time.Duration(k)-n))
			}
			w.set(r, some...)
		}
		before := w.commits.Load()
		defer w.run(r)()
		if left := w.list(""); len(left) > 0 {
			t.Errorf("%d are left, the first is %+v", len(left), left[0])
		}
		if got := w.commits.Load() - before; got != n/500 {
			t.Errorf("%d commits, want %d", got, n/500)
		}
	})
}

func TestUnknownKindsAreLeftAloneAndReported(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.runner()
		w.handle(r, "test", Handler{Tx: note(w.start)})
		kinds := []string{"a", "test\x00", "tes", "testing"}
		for _, kind := range kinds {
			w.set(r, Timer{Kind: kind, Owner: "x", Due: w.start}, Timer{Kind: kind, Owner: "y", Due: w.start})
		}
		w.set(r, w.in("mine", 0))
		stop := w.run(r)
		w.wantFired("mine@0s")
		got, err := r.Unknown(w.Context())
		slices.Sort(kinds)
		slices.Sort(got)
		if err != nil || !slices.Equal(got, kinds) {
			t.Errorf("unknown are %q, %v", got, err)
		}
		rep, err := invariant.Check(w.Context(), w.store, Rules(time.Hour)...)
		if err != nil || !rep.OK() {
			t.Errorf("within the grace: %v, %v", rep, err)
		}
		w.sleep(2 * time.Hour)
		rep, err = invariant.Check(w.Context(), w.store, Rules(time.Hour)...)
		if err != nil || rep.Total() != 8 {
			t.Errorf("after it: %v, %v", rep, err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		w.update(func(tx kv.Writer) error { // a nil runner only writes
			var none *Runner
			var errs []error
			for _, kind := range kinds {
				errs = append(errs, none.Delete(tx, Timer{Kind: kind, Owner: "x", Due: w.start}),
					none.Delete(tx, Timer{Kind: kind, Owner: "y", Due: w.start}))
			}
			later := Timer{Kind: "later", Owner: "x", Due: w.start.Add(time.Hour * 9)}
			return errors.Join(append(errs, none.Set(tx, later))...)
		})
		if left := w.list(""); len(left) != 1 || left[0].Kind != "later" {
			t.Errorf("left are %v", left)
		}
	})
}

func TestHandlersMaySetAndDeleteTimers(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.runner()
		good := note(w.start)
		w.handle(r, "test", Handler{Tx: func(ctx context.Context, tx kv.Writer, t Timer) error {
			if err := good(ctx, tx, t); err != nil {
				return err
			}
			switch t.Owner {
			case "every":
				if t.Due.Sub(w.start) < 3*time.Second {
					t.Due = t.Due.Add(time.Second)
					return r.Set(tx, t)
				}
			case "killer": // in the same batch
				return r.Delete(tx, w.in("victim", time.Second))
			}
			return nil
		}})
		defer w.run(r)()
		w.set(r, w.in("every", time.Second), w.in("killer", time.Second), w.in("victim", time.Second))
		w.sleep(time.Hour)
		w.wantFired("every@1s killer@1s every@2s every@3s")
	})
}

func TestOutsideHandlersAreBoundedAndHinderNoOtherKind(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.runner()
		var mu sync.Mutex
		now, most := 0, 0
		calls := map[string]int{}
		w.handle(r, "slow", Handler{Workers: 4, Batch: 2, Outside: func(_ context.Context, t Timer) error {
			mu.Lock()
			now++
			most = max(most, now)
			calls[t.Owner]++
			mu.Unlock()
			time.Sleep(time.Minute)
			mu.Lock()
			now--
			mu.Unlock()
			return nil
		}})
		w.handle(r, "test", Handler{Tx: note(w.start)})
		for i := range 20 {
			w.set(r, Timer{Kind: "slow", Owner: fmt.Sprint(i), Due: w.start})
		}
		stop := w.run(r)
		w.set(r, w.in("quick", time.Second))
		w.sleep(2 * time.Second)
		w.wantFired("quick@1s")
		w.sleep(time.Hour)
		if most != 4 || len(calls) != 20 {
			t.Errorf("%d calls at most at a time, %d owners", most, len(calls))
		}
		for owner, n := range calls {
			if n != 1 {
				t.Errorf("%s was called %d times", owner, n)
			}
		}
		if left := w.list(""); len(left) > 0 {
			t.Errorf("left are %v", left)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestOutsideHandlerRemovesItsTimerItself(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.runner()
		fire := note(w.start)
		w.handle(r, "test", Handler{Outside: func(ctx context.Context, t Timer) error {
			return w.store.Update(ctx, func(tx kv.Writer) error {
				if err := r.Delete(tx, t); err != nil {
					return err
				}
				return fire(ctx, tx, t)
			})
		}})
		defer w.run(r)()
		before := w.commits.Load()
		w.set(r, w.in("a", time.Second))
		w.sleep(time.Hour)
		w.wantFired("a@1s")
		if n := w.commits.Load() - before; n != 2 {
			t.Errorf("%d commits, want one to set and one to fire", n)
		}
	})
}

func TestOutsideTimerSetAgainDuringItsCallIsNotLost(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.runner()
		calls := 0 // by one worker at a time
		w.handle(r, "test", Handler{Outside: func(ctx context.Context, t Timer) error {
			if calls++; calls > 1 {
				return nil
			}
			return w.store.Update(ctx, func(tx kv.Writer) error {
				return errors.Join(r.Delete(tx, t), r.Set(tx, t))
			})
		}})
		defer w.run(r)()
		w.set(r, w.in("a", time.Second))
		w.sleep(time.Hour)
		if calls != 2 {
			t.Errorf("%d calls, want 2", calls)
		}
	})
}

func TestOutsideFailuresAreMoved(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.runner()
		var at []string
		w.handle(r, "test", Handler{Outside: func(_ context.Context, t Timer) error {
			at = append(at, fmt.Sprintf("%s/%d@%s", t.Owner, t.Attempts, w.Now().Sub(w.start)))
			if t.Attempts == 0 {
				return errors.New("boom")
			}
			if t.Attempts == 1 {
				panic("bug")
			}
			return nil
		}})
		defer w.run(r)()
		w.set(r, w.in("a", time.Second))
		w.sleep(time.Hour)
		if got := strings.Join(at, " "); got != "a/0@1s a/1@2s a/2@4s" {
			t.Errorf("calls: %s", got)
		}
		if left := w.list(""); len(left) > 0 {
			t.Errorf("left are %v", left)
		}
	})
}

func TestStoppingLeavesTheTimersOfCallsCutShort(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.runner()
		w.handle(r, "test", Handler{Outside: func(ctx context.Context, t Timer) error {
			<-ctx.Done()
			if t.Owner == "finished" {
				return nil // its effect is there, although we stop
			}
			return ctx.Err()
		}})
		stop := w.run(r)
		w.set(r, w.in("cut", time.Second), w.in("finished", time.Second))
		w.sleep(2 * time.Second)
		if err := stop(); err != nil {
			t.Error(err)
		}
		left := w.list("")
		if len(left) != 1 || left[0].Owner != "cut" || left[0].Attempts != 0 {
			t.Errorf("left are %+v", left)
		}
		r = w.runner()
		w.handle(r, "test", Handler{Tx: note(w.start)})
		defer w.run(r)()
		w.wantFired("cut@2s")
	})
}

// 100,000 sagas wait; when they are due all at once, and when one is woken
// among them, nothing waits for long.
func TestHundredThousandWaitingTimers(t *testing.T) {
	inBubble(t, func(w *world) {
		const n = 100_000
		r := w.runner()
		fire := note(w.start)
		w.handle(r, "test", Handler{Tx: fire})
		for i := range n / 5000 {
			w.update(func(tx kv.Writer) error {
				for j := range 5000 {
					timer := w.in(fmt.Sprint(i*5000+j), time.Hour+time.Duration(j)*time.Second)
					if err := r.Set(tx, timer); err != nil {
						return err
					}
				}
				return nil
			})
		}
		stop := w.run(r)
		w.set(r, w.in("woken", 30*time.Minute))
		w.sleep(31 * time.Minute)
		w.wantFired("woken@30m0s")
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestRunEndsWhenTheStoreIsClosed(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.runner()
		w.handle(r, "test", Handler{Tx: note(w.start)})
		w.handle(r, "other", Handler{Outside: func(context.Context, Timer) error { return nil }})
		w.set(r, w.in("a", time.Hour))
		done := make(chan error)
		go func() { done <- r.Run(w.Context()) }()
		synctest.Wait()
		w.store.Close()
		if err := <-done; !errors.Is(err, kv.ErrClosed) {
			t.Errorf("Run returned %v", err)
		}
		w.open()
		w.update(func(tx kv.Writer) error { return w.runner().Delete(tx, w.in("a", time.Hour)) })
	})
}

// flaky fails a number of updates as an engine under way does.
type flaky struct {
	kv.Store
	left *atomic.Int64
}

func (f flaky) Update(ctx context.Context, fn func(kv.Writer) error) error {
	if f.left.Add(-1) >= 0 {
		return kv.ErrCommitUnknown
	}
	return f.Store.Update(ctx, fn)
}

func TestErrorsOfTheStoreAreTriedAgainAndCountForNoTimer(t *testing.T) {
	inBubble(t, func(w *world) {
		var left atomic.Int64
		r := w.runner()
		r.store = flaky{w.store, &left}
		w.handle(r, "test", Handler{Tx: note(w.start)})
		w.handle(r, "out", Handler{Outside: func(context.Context, Timer) error { return nil }})
		w.set(r, w.in("a", time.Second), Timer{Kind: "out", Owner: "b", Due: w.start.Add(time.Second)})
		left.Store(5)
		defer w.run(r)()
		w.sleep(time.Minute)
		if got := w.fired(); !strings.HasPrefix(got, "a@1.") || strings.Contains(got, " ") {
			t.Errorf("fired %q", got)
		}
		if rest := w.list(""); len(rest) > 0 || left.Load() > 0 {
			t.Errorf("left are %+v, and %d errors", rest, left.Load())
		}
	})
}

func TestGoexitInAHandlerEndsRun(t *testing.T) {
	for name, h := range map[string]Handler{
		"tx":      {Tx: func(context.Context, kv.Writer, Timer) error { goexit(); return nil }},
		"outside": {Outside: func(context.Context, Timer) error { goexit(); return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				r := w.runner()
				w.handle(r, "test", h)
				timer := w.in("a", 0)
				w.set(r, timer)
				if err := r.Run(w.Context()); !errors.Is(err, errGoexit) {
					t.Errorf("Run returned %v", err)
				}
				w.update(func(tx kv.Writer) error { return r.Delete(tx, timer) })
			})
		})
	}
}

func TestMistakesAreRefused(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.runner()
		tx := func(context.Context, kv.Writer, Timer) error { return nil }
		out := func(context.Context, Timer) error { return nil }
		w.handle(r, "test", Handler{Tx: tx})
		for name, err := range map[string]error{
			"no kind":   r.Handle("", Handler{Tx: tx}),
			"neither":   r.Handle("a", Handler{}),
			"both":      r.Handle("a", Handler{Tx: tx, Outside: out}),
			"twice":     r.Handle("test", Handler{Tx: tx}),
			"long kind": r.Handle(strings.Repeat("k", MaxKind+1), Handler{Tx: tx}),
		} {
			if err == nil {
				t.Errorf("%s: no error", name)
			}
		}
		for field, bad := range map[string]Timer{
			"kind":    {Owner: "x", Due: w.start},
			"owner":   {Kind: "test", Due: w.start},
			"owner ":  {Kind: "test", Owner: strings.Repeat("o", MaxOwner+1), Due: w.start},
			"owner  ": {Kind: "test", Owner: "\xff", Due: w.start},
			"due":     {Kind: "test", Owner: "x"},
			"due ":    {Kind: "test", Owner: "x", Due: time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)},
			"payload": {Kind: "test", Owner: "x", Due: w.start, Payload: make([]byte, MaxPayload+1)},
		} {
			err := w.store.Update(w.Context(), func(tx kv.Writer) error { return r.Set(tx, bad) })
			if err == nil || !strings.Contains(err.Error(), "timer "+strings.TrimSpace(field)) &&
				!strings.Contains(err.Error(), "timer: "+strings.TrimSpace(field)) {
				t.Errorf("bad %s: %v", field, err)
			}
		}
		stop := w.run(r)
		if r.Handle("late", Handler{Tx: tx}) == nil || r.Run(w.Context()) == nil {
			t.Error("a handler or a run after Run was taken")
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		empty := w.runner()
		if err := w.run(empty)(); err != nil {
			t.Errorf("a runner without handlers: %v", err)
		}
	})
}

func TestRulesSeeDamage(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	failed := Timer{Kind: "k", Owner: "o", Due: now}
	for name, c := range map[string]struct {
		rule string
		harm func(w kv.Writer) error
	}{
		"overdue": {"timer.fired", func(w kv.Writer) error { return (*Runner)(nil).Set(w, failed) }},
		"index lost": {"timer.moved", func(w kv.Writer) error {
			return movedTable.Delete(w, key("k", now.Add(-time.Hour), "o"))
		}},
		"index astray": {"timer.moved", func(w kv.Writer) error {
			return movedTable.Put(w, key("k", now.Add(-time.Hour), "o"), movedRow{To: now.UnixNano()})
		}},
		"timer lost": {"timer.index", func(w kv.Writer) error {
			return dueTable.Delete(w, key("k", now.Add(time.Hour), "o"))
		}},
		"bad key": {"timer.moved", func(w kv.Writer) error {
			return dueTable.Put(w, kv.Key{}.Uint(1), row{})
		}},
		"bad row": {"timer.fired", func(w kv.Writer) error {
			return w.Put(dueTable.ID(), kv.Key{}.Uint(1), nil)
		}},
	} {
		s := memkv.New(memkv.Options{Clock: kv.ClockFunc(func() time.Time { return now })})
		defer s.Close()
		err := s.Update(t.Context(), func(w kv.Writer) error {
			old := Timer{Kind: "k", Owner: "o", Due: now.Add(-time.Hour)}
			_, err := move(w, old, now.Add(time.Hour), "x")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		invariant.RequireNow(t, s, Rules(0)...)
		if err := s.Update(t.Context(), c.harm); err != nil {
			t.Fatal(err)
		}
		rep, err := invariant.Check(t.Context(), s, Rules(0)...)
		if err != nil || !strings.Contains(rep.String(), c.rule+": ") {
			t.Errorf("%s: %v, %v", name, rep, err)
		}
	}
}

func FuzzKey(f *testing.F) {
	f.Add("kind", "owner", int64(1), 0)
	f.Add("k\x00", "\x00\xff", int64(1<<62), 3)
	f.Fuzz(func(t *testing.T, kind, owner string, at int64, attempts int) {
		in := Timer{Kind: kind, Owner: owner, Due: time.Unix(0, at)}
		out, err := decode(key(kind, in.Due, owner), row{Attempts: max(attempts, 0), Due: 5})
		if err != nil || out.Kind != kind || out.Owner != owner || !out.position().Equal(in.Due) {
			t.Fatalf("%+v came back as %+v, %v", in, out, err)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(key("kind", time.Unix(0, 1), "owner")))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := decode(b, row{})
		if err == nil && string(key(in.Kind, in.Due, in.Owner)) != string(b) {
			t.Fatalf("%x is a second key of %+v", b, in)
		}
	})
}
