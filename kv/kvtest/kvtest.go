// Package kvtest is the conformance suite of [kv.Store]: one list of tests that
// every engine passes, and a random test against a simple model. An engine's
// own test calls it:
//
//	func TestConformance(t *testing.T) {
//		kvtest.Run(t, open, kvtest.Capabilities{Reopen: reopen})
//	}
//	func FuzzModel(f *testing.F) { kvtest.FuzzModel(f, open, kvtest.Capabilities{Reopen: reopen}) }
//
// # What is guaranteed
//
// A store that passes keeps the promises written at [kv.Store], [kv.Reader] and
// [kv.Writer] as far as one process can see them: isolation, order of scans,
// limits, errors, panics, contexts, ownership of bytes, and that nothing is
// answered before the commit it rests on.
//
// # What is not
//
// Durability against power cuts and killed processes, and the figures of speed:
// these belong to the engine's own tests.
//
// # What survives a crash
//
// Nothing; every test opens its own store.
//
// # What the caller must do
//
// Give an open function that returns a new, empty store each time, and declare
// what else the engine can do: a test that needs more is left out only for want
// of a declared capability.
package kvtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"onced/kv"
)

// Capabilities are what an engine offers beyond [kv.Store]. Each nil one leaves
// its tests out.
type Capabilities struct {
	// Reopen closes s and opens a store over the same data, as a restart does.
	Reopen func(t testing.TB, s kv.Store) kv.Store
	// Epochs says that the epoch is not 0 and rises when a store is reopened.
	Epochs bool
	// Rerun opens a store that runs every closure of Update twice.
	Rerun func(t testing.TB) kv.Store
	// Clock opens a store that takes its time from clock.
	Clock func(t testing.TB, clock kv.Clock) kv.Store
	// Hook opens a store that commits in groups as kv/group does: closures of
	// the next group run while a commit is under way. It calls hook just before
	// each commit that changes something; an error of hook makes that commit
	// fail and leave nothing.
	Hook func(t testing.TB, hook func() error) kv.Store
}

// suite is the engine under test.
type suite struct {
	open func(t testing.TB) kv.Store
	caps Capabilities
}

type namedTest struct {
	name string
	run  func(t *testing.T, s *suite)
}

// Run runs every test of the suite as a subtest, each on a new store of open.
// The suite closes the stores.
func Run(t *testing.T, open func(t testing.TB) kv.Store, caps Capabilities) {
	t.Helper()
	s := &suite{open: open, caps: caps}
	var all []namedTest
	all = append(all, rowTests...)
	all = append(all, scanTests...)
	all = append(all, limitTests...)
	all = append(all, isolationTests...)
	all = append(all, failureTests...)
	all = append(all, contextTests...)
	all = append(all, lifeTests...)
	all = append(all, modelTests...)
	if caps.Reopen != nil {
		all = append(all, reopenTests...)
	}
	if caps.Rerun != nil {
		all = append(all, rerunTests...)
	}
	if caps.Clock != nil {
		all = append(all, clockTests...)
	}
	if caps.Hook != nil {
		all = append(all, hookTests...)
	}
	for _, test := range all {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, s)
		})
	}
}

// store opens a store and closes it at the end of the test.
func (s *suite) store(t testing.TB) kv.Store {
	t.Helper()
	return closing(t, s.open(t))
}

func closing(t testing.TB, st kv.Store) kv.Store {
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return st
}

// table is the table of tests that need one only.
const table kv.TableID = "kvtest.rows"

func update(t testing.TB, st kv.Store, fn func(kv.Writer) error) {
	t.Helper()
	if err := st.Update(context.Background(), fn); err != nil {
		t.Fatalf("Update: %v", err)
	}
}

func view(t testing.TB, st kv.Store, fn func(kv.Reader) error) {
	t.Helper()
	if err := st.View(context.Background(), fn); err != nil {
		t.Fatalf("View: %v", err)
	}
}

// put writes pairs of key and value in one transaction.
func put(t testing.TB, st kv.Store, pairs ...string) {
	t.Helper()
	update(t, st, func(w kv.Writer) error { return putAll(w, pairs...) })
}

func putAll(w kv.Writer, pairs ...string) error {
	for i := 0; i+1 < len(pairs); i += 2 {
		if err := w.Put(table, []byte(pairs[i]), []byte(pairs[i+1])); err != nil {
			return err
		}
	}
	return nil
}

func deleteAll(w kv.Writer, keys ...string) error {
	for _, k := range keys {
		if err := w.Delete(table, []byte(k)); err != nil {
			return err
		}
	}
	return nil
}

// get reads a row in a View of its own.
func get(t testing.TB, st kv.Store, key string) []byte {
	t.Helper()
	var got []byte
	view(t, st, func(r kv.Reader) error {
		v, err := r.Get(table, []byte(key))
		got = v
		return err
	})
	return got
}

// wantRow fails unless the row is want; an absent row is "-".
func wantRow(t testing.TB, st kv.Store, key, want string) {
	t.Helper()
	if got := show(get(t, st, key)); got != want {
		t.Errorf("row %q is %s, want %s", key, got, want)
	}
}

func show(value []byte) string {
	if value == nil {
		return "-"
	}
	return string(value)
}

// scan returns the rows of a range as "k=v k=v".
func scan(r kv.Reader, rg kv.Range) (string, error) {
	var b strings.Builder
	for e, err := range r.Scan(table, rg) {
		if err != nil {
			return b.String(), err
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%s", e.Key, e.Value)
	}
	return b.String(), nil
}

// wantAll fails unless the test's table holds exactly these rows.
func wantAll(t testing.TB, st kv.Store, want string) {
	t.Helper()
	view(t, st, func(r kv.Reader) error {
		got, err := scan(r, kv.Range{})
		if got != want {
			t.Errorf("the table holds %q, want %q", got, want)
		}
		return err
	})
}

// wantLimit fails unless err is a LimitError that prints every one of texts.
func wantLimit(t testing.TB, err error, texts ...string) {
	t.Helper()
	if _, ok := errors.AsType[*kv.LimitError](err); !ok {
		t.Errorf("error %v, want a LimitError", err)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error %q does not say %q", err, text)
		}
	}
}

func wantIs(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// fill returns n bytes that differ from place to place.
func fill(n int) []byte {
	return bytes.Repeat([]byte("0123456789abcdef_"), n/17+1)[:n]
}
