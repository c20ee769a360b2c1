package boltkv

import (
	"path/filepath"
	"testing"

	"onced/kv"
	"onced/kv/group"
	"onced/kv/kvtest"
)

// openTest opens a new store, or fails the test.
func openTest(t testing.TB, o Options) *Store {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "s.db"), o)
}

func openAt(t testing.TB, path string, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, &o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// hookedBackend calls hook before each commit.
type hookedBackend struct {
	group.Backend
	hook func() error
}

func (b hookedBackend) Commit(changes []group.Change) (uint64, error) {
	if err := b.hook(); err != nil {
		return 0, err
	}
	return b.Backend.Commit(changes)
}

func hookWrap(hook func() error) func(group.Backend) group.Backend {
	return func(b group.Backend) group.Backend { return hookedBackend{b, hook} }
}

func open(t testing.TB) kv.Store { return openTest(t, Options{}) }

func capabilities() kvtest.Capabilities {
	return kvtest.Capabilities{
		Epochs: true,
		Reopen: func(t testing.TB, s kv.Store) kv.Store {
			old := s.(*Store)
			path := old.Path()
			if err := old.Close(); err != nil {
				t.Fatal(err)
			}
			return openAt(t, path, Options{})
		},
		Rerun: func(t testing.TB) kv.Store { return openTest(t, Options{Rerun: true}) },
		Clock: func(t testing.TB, clock kv.Clock) kv.Store { return openTest(t, Options{Clock: clock}) },
		Hook: func(t testing.TB, hook func() error) kv.Store {
			return openTest(t, Options{wrap: hookWrap(hook)})
		},
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, open, capabilities())
}

// Every closure runs twice, and groups are full all the time.
func TestXS07_ConformanceWithClosuresRunTwice(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, func(t testing.TB) kv.Store { return openTest(t, Options{Rerun: true, MaxCalls: 2}) },
		kvtest.Capabilities{})
}

func FuzzModel(f *testing.F) { kvtest.FuzzModel(f, open, capabilities()) }
