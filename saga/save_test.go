package saga

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"onced/kv"
	"onced/kv/claim"
	"onced/kv/memkv"
)

// lostStore commits one Update, does not say so, and then answers nothing until
// it is told to.
type lostStore struct {
	kv.Store

	gone atomic.Bool
}

var errGone = errors.New("no connection to the store")

func (s *lostStore) View(ctx context.Context, fn func(kv.Reader) error) error {
	if s.gone.Load() {
		return errGone
	}
	return s.Store.View(ctx, fn)
}

func (s *lostStore) Update(ctx context.Context, fn func(kv.Writer) error) error {
	if s.gone.Swap(true) {
		return errGone
	}
	if err := s.Store.Update(ctx, fn); err != nil {
		return err
	}
	return kv.ErrCommitUnknown
}

// A key that was claimed, without the call knowing it, is given back by the next
// call, which then gets it.
func TestIK11_ClaimInDoubtIsGivenBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	lost := &lostStore{Store: r.store}
	book, err := claim.New(t.Context(), lost, claim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	good := r.charge()
	o, err := NewOperation(book, "charge", r.gate.pay, Key(orderID), Wait(0))
	if err != nil {
		t.Fatal(err)
	}
	r.wantErr(o, errGone)
	r.wantErr(good, ErrInFlight) // it is claimed
	if e := r.wantUnknown(o); !errors.Is(e.Err, errGone) {
		t.Errorf("the cause is %v", e.Err)
	}
	o.claims = r.book // the store is back
	r.want(o)
	r.gate.charges(t, 1)
}

// What gives a call leave to cause the effect, and cannot be stored, is not stored
// for it later: nobody would be there to use it.
func TestIK11_LeaveThatCannotBeStoredIsGivenBack(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]func(*rig) []Option{
		"leave to send again": func(*rig) []Option { return []Option{Repeatable(time.Hour)} },
		"proof of absence": func(r *rig) []Option {
			return []Option{Check(r.gate.lookUp), SettlesAfter(time.Minute)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.gate.set(fail(errTimeout), nil)
			r.wantUnknown(r.charge(opts(r)...))
			r.clock.Add(time.Minute)
			r.gate.set(nil, nil)
			rare := &rareStore{Store: r.store, from: 2, to: 4} // the takeover is stored
			book, err := claim.New(t.Context(), rare, claim.Config{})
			if err != nil {
				t.Fatal(err)
			}
			r.book = book
			o := r.charge(opts(r)...)
			if e := r.wantUnknown(o); !errors.Is(e.Err, errGone) || r.gate.calls != 1 {
				t.Fatalf("got %v after %d runs", e, r.gate.calls)
			}
			if res := r.want(o); res.Value.No != 1 {
				t.Errorf("got %+v", res)
			}
			if o.unsaved.n != 0 || len(o.unsaved.m) != 0 {
				t.Errorf("it still remembers %d outcomes", o.unsaved.n)
			}
			r.gate.charges(t, 1)
		})
	}
}

// rareStore fails some Updates, counted from 1.
type rareStore struct {
	kv.Store

	n, from, to int
}

func (s *rareStore) Update(ctx context.Context, fn func(kv.Writer) error) error {
	if s.n++; s.n >= s.from && s.n <= s.to {
		return errGone
	}
	return s.Store.Update(ctx, fn)
}

func TestUnsavedOutcomesAreBoundedAndForgotten(t *testing.T) {
	t.Parallel()
	var u Unsaved
	id := func(i int) claim.ID { return claim.ID{Scope: "s", Key: fmt.Sprint(i)} }
	do := func(context.Context) (claim.Decision, error) { return claim.Decision{}, nil }
	for i := range maxUnsaved + 5 {
		u.add(id(i), do)
	}
	if len(u.m) != maxUnsaved || len(u.of(id(0))) != 1 || len(u.of(id(maxUnsaved))) != 0 {
		t.Errorf("it remembers %d outcomes", len(u.m))
	}
	first := u.of(id(0))[0]
	u.remove(id(0), first)
	u.add(id(0), do) // of a later call
	u.remove(id(0), first)
	if len(u.of(id(0))) != 1 || u.n != maxUnsaved {
		t.Errorf("an old outcome took a new one with it: %d", u.n)
	}
	u.remove(id(1), u.of(id(1))[0])
	u.add(id(0), do)
	if len(u.of(id(0))) != 2 || u.n != maxUnsaved {
		t.Errorf("two calls under one key: %d", len(u.of(id(0))))
	}
	for i := range maxUnsaved {
		for _, l := range u.of(id(i)) {
			u.remove(id(i), l)
		}
	}
	if u.n != 0 || len(u.m) != 0 {
		t.Errorf("%d, %d are left", u.n, len(u.m))
	}
}

// The settling time is counted from the last send: an effect that was under way
// for long is not older than its end.
func TestSettlingIsCountedFromTheLastSend(t *testing.T) {
	t.Parallel()
	for _, repeat := range []bool{false, true} {
		r := bareRig(t)
		r.open = func() kv.Store { return memkv.New(memkv.Options{Clock: r.clock}) }
		r.start()
		r.gate.set(func(context.Context, order) error { r.clock.Add(time.Hour); return errTimeout }, nil)
		opts := []Option{Check(r.gate.lookUp), SettlesAfter(time.Minute)}
		if repeat {
			opts = append(opts, Repeatable(24*time.Hour))
		}
		o := r.charge(opts...)
		r.wantUnknown(o)
		r.gate.set(nil, nil)
		if repeat { // the leave is for the same key; absence would be for a new effect
			r.gate.set(fail(Refused(errTimeout)), nil)
			r.wantUnknown(o)
			continue
		}
		if e := r.wantUnknown(o); e.RetryAfter != time.Minute || r.gate.calls != 1 {
			t.Errorf("retry after %v, %d runs", e.RetryAfter, r.gate.calls)
		}
		r.clock.Add(time.Minute)
		r.want(o)
		r.gate.charges(t, 1)
	}
}
