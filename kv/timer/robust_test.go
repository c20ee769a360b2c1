package timer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"onced/kv"
	"onced/kv/invariant"
)

// A process sets a timer; the next one has its call under way when the timer is
// set again. Each of them may set it through its Runner, or without one.
func TestOutsideTimerSetAgainAfterARestartIsNotLost(t *testing.T) {
	for name, c := range map[string]struct{ before, after bool }{
		"runner, runner": {true, true}, "runner, none": {true, false},
		"none, runner": {false, true}, "none, none": {false, false},
	} {
		for _, reopen := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, reopened %t", name, reopen), func(t *testing.T) {
				inBubble(t, func(w *world) {
					setter := func(use bool) *Runner {
						if use {
							return w.runner()
						}
						return nil
					}
					timer := w.in("a", time.Second)
					w.set(setter(c.before), timer)
					if reopen {
						w.store.Close()
						w.open()
					}
					r := w.runner()
					again := r
					if !c.after {
						again = nil
					}
					calls := 0 // by one worker at a time
					w.handle(r, "test", Handler{Outside: func(ctx context.Context, t Timer) error {
						if calls++; calls > 1 {
							return nil
						}
						return w.store.Update(ctx, func(tx kv.Writer) error {
							return errors.Join(again.Delete(tx, t), again.Set(tx, t))
						})
					}})
					defer w.run(r)()
					w.sleep(time.Hour)
					if calls != 2 {
						t.Errorf("%d calls, want 2: the wake-up was lost", calls)
					}
				})
			})
		}
	}
}

func TestABrokenSourceOfRandomnessSetsNoTimer(t *testing.T) {
	inBubble(t, func(w *world) {
		r := New(w.store, Config{Rand: strings.NewReader("short")})
		err := w.store.Update(w.Context(), func(tx kv.Writer) error { return r.Set(tx, w.in("a", 0)) })
		if err == nil || !strings.Contains(err.Error(), "Config.Rand") {
			t.Errorf("error %v, want one that names Config.Rand", err)
		}
		if left := w.list(""); len(left) > 0 {
			t.Errorf("left are %v", left)
		}
	})
}

// damage writes rows that cannot be read: keys that name no kind, keys of the
// kind "test" that end too early or say more, and rows of it whose value is no
// row or a newer version's; those of the kind come before all good ones.
func (w *world) damage(rows int) (keys []kv.Key) {
	w.Helper()
	put := func(tx kv.Writer, k kv.Key, value []byte) error {
		keys = append(keys, k)
		return tx.Put(dueTable.ID(), k, value)
	}
	good, err := dueTable.Encode(row{})
	if err != nil {
		w.Fatal(err)
	}
	newer := bytes.Clone(good)
	newer[0] = 200
	at := w.start.Add(-time.Hour)
	w.update(func(tx kv.Writer) error {
		keys = nil
		errs := []error{
			put(tx, kv.Key{}.Uint(1), good),
			put(tx, kv.Key{0xff}, good),
			put(tx, kv.Key{}.String("test"), good),
			put(tx, kv.Key{}.String("test").Time(at), good),
			put(tx, key("test", at, "more").Uint(1), good),
			put(tx, key("test", at, "newer"), newer),
		}
		for i := range rows {
			errs = append(errs, put(tx, key("test", at, fmt.Sprint(i)), []byte("damaged")))
		}
		return errors.Join(errs...)
	})
	return keys
}

func TestDamagedRowsHinderNoOther(t *testing.T) {
	for _, h := range []string{"tx", "outside"} {
		for _, rows := range []int{1, 250} { // a batch has 100
			t.Run(fmt.Sprintf("%s, %d rows", h, rows), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { damagedRows(t, h == "tx", rows) })
			})
		}
	}
}

func damagedRows(t *testing.T, inTx bool, rows int) {
	w := newWorld(t)
	var log bytes.Buffer
	r := New(w.store, Config{Clock: kv.ClockFunc(w.Now), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	fire := note(w.start)
	h := Handler{Tx: fire}
	if !inTx {
		h = Handler{Outside: func(ctx context.Context, t Timer) error {
			return w.store.Update(ctx, func(tx kv.Writer) error {
				return errors.Join(r.Delete(tx, t), fire(ctx, tx, t))
			})
		}}
	}
	w.handle(r, "test", h)
	keys := w.damage(rows)
	w.set(r, w.in("now", 0), w.in("later", time.Hour), Timer{Kind: "unknown", Owner: "x", Due: w.start})
	stop := w.run(r)
	w.sleep(2 * time.Hour)
	w.wantFired("now@0s later@1h0m0s")
	if err := stop(); err != nil {
		t.Error(err)
	}
	if kinds, err := r.Unknown(t.Context()); err != nil || len(kinds) != 1 || kinds[0] != "unknown" {
		t.Errorf("unknown are %q, %v", kinds, err)
	}
	told := strings.Count(log.String(), "a timer cannot be read")
	if told != min(len(keys), maxTold) {
		t.Errorf("the log tells %d times of %d damaged rows", told, len(keys))
	}
	listed, good := 0, 0
	for _, err := range List(t.Context(), w.store, "") {
		var damaged *DamagedError
		switch {
		case errors.As(err, &damaged):
			listed++
		case err != nil:
			t.Error(err)
		default:
			good++
		}
	}
	if listed != len(keys) || good != 1 {
		t.Errorf("listed are %d damaged rows and %d good ones; want %d and 1", listed, good, len(keys))
	}
	w.store.Close()
}

// The index row of a failed timer is damaged: it fires all the same, and so do
// others of its batch.
func TestADamagedIndexRowHindersNoTimer(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.runner()
		fire := note(w.start)
		w.handle(r, "test", Handler{Tx: func(ctx context.Context, tx kv.Writer, t Timer) error {
			if t.Owner == "bad" && t.Attempts == 0 {
				return errors.New("boom")
			}
			return fire(ctx, tx, t)
		}})
		defer w.run(r)()
		w.set(r, w.in("bad", 0), w.in("good", time.Second))
		synctest.Wait()
		w.update(func(tx kv.Writer) error {
			return tx.Put(movedTable.ID(), key("test", w.start, "bad"), []byte("damaged"))
		})
		w.sleep(time.Hour)
		w.wantFired("bad@1s good@1s")
		if left := w.list(""); len(left) > 0 {
			t.Errorf("left are %v", left)
		}
	})
}

type secretError struct{ text string }

func (e *secretError) Error() string { return e.text }

func TestTextsOfErrorsAreNotKept(t *testing.T) {
	const secret = "hunter2"
	for name, c := range map[string]struct {
		fail func() error
		want string
	}{
		"plain": {func() error { return errors.New(secret) }, "*errors.errorString"},
		"wrapped": {func() error { return fmt.Errorf("%s: %w", secret, &secretError{secret}) },
			"*timer.secretError"},
		"joined": {func() error { return errors.Join(errors.New(secret)) }, "*errors.joinError"},
		"panic":  {func() error { panic(secret) }, "panicked with a value of type string"},
		"ours": {func() error { return fmt.Errorf("%s: %w", secret, kv.ErrCorrupt) },
			"stored data is damaged"},
	} {
		for _, outside := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, outside %t", name, outside), func(t *testing.T) {
				inBubble(t, func(w *world) {
					var log bytes.Buffer
					var got []string
					r := New(w.store, Config{Clock: kv.ClockFunc(w.Now),
						Logger: slog.New(slog.NewTextHandler(&log, nil)),
						OnError: func(_ Timer, err error) {
							if panicked, ok := errors.AsType[*PanicError](err); ok {
								err = fmt.Errorf("%v", panicked.Value)
							}
							got = append(got, err.Error())
						}})
					h := Handler{Tx: func(context.Context, kv.Writer, Timer) error { return c.fail() }}
					if outside {
						h = Handler{Outside: func(context.Context, Timer) error { return c.fail() }}
					}
					w.handle(r, "test", h)
					stop := w.run(r)
					timer := w.in("a", 0)
					w.set(r, timer)
					synctest.Wait()
					if err := stop(); err != nil {
						t.Error(err)
					}
					left := w.list("")
					if len(left) != 1 || !strings.Contains(left[0].LastError, c.want) {
						t.Errorf("left are %+v, want the text %q", left, c.want)
					}
					for e, err := range kv.Pages(w.Context(), w.store, dueTable.ID(), kv.Range{}, 0) {
						if err != nil || bytes.Contains(e.Value, []byte(secret)) {
							t.Errorf("the row is %q, %v", e.Value, err)
						}
					}
					told := log.String()
					if strings.Contains(told, secret) || !strings.Contains(told, c.want) {
						t.Errorf("the log says %s", told)
					}
					if len(got) != 1 || !strings.Contains(got[0], secret) {
						t.Errorf("OnError got %q, want the error as it is", got)
					}
					w.update(func(tx kv.Writer) error { return r.Delete(tx, timer) })
				})
			})
		}
	}
}

// Handlers that together take longer, or write more, than one transaction may: the
// limit is met between two of them, and is no failure of either.
func TestTimersTooMuchForOneTransactionFireAllTheSame(t *testing.T) {
	for name, work := range map[string]func(kv.Writer, Timer) error{
		"slow": func(kv.Writer, Timer) error {
			time.Sleep(150 * time.Millisecond)
			return nil
		},
		"long": func(tx kv.Writer, t Timer) error {
			for i := range 124 { // and the timer's own row: 80 times that is the limit
				if err := tx.Put("x", kv.Key{}.String(t.Owner).Uint(uint64(i)), nil); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				r := w.runner()
				fired := 0
				w.handle(r, "test", Handler{Tx: func(_ context.Context, tx kv.Writer, t Timer) error {
					tx.OnCommit(func() { fired++ })
					return work(tx, t)
				}})
				for i := range 101 {
					w.set(r, w.in(fmt.Sprintf("o%03d", i), 0))
				}
				defer w.run(r)()
				w.sleep(time.Hour)
				if left := w.list(""); len(left) > 0 || fired != 101 {
					t.Errorf("after an hour %d have fired and %d are left", fired, len(left))
				}
			})
		})
	}
}

// unreadable is a store that cannot be read for a while.
type unreadable struct {
	kv.Store
	left *atomic.Int64
}

func (s unreadable) View(ctx context.Context, fn func(kv.Reader) error) error {
	if s.left.Add(-1) >= 0 {
		return errors.New("disk: a passing fault")
	}
	return s.Store.View(ctx, fn)
}

// Run begins with a look at all timers; that it fails ends nothing, and it is made up for.
func TestAStoreThatCannotBeReadAtTheStartEndsNothing(t *testing.T) {
	inBubble(t, func(w *world) {
		var log bytes.Buffer
		var left atomic.Int64
		left.Store(4)
		r := New(unreadable{w.store, &left}, Config{Clock: kv.ClockFunc(w.Now),
			Logger: slog.New(slog.NewTextHandler(&log, nil))})
		w.handle(r, "test", Handler{Tx: note(w.start)})
		foreign := Timer{Kind: "foreign", Owner: "x", Due: w.start.Add(time.Hour)}
		w.set(r, w.in("a", time.Minute), foreign)
		stop := w.run(r)
		w.sleep(2 * time.Minute)
		w.wantFired("a@1m0s")
		if err := stop(); err != nil {
			t.Errorf("Run returned %v", err)
		}
		if got := log.String(); !strings.Contains(got, "without a handler") || left.Load() > 0 {
			t.Errorf("%d faults are left, and the log says %s", left.Load(), got)
		}
		w.update(func(tx kv.Writer) error { return r.Delete(tx, foreign) })
	})
}

func TestARunnerWithoutHandlersWaitsForItsContext(t *testing.T) {
	inBubble(t, func(w *world) {
		var left atomic.Int64
		left.Store(1)
		ctx, cancel := context.WithCancel(w.Context())
		done := make(chan error, 1)
		go func() { done <- New(unreadable{w.store, &left}, Config{}).Run(ctx) }()
		w.sleep(time.Hour)
		if len(done) > 0 {
			t.Errorf("Run returned %v", <-done)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

// The calls under way wait for the end of their context: it comes with the store's.
func TestRunEndsWhenTheStoreIsClosedDuringAnOutsideCall(t *testing.T) {
	for name, own := range map[string]bool{"seen by its own kind": true, "seen by another": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				r := w.runner()
				w.handle(r, "test", Handler{Outside: func(ctx context.Context, _ Timer) error {
					<-ctx.Done()
					return ctx.Err()
				}})
				w.handle(r, "other", Handler{Tx: note(w.start)})
				timer := w.in("a", 0)
				w.set(r, timer)
				done := make(chan error, 1)
				go func() { done <- r.Run(w.Context()) }()
				synctest.Wait()
				w.store.Close()
				if own {
					r.lane("test").notify(time.Time{})
				} else {
					r.lane("other").notify(time.Time{})
				}
				synctest.Wait()
				if len(done) == 0 {
					w.Fatal("Run has not returned")
				}
				if err := <-done; !errors.Is(err, kv.ErrClosed) {
					t.Errorf("Run returned %v", err)
				}
				w.open()
				if left := w.list(""); len(left) != 1 || left[0].Attempts != 0 {
					t.Errorf("left are %+v", left)
				}
				w.update(func(tx kv.Writer) error { return r.Delete(tx, timer) })
			})
		})
	}
}

func TestUpToBatchTimersShareATransaction(t *testing.T) {
	for _, c := range []struct {
		batch, timers, damaged, commits int
	}{{1, 2, 0, 2}, {10, 40, 0, 4}, {10, 40, 1, 4}, {10, 41, 25, 5}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				r := w.runner()
				w.handle(r, "test", Handler{Batch: c.batch, Tx: note(w.start)})
				for i := range c.damaged {
					w.update(func(tx kv.Writer) error {
						return tx.Put(dueTable.ID(), key("test", w.start, fmt.Sprint(i)), []byte("damaged"))
					})
				}
				for i := range c.timers {
					w.set(r, w.in(fmt.Sprint(i), time.Second))
				}
				before := w.commits.Load()
				stop := w.run(r)
				w.sleep(time.Minute)
				if n := int(w.commits.Load() - before); n != c.commits {
					t.Errorf("%d commits, want %d", n, c.commits)
				}
				if n := strings.Count(w.fired(), "@"); n != c.timers {
					t.Errorf("%d have fired, want %d", n, c.timers)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
				w.store.Close()
			})
		})
	}
}

// What a [DamagedError] advises: a timer whose row cannot be read is set again, or
// deleted, also one that has failed and was moved.
func TestADamagedTimerIsSetAgainOrDeleted(t *testing.T) {
	for _, moved := range []bool{false, true} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("moved %t, again %t", moved, again), func(t *testing.T) {
				inBubble(t, func(w *world) {
					fail := moved
					r := w.runner()
					fire := note(w.start)
					w.handle(r, "test", Handler{Tx: func(ctx context.Context, tx kv.Writer, t Timer) error {
						if fail {
							return errors.New("boom")
						}
						return fire(ctx, tx, t)
					}})
					timer := w.in("a", time.Minute)
					w.set(r, timer)
					defer w.run(r)()
					at := timer.Due
					if moved {
						w.sleep(time.Minute)
						at = w.list("")[0].NextTry
					}
					fail = false
					w.update(func(tx kv.Writer) error {
						return tx.Put(dueTable.ID(), key("test", at, "a"), []byte("damaged"))
					})
					if again {
						w.set(r, timer)
					} else {
						w.update(func(tx kv.Writer) error { return r.Delete(tx, timer) })
					}
					w.sleep(time.Hour)
					if got := strings.Count(w.fired(), "@"); got != map[bool]int{true: 1}[again] {
						t.Errorf("fired %q", w.fired())
					}
					if left := w.list(""); len(left) > 0 {
						t.Errorf("left are %v", left)
					}
				})
			})
		}
	}
}

// The damaged row was that of a failed timer, waiting where another of its owner is
// set now: that one is not removed in its stead.
func TestATimerInThePlaceOfADamagedOneIsNotRemovedForIt(t *testing.T) {
	inBubble(t, func(w *world) {
		r := w.runner()
		fail := true
		fire := note(w.start)
		w.handle(r, "test", Handler{Tx: func(ctx context.Context, tx kv.Writer, t Timer) error {
			if fail {
				return errors.New("boom")
			}
			return fire(ctx, tx, t)
		}})
		defer w.run(r)()
		old := w.in("a", 0)
		w.set(r, old)
		synctest.Wait()
		fail = false
		next := Timer{Kind: "test", Owner: "a", Due: w.list("")[0].NextTry}
		w.update(func(tx kv.Writer) error {
			return tx.Put(dueTable.ID(), key("test", next.Due, "a"), []byte("damaged"))
		})
		w.set(r, next)
		w.update(func(tx kv.Writer) error { return r.Delete(tx, old) })
		w.sleep(time.Hour)
		w.wantFired("a@1s")
	})
}

func TestATimerThatWaitsForEverIsFoundByItsOwner(t *testing.T) {
	inBubble(t, func(w *world) {
		r := New(w.store, Config{Clock: kv.ClockFunc(w.Now),
			Backoff: func(int) time.Duration { return math.MaxInt64 }})
		w.handle(r, "test", Handler{Tx: func(context.Context, kv.Writer, Timer) error {
			return errors.New("boom")
		}})
		a, b := w.in("a", 0), w.in("a", -1)
		w.set(r, a, b)
		defer w.run(r)()
		if left := w.list(""); len(left) != 2 || left[0].NextTry.Before(maxDue) || left[1].Attempts != 1 {
			t.Errorf("left are %+v", left)
		}
		invariant.RequireNow(t, w.store, Rules(0)...)
		w.update(func(tx kv.Writer) error { return errors.Join(r.Delete(tx, a), r.Delete(tx, b)) })
		if left := w.list(""); len(left) > 0 {
			t.Errorf("left are %+v", left)
		}
	})
}
