package kvtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"onced/kv"
)

var scanTests = []namedTest{
	{"Scans/BoundsAndDirections", testBounds},
	{"Scans/MergeOwnWrites", testMergeOwnWrites},
	{"Scans/DeleteWhileScanning", testDeleteWhileScanning},
	{"Scans/WritesDuringAScanStayOutOfIt", testWritesDuringAScan},
	{"Scans/SequencesCanBeRepeatedAndLeft", testSequences},
	{"Scans/ManyRows", testManyRows},
}

func testBounds(t *testing.T, s *suite) {
	st := s.store(t)
	put(t, st, "b", "1", "bb", "2", "d", "3", "f", "4")
	cases := []struct {
		r    kv.Range
		want string
	}{
		{kv.Range{}, "b=1 bb=2 d=3 f=4"},
		{kv.Range{From: []byte("b")}, "b=1 bb=2 d=3 f=4"},
		{kv.Range{From: []byte("b\x00")}, "bb=2 d=3 f=4"},
		{kv.Range{From: []byte("c"), To: []byte("f")}, "d=3"},
		{kv.Range{From: []byte("bb"), To: []byte("d")}, "bb=2"},
		{kv.Range{To: []byte("d")}, "b=1 bb=2"},
		{kv.Range{To: []byte("z")}, "b=1 bb=2 d=3 f=4"},
		{kv.Range{To: []byte("a")}, ""},
		{kv.Range{From: []byte("g")}, ""},
		{kv.Range{From: []byte("d"), To: []byte("d")}, ""},
		{kv.Range{From: []byte("f"), To: []byte("b")}, ""},
		{kv.Range{From: []byte{}}, "b=1 bb=2 d=3 f=4"},
		{kv.Range{To: []byte{}}, ""},
		{kv.Prefix([]byte("b")), "b=1 bb=2"},
		{kv.Prefix([]byte("\xff")), ""},
		{kv.Prefix(nil), "b=1 bb=2 d=3 f=4"},
	}
	check := func(r kv.Reader) error {
		for _, c := range cases {
			rows := strings.Fields(c.want)
			for limit := 0; limit <= len(rows)+1; limit++ {
				for _, reverse := range []bool{false, true} {
					rg, want := c.r, slices.Clone(rows)
					rg.Limit, rg.Reverse = limit, reverse
					if reverse {
						slices.Reverse(want)
					}
					if limit > 0 {
						want = want[:min(limit, len(want))]
					}
					got, err := scan(r, rg)
					if err != nil {
						return err
					}
					if got != strings.Join(want, " ") {
						t.Errorf("[%q, %q) reverse %v limit %d: %q, want %q",
							rg.From, rg.To, reverse, limit, got, want)
					}
				}
			}
		}
		return nil
	}
	view(t, st, check)
	update(t, st, func(w kv.Writer) error { return check(w) })
	// The same rows, now all the transaction's own.
	err := st.Update(context.Background(), func(w kv.Writer) error {
		if err := deleteAll(w, "b", "bb", "d", "f"); err != nil {
			return err
		}
		if err := putAll(w, "f", "4", "d", "3", "bb", "2", "b", "1", "e", "0"); err != nil {
			return err
		}
		if err := deleteAll(w, "e", "none"); err != nil {
			return err
		}
		return check(w)
	})
	if err != nil {
		t.Error(err)
	}
}

func testMergeOwnWrites(t *testing.T, s *suite) {
	st := s.store(t)
	put(t, st, "b", "old", "d", "old", "f", "old", "h", "old", "j", "old")
	err := st.Update(context.Background(), func(w kv.Writer) error {
		if err := putAll(w, "a", "new", "d", "new", "e", "new", "k", "new", "h", "x"); err != nil {
			return err
		}
		if err := deleteAll(w, "b", "h", "i", "e", "j"); err != nil {
			return err
		}
		if err := putAll(w, "b", "back"); err != nil {
			return err
		}
		return checkScans(t, w, []scanCase{
			{kv.Range{}, "a=new b=back d=new f=old k=new"},
			{kv.Range{Reverse: true}, "k=new f=old d=new b=back a=new"},
			{kv.Range{From: []byte("b"), To: []byte("k")}, "b=back d=new f=old"},
			{kv.Range{From: []byte("b"), To: []byte("k"), Reverse: true}, "f=old d=new b=back"},
			{kv.Range{From: []byte("e"), Limit: 1}, "f=old"},
			{kv.Range{To: []byte("k"), Reverse: true, Limit: 2}, "f=old d=new"},
			{kv.Range{From: []byte("g"), To: []byte("k")}, ""},
			{kv.Range{From: []byte("g"), To: []byte("k"), Reverse: true}, ""},
			{kv.Range{Limit: 3}, "a=new b=back d=new"},
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	wantAll(t, st, "a=new b=back d=new f=old k=new")
}

type scanCase struct {
	r    kv.Range
	want string
}

func checkScans(t *testing.T, r kv.Reader, cases []scanCase) error {
	t.Helper()
	for _, c := range cases {
		got, err := scan(r, c.r)
		if err != nil {
			return err
		}
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c.r, got, c.want)
		}
	}
	return nil
}

func testDeleteWhileScanning(t *testing.T, s *suite) {
	for _, reverse := range []bool{false, true} {
		st := s.store(t)
		put(t, st, "a", "1", "b", "1", "c", "1", "d", "1")
		update(t, st, func(w kv.Writer) error {
			if err := putAll(w, "aa", "2", "cc", "2", "e", "2"); err != nil {
				return err
			}
			n := 0
			for e, err := range w.Scan(table, kv.Range{Reverse: reverse}) {
				if err != nil {
					return err
				}
				n++
				if err := w.Delete(table, e.Key); err != nil {
					return err
				}
				if got, err := w.Get(table, e.Key); got != nil || err != nil {
					t.Errorf("a row deleted during the scan is read as %q, %v", got, err)
				}
			}
			if n != 7 {
				t.Errorf("reverse %v: the scan saw %d rows, want 7", reverse, n)
			}
			return putAll(w, "left", "x")
		})
		wantAll(t, st, "left=x")
	}
}

func testWritesDuringAScan(t *testing.T, s *suite) {
	for _, reverse := range []bool{false, true} {
		st := s.store(t)
		put(t, st, "b", "1", "d", "1", "f", "1")
		update(t, st, func(w kv.Writer) error {
			if err := putAll(w, "c", "2"); err != nil {
				return err
			}
			seq := w.Scan(table, kv.Range{Reverse: reverse}) // here, not when it is read
			if err := putAll(w, "a", "late", "cc", "late", "d", "late", "g", "late"); err != nil {
				return err
			}
			if err := deleteAll(w, "f", "c"); err != nil {
				return err
			}
			var got []string
			for e, err := range seq {
				if err != nil {
					return err
				}
				got = append(got, fmt.Sprintf("%s=%s", e.Key, e.Value))
				if err := putAll(w, "bb", "later", "e", "later", string(e.Key)+"x", "later"); err != nil {
					return err
				}
			}
			want := []string{"b=1", "c=2", "d=1", "f=1"}
			if reverse {
				slices.Reverse(want)
			}
			if !slices.Equal(got, want) {
				t.Errorf("reverse %v: the scan saw %q, want %q", reverse, got, want)
			}
			return nil
		})
		wantAll(t, st, "a=late b=1 bb=later bx=later cc=late cx=later d=late dx=later e=later "+
			"fx=later g=late")
	}
}

func testSequences(t *testing.T, s *suite) {
	st := s.store(t)
	put(t, st, "a", "1", "b", "1", "c", "1")
	check := func(r kv.Reader) error {
		seq := r.Scan(table, kv.Range{})
		for range 2 {
			var got []string
			for e, err := range seq {
				if err != nil {
					return err
				}
				got = append(got, string(e.Key))
				inner, err := scan(r, kv.Range{Reverse: true}) // a scan inside a scan
				if err != nil {
					return err
				}
				if n := len(strings.Fields(inner)); n != 4 {
					t.Errorf("an inner scan yields %q", inner)
				}
			}
			if strings.Join(got, "") != "abcd" {
				t.Errorf("the sequence yields %q, want a b c d each time", got)
			}
		}
		for e := range seq {
			if string(e.Key) == "b" {
				break
			}
		}
		_, err := r.Get(table, []byte("a"))
		return err
	}
	update(t, st, func(w kv.Writer) error {
		if err := putAll(w, "d", "2", "b", "2"); err != nil {
			return err
		}
		return check(w)
	})
	view(t, st, check)
}

// More rows than fit a page of any engine, half of them of the transaction.
func testManyRows(t *testing.T, s *suite) {
	st := s.store(t)
	const rows = 3000
	update(t, st, func(w kv.Writer) error {
		for i := 0; i < rows; i += 2 {
			if err := w.Put(table, rowKey(i), []byte("even")); err != nil {
				return err
			}
		}
		return nil
	})
	check := func(r kv.Reader, step int) error {
		for _, reverse := range []bool{false, true} {
			i := 0
			for e, err := range r.Scan(table, kv.Range{Reverse: reverse}) {
				if err != nil {
					return err
				}
				n := i * step
				if reverse {
					n = rows - step - i*step
				}
				if string(e.Key) != string(rowKey(n)) {
					return fmt.Errorf("reverse %v: row %d is %q, want %q", reverse, i, e.Key, rowKey(n))
				}
				i++
			}
			if i != rows/step {
				return fmt.Errorf("reverse %v: %d rows, want %d", reverse, i, rows/step)
			}
		}
		return nil
	}
	update(t, st, func(w kv.Writer) error {
		if err := check(w, 2); err != nil {
			return err
		}
		for i := rows - 1; i > 0; i -= 2 {
			if err := w.Put(table, rowKey(i), []byte("odd")); err != nil {
				return err
			}
		}
		return check(w, 1)
	})
	view(t, st, func(r kv.Reader) error { return check(r, 1) })
	update(t, st, func(w kv.Writer) error { return check(w, 1) })
}
