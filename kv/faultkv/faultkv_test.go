package faultkv_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"onced/kv"
	"onced/kv/faultkv"
	"onced/kv/kvtest"
	"onced/kv/memkv"
)

const table kv.TableID = "t"

var ctx = context.Background()

func put(st kv.Store, key string) error {
	return st.Update(ctx, func(w kv.Writer) error { return w.Put(table, []byte(key), []byte("v")) })
}

func has(t *testing.T, st kv.Store, key string) bool {
	t.Helper()
	var found bool
	err := st.View(ctx, func(r kv.Reader) error {
		v, err := r.Get(table, []byte(key))
		found = v != nil
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func newInner(t *testing.T, opt memkv.Options) kv.Store {
	s := memkv.New(opt)
	t.Cleanup(func() { s.Close() })
	return s
}

// Without a plan the wrapper is an engine like any other.
func TestConformance(t *testing.T) {
	t.Parallel()
	open := func(testing.TB) kv.Store { return faultkv.New(memkv.New(memkv.Options{})) }
	kvtest.Run(t, open, kvtest.Capabilities{
		Epochs: true,
		Rerun:  func(testing.TB) kv.Store { return faultkv.New(memkv.New(memkv.Options{Rerun: true})) },
		Clock: func(_ testing.TB, clock kv.Clock) kv.Store {
			return faultkv.New(memkv.New(memkv.Options{Clock: clock}))
		},
	})
}

func plan(when faultkv.When, mode faultkv.Mode) faultkv.Plan {
	return faultkv.Plan{When: when, Mode: mode}
}

// What happens at a commit for every plan, and afterwards.
func TestCommitPlans(t *testing.T) {
	t.Parallel()
	cases := []struct {
		plan  faultkv.Plan
		err   error // what the caller is told
		kept  bool  // whether the row is there
		after error // of the next Update
	}{
		{plan(faultkv.Before, faultkv.Fail), faultkv.ErrInjected, false, nil},
		{plan(faultkv.Before, faultkv.Stop), faultkv.ErrInjected, false, kv.ErrStopped},
		{plan(faultkv.Before, faultkv.Crash), faultkv.ErrCrashed, false, faultkv.ErrCrashed},
		{plan(faultkv.Lost, faultkv.Fail), kv.ErrCommitUnknown, false, nil},
		{plan(faultkv.Lost, faultkv.Stop), kv.ErrCommitUnknown, false, kv.ErrStopped},
		{plan(faultkv.Lost, faultkv.Crash), faultkv.ErrCrashed, false, faultkv.ErrCrashed},
		{plan(faultkv.Kept, faultkv.Fail), kv.ErrCommitUnknown, true, nil},
		{plan(faultkv.Kept, faultkv.Stop), kv.ErrCommitUnknown, true, kv.ErrStopped},
		{plan(faultkv.Kept, faultkv.Crash), faultkv.ErrCrashed, true, faultkv.ErrCrashed},
		{plan(faultkv.After, faultkv.Fail), faultkv.ErrCrashed, true, faultkv.ErrCrashed},
		{plan(faultkv.After, faultkv.Crash), faultkv.ErrCrashed, true, faultkv.ErrCrashed},
	}
	for _, c := range cases {
		for _, rerun := range []bool{false, true} {
			c.plan.Point = 2
			name := fmt.Sprintf("%v rerun %v", c.plan, rerun)
			inner := newInner(t, memkv.Options{Rerun: rerun})
			f := faultkv.New(inner, c.plan)
			if err := put(f, "first"); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			hooks := 0
			err := f.Update(ctx, func(w kv.Writer) error {
				w.OnCommit(func() { hooks++ })
				return w.Put(table, []byte("second"), nil)
			})
			if !errors.Is(err, c.err) {
				t.Errorf("%s: error %v, want %v", name, err, c.err)
			}
			if hooks > 0 {
				t.Errorf("%s: a hook ran", name)
			}
			if err := put(f, "third"); !errors.Is(err, c.after) {
				t.Errorf("%s: the next Update answers %v, want %v", name, err, c.after)
			}
			crashes := c.err == faultkv.ErrCrashed //nolint:errorlint // which of the table
			viewErr := f.View(ctx, func(kv.Reader) error { return nil })
			refused := errors.Is(viewErr, faultkv.ErrCrashed)
			if refused != crashes || f.Crashed() != crashes || !crashes && viewErr != nil {
				t.Errorf("%s: a View answers %v, crashed %v", name, viewErr, f.Crashed())
			}
			if got := has(t, inner, "second"); got != c.kept {
				t.Errorf("%s: the row is there: %v, want %v", name, got, c.kept)
			}
			if !has(t, inner, "first") || has(t, inner, "third") != (c.after == nil) {
				t.Errorf("%s: other commits are not as they were answered", name)
			}
		}
	}
}

func TestCallPlans(t *testing.T) {
	t.Parallel()
	own := errors.New("the call's own error")
	cases := []struct {
		plan faultkv.Plan
		err  error
		runs int
	}{
		{plan(faultkv.Before, faultkv.Fail), faultkv.ErrInjected, 0},
		{plan(faultkv.Before, faultkv.Stop), faultkv.ErrInjected, 0},
		{plan(faultkv.Before, faultkv.Crash), faultkv.ErrCrashed, 0},
		{plan(faultkv.Lost, faultkv.Fail), faultkv.ErrNoAnswer, 0},
		{plan(faultkv.Lost, faultkv.Crash), faultkv.ErrCrashed, 0},
		{plan(faultkv.Kept, faultkv.Fail), faultkv.ErrNoAnswer, 1},
		{plan(faultkv.Kept, faultkv.Crash), faultkv.ErrCrashed, 1},
		{plan(faultkv.After, faultkv.Crash), faultkv.ErrCrashed, 1},
		{faultkv.Plan{Point: 99}, own, 1},
	}
	for _, c := range cases {
		if c.plan.Point == 0 {
			c.plan.Point = 2
		}
		f := faultkv.New(newInner(t, memkv.Options{}), c.plan)
		if err := put(f, "intent"); err != nil {
			t.Fatal(err)
		}
		runs := 0
		if err := f.Call("charge", func() error { runs++; return own }); !errors.Is(err, c.err) {
			t.Errorf("%v: error %v, want %v", c.plan, err, c.err)
		} else if c.plan.Point == 2 && errors.Is(err, own) {
			t.Errorf("%v: the answer of the call leaked: %v", c.plan, err)
		}
		if runs != c.runs {
			t.Errorf("%v: the call ran %d times, want %d", c.plan, runs, c.runs)
		}
		crashed := errors.Is(c.err, faultkv.ErrCrashed)
		if err := put(f, "outcome"); errors.Is(err, faultkv.ErrCrashed) != crashed || !crashed && err != nil {
			t.Errorf("%v: the next Update answers %v", c.plan, err)
		}
		err := f.Call("again", func() error { runs++; return nil })
		if crashed && (runs != c.runs || err == nil) {
			t.Errorf("%v: a call after the crash was made (%v)", c.plan, err)
		}
		if err := f.Mark("mark"); errors.Is(err, faultkv.ErrCrashed) != crashed {
			t.Errorf("%v: a mark answers %v", c.plan, err)
		}
	}
}

func TestPointsAreNumberedAndNamed(t *testing.T) {
	t.Parallel()
	for _, rerun := range []bool{false, true} {
		f := faultkv.New(newInner(t, memkv.Options{Rerun: rerun}))
		steps := []error{
			put(f, "a"),
			f.Update(ctx, func(w kv.Writer) error {
				return errors.Join(w.Put("zoo", []byte("k"), nil), w.Delete("alpha", []byte("k")),
					w.Put("zoo", []byte("l"), nil))
			}),
			f.View(ctx, func(kv.Reader) error { return nil }),
			f.Call("gateway.charge", func() error { return nil }),
			f.Update(ctx, func(kv.Writer) error { return nil }),
			f.Mark("between"),
		}
		for i, err := range steps {
			if err != nil {
				t.Errorf("step %d: %v", i, err)
			}
		}
		failed := errors.New("failed")
		err := f.Update(ctx, func(kv.Writer) error { return failed })
		if err != failed { //nolint:errorlint // the very error
			t.Errorf("error %v, want the closure's own", err)
		}
		var names []string
		for _, p := range f.Points() {
			names = append(names, p.String())
		}
		want := []string{"001 commit t", "002 commit alpha+zoo", "003 call gateway.charge",
			"004 commit nothing written", "005 call between"}
		if !slices.Equal(names, want) || f.Count() != len(want) {
			t.Errorf("points %q, want %q", names, want)
		}
		if n := len(faultkv.Plans(f.Points())); n != 3*7+2*5 {
			t.Errorf("%d plans, want seven for each commit and five for each call", n)
		}
		seen := map[string]bool{}
		for _, p := range faultkv.Plans(f.Points()) {
			if seen[p.String()] {
				t.Errorf("plan %v twice", p)
			}
			seen[p.String()] = true
		}
	}
}

func TestArmHitsTheNextPoint(t *testing.T) {
	t.Parallel()
	f := faultkv.New(newInner(t, memkv.Options{}))
	if err := put(f, "a"); err != nil {
		t.Fatal(err)
	}
	f.Arm(faultkv.Plan{When: faultkv.Before})
	if err := put(f, "b"); !errors.Is(err, faultkv.ErrInjected) {
		t.Errorf("the armed point answers %v", err)
	}
	if err := put(f, "c"); err != nil {
		t.Errorf("the point after it answers %v", err)
	}
	if has(t, f, "b") || !has(t, f, "c") {
		t.Error("the rows are not as they were answered")
	}
}

// The inner store is left alone, so that a test can go on with it.
func TestACrashLeavesTheInnerStoreOpen(t *testing.T) {
	t.Parallel()
	inner := newInner(t, memkv.Options{})
	f := faultkv.New(inner)
	f.Crash()
	<-f.Down()
	if err := f.Close(); !errors.Is(err, faultkv.ErrCrashed) {
		t.Errorf("Close answers %v", err)
	}
	if err := put(inner, "a"); err != nil {
		t.Errorf("the inner store: %v", err)
	}
	if f.Epoch() != inner.Epoch() {
		t.Error("the epoch is not the inner store's")
	}
	g := faultkv.New(inner)
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if err := put(inner, "b"); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("Close without a crash does not close the inner store: %v", err)
	}
}

func TestDownWaitsForWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	f := faultkv.New(newInner(t, memkv.Options{}))
	reading, release, out := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		out <- f.View(ctx, func(kv.Reader) error {
			close(reading)
			<-release
			return nil
		})
	}()
	<-reading
	f.Crash()
	select {
	case <-f.Down():
		t.Error("down while a View is open")
	default:
	}
	if err := put(f, "a"); !errors.Is(err, faultkv.ErrCrashed) {
		t.Errorf("an Update meanwhile answers %v", err)
	}
	close(release)
	if err := <-out; !errors.Is(err, faultkv.ErrCrashed) {
		t.Errorf("the View that was open answers %v", err)
	}
	<-f.Down()
}

func TestAdmitIntentIsPassedOn(t *testing.T) {
	t.Parallel()
	f := faultkv.New(newInner(t, memkv.Options{Admit: func() error { return kv.ErrNoSpace }}))
	err := f.Update(ctx, kv.AdmitIntent)
	if !errors.Is(err, kv.ErrNoSpace) {
		t.Errorf("AdmitIntent answers %v", err)
	}
}

// Many callers count up; a crash at commit n leaves exactly the commits before
// it, and n itself as planned, and nobody was told yes for one that is gone.
func TestCrashAmongManyCallers(t *testing.T) {
	t.Parallel()
	const callers, each = 16, 20
	for _, when := range []faultkv.When{faultkv.Before, faultkv.Lost, faultkv.Kept, faultkv.After} {
		for point := 1; point <= callers*each; point += 53 {
			inner := newInner(t, memkv.Options{Rerun: point%2 == 0})
			f := faultkv.New(inner, faultkv.Plan{Point: point, When: when, Mode: faultkv.Crash})
			var told atomic.Int64
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() {
					for j := range each {
						err := put(f, fmt.Sprintf("%02d-%02d", i, j))
						if err == nil {
							told.Add(1)
						} else if !errors.Is(err, faultkv.ErrCrashed) {
							t.Error(err)
						}
					}
				})
			}
			<-f.Down()
			rows := countRows(t, inner)
			wg.Wait()
			want := point - 1
			if when == faultkv.Kept || when == faultkv.After {
				want = point
			}
			if rows != want || countRows(t, inner) != want || f.Count() != point {
				t.Errorf("%v at %d: %d rows, want %d; %d points", when, point, rows, want, f.Count())
			}
			if told.Load() > int64(point-1) {
				t.Errorf("%v at %d: %d callers were told yes", when, point, told.Load())
			}
		}
	}
}

func countRows(t *testing.T, st kv.Store) int {
	t.Helper()
	n := 0
	for _, err := range kv.Pages(ctx, st, table, kv.Range{}, 0) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// pay is the smallest program with an outside effect: intent, call, outcome. It
// is told by the gateway when a key was used before.
func pay(f *faultkv.Store, gateway map[string]int, honest bool) error {
	state := ""
	err := f.Update(ctx, func(w kv.Writer) error {
		v, err := w.Get(table, []byte("order"))
		if err != nil {
			return err
		}
		if v == nil {
			err = w.Put(table, []byte("order"), []byte("intent"))
		}
		state = string(v)
		return err
	})
	if err != nil || state == "done" {
		return err
	}
	call := func() error {
		if state == "" || !honest {
			gateway["order"]++
			return nil
		}
		gateway["order"] = max(1, gateway["order"]) // the same key again: the gateway knows it
		return nil
	}
	if err := f.Call("gateway.charge", call); err != nil {
		return err
	}
	return f.Update(ctx, func(w kv.Writer) error { return w.Put(table, []byte("order"), []byte("done")) })
}

// broken runs the program under every plan, restarts it until it is done, and
// returns the plans after which the customer was not charged exactly once.
func broken(t *testing.T, honest bool) (points int, bad []string) {
	t.Helper()
	rec := faultkv.New(newInner(t, memkv.Options{}))
	if err := pay(rec, map[string]int{}, honest); err != nil {
		t.Fatal(err)
	}
	for _, plan := range faultkv.Plans(rec.Points()) {
		disk, gateway := memkv.NewDisk(), map[string]int{}
		f := faultkv.New(memkv.Open(disk, memkv.Options{}), plan)
		tries := 0
		for err := pay(f, gateway, honest); err != nil; err = pay(f, gateway, honest) {
			if tries++; tries > 5 {
				t.Fatalf("%v: still %v", plan, err)
			}
			if f.Crashed() {
				<-f.Down()
			}
			if f.Crashed() || errors.Is(err, kv.ErrStopped) {
				f = faultkv.New(memkv.Open(disk, memkv.Options{}))
			}
		}
		if gateway["order"] != 1 {
			bad = append(bad, plan.String())
		}
	}
	return rec.Count(), bad
}

func TestEnumerationOfASmallProgram(t *testing.T) {
	t.Parallel()
	points, bad := broken(t, true)
	t.Logf("%d points", points)
	if points < 3 || len(bad) > 0 {
		t.Errorf("%d points, want at least 3; not charged once after %q", points, bad)
	}
	// And it finds the fault of a program that sends a new key each time.
	_, bad = broken(t, false)
	want := []string{"002-kept-fail", "002-after-crash", "003-before-fail", "003-before-crash",
		"003-lost-fail", "003-lost-stop"}
	slices.Sort(bad)
	slices.Sort(want)
	if !slices.Equal(bad, want) {
		t.Errorf("a program that repeats its effect fails at %s, want %s",
			strings.Join(bad, " "), strings.Join(want, " "))
	}
}

func TestPlanNamesAreReadable(t *testing.T) {
	t.Parallel()
	p := faultkv.Plan{Point: 7, When: faultkv.Kept, Mode: faultkv.Stop}
	got := fmt.Sprint(p, faultkv.When(9), faultkv.Mode(-1))
	if got != "007-kept-stop (9) (-1)" {
		t.Errorf("names are %q", got)
	}
}
