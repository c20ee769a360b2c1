package kvtest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"onced/kv"
)

var rowTests = []namedTest{
	{"Rows/ReadYourWrites", testReadYourWrites},
	{"Rows/AbsentAndEmpty", testAbsentAndEmpty},
	{"Rows/AnyBytes", testAnyBytes},
	{"Rows/TablesAreApartAndAppearByThemselves", testTables},
	{"Rows/BytesAreTheCallers", testBytesAreTheCallers},
	{"Rows/BytesOutliveLaterCommits", testBytesOutliveLaterCommits},
	{"Rows/LargeValues", testLargeValues},
}

func testReadYourWrites(t *testing.T, s *suite) {
	st := s.store(t)
	put(t, st, "a", "old", "b", "old", "c", "old")
	update(t, st, func(w kv.Writer) error {
		if err := putAll(w, "a", "new", "d", "1", "d", "2", "e", "x"); err != nil {
			return err
		}
		if err := deleteAll(w, "b", "e"); err != nil {
			return err
		}
		for key, want := range map[string]string{"a": "new", "b": "-", "c": "old", "d": "2", "e": "-"} {
			v, err := w.Get(table, []byte(key))
			if err != nil {
				return err
			}
			if show(v) != want {
				t.Errorf("inside: row %q is %s, want %s", key, show(v), want)
			}
		}
		if err := deleteAll(w, "d"); err != nil {
			return err
		}
		return putAll(w, "b", "again")
	})
	wantAll(t, st, "a=new b=again c=old")
}

func testAbsentAndEmpty(t *testing.T, s *suite) {
	st := s.store(t)
	check := func(r kv.Reader) error {
		for key, absent := range map[string]bool{"empty": false, "nil": false, "none": true} {
			v, err := r.Get(table, []byte(key))
			if err != nil {
				return err
			}
			if (v == nil) != absent || len(v) > 0 {
				t.Errorf("row %q is %#v, absent should be %v", key, v, absent)
			}
		}
		for e, err := range r.Scan(table, kv.Range{}) {
			if err != nil {
				return err
			}
			if e.Value == nil {
				t.Errorf("a scan yields the empty value of %q as nil", e.Key)
			}
		}
		return nil
	}
	update(t, st, func(w kv.Writer) error {
		if err := w.Put(table, []byte("empty"), []byte{}); err != nil {
			return err
		}
		if err := w.Put(table, []byte("nil"), nil); err != nil {
			return err
		}
		if err := deleteAll(w, "none"); err != nil { // deleting an absent row is no error
			return err
		}
		return check(w)
	})
	view(t, st, check)
	update(t, st, func(w kv.Writer) error { return check(w) })
}

func testAnyBytes(t *testing.T, s *suite) {
	st := s.store(t)
	keys := []string{"\x00", "\x00\x00", "\x00\xff", "a", "a\x00", "a\x00b", "aa", "a\xff",
		"\xff", "\xff\x00", "\xff\xff"}
	for _, key := range slices.Backward(keys) { // not in their order
		put(t, st, key, key+"\x00\xff")
	}
	view(t, st, func(r kv.Reader) error {
		i := 0
		for e, err := range r.Scan(table, kv.Range{}) {
			if err != nil {
				return err
			}
			if i >= len(keys) || string(e.Key) != keys[i] || string(e.Value) != keys[i]+"\x00\xff" {
				t.Fatalf("row %d is %q=%q", i, e.Key, e.Value)
			}
			i++
		}
		if i != len(keys) {
			t.Errorf("%d rows, want %d", i, len(keys))
		}
		return nil
	})
	for _, k := range keys {
		wantRow(t, st, k, k+"\x00\xff")
	}
}

func testTables(t *testing.T, s *suite) {
	st := s.store(t)
	names := []kv.TableID{"t", "t.a", "t.ab", "t.b", kv.TableID(strings.Repeat("n", kv.MaxTableName))}
	for _, name := range names {
		view(t, st, func(r kv.Reader) error {
			v, err := r.Get(name, []byte("k"))
			if v != nil || err != nil {
				t.Errorf("table %s before its first row: Get gives %q, %v", name, v, err)
			}
			for e, err := range r.Scan(name, kv.Range{}) {
				t.Errorf("table %s before its first row: Scan yields %v, %v", name, e, err)
			}
			return nil
		})
		update(t, st, func(w kv.Writer) error {
			if err := w.Delete(name, []byte("k")); err != nil {
				return err
			}
			return w.Put(name, []byte("k"), []byte(name))
		})
	}
	update(t, st, func(w kv.Writer) error { return w.Delete("t.a", []byte("k")) })
	view(t, st, func(r kv.Reader) error {
		for _, name := range names {
			want := string(name)
			if name == "t.a" {
				want = "-"
			}
			if v, err := r.Get(name, []byte("k")); show(v) != want || err != nil {
				t.Errorf("table %s holds %s, %v; want %s", name, show(v), err, want)
			}
		}
		return nil
	})
}

func testBytesAreTheCallers(t *testing.T, s *suite) {
	st := s.store(t)
	spoil := func(b []byte) {
		for i := range b {
			b[i] = '!'
		}
		_ = append(b, "!!!!"...) // nor may there be room behind that belongs to others
	}
	spoilAll := func(r kv.Reader) error {
		for range 2 {
			v, err := r.Get(table, []byte("a"))
			if err != nil {
				return err
			}
			if string(v) != "value" {
				t.Errorf("the row was changed from outside: %q", v)
			}
			spoil(v)
			for e, err := range r.Scan(table, kv.Range{}) {
				if err != nil {
					return err
				}
				spoil(e.Key)
				spoil(e.Value)
			}
		}
		return nil
	}
	for range 2 {
		update(t, st, func(w kv.Writer) error {
			for _, k := range []string{"a", "b"} {
				key, value := []byte(k), []byte("value")
				if err := w.Put(table, key, value); err != nil {
					return err
				}
				spoil(key)
				spoil(value)
			}
			gone := []byte("c")
			if err := w.Delete(table, gone); err != nil {
				return err
			}
			spoil(gone)
			return spoilAll(w)
		})
		view(t, st, spoilAll)
		wantAll(t, st, "a=value b=value")
	}
}

// What was read stays as it was read when the rows are overwritten later.
func testBytesOutliveLaterCommits(t *testing.T, s *suite) {
	st := s.store(t)
	type kept struct{ got, want []byte }
	var all []kept
	keep := func(got []byte) { all = append(all, kept{got, bytes.Clone(got)}) }
	for i := range 30 {
		value := fmt.Sprint(i, string(fill(3000+i)))
		put(t, st, "a", value, fmt.Sprint("b", i), value)
		keep(get(t, st, "a"))
		view(t, st, func(r kv.Reader) error {
			for e, err := range r.Scan(table, kv.Range{}) {
				if err != nil {
					return err
				}
				keep(e.Key)
				keep(e.Value)
			}
			return nil
		})
		update(t, st, func(w kv.Writer) error { return deleteAll(w, fmt.Sprint("b", i-1)) })
	}
	for i, k := range all {
		if !bytes.Equal(k.got, k.want) {
			t.Fatalf("bytes read as number %d have changed since", i)
		}
	}
}

func testLargeValues(t *testing.T, s *suite) {
	st := s.store(t)
	big := fill(kv.MaxValueSize)
	update(t, st, func(w kv.Writer) error {
		if err := w.Put(table, []byte("big"), big); err != nil {
			return err
		}
		v, err := w.Get(table, []byte("big"))
		if !bytes.Equal(v, big) {
			t.Error("inside: the largest value comes back changed")
		}
		return err
	})
	if !bytes.Equal(get(t, st, "big"), big) {
		t.Error("the largest value comes back changed")
	}
	update(t, st, func(w kv.Writer) error {
		err := w.Put(table, []byte("big"), append(big, 'x'))
		wantLimit(t, err, "16777216 bytes", "16777217", string(table))
		return putAll(w, "small", "1") // the transaction may go on
	})
	if len(get(t, st, "big")) != kv.MaxValueSize {
		t.Error("a refused value was written")
	}
	wantRow(t, st, "small", "1")
}
