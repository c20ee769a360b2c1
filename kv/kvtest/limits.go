package kvtest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"onced/kv"
)

var limitTests = []namedTest{
	{"Limits/Keys", testKeyLimits},
	{"Limits/TableNames", testTableNameLimits},
	{"Limits/WritesOfATransaction", testWriteLimit},
	{"Limits/BytesOfATransaction", testByteLimit},
	{"Limits/RowsOfAScan", testScanLimit},
}

func testKeyLimits(t *testing.T, s *suite) {
	st := s.store(t)
	longest := bytes.Repeat([]byte("k"), kv.MaxKeySize)
	update(t, st, func(w kv.Writer) error { return w.Put(table, longest, []byte("v")) })
	if got := get(t, st, string(longest)); string(got) != "v" {
		t.Errorf("the longest key holds %q", got)
	}
	longer := append(longest, 'k')
	update(t, st, func(w kv.Writer) error {
		for _, key := range [][]byte{longer, nil, {}} {
			want := []string{"2048 bytes", string(table)}
			wantLimit(t, w.Put(table, key, []byte("v")), want...)
			wantLimit(t, w.Delete(table, key), want...)
			_, err := w.Get(table, key)
			wantLimit(t, err, want...)
		}
		return nil
	})
	view(t, st, func(r kv.Reader) error {
		_, err := r.Get(table, longer)
		wantLimit(t, err, "2048 bytes", "2049")
		n := 0
		// A bound is no key: it may be longer, and empty.
		for _, err := range r.Scan(table, kv.Range{From: []byte{}, To: longer}) {
			if err != nil {
				return err
			}
			n++
		}
		if n != 1 {
			t.Errorf("%d rows, want 1", n)
		}
		return nil
	})
}

func testTableNameLimits(t *testing.T, s *suite) {
	st := s.store(t)
	for _, name := range []kv.TableID{"", kv.TableID(strings.Repeat("n", kv.MaxTableName+1))} {
		read := func(r kv.Reader) {
			_, err := r.Get(name, []byte("k"))
			wantLimit(t, err, "64 bytes")
			n := 0
			for _, err := range r.Scan(name, kv.Range{}) {
				n++
				wantLimit(t, err, "64 bytes")
			}
			if n != 1 {
				t.Errorf("a scan of table %q yields %d times, want one error", name, n)
			}
		}
		view(t, st, func(r kv.Reader) error {
			read(r)
			return nil
		})
		update(t, st, func(w kv.Writer) error {
			read(w)
			wantLimit(t, w.Put(name, []byte("k"), nil), "64 bytes")
			wantLimit(t, w.Delete(name, []byte("k")), "64 bytes")
			return nil
		})
	}
}

func testWriteLimit(t *testing.T, s *suite) {
	st := s.store(t)
	putMany(t, st, kv.MaxTxWrites)
	err := st.Update(context.Background(), func(w kv.Writer) error {
		for i := range kv.MaxTxWrites {
			if err := w.Delete(table, rowKey(i)); err != nil {
				return err
			}
		}
		if err := w.Delete(table, []byte("x")); err == nil {
			t.Error("a delete too many was accepted")
		}
		return w.Put(table, []byte("x"), nil)
	})
	wantLimit(t, err, "10000 writes", "split")
	wantRow(t, st, string(rowKey(0)), "v")
	wantRow(t, st, "x", "-")
}

func rowKey(i int) []byte { return fmt.Appendf(nil, "%06d", i) }

// putMany writes n rows in one transaction.
func putMany(t *testing.T, st kv.Store, n int) {
	t.Helper()
	update(t, st, func(w kv.Writer) error {
		for i := range n {
			if err := w.Put(table, rowKey(i), []byte("v")); err != nil {
				return err
			}
		}
		return nil
	})
}

func testByteLimit(t *testing.T, s *suite) {
	st := s.store(t)
	big := fill(kv.MaxTxBytes/2 - 1) // with its key of one byte, half of what is allowed
	update(t, st, func(w kv.Writer) error {
		for _, k := range []string{"a", "b"} {
			if err := w.Put(table, []byte(k), big); err != nil {
				return err
			}
		}
		wantLimit(t, w.Put(table, []byte("c"), nil), "33554432 bytes", "split")
		return nil
	})
	if len(get(t, st, "b")) != len(big) {
		t.Error("what was within the limit is not written")
	}
	wantRow(t, st, "c", "-")
}

func testScanLimit(t *testing.T, s *suite) {
	st := s.store(t)
	putMany(t, st, kv.MaxScanRows)
	check := func(r kv.Reader, rg kv.Range, rows int, limited bool) {
		n := 0
		var last error
		for _, err := range r.Scan(table, rg) {
			if last = err; err == nil {
				n++
			}
		}
		if n != rows {
			t.Errorf("%+v: %d rows, want %d", rg, n, rows)
		}
		if limited {
			wantLimit(t, last, "10000 rows", "Limit")
		} else if last != nil {
			t.Errorf("%+v: %v", rg, last)
		}
	}
	view(t, st, func(r kv.Reader) error {
		check(r, kv.Range{}, kv.MaxScanRows, false)
		check(r, kv.Range{Limit: kv.MaxScanRows + 1}, kv.MaxScanRows, false)
		return nil
	})
	put(t, st, "x", "one more")
	both := func(r kv.Reader) error {
		check(r, kv.Range{}, kv.MaxScanRows, true)
		check(r, kv.Range{Reverse: true}, kv.MaxScanRows, true)
		check(r, kv.Range{Limit: kv.MaxScanRows}, kv.MaxScanRows, false)
		check(r, kv.Range{Limit: kv.MaxScanRows + 1}, kv.MaxScanRows, true)
		check(r, kv.Range{Limit: 17}, 17, false)
		return nil
	}
	view(t, st, both)
	update(t, st, func(w kv.Writer) error { return both(w) })
	n := 0
	for _, err := range kv.Pages(context.Background(), st, table, kv.Range{}, 0) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != kv.MaxScanRows+1 {
		t.Errorf("pages yield %d rows, want %d", n, kv.MaxScanRows+1)
	}
}
