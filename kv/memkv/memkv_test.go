package memkv_test

import (
	"context"
	"errors"
	"testing"

	"onced/kv"
	"onced/kv/memkv"
)

const table kv.TableID = "test.rows"

func put(s kv.Store, value string) error {
	return s.Update(context.Background(), func(w kv.Writer) error {
		return w.Put(table, []byte("k"), []byte(value))
	})
}

func get(t *testing.T, s kv.Store) string {
	t.Helper()
	var got string
	err := s.View(context.Background(), func(r kv.Reader) error {
		v, err := r.Get(table, []byte("k"))
		got = string(v)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return got
}

// A store whose Disk was opened again is a process that died: it reads what it
// had, changes nothing, and can be closed.
func TestADeadStoreReadsWhatItHad(t *testing.T) {
	t.Parallel()
	disk := memkv.NewDisk()
	dead := memkv.Open(disk, memkv.Options{})
	if err := put(dead, "old"); err != nil {
		t.Fatal(err)
	}
	alive := memkv.Open(disk, memkv.Options{})
	if err := put(alive, "new"); err != nil {
		t.Fatal(err)
	}
	if got := get(t, dead); got != "old" {
		t.Errorf("the dead store reads %q", got)
	}
	if err := put(dead, "from the grave"); !errors.Is(err, kv.ErrCommitUnknown) {
		t.Errorf("its commit answered %v", err)
	}
	if err := dead.Close(); err != nil {
		t.Error(err)
	}
	if got := get(t, alive); got != "new" {
		t.Errorf("the store reads %q", got)
	}
	if alive.Epoch() <= dead.Epoch() {
		t.Errorf("epoch %d after %d", alive.Epoch(), dead.Epoch())
	}
	if err := alive.Close(); err != nil {
		t.Error(err)
	}
}
