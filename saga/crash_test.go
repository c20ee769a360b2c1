package saga

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"onced/kv"
	"onced/kv/claim"
	"onced/kv/faultkv"
	"onced/kv/invariant"
	"onced/kv/kvtest/testclock"
	"onced/kv/memkv"
)

// world runs the program of one scenario on a store that breaks at one point.
type world struct {
	*testing.T
	clock *testclock.Clock
	disk  *memkv.Disk
	store kv.Store
	fault *faultkv.Store
	gate  *gateway
	way   way
	rough bool // the gateway's first charge gets no answer
	first error
	tries int
	seen  []receipt
}

// way is how an unknown effect is settled.
type way struct {
	name    string
	honours bool
	opts    func(*world) []Option
	settles bool // at the end the outcome is known, without a person
	proves  bool // a refusal can be known, too, when a try was in doubt
}

func ways() []way {
	check := func(w *world) Option { return Check(w.lookUp) }
	repeatable := Repeatable(24 * time.Hour)
	return []way{
		{"plain", false, func(*world) []Option { return nil }, false, false},
		{"check", false, func(w *world) []Option { return []Option{check(w)} }, true, true},
		{"repeatable", true, func(*world) []Option { return []Option{repeatable} }, true, false},
		{"both", true, func(w *world) []Option { return []Option{check(w), repeatable} }, true, true},
	}
}

func (w *world) boot(plans ...faultkv.Plan) *Operation[order, receipt] {
	w.Helper()
	w.store = memkv.Open(w.disk, memkv.Options{Clock: w.clock, Rerun: true})
	w.fault = faultkv.New(w.store, plans...)
	book, err := claim.New(w.Context(), w.fault, claim.Config{})
	if err != nil {
		w.Fatal(err)
	}
	opts := append([]Option{Key(orderID), Wait(0), SettlesAfter(time.Minute)}, w.way.opts(w)...)
	o, err := NewOperation(book, "charge", w.pay, opts...)
	if err != nil {
		w.Fatal(err)
	}
	return o
}

// pay is the function of the operation. What it knows not to have happened it
// says; a lost answer it does not.
func (w *world) pay(ctx context.Context, o order) (receipt, error) {
	w.tries++
	if w.first != nil && (w.tries == 1 || OutcomeOf(w.first) == OutcomeRefused) {
		return receipt{}, w.first
	}
	var r receipt
	err := w.fault.Call("charge", func() error {
		r = w.gate.charge(o, DownstreamKey(ctx))
		if w.rough && w.tries == 1 {
			return errTimeout
		}
		return nil
	})
	if errors.Is(err, faultkv.ErrInjected) {
		return receipt{}, NotDone(err)
	}
	return r, err
}

func (w *world) lookUp(ctx context.Context, o order, d Doubt) (r receipt, found bool, err error) {
	err = w.fault.Call("look up", func() error {
		r, found, err = w.gate.lookUp(ctx, o, d)
		return err
	})
	return r, found, err
}

// run is the program: the order is sent until its outcome is known, and once
// more. A process that has died is started again.
func (w *world) run(plans ...faultkv.Plan) []faultkv.Point {
	w.Helper()
	o := w.boot(plans...)
	points := w.fault.Points
	known := 0
	for range 12 {
		res, err := o.Do(w.Context(), theOrder)
		switch {
		case w.fault.Crashed():
			w.restart(&o)
			continue
		case err == nil:
			w.seen = append(w.seen, res.Value)
			known++
		case errors.Is(err, ErrRefused):
			known++
		}
		if known == 2 {
			break
		}
		if errors.Is(err, kv.ErrStopped) || errors.Is(w.writable(), kv.ErrStopped) {
			w.restart(&o)
		}
		w.clock.Add(time.Minute)
	}
	w.check(o, known)
	return points()
}

// writable tells whether the store takes writes, without being a point.
func (w *world) writable() error {
	probe := errors.New("probe")
	err := w.fault.Update(w.Context(), func(kv.Writer) error { return probe })
	if errors.Is(err, probe) {
		return nil
	}
	return err
}

func (w *world) restart(o **Operation[order, receipt]) {
	w.Helper()
	if w.fault.Crashed() {
		<-w.fault.Down()
	}
	if err := w.store.Close(); err != nil {
		w.Fatal(err)
	}
	*o = w.boot()
}

// check judges the end by the gateway's own ledger.
func (w *world) check(o *Operation[order, receipt], known int) {
	w.Helper()
	invariant.RequireNow(w.T, w.store, claim.Rules()...)
	refused := OutcomeOf(w.first) == OutcomeRefused
	if n := len(w.gate.ledger); n > 1 || refused && n > 0 {
		w.Fatalf("%d charges: %+v", n, w.gate.ledger)
	}
	if w.way.settles && (w.way.proves || !refused) && known < 2 {
		w.Fatalf("after %d tries the outcome is not known", w.tries)
	}
	if known > 0 && !refused && len(w.gate.ledger) != 1 {
		w.Fatal("it was answered as done, and the gateway has no charge")
	}
	for _, r := range w.seen {
		if r != w.gate.ledger[0] {
			w.Fatalf("the answer %+v is not that of the gateway %+v", r, w.gate.ledger[0])
		}
	}
	if known > 0 {
		return
	}
	c, _, err := o.claims.Get(w.Context(), o.ID(theOrder))
	if err != nil || c.Record.State != claim.Unknown {
		w.Fatalf("nothing is known and the claim is %v, %v", c.Record.State, err)
	}
}

// outages are failures of the store that last from a commit on: for all tries to
// save it, and for the next call too. Nothing is lost but time.
func outages(points []faultkv.Point) (out [][]faultkv.Plan) {
	for _, p := range points {
		if p.Kind != faultkv.KindCommit {
			continue
		}
		for _, tries := range []int{saveTries, 2*saveTries - 1, 2 * saveTries} {
			for _, how := range [][2]faultkv.When{
				{faultkv.Before, faultkv.Before}, {faultkv.Lost, faultkv.Before},
				{faultkv.Kept, faultkv.Before}, {faultkv.Before, faultkv.Kept},
				{faultkv.Lost, faultkv.Lost}, {faultkv.Kept, faultkv.Kept},
			} {
				plans := []faultkv.Plan{{Point: p.N, When: how[0]}}
				for i := range tries - 1 {
					plans = append(plans, faultkv.Plan{Point: p.N + 1 + i, When: how[1]})
				}
				out = append(out, plans)
			}
		}
	}
	return out
}

// TestCrashEnumeration crashes and fails before, in and after every commit and
// every outside call of the operation, for every way to settle an unknown effect,
// and lets the store fail for a while from every commit on.
func TestCrashEnumeration(t *testing.T) {
	t.Parallel()
	const wantPoints, wantPlans, wantOutages = 84, 548, 1152
	points, plans, long := 0, 0, 0
	for _, way := range ways() {
		for _, c := range []struct {
			name  string
			rough bool
			first error
		}{
			{"clean", false, nil},
			{"no answer", true, nil},
			{"refused", false, Refused(errors.New("no funds"))},
			{"not done", false, NotDone(errors.New("closed"))},
			{"failed", false, errTimeout},
		} {
			fresh := func(t *testing.T) *world {
				return &world{T: t, clock: testclock.At(start), disk: memkv.NewDisk(), way: way,
					gate: &gateway{honoursKeys: way.honours}, rough: c.rough, first: c.first}
			}
			reached := fresh(t).run()
			all := faultkv.Plans(reached)
			points, plans = points+len(reached), plans+len(all)
			t.Logf("%s, %s: %d points, %d plans: %v", way.name, c.name, len(reached), len(all), reached)
			for _, plan := range all {
				name := fmt.Sprintf("%s/%s/%s", way.name, c.name, plan)
				t.Run(name, func(t *testing.T) { fresh(t).run(plan) })
			}
			for _, plans := range outages(reached) {
				long++
				name := fmt.Sprintf("%s/%s/outage/%v", way.name, c.name, plans)
				t.Run(name, func(t *testing.T) { fresh(t).run(plans...) })
			}
		}
	}
	t.Logf("%d points, %d plans, %d outages", points, plans, long)
	if points < wantPoints || plans < wantPlans || long < wantOutages {
		t.Errorf("only %d points, %d plans and %d outages, want %d, %d and %d",
			points, plans, long, wantPoints, wantPlans, wantOutages)
	}
}
