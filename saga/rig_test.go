package saga

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"onced/kv"
	"onced/kv/boltkv"
	"onced/kv/claim"
	"onced/kv/feed"
	"onced/kv/invariant"
	"onced/kv/kvtest/testclock"
	"onced/kv/memkv"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

type order struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant,omitempty"`
	Cents  int    `json:"cents"`
}

type receipt struct {
	Order string `json:"order"`
	Key   string `json:"key"`
	No    int    `json:"no"`
}

var errTimeout = errors.New("no answer from the gateway")

// gateway charges, and keeps its own ledger.
type gateway struct {
	honoursKeys bool
	before      func(ctx context.Context, o order) error // an error: no charge
	after       func(ctx context.Context, o order) error // an error: charged, no answer

	mu     sync.Mutex
	calls  int
	looks  int
	ledger []receipt
}

func (g *gateway) pay(ctx context.Context, o order) (receipt, error) {
	g.mu.Lock()
	g.calls++
	g.mu.Unlock()
	if g.before != nil {
		if err := g.before(ctx, o); err != nil {
			return receipt{}, err
		}
	}
	r := g.charge(o, DownstreamKey(ctx))
	if g.after != nil {
		if err := g.after(ctx, o); err != nil {
			return receipt{}, err
		}
	}
	return r, nil
}

func (g *gateway) charge(o order, key string) receipt {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r, ok := g.find(key); ok && g.honoursKeys {
		return r
	}
	r := receipt{Order: o.ID, Key: key, No: len(g.ledger) + 1}
	g.ledger = append(g.ledger, r)
	return r
}

func (g *gateway) find(key string) (receipt, bool) {
	for _, r := range g.ledger {
		if r.Key == key {
			return r, true
		}
	}
	return receipt{}, false
}

func (g *gateway) lookUp(_ context.Context, _ order, d Doubt) (receipt, bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.looks++
	r, ok := g.find(d.DownstreamKey)
	return r, ok, nil
}

// charges fails unless there are exactly want.
func (g *gateway) charges(t *testing.T, want int) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.ledger) != want {
		t.Fatalf("the gateway has %d charges, want %d: %+v", len(g.ledger), want, g.ledger)
	}
}

func (g *gateway) set(before, after func(context.Context, order) error) {
	g.before, g.after = before, after
}

func fail(err error) func(context.Context, order) error {
	return func(context.Context, order) error { return err }
}

// rig is a store that can be restarted, with a Book on it and a gateway.
type rig struct {
	*testing.T
	clock *testclock.Clock
	open  func() kv.Store
	wrap  func(kv.Store) kv.Store
	store kv.Store
	book  *claim.Book
	feed  *feed.Feed
	gate  *gateway
	cfg   claim.Config
}

func bareRig(t *testing.T) *rig {
	r := &rig{T: t, clock: testclock.At(start), feed: feed.New(feed.Config{}), gate: &gateway{}}
	r.cfg.Feed = r.feed
	t.Cleanup(func() {
		if r.store == nil {
			return
		}
		invariant.RequireNow(t, r.store, append(claim.Rules(), Rules()...)...)
		if err := r.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// newRig is a rig on memkv, every closure run twice.
func newRig(t *testing.T) *rig {
	t.Helper()
	r := bareRig(t)
	disk := memkv.NewDisk()
	r.open = func() kv.Store { return memkv.Open(disk, memkv.Options{Clock: r.clock, Rerun: true}) }
	r.start()
	return r
}

// eachEngine runs test on every engine.
func eachEngine(t *testing.T, test func(*rig)) {
	t.Run("memkv", func(t *testing.T) {
		t.Parallel()
		test(newRig(t))
	})
	t.Run("boltkv", func(t *testing.T) {
		t.Parallel()
		r := bareRig(t)
		path := filepath.Join(t.TempDir(), "shop.db")
		r.open = func() kv.Store {
			s, err := boltkv.Open(context.Background(), path, &boltkv.Options{Clock: r.clock, MinFree: -1})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		r.start()
		test(r)
	})
}

func (r *rig) start() {
	r.Helper()
	r.store = r.open()
	s := r.store
	if r.wrap != nil {
		s = r.wrap(s)
	}
	b, err := claim.New(r.Context(), s, r.cfg)
	if err != nil {
		r.Fatal(err)
	}
	r.book = b
}

// restart is the end of the process and the start of the next.
func (r *rig) restart() {
	r.Helper()
	if err := r.store.Close(); err != nil {
		r.Fatal(err)
	}
	r.start()
}

func orderID(o order) string { return o.ID }

// charge is the operation "charge" of the present process.
func (r *rig) charge(opts ...Option) *Operation[order, receipt] {
	r.Helper()
	return r.operation("charge", opts...)
}

func (r *rig) operation(name string, opts ...Option) *Operation[order, receipt] {
	r.Helper()
	o, err := NewOperation(r.book, name, r.gate.pay, append([]Option{Key(orderID), Wait(0)}, opts...)...)
	if err != nil {
		r.Fatal(err)
	}
	return o
}

var theOrder = order{ID: "order-1", Cents: 4200}

// want fails unless the call succeeds; it returns the result.
func (r *rig) want(o *Operation[order, receipt]) Result[receipt] {
	r.Helper()
	res, err := o.Do(r.Context(), theOrder)
	if err != nil {
		r.Fatal(err)
	}
	if res.Value.Order != theOrder.ID || res.Value.Key != res.DownstreamKey {
		r.Fatalf("the result is %+v", res)
	}
	return res
}

// wantErr fails unless the call ends with class.
func (r *rig) wantErr(o *Operation[order, receipt], class error) error {
	r.Helper()
	res, err := o.Do(r.Context(), theOrder)
	if !errors.Is(err, class) {
		r.Fatalf("want %v, got %+v, %v", class, res, err)
	}
	for _, other := range []error{ErrRefused, ErrNotDone, ErrInFlight, ErrMismatch, ErrUnknown, ErrNoResult} {
		if !errors.Is(other, class) && errors.Is(err, other) {
			r.Fatalf("%v is also %v", err, other)
		}
	}
	return err
}

// wantUnknown fails unless the call ends with UnknownError.
func (r *rig) wantUnknown(o *Operation[order, receipt]) *UnknownError {
	r.Helper()
	var e *UnknownError
	if !errors.As(r.wantErr(o, ErrUnknown), &e) {
		r.Fatal("no UnknownError")
	}
	return e
}

// state is the state of the claim of the order.
func (r *rig) state(o *Operation[order, receipt]) claim.State {
	r.Helper()
	c, _, err := r.book.Get(r.Context(), o.ID(theOrder))
	if err != nil {
		r.Fatal(err)
	}
	return c.Record.State
}

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
