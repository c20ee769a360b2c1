package memkv_test

import (
	"testing"

	"onced/kv"
	"onced/kv/kvtest"
	"onced/kv/memkv"
)

// store remembers its disk, for a restart.
type store struct {
	*memkv.Store
	disk *memkv.Disk
}

func open(opt memkv.Options) *store {
	d := memkv.NewDisk()
	return &store{memkv.Open(d, opt), d}
}

func capabilities() kvtest.Capabilities {
	return kvtest.Capabilities{
		Epochs: true,
		Reopen: func(t testing.TB, s kv.Store) kv.Store {
			old := s.(*store)
			if err := old.Close(); err != nil {
				t.Fatal(err)
			}
			return &store{memkv.Open(old.disk, memkv.Options{}), old.disk}
		},
		Rerun: func(testing.TB) kv.Store { return open(memkv.Options{Rerun: true}) },
		Clock: func(_ testing.TB, clock kv.Clock) kv.Store { return open(memkv.Options{Clock: clock}) },
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, func(testing.TB) kv.Store { return open(memkv.Options{}) }, capabilities())
}

// Every closure runs twice, and groups are full all the time.
func TestXS07_ConformanceWithClosuresRunTwice(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, func(testing.TB) kv.Store { return open(memkv.Options{Rerun: true, MaxCalls: 2}) },
		kvtest.Capabilities{})
}

func FuzzModel(f *testing.F) {
	kvtest.FuzzModel(f, func(testing.TB) kv.Store { return open(memkv.Options{}) }, capabilities())
}
