package saga

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"onced/kv"
	"onced/kv/boltkv"
	"onced/kv/faultkv"
	"onced/kv/feed"
	"onced/kv/invariant"
	"onced/kv/memkv"
	"onced/kv/timer"
	"onced/saga/machine"
)

// callee answers at random, and honours keys: the first decisive answer stays.
type callee struct {
	mu      sync.Mutex
	r       *rand.Rand
	calm    bool // everything works at once
	answers map[string]string
	stands  map[string]bool // action keys of effects that stand
	sends   map[string]int  // by key
	undone  map[string]int  // undo keys that had their effect
}

func newCallee(seed uint64) *callee {
	return &callee{r: rand.New(rand.NewPCG(seed, 7)), answers: map[string]string{}, stands: map[string]bool{},
		sends: map[string]int{}, undone: map[string]int{}}
}

// answer decides what becomes of a call with the key; effect runs at most once per key.
func (c *callee) answer(key string, mayRefuse bool, effect func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sends[key]++
	n := 9
	if !c.calm {
		n = c.r.IntN(10)
	}
	if n < 2 && c.answers[key] == "" {
		return []error{NotDone(errNoReply), errNoReply}[n] // it does not come to an effect
	}
	if c.answers[key] == "" {
		c.answers[key] = "done"
		if n == 2 && mayRefuse {
			c.answers[key] = "refused"
		} else {
			effect()
		}
	}
	switch {
	case n == 3 || n == 4:
		return errNoReply
	case c.answers[key] == "refused":
		return Refused(errors.New("no"))
	}
	return nil
}

func (c *callee) steps(wrap func(string, func() error) error) *Definition {
	d := New("checkout")
	for _, step := range []string{"loyalty", "charge", "order", "mail"} {
		act := func(ctx context.Context, in order) (receipt, error) {
			key := DownstreamKey(ctx)
			return receipt{Order: in.ID, Key: key}, wrap(step, func() error {
				return c.answer(key, step != "mail", func() { c.stands[key] = true })
			})
		}
		undo := func(ctx context.Context, in order, out receipt) error {
			key, action := DownstreamKey(ctx), CallOf(ctx).ActionKey
			return wrap("undo "+step, func() error {
				return c.answer(key, false, func() {
					delete(c.stands, action)
					c.undone[key]++
				})
			})
		}
		look := func(_ context.Context, in order, d Doubt) (r receipt, found bool, err error) {
			err = wrap("check "+step, func() error {
				c.mu.Lock()
				defer c.mu.Unlock()
				found = c.stands[d.DownstreamKey]
				return nil
			})
			return receipt{Order: in.ID, Key: d.DownstreamKey}, found, err
		}
		opts := []Option{Backoff(time.Second, 4*time.Second), Attempts(4), SettlesAfter(10 * time.Second)}
		switch step {
		case "loyalty":
			d.Step(step, act, undo, append(opts, Check(look))...)
		case "charge":
			d.Step(step, act, undo, append(opts, Check(look), AwaitFor(time.Hour))...)
		case "order":
			d.Step(step, act, nil, append(opts, Check(look), Pivot())...)
		default:
			d.Step(step, act, nil, append(opts, Repeatable(1000*time.Hour), NothingToUndo(), Attempts(30))...)
		}
	}
	return d
}

// chaos is one random schedule.
type chaos struct {
	*till
	r     *rand.Rand
	c     *callee
	fault *faultkv.Store
}

var chaosOrders = []string{"o-1", "o-10", "o-2"}

func (x *chaos) bootWith(plans ...faultkv.Plan) {
	x.wrap = func(s kv.Store) kv.Store {
		x.fault = faultkv.New(s, plans...)
		return x.fault
	}
	x.boot()
	settle()
}

// trouble is a crash or a failure at a point to come.
func (x *chaos) trouble() faultkv.Plan {
	return faultkv.Plan{Point: 1 + x.r.IntN(40), When: faultkv.When(x.r.IntN(4)),
		Mode: faultkv.Mode(x.r.IntN(3))}
}

func (x *chaos) revive(plans ...faultkv.Plan) {
	x.Helper()
	x.cancel()
	if x.fault.Crashed() {
		<-x.fault.Down()
	}
	for range 2 {
		<-x.ended
	}
	_ = x.store.Close()
	x.bootWith(plans...)
}

func (x *chaos) dead() bool {
	probe := errors.New("probe")
	return !errors.Is(x.fault.Update(x.Context(), func(kv.Writer) error { return probe }), probe)
}

// tellCharges signals, once or more, what has become of the charges that were sent.
func (x *chaos) tellCharges() {
	for _, id := range chaosOrders {
		v, err := x.engine.Find(x.Context(), "checkout", id)
		if err != nil || len(v.State.Steps) == 0 || v.State.Steps[1].Sends == 0 {
			continue
		}
		key := actionKey("checkout", "charge", id, v.Round)
		x.c.mu.Lock()
		answer := x.c.answers[key]
		x.c.mu.Unlock()
		if answer == "" {
			continue
		}
		s := Signal{Run: v.Run, Step: "charge", Refused: answer == "refused"}
		for range 1 + x.r.IntN(3) {
			_ = x.engine.Signal(x.Context(), s)
		}
	}
}

// startAll starts every order; what is there is joined, what is undone begins anew.
func (x *chaos) startAll() {
	for _, id := range chaosOrders {
		_, _ = x.engine.Start(x.Context(), x.defs[0], id, order{ID: id})
	}
}

func (x *chaos) live() {
	x.bootWith(x.trouble())
	for range 12 {
		switch x.r.IntN(5) {
		case 0, 1:
			x.startAll()
		case 2, 3:
			x.tellCharges()
		default:
			_, _ = x.engine.OperateAll(x.Context(), Bulk{Limit: 2}, Act{Verb: []machine.Verb{machine.Retry,
				machine.Cancel}[x.r.IntN(2)], Actor: "ann", Reason: "chaos"})
		}
		settle()
		if x.dead() || x.r.IntN(8) == 0 {
			x.revive(x.trouble())
		}
		pass(time.Duration(x.r.IntN(20_000)) * time.Millisecond)
		if x.dead() {
			x.revive(x.trouble())
		}
	}
	x.c.mu.Lock()
	x.c.calm = true
	x.c.mu.Unlock()
	x.revive()
	for range 200 {
		x.tellCharges()
		settle()
		pass(time.Minute)
		if n, _ := x.engine.OperateAll(x.Context(), Bulk{}, Act{Verb: machine.Retry, Actor: "ann",
			Reason: "end"}); len(
			n.Acted)+len(n.Refused) == 0 {
			break
		}
	}
}

// judge: of every run all stands, or nothing.
func (x *chaos) judge() (ends map[machine.Status]int) {
	x.Helper()
	ends = map[machine.Status]int{}
	page, _, err := x.engine.List(x.Context(), Query{Limit: 500})
	if err != nil {
		x.Fatal(err)
	}
	want := 0
	for _, v := range page {
		ends[v.State.Status]++
		for _, step := range []string{"loyalty", "charge", "order", "mail"} {
			key := actionKey("checkout", step, v.Key, v.Round)
			stands := x.c.stands[key]
			if stands && v.State.Status == machine.Completed {
				want++
			}
			if v.Link == "" && stands != (v.State.Status == machine.Completed) && step != "mail" {
				x.Errorf("%s (round %d) is %s, and %s stands: %v", v.Key, v.Round, v.State.Status, step,
					stands)
			}
		}
		if !v.State.Status.Terminal() {
			x.Errorf("%s is %s in the end: %s", v.Key, v.State.Status, v.State.Reason)
		}
	}
	if len(x.c.stands) != want {
		x.Errorf("%d effects stand, %d of completed runs", len(x.c.stands), want)
	}
	return ends
}

func TestRandomSchedules(t *testing.T) {
	t.Parallel()
	const seeds = 2000
	ends := map[machine.Status]int{}
	for seed := range uint64(seeds) {
		synctest.Test(t, func(t *testing.T) {
			c := newCallee(seed)
			x := &chaos{r: rand.New(rand.NewPCG(seed, 9)), c: c}
			x.till = &till{T: t, outside: newOutside(), disk: memkv.NewDisk(), feed: feed.New(feed.Config{}),
				cancel: func() {}, seen: &observed{statuses: map[string]int{}, calls: map[string]int{}}}
			x.defs = []*Definition{c.steps(func(call string,
				f func() error) error {
				return x.fault.Call(call, f)
			})}
			defer func() { x.cancel() }()
			x.live()
			for status, n := range x.judge() {
				ends[status] += n
			}
			x.stop()
			x.check()
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d schedules, ends: %v", seeds, ends)
	if ends[machine.Completed] < seeds || ends[machine.Compensated] < seeds/4 {
		t.Error("the schedules do not come to enough ends")
	}
}

// TestCrashesOnDisk runs orders on a file, with crashes from a seed, one process
// after the other.
func TestCrashesOnDisk(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			crashOnDisk(t, seed)
		})
	}
}

func crashOnDisk(t *testing.T, seed uint64) {
	path := filepath.Join(t.TempDir(), "shop.db")
	c, r := newCallee(seed), rand.New(rand.NewPCG(seed, 3))
	c.calm = true
	for boot := range 12 {
		s, err := boltkv.Open(t.Context(), path, &boltkv.Options{MinFree: -1})
		if err != nil {
			t.Fatal(err)
		}
		var plans []faultkv.Plan
		if boot < 10 {
			plans = append(plans, faultkv.Plan{Point: 1 + r.IntN(15), When: faultkv.When(r.IntN(4)),
				Mode: faultkv.Crash})
		}
		st := faultkv.New(s, plans...)
		d := New("disk")
		for _, step := range []string{"a", "b", "c"} {
			act := func(ctx context.Context, in order) (receipt, error) {
				key := DownstreamKey(ctx)
				return receipt{}, st.Call(step, func() error {
					return c.answer(key, false, func() { c.stands[key] = true })
				})
			}
			undo := func(context.Context, order, receipt) error { return errors.New("never") }
			d.Step(step, act, undo, Repeatable(time.Hour), Attempts(50), Backoff(time.Millisecond,
				time.Millisecond))
		}
		serveUntilDown(t, st, d)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	last, err := boltkv.Open(t.Context(), path, &boltkv.Options{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer last.Close()
	invariant.RequireNow(t, last, slices.Concat(RunRules(), timer.Rules(time.Hour), feed.Rules())...)
	if len(c.stands) != 9 {
		t.Errorf("%d effects stand, want 9", len(c.stands))
	}
}

// serveUntilDown is one process: it starts three orders and waits until they are
// completed, or the store has crashed.
func serveUntilDown(t *testing.T, st *faultkv.Store, d *Definition) {
	timers := timer.New(st, timer.Config{})
	e, err := NewEngine(st, Config{Timers: timers, Feed: feed.New(feed.Config{})})
	if err == nil {
		err = e.Register(d)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { _ = e.Serve(ctx) })
	work.Go(func() { _ = timers.Run(ctx) })
	done := make(chan error, len(chaosOrders))
	for _, id := range chaosOrders {
		work.Go(func() {
			_, err := e.Run(ctx, d, id, order{ID: id})
			done <- err
		})
	}
	for range chaosOrders {
		select {
		case <-st.Down():
		case err := <-done:
			if err != nil && !st.Crashed() {
				t.Error(err)
			}
		}
	}
	if st.Crashed() {
		<-st.Down()
		e.stop()
	}
	cancel()
	work.Wait()
}
