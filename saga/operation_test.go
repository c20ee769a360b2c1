package saga

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/netip"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"onced/kv"
	"onced/kv/claim"
	"onced/kv/memkv"
)

func TestIK01_CompletedKeyReplays(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(r *rig) {
		o := r.charge()
		first := r.want(o)
		second := r.want(o)
		r.restart()
		third := r.want(r.charge())
		if first.Replayed || !second.Replayed || !third.Replayed {
			r.Errorf("replayed: %v, %v, %v", first.Replayed, second.Replayed, third.Replayed)
		}
		if first.Value != second.Value || first.Value != third.Value {
			r.Errorf("results differ: %v, %v, %v", first.Value, second.Value, third.Value)
		}
		r.gate.charges(r.T, 1)
	})
}

func TestIK02_HundredCallersOneEffect(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(r *rig) {
		charge := Idempotent(r.book, "charge", r.gate.pay, Key(orderID), Wait(time.Minute))
		got := race(100, func() string {
			v, err := charge(r.Context(), theOrder)
			if err != nil {
				return err.Error()
			}
			return mustJSON(v)
		})
		for _, g := range got {
			if g != got[0] || !strings.HasPrefix(g, "{") {
				r.Fatalf("results differ: %q and %q", g, got[0])
			}
		}
		r.gate.charges(r.T, 1)
	})
}

// race calls f from n goroutines released together.
func race[T any](n int, f func() T) []T {
	out, gun := make([]T, n), make(chan struct{})
	var wg sync.WaitGroup
	for i := range out {
		wg.Go(func() {
			<-gun
			out[i] = f()
		})
	}
	close(gun)
	wg.Wait()
	return out
}

func TestIK03_AllGetTheSameRefusal(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(r *rig) {
		declined := &RefusedError{Code: "card_declined", Message: "no funds",
			Detail: json.RawMessage(`{"n":1}`)}
		r.gate.set(fail(Refused(declined)), nil)
		o := r.charge(Wait(time.Minute))
		got := race(100, func() string {
			_, err := o.Do(r.Context(), theOrder)
			var e *RefusedError
			if !errors.As(err, &e) || !errors.Is(err, ErrRefused) {
				return "not refused"
			}
			return mustJSON(e)
		})
		for _, g := range got {
			if g != mustJSON(declined) {
				r.Fatalf("got %s", g)
			}
		}
		if r.gate.calls != 1 {
			r.Errorf("the gateway was asked %d times", r.gate.calls)
		}
	})
}

func TestIK03_OneWaiterTakesOverAfterNotDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		errInput := errors.New("the gateway is closed")
		var once sync.Once
		r.gate.set(func(context.Context, order) (err error) {
			time.Sleep(time.Second) // until everybody waits
			once.Do(func() { err = NotDone(errInput) })
			return err
		}, nil)
		o := r.charge(Wait(time.Minute))
		got := race(100, func() error {
			_, err := o.Do(r.Context(), theOrder)
			return err
		})
		failed := slices.DeleteFunc(got, func(err error) bool { return err == nil })
		if len(failed) != 1 || !errors.Is(failed[0], ErrNotDone) || !errors.Is(failed[0], errInput) {
			t.Errorf("%d failed: %v", len(failed), failed)
		}
		if r.gate.calls != 2 {
			t.Errorf("%d runs, want the failed one and one more", r.gate.calls)
		}
		r.gate.charges(t, 1)
	})
}

func TestIK04_OtherArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	entered, release := make(chan struct{}), make(chan struct{})
	r.gate.set(func(context.Context, order) error { close(entered); <-release; return nil }, nil)
	o := r.charge()
	done := make(chan error)
	go func() { _, err := o.Do(r.Context(), theOrder); done <- err }()
	<-entered
	other := theOrder
	other.Cents++
	for _, running := range []bool{true, false} {
		_, err := o.Do(r.Context(), other)
		var e *MismatchError
		if !errors.As(err, &e) || !errors.Is(err, ErrMismatch) || e.Key != theOrder.ID {
			t.Fatalf("got %v", err)
		}
		if running {
			close(release)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
	}
	if !r.want(o).Replayed {
		t.Error("the stored result is gone")
	}
	r.gate.charges(t, 1)
}

func TestIK05_PrincipalsAreApart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	o := r.charge(Principal(func(o order) string { return o.Tenant }))
	var got []receipt
	for _, tenant := range []string{"a", "b", "a/charge"} {
		v, err := o.Do(t.Context(), order{ID: "1", Tenant: tenant})
		if err != nil || v.Replayed {
			t.Fatal(v, err)
		}
		got = append(got, v.Value)
	}
	r.gate.charges(t, 3)
	if got[0].Key == got[1].Key || got[1].Key == got[2].Key {
		t.Error("two tenants share a downstream key")
	}
}

func TestIK06_OperationsAndEventsAreApart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	event, err := NewOnce(r.book, "charge", r.gate.pay, Key(orderID))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []*Operation[order, receipt]{r.charge(), r.operation("refund"), event} {
		if r.want(o).Replayed {
			t.Error("one answered for the other")
		}
	}
	r.gate.charges(t, 3)
}

// begun leaves the key as a process does that is killed after the claim.
func (r *rig) begun(o *Operation[order, receipt]) {
	r.Helper()
	c, err := o.newCall(theOrder)
	if err != nil {
		r.Fatal(err)
	}
	if d, err := c.begin(r.Context()); err != nil || d.Kind != claim.Acquired {
		r.Fatal(d.Kind, err)
	}
	r.restart()
}

func TestIK07_KilledBeforeTheEffect(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(r *rig) {
		r.begun(r.charge())
		o := r.charge(Check(r.gate.lookUp), SettlesAfter(time.Minute))
		e := r.wantUnknown(o)
		if e.Held || e.RetryAfter != time.Minute {
			r.Errorf("held %v, retry after %v", e.Held, e.RetryAfter)
		}
		r.gate.charges(r.T, 0)
		r.clock.Add(time.Minute - 1)
		if e := r.wantUnknown(o); e.RetryAfter != soon {
			r.Errorf("retry after %v", e.RetryAfter)
		}
		r.clock.Add(1)
		if res := r.want(o); res.Replayed || res.LookedUp {
			r.Errorf("got %+v", res)
		}
		r.gate.charges(r.T, 1)
	})
}

func TestIK08_KilledAfterTheEffect(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(r *rig) {
		o := r.charge()
		truth := r.gate.charge(theOrder, o.DownstreamKey(theOrder))
		r.begun(o)
		o = r.charge(Check(r.gate.lookUp))
		if res := r.want(o); res.Value != truth || !res.LookedUp {
			r.Errorf("got %+v, want %+v", res, truth)
		}
		if res := r.want(o); res.Value != truth || !res.Replayed {
			r.Errorf("got %+v, want %+v", res, truth)
		}
		r.gate.charges(r.T, 1)
		if r.gate.calls != 0 || r.gate.looks != 1 {
			r.Errorf("%d runs and %d look-ups", r.gate.calls, r.gate.looks)
		}
	})
}

func TestIK08_RepeatedWithTheSameKey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.gate.honoursKeys = true
	truth := r.gate.charge(theOrder, r.charge().DownstreamKey(theOrder))
	r.begun(r.charge())
	if res := r.want(r.charge(Repeatable(time.Hour))); res.Value != truth {
		t.Errorf("got %+v, want %+v", res, truth)
	}
	r.gate.charges(t, 1)
}

func TestIK09_LookUpFails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.begun(r.charge())
	var answer error
	look := func(context.Context, order, Doubt) (receipt, bool, error) {
		if answer == nil {
			panic("look-up")
		}
		return receipt{}, true, answer
	}
	o := r.charge(Check(look), SettlesAfter(1))
	r.clock.Add(time.Hour)
	for _, c := range []struct {
		answer error
		after  time.Duration
	}{
		{errTimeout, later},
		{RetryAfter(time.Minute, errTimeout), time.Minute},
		{NotDone(errTimeout), later},
		{nil, later}, // it panics
	} {
		answer = c.answer
		e := r.wantUnknown(o)
		if e.RetryAfter != c.after || e.Held {
			t.Errorf("%v: retry after %v, held %v", c.answer, e.RetryAfter, e.Held)
		}
		if c.answer != nil && !errors.Is(e.Err, errTimeout) {
			t.Errorf("the cause is %v", e.Err)
		}
	}
	if r.gate.calls != 0 {
		t.Error("it ran")
	}
	answer = Refused(&RefusedError{Code: "blocked", Message: "no"})
	var e *RefusedError
	if !errors.As(r.wantErr(o, ErrRefused), &e) || e.Code != "blocked" {
		t.Errorf("got %v", e)
	}
}

func TestIK10_TimeoutAfterTheCharge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		opts func(*gateway) []Option
		held bool
	}{
		{"plain", func(*gateway) []Option { return nil }, true},
		{"check", func(g *gateway) []Option { return []Option{Check(g.lookUp)} }, false},
		{"repeatable", func(g *gateway) []Option {
			g.honoursKeys = true
			return []Option{Repeatable(time.Hour)}
		}, false},
		{"both", func(g *gateway) []Option {
			return []Option{Check(g.lookUp), Repeatable(time.Hour)}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.gate.set(nil, fail(errTimeout))
			o := r.charge(c.opts(r.gate)...)
			e := r.wantUnknown(o)
			if e.Err == nil || e.Held != c.held || e.Since.IsZero() || e.DownstreamKey == "" {
				t.Errorf("got %+v", e)
			}
			r.gate.set(nil, nil)
			if c.held {
				if e := r.wantUnknown(o); !e.Held {
					t.Error("not held")
				}
			} else if res := r.want(o); res.Value.No != 1 {
				t.Errorf("got %+v", res.Value)
			}
			r.gate.charges(t, 1)
		})
	}
}

// brokenStore fails Updates while it is told to.
type brokenStore struct {
	kv.Store
	mu   sync.Mutex
	fail error
}

func (s *brokenStore) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

func (s *brokenStore) Update(ctx context.Context, fn func(kv.Writer) error) error {
	s.mu.Lock()
	err := s.fail
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.Store.Update(ctx, fn)
}

func brokenRig(t *testing.T) (*rig, *brokenStore) {
	broken := &brokenStore{}
	r := bareRig(t)
	disk := memkv.NewDisk()
	r.open = func() kv.Store { return memkv.Open(disk, memkv.Options{Clock: r.clock, Rerun: true}) }
	r.wrap = func(s kv.Store) kv.Store { broken.Store = s; return broken }
	r.start()
	return r, broken
}

func TestIK11_SaveFailsAfterTheEffect(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{kv.ErrCommitUnknown, kv.ErrStopped, errors.New("disk full")} {
		for _, heals := range []bool{true, false} {
			r, broken := brokenRig(t)
			r.gate.set(nil, func(context.Context, order) error { broken.set(cause); return nil })
			o := r.charge()
			for range 2 {
				if e := r.wantUnknown(o); !errors.Is(e.Err, cause) {
					t.Fatalf("the cause is %v", e.Err)
				}
			}
			if heals { // the same process stores what it knows
				broken.set(nil)
				if res := r.want(o); !res.Replayed || res.Value.No != 1 {
					t.Errorf("got %+v", res)
				}
			} else { // the next one looks up
				broken.set(nil)
				r.restart()
				if e := r.wantUnknown(r.charge()); !e.Held {
					t.Error("not held")
				}
				r.want(r.charge(Check(r.gate.lookUp)))
			}
			r.gate.charges(t, 1)
		}
	}
}

func TestIK11_OtherOutcomesThatCannotBeSaved(t *testing.T) {
	t.Parallel()
	for _, outcome := range []error{NotDone(errTimeout), Refused(errTimeout), errTimeout} {
		r, broken := brokenRig(t)
		r.gate.set(func(context.Context, order) error { broken.set(errors.New("full")); return outcome }, nil)
		o := r.charge()
		r.wantUnknown(o)
		broken.set(nil)
		r.gate.set(nil, nil)
		switch OutcomeOf(outcome) {
		case OutcomeRetry:
			r.want(o)
		case OutcomeRefused:
			r.wantErr(o, ErrRefused)
		case OutcomeUnknown:
			r.wantUnknown(o)
		}
	}
}

func TestIK12_RefusalIsReplayed(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(r *rig) {
		r.gate.set(fail(Refused(errors.New("no funds"))), nil)
		r.wantErr(r.charge(), ErrRefused)
		r.restart()
		r.gate.set(nil, nil)
		o := r.charge()
		res, err := o.Do(r.Context(), theOrder)
		var e *RefusedError
		if !errors.As(err, &e) || e.Message != "no funds" || !res.Replayed {
			r.Errorf("got %v, %v", res, err)
		}
		r.gate.charges(r.T, 0)
	})
}

func TestIK13_NotDoneFreesTheKey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	errInput := errors.New("no card")
	r.gate.set(fail(RetryAfter(time.Minute, errInput)), nil)
	o := r.charge()
	var e *NotDoneError
	if err := r.wantErr(o, ErrNotDone); !errors.As(err, &e) || e.RetryAfter != time.Minute ||
		!errors.Is(err, errInput) {
		t.Errorf("got %v", err)
	}
	if s := r.state(o); s != claim.Absent {
		t.Errorf("the key is %v", s)
	}
	r.gate.set(nil, nil)
	corrected := theOrder
	corrected.Cents = 1
	if _, err := o.Do(t.Context(), corrected); err != nil {
		t.Error(err)
	}
}

func TestIK17_WaiterReachesItsLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		release := make(chan struct{})
		r.gate.set(func(context.Context, order) error { <-release; return nil }, nil)
		o := r.charge(Wait(3 * time.Second))
		var wg sync.WaitGroup
		wg.Go(func() { r.want(o) })
		synctest.Wait()
		began := time.Now()
		var e *InFlightError
		if err := r.wantErr(o, ErrInFlight); !errors.As(err, &e) || e.RetryAfter <= 0 {
			t.Errorf("got %v", err)
		}
		if waited := time.Since(began); waited != 3*time.Second {
			t.Errorf("it waited %v", waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := o.Do(ctx, theOrder); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller whose context ends gets %v", err)
		}
		close(release)
		wg.Wait()
		if !r.want(o).Replayed {
			t.Error("not replayed")
		}
		r.gate.charges(t, 1)
	})
}

func TestIK18_CallerGoesAway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	r.gate.set(func(fnCtx context.Context, _ order) error {
		cancel()
		<-ctx.Done()
		return fnCtx.Err()
	}, nil)
	o := r.charge()
	first, err := o.Do(ctx, theOrder)
	if err != nil {
		t.Fatal(err)
	}
	if again := r.want(o); again.Value != first.Value || !again.Replayed {
		t.Errorf("got %+v", again)
	}
	r.gate.charges(t, 1)
	if _, err := r.operation("other").Do(ctx, theOrder); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has gone before gets %v", err)
	}
	r.gate.charges(t, 1)
}

func TestTimeoutEndsTheContextOfTheFunction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.gate.set(nil, func(ctx context.Context, _ order) error { <-ctx.Done(); return ctx.Err() })
		o := r.charge(Timeout(time.Second))
		if e := r.wantUnknown(o); e.Reason != "the function reached its time limit" {
			t.Errorf("reason %q", e.Reason)
		}
		r.gate.charges(t, 1)
	})
}

func TestIK25_WhatCountsAsTheSameArguments(t *testing.T) {
	t.Parallel()
	type args struct {
		ID   string          `json:"id"`
		Raw  json.RawMessage `json:"raw"`
		Map  map[string]int  `json:"map"`
		Text []byte          `json:"text"`
	}
	r := newRig(t)
	n := 0
	o, err := NewOperation(r.book, "op", func(context.Context, args) (int, error) { n++; return n, nil },
		Key(func(a args) string { return a.ID }))
	if err != nil {
		t.Fatal(err)
	}
	base := args{"1", json.RawMessage(`{"a":1,"b":2}`), map[string]int{"x": 1, "y": 2}, []byte(`{"a":1}`)}
	for _, c := range []struct {
		name string
		a    args
		same bool
	}{
		{"the first", base, true},
		{"a map in another order", args{"1", base.Raw, map[string]int{"y": 2, "x": 1}, base.Text}, true},
		{"spacing of raw JSON", args{"1", json.RawMessage(`{"a": 1, "b":2}`), base.Map, base.Text}, true},
		{"order of raw JSON", args{"1", json.RawMessage(`{"b":2,"a":1}`), base.Map, base.Text}, false},
		{"spacing of bytes", args{"1", base.Raw, base.Map, []byte(`{"a": 1}`)}, false},
		{"another value", args{"1", base.Raw, map[string]int{"x": 1}, base.Text}, false},
	} {
		v, err := o.Do(t.Context(), c.a)
		if c.same && (err != nil || v.Value != 1) || !c.same && !errors.Is(err, ErrMismatch) {
			t.Errorf("%s: got %v, %v", c.name, v.Value, err)
		}
	}
	loose := r.charge(Fingerprint(func(o order) []byte { return []byte(o.Tenant) }))
	for cents := range 3 {
		if _, err := loose.Do(t.Context(), order{ID: "7", Cents: cents}); err != nil {
			t.Error(err)
		}
	}
	r.gate.charges(t, 1)
}

func TestIK26_PanicIsUnknown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.gate.set(nil, func(context.Context, order) error { panic("boom") })
	o := r.charge()
	e := r.wantUnknown(o)
	var p *PanicError
	if !errors.As(e.Err, &p) || p.Value != "boom" || !strings.Contains(string(p.Stack), "rig_test.go") {
		t.Errorf("got %v", e.Err)
	}
	if s := r.state(o); s != claim.Unknown {
		t.Errorf("the key is %v", s)
	}
	r.gate.set(nil, nil)
	r.wantUnknown(o)
	r.gate.charges(t, 1)
}

func TestIK26_GoexitIsUnknown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.gate.set(nil, func(context.Context, order) error { runtime.Goexit(); return nil })
	o := r.charge()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = o.Do(r.Context(), theOrder)
		t.Error("it came back")
	}()
	<-ended
	r.gate.set(nil, nil)
	if e := r.wantUnknown(o); e.Reason != "the function ended its goroutine" {
		t.Errorf("reason %q", e.Reason)
	}
	look := func(context.Context, order, Doubt) (receipt, bool, error) { runtime.Goexit(); panic(0) }
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = r.charge(Check(look)).Do(r.Context(), theOrder)
		t.Error("it came back")
	}()
	<-ended
	if s := r.state(o); s != claim.Unknown {
		t.Errorf("the key is %v", s)
	}
	r.want(r.charge(Check(r.gate.lookUp)))
	r.gate.charges(t, 1)
}

func TestIK27_PersonResolves(t *testing.T) {
	t.Parallel()
	for _, verdict := range []claim.Verdict{claim.VerdictDone, claim.VerdictRefused, claim.VerdictFree} {
		t.Run(verdict.String(), func(t *testing.T) {
			r := newRig(t)
			r.gate.set(fail(errTimeout), nil)
			o := r.charge()
			if e := r.wantUnknown(o); !e.Held {
				t.Error("not held")
			}
			r.gate.set(nil, nil)
			id := o.ID(theOrder)
			c, _, err := r.book.Get(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			res := claim.Resolution{ID: id, Version: c.Record.Version, Verdict: verdict,
				Actor: "ada", Reason: "asked the gateway"}
			want := receipt{Order: theOrder.ID, Key: o.DownstreamKey(theOrder), No: 77}
			switch verdict {
			case claim.VerdictDone:
				res.Result, err = o.ResultOf(want)
			case claim.VerdictRefused:
				res.Result, err = RefusalOf(RefusedError{Code: "blocked", Message: "by ada"})
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.book.Resolve(t.Context(), res); err != nil {
				t.Fatal(err)
			}
			switch verdict {
			case claim.VerdictDone:
				if got := r.want(o); got.Value != want {
					t.Errorf("got %+v", got)
				}
				r.gate.charges(t, 0)
			case claim.VerdictRefused:
				var e *RefusedError
				if !errors.As(r.wantErr(o, ErrRefused), &e) || e.Code != "blocked" {
					t.Errorf("got %v", e)
				}
				r.gate.charges(t, 0)
			case claim.VerdictFree:
				r.want(o)
				r.gate.charges(t, 1)
			}
			r.audited()
		})
	}
}

// audited fails unless the feed has the operator's act.
func (r *rig) audited() {
	r.Helper()
	page, err := r.feed.Read(r.Context(), r.store, "", 10)
	if err != nil {
		r.Fatal(err)
	}
	if len(page.Events) != 1 || page.Events[0].Type != claim.EventResolved {
		r.Errorf("the feed has %+v", page.Events)
	}
}

func TestResolvedWithoutAResult(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.gate.set(fail(errTimeout), nil)
	o := r.charge()
	r.wantUnknown(o)
	c, _, _ := r.book.Get(t.Context(), o.ID(theOrder))
	_, err := r.book.Resolve(t.Context(), claim.Resolution{ID: c.ID, Version: c.Record.Version,
		Verdict: claim.VerdictDone, Actor: "ada", Reason: "seen"})
	if err != nil {
		t.Fatal(err)
	}
	var e *ResultError
	if !errors.As(r.wantErr(o, ErrNoResult), &e) || e.Value != nil {
		t.Errorf("got %v", e)
	}
}

func TestRefusalUnderDoubtProvesNothing(t *testing.T) {
	t.Parallel()
	for _, second := range []error{Refused(errors.New("no such card")), NotDone(errors.New("busy"))} {
		r := newRig(t)
		r.gate.honoursKeys = true
		r.gate.set(nil, fail(errTimeout))
		o := r.charge(Repeatable(time.Hour))
		r.wantUnknown(o)
		r.gate.set(fail(second), nil)
		r.wantUnknown(o)
		if s := r.state(o); s != claim.Unknown {
			t.Errorf("the key is %v", s)
		}
		r.gate.set(nil, nil)
		r.clock.Add(DefaultSettlesAfter)
		if res := r.want(o); res.Value.No != 1 {
			t.Errorf("got %+v", res)
		}
		r.gate.charges(t, 1)
	}
}

// A callee that honours keys answers a key with its outcome. But what it answers
// while the first try may be under way is that of the second alone.
func TestRefusalOfARepeatIsTheOutcomeOnceTheFirstHasSettled(t *testing.T) {
	t.Parallel()
	for _, look := range []bool{false, true} {
		r := newRig(t)
		opts := []Option{Repeatable(time.Hour), SettlesAfter(time.Minute)}
		if look {
			opts = append(opts, Check(func(context.Context, order, Doubt) (receipt, bool, error) {
				return receipt{}, false, errors.New("down")
			}))
		}
		o := r.charge(opts...)
		no := Refused(errors.New("no such card"))
		r.gate.set(fail(errTimeout), nil)
		r.wantUnknown(o)
		r.gate.set(fail(no), nil)
		r.clock.Add(59 * time.Second)
		e := r.wantUnknown(o) // it was sent again, and refused too soon
		if e.Held || e.RetryAfter != time.Minute || e.Reason != claim.ReasonRefused || r.gate.calls != 2 {
			t.Errorf("%+v, %d runs", e, r.gate.calls)
		}
		for range 3 { // to send it again now would prove as little, and be as soon
			r.clock.Add(19 * time.Second)
			e = r.wantUnknown(o)
		}
		if e.Held || e.RetryAfter != 3*time.Second || e.Reason != claim.ReasonRefused || r.gate.calls != 2 {
			t.Errorf("%+v, %d runs", e, r.gate.calls)
		}
		r.clock.Add(3 * time.Second)
		if err := r.wantErr(o, ErrRefused); !strings.Contains(err.Error(), "no such card") {
			t.Error(err)
		}
		r.wantErr(o, ErrRefused)
		if s := r.state(o); s != claim.Refused || r.gate.calls != 3 {
			t.Errorf("%v, %d runs", s, r.gate.calls)
		}
		r.gate.charges(t, 0)
	}
}

// Where the key ends before the first try has settled, a person has to decide.
func TestRefusalOfARepeatOfAnOldKeyIsHeld(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	o := r.charge(Repeatable(time.Minute), SettlesAfter(time.Hour))
	r.gate.set(fail(errTimeout), nil)
	r.wantUnknown(o)
	r.gate.set(fail(Refused(errors.New("no such card"))), nil)
	r.wantUnknown(o)
	r.clock.Add(time.Hour)
	if e := r.wantUnknown(o); !e.Held || r.gate.calls != 2 {
		t.Errorf("%+v, %d runs", e, r.gate.calls)
	}
}

func TestRepeatableOnlyWhileTheKeyIsValid(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.gate.set(nil, fail(errTimeout))
	o := r.charge(Repeatable(time.Hour))
	r.wantUnknown(o)
	r.gate.set(nil, nil)
	r.clock.Add(time.Hour)
	if e := r.wantUnknown(o); !e.Held || r.gate.calls != 1 {
		t.Errorf("held %v, %d runs", e.Held, r.gate.calls)
	}
	both := r.charge(Repeatable(time.Hour), Check(r.gate.lookUp))
	if res := r.want(both); !res.LookedUp {
		t.Errorf("got %+v", res)
	}
	r.gate.charges(t, 1)
}

func TestRefusalAfterAProvenAbsenceCounts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.gate.set(fail(errTimeout), nil)
	o := r.charge(Check(r.gate.lookUp), Repeatable(24*time.Hour), SettlesAfter(time.Minute))
	r.wantUnknown(o)
	r.gate.set(fail(Refused(errors.New("no funds"))), nil)
	r.wantUnknown(o) // too soon: repeated under doubt
	r.clock.Add(time.Minute)
	r.wantErr(o, ErrRefused)
}

// A look-up that is slower than it takes to settle says how things stood when it
// began.
func TestSlowLookUpDoesNotSettleByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := bareRig(t)
		r.open = func() kv.Store { return memkv.New(memkv.Options{}) }
		r.start()
		r.gate.set(fail(errTimeout), nil)
		slow := func(context.Context, order, Doubt) (receipt, bool, error) {
			time.Sleep(20 * time.Second)
			return receipt{}, false, nil
		}
		o := r.charge(Check(slow), SettlesAfter(15*time.Second))
		r.wantUnknown(o)
		r.gate.set(nil, nil)
		r.wantUnknown(o)
		r.gate.charges(t, 0)
		r.want(o)
		r.gate.charges(t, 1)
	})
}

// Those who waited while a call ended unknown do not ask the callee one by one.
func TestWaitersDoNotStormTheCallee(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.gate.set(func(context.Context, order) error { time.Sleep(time.Second); return errTimeout }, nil)
		look := func(ctx context.Context, o order, d Doubt) (receipt, bool, error) {
			time.Sleep(time.Second)
			return r.gate.lookUp(ctx, o, d)
		}
		o := r.charge(Check(look), Wait(time.Minute))
		for range 2 {
			for _, err := range race(50, func() error {
				_, err := o.Do(r.Context(), theOrder)
				return err
			}) {
				if !errors.Is(err, ErrUnknown) {
					t.Errorf("got %v", err)
				}
			}
		}
		if r.gate.calls != 1 || r.gate.looks != 1 {
			t.Errorf("%d runs, %d look-ups", r.gate.calls, r.gate.looks)
		}
	})
}

func TestIK19_ResultsThatCannotBeKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.MaxResult = 100
	r.start()
	type result struct {
		F float64
		S string
	}
	for name, v := range map[string]result{"nan": {F: math.NaN()}, "long": {S: strings.Repeat("x", 200)}} {
		n := 0
		o := Idempotent(r.book, name, func(context.Context, string) (result, error) { n++; return v, nil },
			Key(func(s string) string { return s }))
		for i := range 2 {
			_, err := o(t.Context(), "k")
			var e *ResultError
			if !errors.As(err, &e) || !errors.Is(err, ErrNoResult) || (e.Value != nil) != (i == 0) {
				t.Errorf("%s: got %v", name, err)
			}
		}
		if n != 1 {
			t.Errorf("%s: it ran %d times", name, n)
		}
	}
}

func TestResultTypes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := 0
	v1 := func(context.Context, string) (int, error) { n++; return 41, nil }
	v2 := func(context.Context, string) (string, error) { n++; return "", nil }
	key := Key(func(s string) string { return s })
	if v, err := Idempotent(r.book, "op", v1, key)(t.Context(), "k"); v != 41 || err != nil {
		t.Fatal(v, err)
	}
	_, err := Idempotent(r.book, "op", v2, key)(t.Context(), "k")
	if !errors.Is(err, ErrNoResult) {
		t.Errorf("another type: %v", err)
	}
	old := OldResult(func(name string, data []byte) (string, error) { return name + " " + string(data), nil })
	v, err := Idempotent(r.book, "op", v2, key, ResultType("text"), old)(t.Context(), "k")
	if v != "application/json 41" || err != nil {
		t.Errorf("got %q, %v", v, err)
	}
	v3 := Idempotent(r.book, "op", v1, key, ResultType("n"))
	if v, err := v3(t.Context(), "new"); v != 41 || err != nil {
		t.Error(v, err)
	}
	if _, err := Idempotent(r.book, "op", v1, key)(t.Context(), "new"); !errors.Is(err, ErrNoResult) {
		t.Errorf("a newer name: %v", err)
	}
	if n != 2 {
		t.Errorf("%d runs", n)
	}
}

type odd struct{ hidden int } //nolint:unused // that is the point

type writesOnly struct{}

func (writesOnly) MarshalJSON() ([]byte, error) { return []byte("1"), nil }

type tree struct {
	Children []*tree
	At       time.Time
	Addr     netip.Addr
	ByName   map[string]any
	skipped  func() //nolint:unused // that is the point
	Left     func() `json:"-"`
}

func TestConfigErrors(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key := Key(func(s string) string { return s })
	check := func(field string, err error) {
		t.Helper()
		var e *ConfigError
		if !errors.As(err, &e) || !errors.Is(err, ErrConfig) || e.Field != field {
			t.Errorf("%s: got %v", field, err)
		}
	}
	for _, c := range []struct {
		field string
		opts  []Option
	}{
		{"Key", nil},
		{"Key", []Option{Key(orderID)}},
		{"Key", []Option{Key[string](nil)}},
		{"Timeout", []Option{key, Timeout(0)}},
		{"Wait", []Option{key, Wait(-1)}},
		{"SettlesAfter", []Option{key, SettlesAfter(0)}},
		{"Repeatable", []Option{key, Repeatable(0)}},
		{"ResultType", []Option{key, ResultType("")}},
		{"ResultType", []Option{key, ResultType("a\nb")}},
		{"ResultType", []Option{key, ResultType(strings.Repeat("x", 256))}},
		{"Check", []Option{key, Check(func(context.Context, string, Doubt) (r string, ok bool, err error) {
			panic(0)
		})}},
		{"Principal", []Option{key, Principal(orderID)}},
	} {
		f := Idempotent(r.book, "op", func(context.Context, string) (int, error) { panic("ran") }, c.opts...)
		_, err := f(t.Context(), "k")
		check(c.field, err)
	}
	_, err := NewOperation[string, int](r.book, "op", nil, key)
	check("fn", err)
	_, err = NewOperation(nil, "op", func(context.Context, string) (int, error) { return 0, nil }, key)
	check("claims", err)
	_, err = NewOperation(r.book, "", func(context.Context, string) (int, error) { return 0, nil }, key)
	check("name", err)
	check("result", shapeOf[func()](r))
	check("result", shapeOf[chan int](r))
	check("result", shapeOf[struct{ E error }](r))
	check("result", shapeOf[odd](r))
	check("result", shapeOf[[]*odd](r))
	check("result", shapeOf[map[complex64]int](r))
	check("result", shapeOf[writesOnly](r))
	for _, err := range []error{shapeOf[tree](r), shapeOf[struct{}](r), shapeOf[any](r),
		shapeOf[*receipt](r), shapeOf[map[int]string](r)} {
		if err != nil {
			t.Error(err)
		}
	}
	_, err = NewOperation(r.book, "op", func(context.Context, odd) (int, error) { return 0, nil },
		Key(func(odd) string { return "" }))
	check("arguments", err)
}

func shapeOf[R any](r *rig) error {
	_, err := NewOperation(r.book, "op", func(context.Context, string) (v R, err error) { return v, nil },
		Key(func(s string) string { return s }))
	return err
}

func TestBadKeysAndArguments(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, key := range []string{"", " ", "a\x00", strings.Repeat("x", 256)} {
		if _, err := r.charge().Do(t.Context(), order{ID: key}); !errors.Is(err, claim.ErrInvalid) {
			t.Errorf("%q: got %v", key, err)
		}
	}
	_, err := Idempotent(r.book, "op", func(context.Context, float64) (int, error) { panic("ran") },
		Key(func(float64) string { return "k" }))(t.Context(), math.NaN())
	if !errors.Is(err, claim.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	err = r.store.Update(t.Context(), func(kv.Writer) error {
		_, err := r.charge().Do(t.Context(), theOrder)
		return err
	})
	if !errors.Is(err, kv.ErrNested) {
		t.Errorf("inside a transaction: %v", err)
	}
	r.gate.charges(t, 0)
}

func TestOutcomeOf(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	for _, c := range []struct {
		err  error
		want Outcome
	}{
		{nil, OutcomeDone},
		{cause, OutcomeUnknown},
		{context.Canceled, OutcomeUnknown},
		{Refused(cause), OutcomeRefused},
		{NotDone(cause), OutcomeRetry},
		{RetryAfter(1, nil), OutcomeRetry},
		{wrapped{Refused(cause)}, OutcomeRefused},
		{errors.Join(Refused(cause), cause), OutcomeUnknown},
		{&RefusedError{}, OutcomeUnknown},
		{wrapped{&NotDoneError{Err: NotDone(cause)}}, OutcomeUnknown},
		{&UnknownError{Err: Refused(cause)}, OutcomeUnknown},
		{Refused(&RefusedError{}), OutcomeRefused},
		{NotDone(&UnknownError{}), OutcomeRetry},
	} {
		if got := OutcomeOf(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
	if OutcomeRetry.String() != "retry" || Outcome(9).String() != "outcome(9)" {
		t.Error("names")
	}
}

type wrapped struct{ error }

func (w wrapped) Unwrap() error { return w.error }

// The answer about an inner key says nothing of the outer one.
func TestAnswersOfInnerOperationsAreNotMarks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ inner, outer error }{
		{Refused(errTimeout), ErrUnknown},
		{NotDone(errTimeout), ErrUnknown},
		{errTimeout, ErrUnknown},
	} {
		r := newRig(t)
		r.gate.set(fail(c.inner), nil)
		inner := r.charge()
		outer, err := NewOperation(r.book, "outer", func(ctx context.Context, o order) (receipt, error) {
			res, err := inner.Do(ctx, o)
			return res.Value, err
		}, Key(orderID))
		if err != nil {
			t.Fatal(err)
		}
		r.wantErr(outer, c.outer)
		if s := r.state(outer); s != claim.Unknown {
			t.Errorf("%v: the outer key is %v", c.inner, s)
		}
	}
}

func TestDownstreamKeyIsTheSameOnEveryTry(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var keys []string
	r.gate.set(func(ctx context.Context, _ order) error {
		keys = append(keys, DownstreamKey(ctx))
		if len(keys) < 4 {
			return []error{NotDone(errTimeout), errTimeout, errTimeout}[len(keys)-1]
		}
		return nil
	}, nil)
	for range 4 {
		_, _ = r.charge(Repeatable(time.Hour)).Do(t.Context(), theOrder)
		r.restart()
	}
	r.want(r.charge())
	want := r.charge().DownstreamKey(theOrder)
	if len(keys) != 4 || slices.ContainsFunc(keys, func(k string) bool { return k != want || k == "" }) {
		t.Errorf("keys %q, want %q", keys, want)
	}
	if DownstreamKey(t.Context()) != "" {
		t.Error("a key outside the function")
	}
}

func TestOnceRunsAHandlerOncePerEvent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	type event struct {
		ID       string
		Endpoint string
		Attempt  int
	}
	n := 0
	on := Once(r.book, "stripe", func(context.Context, event) (int, error) { n++; return n, nil },
		Key(func(e event) string { return e.ID }), Principal(func(e event) string { return e.Endpoint }))
	for i, c := range []struct {
		e    event
		want int
	}{
		{event{"e1", "shop", 1}, 1}, {event{"e1", "shop", 2}, 1},
		{event{"e2", "shop", 1}, 2}, {event{"e1", "other", 1}, 3},
	} {
		if v, err := on(t.Context(), c.e); v != c.want || err != nil {
			t.Errorf("%d: got %d, %v", i, v, err)
		}
	}
	r.clock.Add(claim.DefaultRetention)
	if v, err := on(t.Context(), event{"e1", "shop", 3}); v != 4 || err != nil {
		t.Errorf("after the window: %d, %v", v, err)
	}
}

// Users of this package did not ask for a web server.
func TestImportGraph(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "onced/saga").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, "onced/kv/claim") {
		t.Fatalf("that is not the import graph: %q", deps)
	}
	for _, d := range deps {
		for _, heavy := range []string{"net/http", "github.com/prometheus", "github.com/labstack", "testing",
			"go.etcd.io"} {
			if strings.HasPrefix(d, heavy) {
				t.Errorf("it pulls in %s", d)
			}
		}
	}
}
