package claim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"onced/kv"
	"onced/kv/invariant"
)

func numbered(i int) func(*Request) { return withID("op/shop/pay", fmt.Sprintf("order-%05d", i)) }

func TestIK21_OnlyTerminalClaimsAreSwept(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(r *rig) {
		r.want(Acquired)(r.begin(ask("A", numbered(0))))
		r.want(Acquired)(r.begin(ask("A", numbered(1))))
		r.want(StillUnknown)(r.book.Unknown(r.Context(), ask("A", numbered(1)).Ref(), ""))
		r.want(Acquired)(r.begin(ask("A", numbered(2), remote(time.Second))))
		r.want(Acquired)(r.begin(ask("A", numbered(3))))
		r.want(Finished)(r.book.Done(r.Context(), ask("A", numbered(3)).Ref(), text("paid")))
		r.want(Acquired)(r.begin(ask("A", numbered(4))))
		r.want(Finished)(r.book.Refused(r.Context(), ask("A", numbered(4)).Ref(), text("no")))

		r.clock.Add(DefaultRetention - 1)
		r.wantSwept(0)
		r.want(Replay)(r.begin(ask("B", numbered(3))))
		r.clock.Add(1)
		r.wantSwept(2)
		r.wantSwept(0)
		r.want(Acquired)(r.begin(ask("B", numbered(3)))) // a new effect, as published
		r.clock.Add(100 * DefaultRetention)
		r.restart()
		r.wantSwept(0)
		for _, i := range []int{0, 1, 2, 3} {
			r.want(InDoubt)(r.begin(ask("C", numbered(i))))
		}
	})
}

func (r *rig) wantSwept(n int) {
	r.Helper()
	if got, err := r.book.SweepExpired(r.Context(), 0); err != nil || got.Removed != n || got.More {
		r.Errorf("swept %+v, %v; want %d", got, err, n)
	}
}

func TestIK21_ExpiredKeyIsReusedBeforeTheSweep(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.want(Acquired)(r.begin(ask("A")))
	r.want(Finished)(r.done("A", "paid"))
	r.clock.Add(DefaultRetention)
	other := func(b *Request) { b.Fingerprint[0]++ }
	r.want(Acquired)(r.begin(ask("B", other)))
	r.wantSwept(0) // the rules of the rig check that no index row is left
	r.wantErr(ErrFenced)(r.done("A", "paid"))
	r.want(InFlight)(r.begin(ask("C", other)))
}

func TestIK22_SweepBesideLiveWork(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const all, per = 20_000, 500
	for at := 0; at < all; at += per {
		if at == all/2 { // the first half expires first
			r.clock.Add(time.Hour)
		}
		err := r.store.Update(r.Context(), func(w kv.Writer) error {
			for i := at; i < at+per; i++ {
				b := ask("A", numbered(i))
				if _, err := r.book.BeginTx(w, b); err != nil {
					return err
				}
				if _, err := r.book.DoneTx(w, b.Ref(), text("paid")); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	r.clock.Add(DefaultRetention - time.Hour)
	var live sync.WaitGroup
	for g := range 4 {
		live.Go(func() {
			for i := range 200 {
				b := ask("L", withID("op/live/pay", fmt.Sprint(g, "-", i)))
				r.want(Acquired)(r.begin(b))
				r.want(Finished)(r.book.Done(r.Context(), b.Ref(), text("paid")))
				r.want(Replay)(r.begin(ask("B", numbered(all/2+(i*g)%(all/2)))))
			}
		})
	}
	first, err := r.book.SweepExpired(r.Context(), 100)
	if err != nil || first != (Swept{Removed: 100, More: true}) {
		t.Errorf("with a limit: %+v, %v", first, err)
	}
	r.wantSwept(all/2 - 100)
	live.Wait()
	for i := range all {
		_, ok, err := r.book.Get(r.Context(), ask("A", numbered(i)).ID)
		if err != nil {
			t.Fatal(err)
		}
		if ok != (i >= all/2) {
			t.Fatalf("claim %d is there: %v", i, ok)
		}
	}
}

func TestSweepIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 5 {
		r.want(Acquired)(r.begin(ask("A", numbered(i))))
		r.want(Finished)(r.book.Done(r.Context(), ask("A", numbered(i)).Ref(),
			Result{Data: make([]byte, passBytes/2)}))
	}
	r.clock.Add(DefaultRetention)
	before := r.commits.Load()
	r.wantSwept(5)
	if n := r.commits.Load() - before; n != 3 {
		t.Errorf("%d batches for 5 results, two to a batch", n)
	}
}

func TestRecoverWritesDownWhatIsGone(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(r *rig) {
		const n = passRows + 50
		for i := range n {
			r.want(Acquired)(r.begin(ask("A", numbered(i))))
		}
		r.want(Acquired)(r.begin(ask("R", numbered(n), remote(time.Hour))))
		r.want(Acquired)(r.begin(ask("R", numbered(n+1), remote(time.Second))))
		r.clock.Add(time.Minute)
		r.restart()
		r.want(Acquired)(r.begin(ask("N", numbered(n+2))))
		opened := r.clock.Now()
		r.clock.Add(time.Minute)
		for i, want := range []Recovered{{Unknown: n + 1}, {}} {
			got, err := r.book.Recover(r.Context())
			// what is written down moves to a later place of the index, and may be seen twice
			if got.Open < n+3 || got.Unknown != want.Unknown || got.Anchored != 0 || err != nil {
				r.Errorf("pass %d: %+v, %v", i, got, err)
			}
		}
		r.clock.Add(time.Hour)
		c, _, err := r.book.Get(r.Context(), ask("A", numbered(7)).ID)
		if err != nil || c.Record.Cause != CauseProcessEnded || !c.Record.LastSendBefore.Equal(opened) ||
			c.Age != time.Hour+time.Minute {
			r.Errorf("claim 7 is %+v, %v", c, err)
		}
	})
}

// TestPassesEndUnderLiveWork: between any two reads of a pass new work arrives.
func TestPassesEndUnderLiveWork(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h := &hooked{Store: r.store}
	book, err := New(r.Context(), h, Config{Retention: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	var more func()
	more = func() {
		n++
		if n > 100 {
			t.Fatal("the pass does not end")
		}
		r.clock.Add(time.Second)
		r.want(Acquired)(r.begin(ask("A", numbered(2*n), remote(MinLease))))
		b := ask("A", numbered(2*n+1))
		r.want(Acquired)(r.book.Begin(r.Context(), b))
		err := r.store.Update(r.Context(), func(w kv.Writer) error {
			_, err := book.DoneTx(w, b.Ref(), text("paid"))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		r.clock.Add(time.Second)
		h.after = more
	}
	more()
	if got, err := book.Recover(r.Context()); err != nil || got.Unknown < 1 {
		t.Errorf("recover: %+v, %v", got, err)
	}
	if got, err := book.SweepExpired(r.Context(), 0); err != nil || got.Removed < 1 {
		t.Errorf("sweep: %+v, %v", got, err)
	}
	if n > 20 {
		t.Errorf("%d rounds", n)
	}
}

func TestIK23_ClockSetBackAtARestart(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(r *rig) {
		r.want(Acquired)(r.begin(ask("A", remote(10*time.Second))))
		r.want(Acquired)(r.begin(ask("A", numbered(1), remote(10*time.Second))))
		r.want(Acquired)(r.begin(ask("A", numbered(2))))
		r.want(Finished)(r.book.Done(r.Context(), ask("A", numbered(2)).Ref(), text("paid")))
		r.clock.Add(-time.Hour)
		r.restart()
		d := r.want(InFlight)(r.book.BeginWait(r.Context(), ask("B"), 0)) // shortens its lease
		if d.RetryAfter != 10*time.Second {
			r.Errorf("hint %v", d.RetryAfter)
		}
		got, err := r.book.Recover(r.Context())
		if got.Anchored != 1 || got.Unknown != 0 || err != nil {
			r.Errorf("%+v, %v", got, err)
		}
		r.clock.Add(10 * time.Second)
		r.want(InDoubt)(r.begin(ask("B")))
		r.want(InDoubt)(r.begin(ask("B", numbered(1))))
		r.clock.Add(DefaultRetention)
		r.wantSwept(0) // an hour more
		r.want(Replay)(r.begin(ask("B", numbered(2))))
		r.clock.Add(time.Hour)
		r.wantSwept(1)
	})
}

// What the package says of a clock that jumps ahead, no more and no less.
func TestIK23_ClockJumpsAhead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i, owner := range []func(*Request){remote(time.Hour), takeOver, takeOver, takeOver} {
		r.want(Acquired)(r.begin(ask("A", numbered(i), owner)))
	}
	refs := func(i int, tok string) Ref { return ask(tok, numbered(i)).Ref() }
	r.want(StillUnknown)(r.book.Unknown(r.Context(), refs(2, "A"), "timeout"))
	r.want(Finished)(r.book.Done(r.Context(), refs(3, "A"), text("paid")))

	r.clock.Add(DefaultRetention)
	r.want(InDoubt)(r.begin(ask("B", numbered(0)))) // the lease is over, the key not free
	r.want(InFlight)(r.begin(ask("B", numbered(1))))
	r.want(InDoubt)(r.begin(ask("B", numbered(2))))
	r.want(TookOver)(r.begin(ask("B", numbered(2), takeOver)))
	r.wantErr(ErrTooOld)(r.book.Repeat(r.Context(), refs(2, "B"), DefaultKeyValidFor))
	r.want(Cleared)(r.book.LookedUp(r.Context(), refs(2, "B"),
		Finding{Answer: FoundNothing, SettlesAfter: DefaultRetention}))
	r.want(Acquired)(r.begin(ask("B", numbered(3)))) // the price
	r.wantSwept(0)
	r.clock.Add(-DefaultRetention) // back to the truth
	r.want(InFlight)(r.begin(ask("C", numbered(3))))
	r.want(InFlight)(r.begin(ask("C", numbered(1))))
}

func TestListings(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(r *rig) {
		const open = 25
		for i := range open {
			r.clock.Add(time.Second)
			key := fmt.Sprintf("k%02d", open-i)
			r.want(Acquired)(r.begin(ask("A", withID(ScopeOf("shop", "pay"), key))))
		}
		for i := range 10 {
			b := ask("A", withID(ScopeOf("shopping", "pay"), fmt.Sprint(i)))
			r.want(Acquired)(r.begin(b))
			r.want(Finished)(r.book.Done(r.Context(), b.Ref(), text("paid")))
		}
		list := func(f func(context.Context, Query) (Page, error), q Query) (keys []string, pages int) {
			for {
				p, err := f(r.Context(), q)
				if err != nil {
					r.Fatal(err)
				}
				for _, c := range p.Claims {
					if c.Record.TokenSum != [32]byte{} || c.Record.Intent != nil ||
						c.Record.Result.Data != nil {
						r.Error("a listing shows a token, an intent or a result")
					}
					keys = append(keys, c.ID.Key)
				}
				if pages++; p.Next == "" {
					return keys, pages
				}
				q.Position = p.Next
			}
		}
		keys, pages := list(r.book.ListOpen, Query{Limit: 10})
		if len(keys) != open || pages != 3 || keys[0] != "k25" || keys[24] != "k01" {
			r.Errorf("open: %v on %d pages", keys, pages)
		}
		keys, _ = list(r.book.List, Query{ScopePrefix: ScopePrefix("shop"), Limit: 7})
		if len(keys) != open || keys[0] != "k01" || keys[24] != "k25" {
			r.Errorf("of shop: %v", keys)
		}
		keys, _ = list(r.book.ListOpen, Query{ScopePrefix: ScopePrefix("shopping")})
		if len(keys) != 0 {
			r.Errorf("open of shopping: %v", keys)
		}
		keys, _ = list(r.book.List, Query{Limit: MaxPage + 1})
		if len(keys) != open+10 {
			r.Errorf("all: %v", keys)
		}
		for _, bad := range []string{"%", "AA==", strings.Repeat("A", 5000)} {
			if _, err := r.book.List(r.Context(), Query{Position: bad}); !errors.Is(err, ErrInvalid) {
				r.Errorf("position %.10q: %v", bad, err)
			}
		}
		p, err := r.book.ListOpen(r.Context(), Query{Limit: 1})
		if err != nil || p.Claims[0].Age != 24*time.Second || p.Claims[0].Record.State != Pending {
			r.Errorf("oldest: %+v, %v", p.Claims, err)
		}
		r.restart()
		if p, err = r.book.ListOpen(r.Context(), Query{Limit: 1}); err != nil ||
			p.Claims[0].Record.State != Unknown {
			r.Errorf("after a restart: %+v, %v", p.Claims, err)
		}
	})
}

// damage breaks claims in ways that only a bug or a bad disk can.
func damage(r *rig, t kv.TableID, key kv.Key, value []byte) {
	r.Helper()
	err := r.store.Update(r.Context(), func(w kv.Writer) error {
		if value == nil {
			return w.Delete(t, key)
		}
		return w.Put(t, key, value)
	})
	if err != nil {
		r.Fatal(err)
	}
}

func TestDamagedRowHidesNoOther(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 4 {
		r.want(Acquired)(r.begin(ask("A", numbered(i))))
		if i >= 2 {
			r.want(Finished)(r.book.Done(r.Context(), ask("A", numbered(i)).Ref(), text("paid")))
		}
		r.clock.Add(time.Second)
	}
	for _, i := range []int{0, 2} {
		damage(r, recordTable.ID(), recordKey(ask("A", numbered(i)).ID), []byte("\x01\x02{}"))
	}
	r.restart()
	for _, f := range []func(context.Context, Query) (Page, error){r.book.ListOpen, r.book.List} {
		p, err := f(r.Context(), Query{})
		if err != nil || len(p.Claims) < 2 || !errors.Is(p.Claims[0].Err, kv.ErrCorrupt) ||
			p.Claims[1].Err != nil {
			t.Errorf("%+v, %v", p.Claims, err)
		}
	}
	if got, err := r.book.Recover(r.Context()); got.Unknown != 1 || !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("recover: %+v, %v", got, err)
	}
	r.clock.Add(2 * DefaultRetention)
	if got, err := r.book.SweepExpired(r.Context(), 0); got.Removed != 1 || !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("sweep: %+v, %v", got, err)
	}
	_, err := r.begin(ask("B", numbered(0)))
	if !errors.Is(err, kv.ErrCorrupt) || !strings.Contains(err.Error(), `"op/shop/pay", key "order-00000"`) {
		t.Errorf("a damaged claim is not named: %v", err)
	}
	r.store = nil // its rules are broken on purpose
}

// litter puts rows in front of good ones: index rows that belong to no claim, one
// in the wrong place, and two rows per table whose keys cannot be read.
func litter(r *rig, orphans int) {
	r.Helper()
	before := start.Add(-time.Hour)
	rows := map[kv.TableID][]kv.Key{
		openTable: {indexKey(start.Add(-time.Minute), ask("A", numbered(0)).ID)}, recordTable.ID(): nil,
		expiryTable: nil,
	}
	for table := range rows {
		rows[table] = append(rows[table], kv.Key{1}, append(kv.Key{}.Time(before), 'x'))
	}
	for i := range orphans {
		key := indexKey(before, ID{"s", fmt.Sprint("none-", i)})
		rows[openTable], rows[expiryTable] = append(rows[openTable], key), append(rows[expiryTable], key)
	}
	err := r.store.Update(r.Context(), func(w kv.Writer) error {
		for table, keys := range rows {
			for _, key := range keys {
				if err := w.Put(table, key, []byte{}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		r.Fatal(err)
	}
}

// Rows whose keys cannot be read, and index rows that belong to no claim, stand in
// front of good ones: they stop no pass and no listing.
func TestDamagedKeysAndOrphansStopNoPass(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const orphans = 2*passRows + 1
	for i := range 2 {
		r.want(Acquired)(r.begin(ask("A", numbered(i))))
	}
	r.want(Finished)(r.book.Done(r.Context(), ask("A", numbered(1)).Ref(), text("paid")))
	litter(r, orphans)
	r.restart()
	for name, f := range map[string]func(context.Context, Query) (Page, error){
		"open": r.book.ListOpen, "all": r.book.List,
	} {
		good, bad, q := 0, 0, Query{}
		for more := true; more; more = q.Position != "" {
			p, err := f(r.Context(), q)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, c := range p.Claims {
				if c.Err == nil {
					good++
				} else if bad++; c.ID != (ID{}) || !errors.Is(c.Err, kv.ErrCorrupt) {
					t.Errorf("%s: %+v", name, c)
				}
			}
			q.Position = p.Next
		}
		if good != 2 || bad != 2 { // the one in the wrong place is listed twice
			t.Errorf("%s: %d claims, %d damaged", name, good, bad)
		}
	}
	p, err := r.book.List(r.Context(), Query{ScopePrefix: "op/"})
	if err != nil || len(p.Claims) != 2 {
		t.Errorf("what belongs to no scope is shown to one: %+v, %v", p.Claims, err)
	}
	for i, want := range []Recovered{{Open: 1, Unknown: 1, Damaged: 2}, {Open: 1, Damaged: 2}} {
		if got, err := r.book.Recover(r.Context()); got != want || !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("recover %d: %+v, %v", i, got, err)
		}
	}
	r.clock.Add(2 * DefaultRetention)
	for _, want := range []Swept{{Removed: 1, Damaged: 2}, {Damaged: 2}} {
		if got, err := r.book.SweepExpired(r.Context(), 1); got != want || !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("sweep: %+v, %v", got, err)
		}
	}
	for table, want := range map[kv.TableID]int{openTable: 3, expiryTable: 2} {
		n := 0
		for _, err := range kv.Pages(r.Context(), r.store, table, kv.Range{}, 0) {
			if n++; err != nil {
				t.Fatal(err)
			}
		}
		if n != want {
			t.Errorf("%s has %d rows left, want %d", table, n, want)
		}
	}
	r.store = nil // its rules are broken on purpose
}

func TestSweepSaysWhetherMoreIsLeft(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 3 {
		r.want(Acquired)(r.begin(ask("A", numbered(i))))
		r.want(Finished)(r.book.Done(r.Context(), ask("A", numbered(i)).Ref(), text("paid")))
	}
	r.clock.Add(DefaultRetention)
	for _, want := range []Swept{{Removed: 2, More: true}, {Removed: 1}, {}} {
		if got, err := r.book.SweepExpired(r.Context(), 2); got != want || err != nil {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
	r.want(Acquired)(r.begin(ask("A")))
	r.want(Finished)(r.done("A", "paid"))
	r.clock.Add(DefaultRetention)
	if got, err := r.book.SweepExpired(r.Context(), 1); got != (Swept{Removed: 1}) || err != nil {
		t.Errorf("the limit was just enough: %+v, %v", got, err)
	}
}

func TestRulesFindWhatIsBroken(t *testing.T) {
	t.Parallel()
	pending, done := ask("A", numbered(0)), ask("A", numbered(1))
	later, expiry := start.Add(time.Hour), start.Add(DefaultRetention)
	for name, c := range map[string]struct {
		t     kv.TableID
		key   kv.Key
		value []byte
		rule  string
	}{
		"open row missing":     {openTable, indexKey(start, pending.ID), nil, "claim.record"},
		"expiry row missing":   {expiryTable, indexKey(expiry, done.ID), nil, "claim.record"},
		"second open row":      {openTable, indexKey(later, pending.ID), []byte{}, "claim.open"},
		"open row of a done":   {openTable, indexKey(start, done.ID), []byte{}, "claim.open"},
		"pending would expire": {expiryTable, indexKey(later, pending.ID), []byte{}, "claim.expiry"},
		"orphan":               {openTable, indexKey(later, ID{"s", "none"}), []byte{}, "claim.open"},
		"index key damaged":    {openTable, kv.Key("x"), []byte{}, "claim.open"},
		"record damaged":       {recordTable.ID(), recordKey(done.ID), []byte("\x01\x02{}"), "claim.record"},
		"record key damaged":   {recordTable.ID(), kv.Key("x"), []byte("\x01\x02{}"), "claim.record"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.want(Acquired)(r.begin(pending))
			r.want(Acquired)(r.begin(done))
			r.want(Finished)(r.book.Done(r.Context(), done.Ref(), text("paid")))
			if rep, err := invariant.Check(r.Context(), r.store, Rules()...); err != nil || !rep.OK() {
				t.Fatalf("before: %v, %v", rep, err)
			}
			damage(r, c.t, c.key, c.value)
			rep, err := invariant.Check(r.Context(), r.store, Rules()...)
			if err != nil || rep.OK() || !strings.Contains(rep.String(), c.rule) {
				t.Errorf("%v, %v", rep, err)
			}
			r.store = nil // its rules are broken on purpose
		})
	}
}

func TestRulesFindRecordsThatContradictThemselves(t *testing.T) {
	t.Parallel()
	ok := Record{State: Pending, Owner: Owner{Local: true, Epoch: 1}, Try: 1, TokenSum: [32]byte{1},
		FirstAt: start, CreatedAt: start, UpdatedAt: start, Version: 1}
	if f := ok.faults(); len(f) > 0 {
		t.Fatal(f)
	}
	for name, change := range map[string]func(*Record){
		"no token":        func(r *Record) { r.TokenSum = [32]byte{} },
		"no instant":      func(r *Record) { r.FirstAt = time.Time{} },
		"done for ever":   func(r *Record) { r.State = Done },
		"pending expires": func(r *Record) { r.ExpiresAt = start },
		"done intends":    func(r *Record) { r.State, r.ExpiresAt, r.Intent = Done, start, []byte("x") },
		"pending result":  func(r *Record) { r.Result.Type = "x" },
		"unknown since never": func(r *Record) {
			r.State, r.LastSendBefore, r.Doubt = Unknown, start, true
		},
		"unknown last send": func(r *Record) { r.State, r.UnknownSince, r.Doubt = Unknown, start, true },
		"unknown, no doubt": func(r *Record) {
			r.State, r.UnknownSince, r.LastSendBefore = Unknown, start, start
		},
		"no epoch":      func(r *Record) { r.Owner.Epoch = 0 },
		"endless lease": func(r *Record) { r.Owner = Owner{Deadline: start} },
		"no deadline":   func(r *Record) { r.Owner = RemoteOwner(time.Minute) },
	} {
		r := ok
		if change(&r); len(r.faults()) != 1 {
			t.Errorf("%s: %v", name, r.faults())
		}
	}
}
