package group_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"onced/kv"
	"onced/kv/group"
)

// The closures of a group share the memory of their journals: one that fails takes back
// what it wrote and nothing else, however many rows those before it have written.
func TestAFailureTakesBackItsOwnWritesOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := gated(t, group.Options{}, "a", "old")
		first := f.put("first", "1")
		calls := []*answer{f.put("a", "new"), f.update(func(w kv.Writer) error {
			for i := range 600 { // more than are remembered
				if err := w.Put(rows, fmt.Appendf(nil, "b%d", i), nil); err != nil {
					return err
				}
			}
			return nil
		})}
		refused := errors.New("refused")
		failed := f.update(func(w kv.Writer) error {
			return errors.Join(w.Delete(rows, []byte("a")), w.Put(rows, []byte("b1"), []byte("x")),
				w.Put(rows, []byte("c"), nil), refused)
		})
		calls = append(calls, f.put("d", ""))
		f.pass(nil)
		f.pass(nil)
		f.ends("the failed one", failed, refused)
		for _, c := range append(calls, first) {
			f.ends("a write", c, nil)
		}
		got := f.disk.state.rows
		if b1, ok := got["b1"]; got["a"] != "new" || !ok || b1 != "" || len(got) != 603 {
			t.Errorf("%d rows, a is %q, b1 %q", len(got), got["a"], b1)
		}
		f.close()
	})
}

type blobRow struct{ body []byte }

// Rows of a table are kept without being copied once more: they have memory of their own
// all the same, and the limits of others.
func TestTypedRowsHaveMemoryOfTheirOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := start(t, &disk{}, group.Options{})
		table := kv.NewTable(rows, 1, kv.TableOptions[blobRow]{Codec: &kv.Codec[blobRow]{
			Append: func(dst []byte, v *blobRow) []byte { return append(dst, v.body...) },
			Read:   func(body []byte, v *blobRow) error { v.body = body; return nil },
		}})
		body, key := []byte("abc"), kv.Key{}.String("k")
		f.ends("the write", f.update(func(w kv.Writer) error {
			if err := table.Put(w, key, blobRow{body}); err != nil {
				return err
			}
			copy(body, "xyz")
			read, _, err := table.Get(w, key)
			if string(read.body) != "abc" {
				t.Errorf("it reads %q after the caller has changed its own", read.body)
			}
			copy(read.body, "123")
			return err
		}), nil)
		if got := f.disk.state.rows[string(key)]; got != "\x01abc" {
			t.Errorf("stored as %q", got)
		}
		large := blobRow{make([]byte, kv.MaxValueSize)}
		write := f.update(func(w kv.Writer) error { return table.Put(w, key, large) })
		if write.err == nil || !strings.Contains(write.err.Error(), "value in table test.rows") {
			t.Errorf("a row that is too large: %v", write.err)
		}
		f.close()
	})
}
