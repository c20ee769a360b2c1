package group

import (
	"testing"
	"testing/synctest"

	"onced/kv"
)

// noDisk is an engine without rows that takes every commit.
type noDisk struct {
	version uint64
	during  func() // called in each commit
}

func (d *noDisk) Snapshot() (Snapshot, error) { return noRows{d.version}, nil }
func (d *noDisk) Close() error                { return nil }

func (d *noDisk) Commit([]Change) (uint64, error) {
	d.during()
	d.version++
	return d.version, nil
}

type noRows struct{ version uint64 }

func (r noRows) Version() uint64                  { return r.version }
func (noRows) Get(kv.TableID, []byte) []byte      { return nil }
func (noRows) Cursor(kv.TableID, kv.Range) Cursor { return nil }
func (noRows) Close()                             {}

// Who seals a group in its leader's place tells it after the turn was passed on. A
// leader that has the turn in between must not seal again: whoever comes next would be
// in a group that does not see what the one begun meanwhile has written.
func TestALeaderThatFindsItsGroupSealedSealsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &noDisk{during: func() {}}
		s, err := New(d, Options{})
		if err != nil {
			t.Fatal(err)
		}
		update := func(fn func(w kv.Writer) error) {
			go func() {
				if err := s.Update(t.Context(), fn); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		b := s.open
		b.led, b.calls = true, 1
		b.rows.make("t").Set("a", row{})
		s.turn.take(nil)
		s.seal(b)
		s.turn.pass()
		key := []byte("k")
		update(func(w kv.Writer) error { return w.Put("t", key, nil) }) // in the next group
		d.during = func() {
			d.during = func() {}
			update(func(w kv.Writer) error {
				if v, err := w.Get("t", key); err != nil || v == nil {
					t.Errorf("read %v, %v, want what was written before", v, err)
				}
				return nil
			})
		}
		s.lead(b, nil)
		synctest.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
