package saga

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"onced/kv"
	"onced/kv/claim"
)

const balances kv.TableID = "test.balances"

// credit adds one to a balance and returns the new one.
func credit(who string) func(kv.Writer) (int, error) {
	return func(w kv.Writer) (int, error) {
		v, err := w.Get(balances, []byte(who))
		if err != nil {
			return 0, err
		}
		return len(v) + 1, w.Put(balances, []byte(who), append(v, 'x'))
	}
}

func (r *rig) balance(who string) int {
	r.Helper()
	var n int
	err := r.store.View(r.Context(), func(rd kv.Reader) error {
		v, err := rd.Get(balances, []byte(who))
		n = len(v)
		return err
	})
	if err != nil {
		r.Fatal(err)
	}
	return n
}

func (r *rig) once(id string, fn func(kv.Writer) (int, error), opts ...OnceOption) (int, error) {
	return OnceTx(r.Context(), r.store, "credits", id, fn, opts...)
}

func TestOnceTxCommitsEffectAndIDTogether(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(r *rig) {
		got := race(100, func() string {
			n, err := r.once("d1", credit("ada"))
			return fmt.Sprint(n, err)
		})
		for _, g := range got {
			if g != "1 <nil>" {
				r.Fatalf("got %s", g)
			}
		}
		r.restart()
		r.clock.Add(100 * 365 * 24 * time.Hour)
		if n, err := r.once("d1", credit("ada")); n != 1 || err != nil {
			r.Errorf("after a hundred years: %d, %v", n, err)
		}
		if n, err := r.once("d2", credit("ada")); n != 2 || err != nil {
			r.Errorf("another id: %d, %v", n, err)
		}
		if n, err := OnceTx(r.Context(), r.store, "other", "d1", credit("ada")); n != 3 || err != nil {
			r.Errorf("another scope: %d, %v", n, err)
		}
		if n := r.balance("ada"); n != 3 {
			r.Errorf("the balance is %d", n)
		}
	})
}

func TestOnceTxStoresNothingOnAnError(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	boom := errors.New("boom")
	failing := func(w kv.Writer) (int, error) {
		if _, err := credit("ada")(w); err != nil {
			return 0, err
		}
		return 7, boom
	}
	if n, err := r.once("d1", failing); n != 0 || !errors.Is(err, boom) {
		t.Errorf("got %d, %v", n, err)
	}
	nan := func(w kv.Writer) (float64, error) {
		_, err := credit("ada")(w)
		return math.NaN(), err
	}
	if _, err := OnceTx(t.Context(), r.store, "credits", "d1", nan); err == nil {
		t.Error("a result that JSON cannot hold was stored")
	}
	bad := func(kv.Writer) (odd, error) { panic("ran") }
	if _, err := OnceTx(t.Context(), r.store, "credits", "d1", bad); !errors.Is(err, ErrConfig) {
		t.Errorf("got %v", err)
	}
	if n := r.balance("ada"); n != 0 {
		t.Errorf("the balance is %d", n)
	}
	if n, err := r.once("d1", credit("ada")); n != 1 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	for _, id := range []string{"", "a\nb"} {
		if _, err := r.once(id, credit("ada")); !errors.Is(err, claim.ErrInvalid) {
			t.Errorf("%q: %v", id, err)
		}
	}
	text := func(kv.Writer) (string, error) { panic("ran") }
	if _, err := OnceTx(t.Context(), r.store, "credits", "d1", text); !errors.Is(err, ErrNoResult) {
		t.Errorf("another type: %v", err)
	}
}

func TestOnceInJoinsTheTransactionOfTheCaller(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	boom := errors.New("boom")
	for _, end := range []error{boom, nil, nil} {
		err := r.store.Update(t.Context(), func(w kv.Writer) error {
			for _, id := range []string{"d1", "d2", "d1"} {
				if _, err := OnceIn(w, "credits", id, credit("ada")); err != nil {
					return err
				}
			}
			return end
		})
		if !errors.Is(err, end) {
			t.Fatal(err)
		}
	}
	if n := r.balance("ada"); n != 2 {
		t.Errorf("the balance is %d", n)
	}
	err := r.store.Update(t.Context(), func(kv.Writer) error {
		_, err := r.once("d3", credit("ada"))
		return err
	})
	if !errors.Is(err, kv.ErrNested) {
		t.Errorf("OnceTx in a transaction: %v", err)
	}
}

func TestOnceKeepFor(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(r *rig) {
		for i := range 300 {
			if _, err := r.once(fmt.Sprint("short", i), credit("ada"), KeepFor(time.Hour)); err != nil {
				r.Fatal(err)
			}
		}
		if _, err := r.once("long", credit("ada"), KeepFor(3*time.Hour)); err != nil {
			r.Fatal(err)
		}
		if _, err := r.once("ever", credit("ada")); err != nil {
			r.Fatal(err)
		}
		r.clock.Add(time.Hour - 1)
		if n, err := r.once("short7", credit("ada"), KeepFor(time.Hour)); n != 8 || err != nil {
			r.Errorf("before its end: %d, %v", n, err)
		}
		if n, err := SweepOnce(r.Context(), r.store, 0); n != 0 || err != nil {
			r.Errorf("swept %d, %v", n, err)
		}
		r.clock.Add(1)
		if n, err := r.once("short7", credit("ada"), KeepFor(time.Hour)); n != 303 || err != nil {
			r.Errorf("after its end: %d, %v", n, err)
		}
		for _, c := range []struct{ limit, want int }{{10, 10}, {0, 289}, {0, 0}} {
			if n, err := SweepOnce(r.Context(), r.store, c.limit); n != c.want || err != nil {
				r.Errorf("swept %d, want %d, %v", n, c.want, err)
			}
		}
		for id, want := range map[string]int{"short7": 303, "long": 301, "ever": 302} {
			if n, err := r.once(id, credit("ada")); n != want || err != nil {
				r.Errorf("%s: %d, %v", id, n, err)
			}
		}
		for _, keep := range []time.Duration{-1, 0, MaxKeepFor + 1, math.MaxInt64} {
			if _, err := r.once("bad", credit("ada"), KeepFor(keep)); !errors.Is(err, ErrConfig) {
				r.Errorf("%v: %v", keep, err)
			}
		}
	})
}

// What is to be kept for very long must not come out as what has long expired.
func TestOnceKeepForAHundredYears(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i, at := range []time.Time{start, start.AddDate(200, 0, 0)} {
		r.clock.Add(at.Sub(r.clock.Now()))
		for range 2 {
			n, err := r.once(fmt.Sprint(i), credit("ada"), KeepFor(MaxKeepFor))
			if n != i+1 || err != nil {
				t.Errorf("%v: %d, %v", at, n, err)
			}
		}
		if n, err := SweepOnce(t.Context(), r.store, 0); n != i || err != nil { // those before it
			t.Errorf("%v: swept %d, %v", at, n, err)
		}
	}
}

// Damaged rows, and places of no id, in front of good ones stop no sweep.
func TestSweepOncePassesOverDamage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 3 {
		if _, err := r.once(fmt.Sprint("d", i), credit("ada"), KeepFor(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	err := r.store.Update(t.Context(), func(w kv.Writer) error {
		for i := range 2*sweepPage + 1 {
			id := claim.ID{Scope: "credits", Key: fmt.Sprint("none-", i)}
			if err := w.Put(onceExpiryTable, onceExpiryKey(7, id), nil); err != nil {
				return err
			}
		}
		for _, key := range [][]byte{{1}, kv.Key{}.Int(6)} {
			if err := w.Put(onceExpiryTable, key, nil); err != nil {
				return err
			}
		}
		return w.Put(onceTable.ID(), onceKey(claim.ID{Scope: "credits", Key: "d1"}), []byte("x"))
	})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := SweepOnce(t.Context(), r.store, 0); n != 0 || !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("before it is due: %d, %v", n, err)
	}
	r.clock.Add(time.Hour)
	for _, want := range []int{2, 0} {
		if n, err := SweepOnce(t.Context(), r.store, 0); n != want || !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("swept %d, want %d, %v", n, want, err)
		}
	}
	left := 0
	for range kv.Pages(t.Context(), r.store, onceExpiryTable, kv.Range{}, 0) {
		left++
	}
	if left != 3 { // the two keys that cannot be read, and that of the damaged id
		t.Errorf("%d rows are left", left)
	}
	if err := r.store.Close(); err != nil { // its rules are broken on purpose
		t.Error(err)
	}
	r.store = nil
}

// The store may run a closure more than once (the rigs on memkv always do): the
// effect inside it commits once, and an effect outside is never in a closure.
func TestXS07_RerunClosuresHaveOneEffect(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	runs := 0
	n, err := r.once("d1", func(w kv.Writer) (int, error) {
		runs++
		return credit("ada")(w)
	})
	if n != 1 || err != nil || runs < 2 || r.balance("ada") != 1 {
		t.Errorf("result %d, %v after %d runs, balance %d", n, err, runs, r.balance("ada"))
	}
	r.want(r.charge())
	if r.gate.calls != 1 {
		t.Errorf("the gateway was called %d times", r.gate.calls)
	}
}

func TestRulesSeeDamage(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(kv.Writer) error{
		"lost expiry": func(w kv.Writer) error {
			return w.Delete(onceExpiryTable, onceExpiryKey(start.Add(time.Hour).UnixNano(),
				claim.ID{Scope: "credits", Key: "d1"}))
		},
		"stray expiry": func(w kv.Writer) error {
			return w.Put(onceExpiryTable, onceExpiryKey(7, claim.ID{Scope: "credits", Key: "d1"}), nil)
		},
		"bad expiry": func(w kv.Writer) error { return w.Put(onceExpiryTable, []byte("x"), nil) },
		"bad key": func(w kv.Writer) error {
			return onceTable.Put(w, kv.Key("x"), onceRow{Result: []byte("1")})
		},
		"no result": func(w kv.Writer) error {
			return onceTable.Put(w, onceKey(claim.ID{Scope: "s", Key: "k"}), onceRow{})
		},
	} {
		r := newRig(t)
		if _, err := r.once("d1", credit("ada"), KeepFor(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if err := r.store.Update(t.Context(), damage); err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, rule := range Rules() {
			for _, err := range rule.Check(t.Context(), r.store) {
				if err != nil {
					t.Error(err)
				}
				found++
			}
		}
		if found == 0 {
			t.Errorf("%s: no rule sees it", name)
		}
		if err := r.store.Close(); err != nil { // its rules are broken on purpose
			t.Error(err)
		}
		r.store = nil
	}
}
