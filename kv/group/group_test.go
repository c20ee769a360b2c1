package group_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"onced/kv"
	"onced/kv/group"
)

// bubble runs fn as a parallel test in a bubble, which fails when all its
// goroutines wait for each other.
func bubble(t *testing.T, fn func(t *testing.T)) {
	t.Parallel()
	synctest.Test(t, fn)
}

func TestAViewWaitsUntilWhatItSawIsDurable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := start(t, &disk{gate: make(chan error), publish: true}, group.Options{}, "a", "old")
		write := f.put("a", "new")
		read := f.get("a")
		f.waits("before the commit has ended", write, read)
		f.pass(nil)
		f.ends("the write", write, nil)
		f.ends("the read", read, nil)
		if read.got != "new" {
			t.Errorf("read %q, want what the engine showed", read.got)
		}
		f.close()
	})
}

func TestAViewOfDurableStateDoesNotWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := gated(t, group.Options{}, "a", "old")
		write := f.put("a", "new")
		read := f.get("a")
		f.waits("before the commit has ended", write)
		f.ends("the read", read, nil)
		if read.got != "old" {
			t.Errorf("read %q, want the durable state", read.got)
		}
		f.pass(nil)
		f.close()
	})
}

func TestXS08_AfterAFailedCommit(t *testing.T) {
	for _, publish := range []bool{true, false} {
		t.Run(fmt.Sprintf("visible=%v", publish), func(t *testing.T) {
			bubble(t, func(t *testing.T) { failedCommit(t, publish) })
		})
	}
}

func failedCommit(t *testing.T, publish bool) {
	d := &disk{gate: make(chan error), publish: publish}
	f := start(t, d, group.Options{}, "a", "1", "b", "2", "d", "4", "e", "5")
	if err := f.Healthy(); err != nil {
		t.Errorf("Healthy before: %v", err)
	}
	first := f.update(func(w kv.Writer) error {
		return errors.Join(w.Put(rows, []byte("b"), []byte("new")), w.Put(rows, []byte("c"), nil),
			w.Delete(rows, []byte("d")))
	})
	next := f.put("e", "new")
	queued := f.update(func(kv.Writer) error { return errors.New("rests on what failed") })
	seen := f.get("c")
	if !publish {
		f.ends("a read of the state before", seen, nil)
	}
	f.waits("before the commit has ended", first, next, queued)
	f.pass(errDisk)
	f.ends("a write of the failed group", first, kv.ErrCommitUnknown)
	f.ends("its cause", first, errDisk)
	f.ends("a write of the next group", next, kv.ErrStopped)
	f.ends("an error of the next group", queued, kv.ErrStopped)
	f.ends("a later write", f.put("x", ""), kv.ErrStopped)
	if publish {
		f.ends("a read of what was not yet durable", seen, kv.ErrCommitUnknown)
	}
	if err := f.Healthy(); !errors.Is(err, kv.ErrStopped) || !errors.Is(err, errDisk) {
		t.Errorf("Healthy: %v, want ErrStopped and the cause", err)
	}
	for key, want := range map[string]error{"a": nil, "e": nil, "x": nil,
		"b": kv.ErrCommitUnknown, "c": kv.ErrCommitUnknown, "d": kv.ErrCommitUnknown} {
		f.ends("a read of row "+key, f.get(key), want)
	}
	f.wantScan(kv.Range{}, "a !")
	f.wantScan(kv.Range{Reverse: true}, "e !")
	f.wantScan(kv.Range{Limit: 1}, "a")
	f.wantScan(kv.Range{From: []byte("c"), To: []byte("d")}, "!")
	f.wantScan(kv.Range{From: []byte("d"), Reverse: true}, "e !")
	f.wantScan(kv.Range{From: []byte("e")}, "e")
	if f.disk.commits != 1 {
		t.Errorf("%d commits, want none after the failed one", f.disk.commits)
	}
	f.close()
}

// wantScan fails unless a View's scan, ranged over twice, yields these keys; !
// stands for a row in doubt.
func (f *fixture) wantScan(r kv.Range, want string) {
	f.t.Helper()
	var got []string
	err := f.View(context.Background(), func(rd kv.Reader) error {
		seq := rd.Scan(rows, r)
		for range 2 {
			got = got[:0]
			for e, err := range seq {
				switch {
				case errors.Is(err, kv.ErrCommitUnknown):
					got = append(got, "!")
				case err != nil:
					return err
				default:
					got = append(got, string(e.Key))
				}
			}
		}
		return nil
	})
	if s := strings.Join(got, " "); s != want || err != nil {
		f.t.Errorf("scan of %+v: %q and %v, want %q", r, s, err, want)
	}
}

// Whatever an engine does instead of returning, no caller of its group is told
// that the write was made.
func TestXS08_AnEngineThatDoesNotReturnStopsTheStore(t *testing.T) {
	for name, leave := range map[string]func(){
		"panic":  func() { panic("engine") },
		"goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := &disk{gate: make(chan error)}
				f := start(t, d, group.Options{})
				first := f.put("a", "")
				leader, follower := f.put("b", ""), f.put("c", "")
				d.during = leave
				f.pass(nil)
				f.ends("the group before", first, nil)
				if !leader.ended() || leader.err == nil {
					t.Errorf("the leader was answered %v", leader.err)
				}
				f.ends("a follower", follower, kv.ErrCommitUnknown)
				f.ends("a later write", f.put("x", ""), kv.ErrStopped)
				f.close()
			})
		})
	}
}

func TestAnObserverThatPanicsHidesNoCommitError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := gated(t, group.Options{Observer: func(c group.Commit) {
			if c.Err != nil {
				panic("observer")
			}
		}})
		first := f.put("a", "")
		leader, follower := f.put("b", ""), f.put("c", "")
		f.pass(nil)
		f.pass(errDisk)
		f.ends("the group before", first, nil)
		if !leader.ended() || leader.panic != "observer" {
			t.Errorf("the leader got %v", leader.panic)
		}
		f.ends("a follower", follower, kv.ErrCommitUnknown)
		f.close()
	})
}

// A panic or a Goexit is an error to its group: its writes are taken back,
// those of others stay, and it goes on only after the commit.
func TestPanicAndGoexitLeaveNoTrace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := gated(t, group.Options{}, "a", "old")
		first := f.put("first", "")
		boom := f.update(func(w kv.Writer) error {
			return errors.Join(w.Put(rows, []byte("a"), []byte("bad")),
				w.Put(rows, []byte("p"), nil), panicking())
		})
		exit := f.update(func(w kv.Writer) error {
			_ = w.Delete(rows, []byte("a"))
			runtime.Goexit()
			return nil
		})
		good := f.update(func(w kv.Writer) error {
			v, err := w.Get(rows, []byte("a"))
			return errors.Join(err, w.Put(rows, []byte("good"), v))
		})
		f.pass(nil)
		f.ends("the group before", first, nil)
		f.waits("before their commit", boom, exit, good)
		f.pass(nil)
		f.ends("the good write", good, nil)
		if !boom.ended() || boom.panic != "boom" || !exit.ended() || exit.panic != nil || exit.err == nil {
			t.Errorf("panic %v, Goexit %v", boom.panic, exit.err)
		}
		f.wantScan(kv.Range{}, "a first good")
		if got := f.get("good").got; got != "old" {
			t.Errorf("the good write read %q", got)
		}
		f.close()
	})
}

func panicking() error { panic("boom") }

// A group that is full is sealed by the next caller, who keeps the turn until
// the group before has ended; its leader must not wait for that turn. This
// once stood still for ever.
func TestFullGroupsMoveOn(t *testing.T) {
	for _, opt := range []group.Options{
		{MaxCalls: 1}, {MaxCalls: 2}, {MaxBytes: 1}, {MaxCalls: 3, Rerun: true},
	} {
		t.Run(fmt.Sprintf("%d calls %d bytes", opt.MaxCalls, opt.MaxBytes), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				most := 0
				opt.Observer = func(c group.Commit) { most = max(most, c.Calls) }
				f := gated(t, opt)
				var calls []*answer
				for i := range 40 {
					calls = append(calls, f.put(fmt.Sprint(i), "v"))
				}
				n := 0
				for ; !calls[len(calls)-1].ended() && n < 100; n++ {
					f.pass(nil)
				}
				for _, c := range calls {
					f.ends("a write", c, nil)
				}
				if opt.MaxCalls > 0 && most > opt.MaxCalls || opt.MaxBytes > 0 && most > 1 {
					t.Errorf("a group of %d calls", most)
				}
				f.close()
			})
		})
	}
}

// The same without a gate, where the moments differ each time.
func TestFullGroupsMoveOnInAnyOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := start(t, &disk{during: runtime.Gosched}, group.Options{MaxCalls: 2})
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				for j := range 30 {
					if err := f.Update(t.Context(), func(w kv.Writer) error {
						return w.Put(rows, fmt.Appendf(nil, "%d-%d", i, j), nil)
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if n := len(f.disk.state.rows); n != 64*30 {
			t.Errorf("%d rows, want %d", n, 64*30)
		}
		f.close()
	})
}

func TestCancelWhileWaitingForTheTurn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := start(t, &disk{}, group.Options{})
		leave := make(chan struct{})
		running := f.update(func(w kv.Writer) error { <-leave; return w.Put(rows, []byte("a"), nil) })
		cause := errors.New("gave up")
		ctx, cancel := context.WithCancelCause(t.Context())
		var ran atomic.Bool
		queued := f.begin(func(*answer) error {
			return f.Update(ctx, func(kv.Writer) error { ran.Store(true); return nil })
		})
		behind := f.put("b", "")
		f.waits("while a closure runs", running, queued, behind)
		cancel(cause)
		synctest.Wait()
		f.ends("the cancelled one", queued, cause)
		f.waits("while a closure runs", running, behind)
		close(leave)
		synctest.Wait()
		f.ends("the running one", running, nil)
		f.ends("the one behind", behind, nil)
		f.ends("one begun cancelled", f.begin(func(*answer) error {
			return f.Update(ctx, func(kv.Writer) error { ran.Store(true); return nil })
		}), cause)
		if ran.Load() {
			t.Error("a cancelled closure ran")
		}
		f.close()
	})
}

func TestCancelWhileWaitingForRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := gated(t, group.Options{MaxCalls: 1})
		first, second := f.put("a", ""), f.put("b", "")
		ctx, cancel := context.WithCancel(t.Context())
		third := f.begin(func(*answer) error {
			return f.Update(ctx, func(w kv.Writer) error { return w.Put(rows, []byte("c"), nil) })
		})
		fourth := f.put("d", "")
		f.waits("while the group is full", first, second, third, fourth)
		cancel()
		synctest.Wait()
		f.ends("the cancelled one", third, context.Canceled)
		f.waits("while the group is full", first, second, fourth)
		f.pass(nil)
		f.pass(nil)
		f.pass(nil)
		for _, a := range []*answer{first, second, fourth} {
			f.ends("a write", a, nil)
		}
		f.wantScan(kv.Range{}, "a b d")
		f.close()
	})
}

func TestCancelAfterTheClosureBeganChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := gated(t, group.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		write := f.begin(func(*answer) error {
			return f.Update(ctx, func(w kv.Writer) error { cancel(); return w.Put(rows, []byte("a"), nil) })
		})
		f.waits("before its commit", write)
		f.pass(nil)
		f.ends("the write", write, nil)
		f.close()
	})
}

// Callers that give up at random moments neither lose the turn nor a write.
func TestCancelledCallersLoseNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := start(t, &disk{during: func() { time.Sleep(time.Millisecond) }}, group.Options{MaxCalls: 3})
		var wg sync.WaitGroup
		var wrote atomic.Int64
		for i := range 50 {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(uint64(i), 1))
				for j := range 40 {
					patience := time.Duration(random.IntN(8000)) * time.Microsecond
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					err := f.Update(ctx, func(w kv.Writer) error {
						return w.Put(rows, fmt.Appendf(nil, "%d-%d", i, j), nil)
					})
					cancel()
					if err == nil {
						wrote.Add(1)
					} else if !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if n := int64(len(f.disk.state.rows)); n != wrote.Load() || n == 0 || n == 50*40 {
			t.Errorf("%d rows of %d acknowledged writes; some of %d should have been cancelled",
				n, wrote.Load(), 50*40)
		}
		f.close()
	})
}

// Close waits for the group that is committing, the one that gathers and the
// open View; who comes later is refused.
func TestCloseWaitsForWhatHasBegun(t *testing.T) {
	for _, outcome := range []error{nil, errDisk} {
		t.Run(fmt.Sprint(outcome), func(t *testing.T) {
			bubble(t, func(t *testing.T) { closeInTheMiddle(t, outcome) })
		})
	}
}

func closeInTheMiddle(t *testing.T, outcome error) {
	f := gated(t, group.Options{})
	leaveView, leaveUpdate := make(chan struct{}), make(chan struct{})
	view := f.begin(func(*answer) error {
		return f.View(t.Context(), func(kv.Reader) error { <-leaveView; return nil })
	})
	committing := f.put("a", "")
	gathering := f.put("b", "")
	running := f.update(func(w kv.Writer) error { <-leaveUpdate; return w.Put(rows, []byte("c"), nil) })
	closing := f.begin(func(*answer) error { return f.Close() })
	late := f.put("d", "")
	f.waits("while a closure runs", closing, late, running, committing, gathering)
	close(leaveUpdate)
	synctest.Wait()
	f.ends("a call after Close", late, kv.ErrClosed)
	f.waits("while groups are under way", closing, running, committing, gathering)
	f.pass(outcome)
	if outcome == nil {
		f.ends("the first group", committing, nil)
		f.waits("while the last group is under way", closing, running, gathering)
		f.pass(nil)
		f.ends("the last group", gathering, nil)
		f.ends("its last call", running, nil)
	} else {
		f.ends("the first group", committing, kv.ErrCommitUnknown)
		f.ends("the last group", gathering, kv.ErrStopped)
	}
	f.waits("while a View is open", closing, view)
	close(leaveView)
	synctest.Wait()
	f.ends("Close", closing, nil)
	f.ends("the View", view, nil)
	f.ends("a later View", f.get("a"), kv.ErrClosed)
	f.ends("a later write", f.put("x", ""), kv.ErrClosed)
	f.close() // again
}

func TestCloseOfAnIdleStoreAndOfOneWithAGroupUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		start(t, &disk{}, group.Options{}).close()
		f := gated(t, group.Options{})
		write := f.put("a", "")
		closing := f.begin(func(*answer) error { return f.Close() })
		f.waits("while the commit is under way", write, closing)
		f.pass(nil)
		f.ends("the write", write, nil)
		f.ends("Close", closing, nil)
	})
}

// Close may come at any moment of a crowd: each write is either in the store
// and acknowledged, or refused.
func TestCloseUnderLoad(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for round := range 20 {
			d := &disk{during: func() { time.Sleep(time.Millisecond) }}
			f := start(t, d, group.Options{MaxCalls: 1 + round%4})
			var wg sync.WaitGroup
			var wrote atomic.Int64
			for i := range 20 {
				wg.Go(func() {
					for j := 0; ; j++ {
						err := f.Update(t.Context(), func(w kv.Writer) error {
							return w.Put(rows, fmt.Appendf(nil, "%d-%d", i, j), nil)
						})
						if errors.Is(err, kv.ErrClosed) {
							return
						}
						if err != nil {
							t.Error(err)
						}
						wrote.Add(1)
					}
				})
			}
			time.Sleep(time.Duration(round*700) * time.Microsecond)
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			wg.Wait()
			if n := int64(len(f.disk.state.rows)); n != wrote.Load() {
				t.Errorf("%d rows of %d acknowledged writes", n, wrote.Load())
			}
		}
	})
}

// An error answers only after the commit of what its closure read.
func TestAnErrorWaitsForWhatItRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := gated(t, group.Options{})
		errTaken := errors.New("taken")
		insert := func(w kv.Writer) error {
			if v, err := w.Get(rows, []byte("k")); err != nil || v != nil {
				return errors.Join(err, errTaken)
			}
			return w.Put(rows, []byte("k"), []byte("mine"))
		}
		first, second := f.update(insert), f.update(insert)
		f.waits("before the commit", first, second)
		f.pass(nil)
		f.ends("the first", first, nil)
		f.ends("the second", second, errTaken)
		if f.disk.commits != 1 {
			t.Errorf("%d commits; a group without changes needs none", f.disk.commits)
		}
		f.close()
	})
}
