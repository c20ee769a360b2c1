package claim

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"onced/kv"
	"onced/kv/boltkv"
	"onced/kv/faultkv"
	"onced/kv/feed"
	"onced/kv/invariant"
	"onced/kv/kvtest/testclock"
	"onced/kv/memkv"
)

// The crash enumeration plays lives of a claim. Each commit and each outside
// call of a life is a point; a fault is put before, in and after every one, and,
// for pairs, a crash after every point that follows the restart. The
// client retries until it has a result. Whatever happened, the gateway's ledger
// and the result must be the same.

// What the enumeration covered when it was last looked at. Fewer is a failure:
// somebody has taken points away.
const (
	leastPoints = 159   // commits and outside calls of all lives, without a fault
	leastSingle = 1015  // runs with one fault
	leastPairs  = 10566 // runs with two
	leastOnDisk = 190   // runs with one fault on a real file
)

// life is one story of a claim, told by what the gateway answers.
type life struct {
	name     string
	gateway  []string // answers of successive charges; "ok" after the last
	honours  bool     // the gateway honours keys, and the owner repeats instead of looking up
	invalid  bool     // the first attempt fails before the call
	remote   bool     // the owner lives elsewhere and outlives the store's process
	silent   bool     // the first owner dies after its call; it is remote
	declined bool     // the true outcome
	onDisk   bool     // played on a real file too

	beats    bool // the owner beats before and after its call; it is remote
	person   bool // nobody can look up: a person decides, with an entry in the feed
	recovers bool // the recovery pass runs before every attempt
	sweeps   bool // when there is a result, its retention passes and it is swept
	tx       bool // the order of the caller changes in the same transactions
}

var lives = []life{
	{name: "charged", onDisk: true},
	{name: "declined", gateway: []string{"declined"}, declined: true},
	{name: "invalid at first", invalid: true},
	{name: "not now", gateway: []string{"not now"}},
	{name: "answer lost, looked up", gateway: []string{"lost after"}, onDisk: true},
	{name: "request lost, looked up", gateway: []string{"lost before"}},
	{name: "answer lost, repeated", gateway: []string{"lost after"}, honours: true, onDisk: true},
	{name: "request lost, repeated", gateway: []string{"lost before"}, honours: true},
	{name: "remote owner", remote: true},
	{name: "remote owner, answer lost", gateway: []string{"lost after"}, remote: true},
	{name: "remote owner, request lost", gateway: []string{"lost before"}, remote: true},
	{name: "remote owner dies after the call", remote: true, silent: true},
	{name: "remote owner dies before the call", gateway: []string{"lost before"}, remote: true, silent: true},
	{name: "remote owner beats", remote: true, beats: true},
	{name: "remote owner beats, answer lost", gateway: []string{"lost after"}, remote: true, beats: true},
	{name: "remote owner dies, recovered", remote: true, silent: true, recovers: true, onDisk: true},
	{name: "answer lost, recovered", gateway: []string{"lost after"}, recovers: true},
	{name: "answer lost, a person decides", gateway: []string{"lost after"}, person: true, onDisk: true},
	{name: "request lost, a person decides", gateway: []string{"lost before"}, person: true},
	{name: "charged, swept", sweeps: true, onDisk: true},
	{name: "declined, swept", gateway: []string{"declined"}, declined: true, sweeps: true},
	{name: "charged, with the order", tx: true},
	{name: "answer lost, with the order", gateway: []string{"lost after"}, tx: true, onDisk: true},
	{name: "remote, with the order", gateway: []string{"lost before"}, remote: true, tx: true},
}

// gateway is the outside world. It survives every crash.
type gateway struct {
	life    *life
	calls   int
	charges int
}

var (
	errDeclined = errors.New("declined")
	errNotNow   = errors.New("ask again later")
	errTimeout  = errors.New("timeout")
)

func (g *gateway) charge() error {
	if g.life.honours && g.charges > 0 {
		return nil // the answer it gave first
	}
	reply := "ok"
	if g.calls < len(g.life.gateway) {
		reply = g.life.gateway[g.calls]
	}
	g.calls++
	switch reply {
	case "declined":
		g.calls-- // it declines every time
		return errDeclined
	case "not now":
		return errNotNow
	case "lost before":
		return errTimeout
	}
	g.charges++
	if reply == "lost after" {
		return errTimeout
	}
	return nil
}

// process is the client with the store's process, which can die.
type process struct {
	t     *testing.T
	life  *life
	gw    *gateway
	clock *testclock.Clock
	open  func(kv.Clock) kv.Store
	plans [][]faultkv.Plan // of this and the following processes

	inner    kv.Store
	store    *faultkv.Store
	book     *Book
	feed     *feed.Feed
	restarts int
	first    bool // the first attempt that got the key has been made
	acts     int  // decisions of persons
	points   []faultkv.Point
}

func (p *process) start() {
	p.inner = p.open(p.clock)
	var plans []faultkv.Plan
	if len(p.plans) > 0 {
		plans, p.plans = p.plans[0], p.plans[1:]
	}
	p.store = faultkv.New(p.inner, plans...)
	p.feed = feed.New(feed.Config{})
	book, err := New(context.Background(), p.store, Config{Feed: p.feed})
	if err != nil {
		p.t.Fatal(err)
	}
	p.book = book
}

func (p *process) restart() {
	p.points = append(p.points, p.store.Points()...)
	p.stop()
	p.restarts++
	p.start()
}

func (p *process) stop() {
	if p.store.Crashed() {
		<-p.store.Down()
	}
	if err := p.inner.Close(); err != nil {
		p.t.Fatal(err)
	}
}

// ended reports that the process is of no more use.
func ended(err error) bool {
	return errors.Is(err, faultkv.ErrCrashed) || errors.Is(err, kv.ErrStopped) || errors.Is(err, kv.ErrClosed)
}

const patience = 30 // attempts of a client before the test gives up

// run lets the client retry until it has a result.
func (p *process) run() (Record, error) {
	p.start()
	for n := range patience {
		p.clock.Add(10 * time.Second)
		if p.life.recovers {
			if _, err := p.book.Recover(context.Background()); ended(err) {
				p.restart()
			}
		}
		d, err := p.attempt(fmt.Sprintf("token-%020d", n))
		if d.Kind == Replay || d.Kind == Finished {
			return d.Record, p.sweep()
		}
		if ended(err) {
			p.restart()
		}
		if p.gw.charges > 1 {
			return Record{}, errors.New("charged twice")
		}
	}
	return Record{}, errors.New("the client never got a result")
}

// attempt is one request of the client: begin, call, finish.
func (p *process) attempt(tok string) (Decision, error) {
	b := ask("A", takeOver)
	b.Token, b.TakeOver = tok, !p.life.person
	if p.life.remote {
		b.Owner = RemoteOwner(time.Minute)
	}
	d, err := p.try(func() (Decision, error) { return p.begin(b) })
	if err != nil {
		return Decision{}, err
	}
	switch d.Kind {
	case InDoubt:
		return Decision{}, p.decide()
	case Acquired:
		first := !p.first
		p.first = true
		if p.life.invalid && first {
			return p.try(func() (Decision, error) { return p.book.Release(context.Background(), b.Ref()) })
		}
		if p.life.silent && first {
			_ = p.gw.charge() // and nobody tells
			return Decision{}, nil
		}
		return p.call(b.Ref())
	case TookOver:
		return p.resolve(b.Ref())
	}
	return d, nil
}

// try repeats a primitive with the same token when its commit is in doubt. An
// owner elsewhere goes on after the process was started again.
func (p *process) try(f func() (Decision, error)) (Decision, error) {
	for {
		d, err := f()
		switch {
		case err == nil:
			return d, nil
		case ended(err) && p.life.remote:
			p.restart()
		case errors.Is(err, kv.ErrCommitUnknown) || errors.Is(err, faultkv.ErrInjected):
		default:
			return Decision{}, err
		}
	}
}

// The order of the caller, in lives with tx.
const (
	orderTable = kv.TableID("shop.order")
	orderKey   = "order-1"
)

// with runs f and, in the same transaction, sets the order to status when the
// decision is kind.
func (p *process) with(
	f func(kv.Writer) (Decision, error), kind Kind, status string,
) (d Decision, err error) {
	err = p.store.Update(context.Background(), func(w kv.Writer) error {
		got, err := f(w)
		if err == nil && got.Kind == kind {
			err = w.Put(orderTable, []byte(orderKey), []byte(status))
		}
		if err == nil {
			d = got
		}
		return err
	})
	return d, err
}

func (p *process) begin(b Request) (Decision, error) {
	if !p.life.tx {
		return p.book.Begin(context.Background(), b)
	}
	return p.with(func(w kv.Writer) (Decision, error) { return p.book.BeginTx(w, b) }, Acquired, "begun")
}

func (p *process) done(ref Ref) (Decision, error) {
	if !p.life.tx {
		return p.book.Done(context.Background(), ref, text("paid"))
	}
	return p.with(func(w kv.Writer) (Decision, error) { return p.book.DoneTx(w, ref, text("paid")) },
		Finished, "paid")
}

func (p *process) lookedUp(ref Ref, f Finding) (Decision, error) {
	if !p.life.tx {
		return p.book.LookedUp(context.Background(), ref, f)
	}
	return p.with(func(w kv.Writer) (Decision, error) { return p.book.LookedUpTx(w, ref, f) },
		Finished, "paid")
}

// order is what became of the order.
func (p *process) order() (status string, err error) {
	err = p.inner.View(context.Background(), func(rd kv.Reader) error {
		v, err := rd.Get(orderTable, []byte(orderKey))
		status = string(v)
		return err
	})
	return status, err
}

// decide is a person asking the bank and deciding, who does not give up before
// they are told that it is done.
func (p *process) decide() error {
	ctx := context.Background()
	c, ok, err := p.book.Get(ctx, theID)
	if err != nil || !ok || c.Record.State != Unknown {
		return err
	}
	v := Resolution{ID: theID, Version: c.Record.Version, Verdict: VerdictDone, Result: text("paid"),
		Actor: "ann", Reason: "asked the bank"}
	want := Finished
	if p.gw.charges == 0 {
		v.Verdict, v.Result, want = VerdictFree, Result{}, Freed
	}
	for {
		d, err := p.try(func() (Decision, error) { return p.book.Resolve(ctx, v) })
		if ended(err) {
			p.restart()
			continue
		}
		if err != nil || d.Kind != want {
			p.t.Errorf("%s: the person is told %v, %v; want %v", p.life.name, d.Kind, err, want)
		}
		p.acts++
		return err
	}
}

// sweep lets the retention of the result pass, and sweeps until it is gone.
func (p *process) sweep() error {
	if !p.life.sweeps {
		return nil
	}
	p.clock.Add(DefaultRetention)
	for range patience {
		if _, err := p.book.SweepExpired(context.Background(), 0); ended(err) {
			p.restart()
		}
		_, ok, err := p.book.Get(context.Background(), theID)
		if err != nil || !ok {
			return err
		}
	}
	return errors.New("the result was never swept")
}

// outside is a call out of the process. A remote owner is not in it, and lives on
// when it dies.
func (p *process) outside(name string, fn func() error) error {
	ran := false
	var answer error
	err := p.store.Call(name, func() error {
		ran, answer = true, fn()
		return answer
	})
	if !p.life.remote || !ended(err) {
		return err
	}
	p.restart()
	if !ran {
		answer = fn()
	}
	return answer
}

// beat extends the lease; it is a hint that the owner lives, and may fail.
func (p *process) beat(ref Ref) error {
	if !p.life.beats {
		return nil
	}
	_, err := p.try(func() (Decision, error) {
		return p.book.Heartbeat(context.Background(), ref, time.Minute)
	})
	return err
}

func (p *process) call(ref Ref) (Decision, error) {
	ctx := context.Background()
	if err := p.beat(ref); err != nil {
		return Decision{}, err
	}
	err := p.outside("charge", p.gw.charge)
	_ = p.beat(ref)
	switch {
	case err == nil:
		return p.try(func() (Decision, error) { return p.done(ref) })
	case ended(err):
		return Decision{}, err
	case errors.Is(err, errDeclined):
		return p.try(func() (Decision, error) { return p.book.Refused(ctx, ref, text("declined")) })
	case errors.Is(err, errNotNow) || errors.Is(err, faultkv.ErrInjected):
		return p.try(func() (Decision, error) { return p.book.Release(ctx, ref) })
	}
	return p.try(func() (Decision, error) { return p.book.Unknown(ctx, ref, err.Error()) })
}

// resolve finds out what became of the earlier tries, or repeats.
func (p *process) resolve(ref Ref) (Decision, error) {
	ctx := context.Background()
	if p.life.honours {
		_, err := p.try(func() (Decision, error) { return p.book.Repeat(ctx, ref, time.Hour) })
		if err != nil {
			return Decision{}, err
		}
		return p.call(ref)
	}
	f := Finding{Answer: FoundNothing, SettlesAfter: 25 * time.Second}
	err := p.outside("look up", func() error {
		if p.gw.charges > 0 {
			f = Finding{Answer: FoundDone, Result: text("paid")}
		}
		return nil
	})
	if ended(err) {
		return Decision{}, err
	}
	if err != nil {
		f = Finding{Answer: NoAnswer, Reason: err.Error()}
	}
	d, err := p.try(func() (Decision, error) { return p.lookedUp(ref, f) })
	if err != nil || d.Kind != Cleared {
		return d, err
	}
	return p.call(ref)
}

// enumerate plays a life with the plans, checks its end, and returns the points
// of each process.
func enumerate(t *testing.T, l *life, open func(kv.Clock) kv.Store, plans ...[]faultkv.Plan) []faultkv.Point {
	p := &process{t: t, life: l, gw: &gateway{life: l}, clock: testclock.At(start), open: open, plans: plans}
	rec, err := p.run()
	fail := func(format string, args ...any) {
		t.Errorf("%s, %v: %s", l.name, plans, fmt.Sprintf(format, args...))
	}
	want, wantState, wantCharges := "paid", Done, 1
	if l.declined {
		want, wantState, wantCharges = "declined", Refused, 0
	}
	if err != nil || rec.State != wantState || string(rec.Result.Data) != want {
		fail("the result is %v %q, %v", rec.State, rec.Result.Data, err)
	}
	if p.gw.charges != wantCharges {
		fail("%d charges", p.gw.charges)
	}
	points := append(p.points, p.store.Points()...)
	p.plans = nil
	p.restart() // and the truth survives one more start
	b := ask("Z")
	kind := Replay
	if l.sweeps {
		kind, want = Acquired, ""
	}
	if d, err := p.book.Begin(context.Background(), b); err != nil || d.Kind != kind ||
		string(d.Record.Result.Data) != want {
		fail("the replay is %v %q, %v", d.Kind, d.Record.Result.Data, err)
	}
	if got, err := p.order(); err != nil || l.tx && got != "paid" {
		fail("the order is %q, %v", got, err)
	}
	page, err := p.feed.Read(context.Background(), p.inner, "", 10)
	if err != nil || len(page.Events) != p.acts {
		fail("%d notifications of %d acts, %v", len(page.Events), p.acts, err)
	}
	if rep, err := invariant.Check(context.Background(), p.inner, Rules()...); err != nil || !rep.OK() {
		fail("%v %v", rep, err)
	}
	p.stop()
	return points
}

// inMemory opens one memkv disk again and again.
func inMemory() func(kv.Clock) kv.Store {
	disk := memkv.NewDisk()
	return func(c kv.Clock) kv.Store { return memkv.Open(disk, memkv.Options{Clock: c}) }
}

func TestIK07_IK08_IK09_IK10_IK11_CrashEverywhere(t *testing.T) {
	t.Parallel()
	points, single, pairs := 0, 0, 0
	for i := range lives {
		l := &lives[i]
		found := enumerate(t, l, inMemory())
		points += len(found)
		t.Logf("%s: %d points %v", l.name, len(found), found)
		for _, plan := range faultkv.Plans(found) {
			single++
			first := []faultkv.Plan{plan}
			after := enumerate(t, l, inMemory(), first)
			if t.Failed() {
				return
			}
			// A second crash, after every point of the next process. Before a point
			// is after the one before it.
			for n := 1; n <= len(after); n++ {
				pairs++
				second := []faultkv.Plan{{Point: n, When: faultkv.After, Mode: faultkv.Crash}}
				enumerate(t, l, inMemory(), first, second)
			}
			if t.Failed() {
				return
			}
		}
	}
	t.Logf("%d points, %d runs with one fault, %d with two", points, single, pairs)
	if points < leastPoints || single < leastSingle || pairs < leastPairs {
		t.Errorf("the enumeration shrank: %d points, %d and %d runs; at least %d, %d and %d are known",
			points, single, pairs, leastPoints, leastSingle, leastPairs)
	}
}

func TestIK07_IK08_CrashEverywhereOnDisk(t *testing.T) {
	t.Parallel()
	runs := 0
	for i := range lives {
		l := &lives[i]
		if !l.onDisk {
			continue // what differs is the engine, not the life
		}
		for _, plan := range faultkv.Plans(enumerate(t, l, inMemory())) {
			if plan.Mode == faultkv.Fail && plan.When == faultkv.Before {
				continue // no other process sees it
			}
			runs++
			path := filepath.Join(t.TempDir(), "store")
			enumerate(t, l, func(c kv.Clock) kv.Store {
				s, err := boltkv.Open(context.Background(), path, &boltkv.Options{Clock: c, MinFree: -1})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}, []faultkv.Plan{plan})
		}
	}
	t.Logf("%d runs", runs)
	if runs < leastOnDisk {
		t.Errorf("the enumeration shrank: %d runs; at least %d are known", runs, leastOnDisk)
	}
}
