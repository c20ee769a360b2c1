package kv_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"onced/kv"
	"onced/kv/memkv"
)

type order struct {
	ID    string         `json:"id"`
	Cents uint64         `json:"cents"`
	Tags  map[string]int `json:"tags,omitempty"`
	Body  []byte         `json:"-"`
}

var (
	plainOrders = kv.NewTable[order]("test.plain", 3)
	blobOrders  = kv.NewTable("test.blob", 3, kv.TableOptions[order]{
		Blob: func(o *order) *[]byte { return &o.Body },
		Upgrade: func(version byte, old []byte) ([]byte, error) {
			if version == 1 {
				return nil, errTooOld
			}
			return bytes.Replace(old, []byte(`"amount"`), []byte(`"cents"`), 1), nil
		},
	})
	errTooOld = errors.New("version 1 cannot be read any more")
)

// stored writes raw bytes as a row of t and reads it through t.
func stored[T any](t *testing.T, table kv.Table[T], raw []byte) (v T, ok bool, err error) {
	t.Helper()
	s := memkv.New(memkv.Options{})
	defer s.Close()
	ctx, key := context.Background(), kv.Key{}.String("k")
	if err := s.Update(ctx, func(w kv.Writer) error { return w.Put(table.ID(), key, raw) }); err != nil {
		t.Fatal(err)
	}
	verr := s.View(ctx, func(r kv.Reader) error {
		v, ok, err = table.Get(r, key)
		for row, scanErr := range table.Scan(r, key.Range()) {
			if !errors.Is(scanErr, err) && (scanErr == nil || err == nil || scanErr.Error() != err.Error()) {
				t.Errorf("Scan answers %v, Get answers %v", scanErr, err)
			}
			if !reflect.DeepEqual(row.Value, v) || !bytes.Equal(row.Key, key) {
				t.Errorf("Scan yields %v, Get %v", row, v)
			}
		}
		return nil
	})
	if verr != nil {
		t.Fatal(verr)
	}
	return v, ok, err
}

func raw(version byte, body, blob string) []byte {
	out := binary.AppendUvarint([]byte{version}, uint64(len(body)))
	return append(append(out, body...), blob...)
}

func TestTableRoundTrip(t *testing.T) {
	t.Parallel()
	want := order{ID: "a\"\x01<>é", Cents: 1<<64 - 1, Tags: map[string]int{"x": -1}}
	b, err := plainOrders.Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	got, ok, err := stored(t, plainOrders, b)
	if err != nil || !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, %v; want %v", got, ok, err, want)
	}
	want.Body = []byte("\x00\xff{}\n")
	if b, err = blobOrders.Encode(want); err != nil {
		t.Fatal(err)
	}
	if !bytes.HasSuffix(b, want.Body) {
		t.Errorf("the blob is not stored as it is: %q", b)
	}
	got, ok, err = stored(t, blobOrders, b)
	if err != nil || !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, %v; want %v", got, ok, err, want)
	}
}

func TestTableDecodeIsStrict(t *testing.T) {
	t.Parallel()
	const good = `{"id":"a","cents":7}`
	cases := map[string]struct {
		raw  []byte
		want error
		text string
	}{
		"empty row":        {[]byte{}, kv.ErrCorrupt, "0 bytes"},
		"only a version":   {[]byte{3}, kv.ErrCorrupt, "1 bytes"},
		"unknown field":    {raw(3, `{"id":"a","cents":7,"extra":1}`, ""), kv.ErrCorrupt, "extra"},
		"trailing JSON":    {raw(3, good+`{}`, ""), kv.ErrCorrupt, "follows"},
		"trailing bracket": {raw(3, good+`]`, ""), kv.ErrCorrupt, "follows"},
		"trailing bytes":   {raw(3, good, "x"), kv.ErrCorrupt, "1 bytes follow"},
		"wrong type":       {raw(3, `{"id":7}`, ""), kv.ErrCorrupt, "id"},
		"overflow":         {raw(3, `{"cents":18446744073709551616}`, ""), kv.ErrCorrupt, "cents"},
		"cut JSON":         {raw(3, good[:9], ""), kv.ErrCorrupt, ""},
		"cut row":          {raw(3, good, "")[:9], kv.ErrCorrupt, "does not fit"},
		"endless length":   {bytes.Repeat([]byte{0xff}, 20)[:12], kv.ErrNewer, ""},
		"bad length":       {[]byte("\x03" + strings.Repeat("\xff", 11)), kv.ErrCorrupt, "does not fit"},
		"newer":            {raw(4, good, ""), kv.ErrNewer, "row version 4, known up to 3"},
		"older, no way":    {raw(2, good, ""), kv.ErrCorrupt, "version 2"},
		"version zero":     {raw(0, good, ""), kv.ErrCorrupt, "version 0"},
	}
	for name, c := range cases {
		v, ok, err := stored(t, plainOrders, c.raw)
		if ok || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, %v; want no row and an error %q with %q", name, ok, err, c.want, c.text)
		}
		if !reflect.DeepEqual(v, order{}) {
			t.Errorf("%s: a part of the row came back: %v", name, v)
		}
		if text := fmt.Sprint(err); !strings.Contains(text, "test.plain") || strings.Contains(text, "\n") {
			t.Errorf("%s: the error does not name the table, or has lines: %q", name, text)
		}
	}
}

func TestTableUpgrade(t *testing.T) {
	t.Parallel()
	got, ok, err := stored(t, blobOrders, raw(2, `{"id":"a","amount":5}`, "blob"))
	if err != nil || !ok || got.Cents != 5 || string(got.Body) != "blob" {
		t.Errorf("version 2: %v, %v, %v", got, ok, err)
	}
	_, ok, err = stored(t, blobOrders, raw(2, `{"id":"a","worth":5}`, ""))
	if ok || !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("version 2 with an unknown field: %v, %v; want ErrCorrupt", ok, err)
	}
	if _, ok, err = stored(t, blobOrders, raw(1, `{}`, "")); ok || !errors.Is(err, errTooOld) {
		t.Errorf("version 1: %v, %v; want the error of Upgrade", ok, err)
	}
	_, ok, err = stored(t, blobOrders, raw(3, `{"id":"a","amount":5}`, ""))
	if ok || !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("the present version is not upgraded: %v, %v", ok, err)
	}
}

// What an application appends to a blob must not land in bytes behind it.
func TestTableBlobDoesNotGrowIntoOthers(t *testing.T) {
	t.Parallel()
	page := append(raw(3, `{}`, "blob"), "others"...)
	entries := func(yield func(kv.Entry, error) bool) {
		yield(kv.Entry{Key: []byte("k"), Value: page[:len(page)-len("others")]}, nil)
	}
	for row, err := range blobOrders.Decode(entries) {
		if err != nil || string(row.Value.Body) != "blob" {
			t.Errorf("blob %q, error %v", row.Value.Body, err)
		}
		_ = append(row.Value.Body, "!!!!!!"...)
	}
	if !bytes.HasSuffix(page, []byte("others")) {
		t.Errorf("bytes behind the blob were overwritten: %q", page)
	}
}

func TestTableEncodeRefusesWhatJSONCannotSay(t *testing.T) {
	t.Parallel()
	table := kv.NewTable[map[string]any]("test.any", 1)
	_, err := table.Encode(map[string]any{"f": func() {}})
	if err == nil || !strings.Contains(err.Error(), "test.any") {
		t.Errorf("error %v, want one that names the table", err)
	}
}

// nesting encodes a row while it is encoded itself, or fails, or panics.
type nesting struct {
	inner any
	fail  error
	bad   any
}

// MarshalJSON implements [json.Marshaler].
func (n nesting) MarshalJSON() ([]byte, error) {
	if n.bad != nil {
		panic(n.bad)
	}
	inner, err := kv.NewTable[any]("test.inner", 1).Encode(n.inner)
	if err != nil || n.fail != nil {
		return nil, errors.Join(err, n.fail)
	}
	return inner[2:], nil // after the version and the length
}

// The room that rows are encoded in is used again. No row has anything of another.
func TestTableEncodesAsJSONDoes(t *testing.T) {
	t.Parallel()
	table := kv.NewTable[any]("test.any", 1)
	encode := func(v any) (body []byte, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("%v", p)
			}
		}()
		b, err := table.Encode(v)
		if err != nil {
			return nil, err
		}
		n, size := binary.Uvarint(b[1:])
		if body = b[1+size:]; uint64(len(body)) != n || b[0] != 1 {
			t.Errorf("%.20q: version %d, length %d of %d", b, b[0], n, len(body))
		}
		return body, nil
	}
	long := strings.Repeat("l", 100<<10)
	for range 3 { // whichever of them comes after which
		for _, v := range []any{"a", nil, 1.5, "<a&b>\u2028\n", "\xff", []byte("bytes"), long,
			json.RawMessage(" [1, \"<\"] "),
			nesting{inner: []string{"<", "in"}}, []any{"before", nesting{inner: "x"}, "after"},
			[]any{long, nesting{inner: "x", fail: errTooOld}}, []any{"begun", nesting{bad: "panic"}},
			func() {}} {
			want, wantErr := []byte(nil), error(nil)
			func() {
				defer func() {
					if p := recover(); p != nil {
						wantErr = fmt.Errorf("%v", p)
					}
				}()
				want, wantErr = json.Marshal(v)
			}()
			got, err := encode(v)
			if !bytes.Equal(got, want) || (err == nil) != (wantErr == nil) ||
				err != nil && !strings.HasSuffix(err.Error(), wantErr.Error()) {
				t.Errorf("%.40q, %v; want %.40q, %v", got, err, want, wantErr)
			}
		}
	}
}

func TestTablePutGetDeleteScanDecode(t *testing.T) {
	t.Parallel()
	s := memkv.New(memkv.Options{})
	defer s.Close()
	ctx := context.Background()
	err := s.Update(ctx, func(w kv.Writer) error {
		for i, id := range []string{"a", "b", "c"} {
			if err := plainOrders.Put(w, kv.Key{}.String(id), order{ID: id, Cents: uint64(i)}); err != nil {
				return err
			}
		}
		return plainOrders.Delete(w, kv.Key{}.String("b"))
	})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for row, err := range plainOrders.Decode(kv.Pages(ctx, s, plainOrders.ID(), kv.Range{}, 1)) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, row.Value.ID)
	}
	if strings.Join(ids, "") != "ac" {
		t.Errorf("rows %v, want a and c", ids)
	}
	err = s.View(ctx, func(r kv.Reader) error {
		if _, ok, err := plainOrders.Get(r, kv.Key{}.String("b")); ok || err != nil {
			t.Errorf("deleted row: %v, %v", ok, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A bad row ends a scan: what follows it is not handed out as if all were well.
func TestTableScanEndsAtABadRow(t *testing.T) {
	t.Parallel()
	entries := func(yield func(kv.Entry, error) bool) {
		_ = yield(kv.Entry{Key: []byte("a"), Value: raw(3, `{}`, "")}, nil) &&
			yield(kv.Entry{Key: []byte("b"), Value: raw(4, `{}`, "")}, nil) &&
			yield(kv.Entry{Key: []byte("c"), Value: raw(3, `{}`, "")}, nil)
	}
	var seen []string
	for row, err := range plainOrders.Decode(entries) {
		seen = append(seen, string(row.Key))
		if (err != nil) != (string(row.Key) == "b") {
			t.Errorf("row %s: error %v", row.Key, err)
		}
	}
	if strings.Join(seen, "") != "ab" {
		t.Errorf("saw rows %v, want a and the error of b", seen)
	}
}

// Whatever bytes are stored: no panic; and what is accepted is written again as
// something that reads the same.
func FuzzTable(f *testing.F) {
	f.Add(raw(3, `{"id":"a","cents":7}`, "blob"))
	f.Add(raw(2, `{"amount":7}`, ""))
	f.Add([]byte{3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{3, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		read := func(b []byte) (o order, err error) {
			entries := func(yield func(kv.Entry, error) bool) {
				yield(kv.Entry{Key: []byte("k"), Value: b}, nil)
			}
			for row, rowErr := range blobOrders.Decode(entries) {
				o, err = row.Value, rowErr
			}
			return o, err
		}
		o, err := read(b)
		if err != nil {
			return
		}
		again, err := blobOrders.Encode(o)
		if err != nil {
			t.Fatal(err)
		}
		o2, err := read(again)
		same := o.ID == o2.ID && o.Cents == o2.Cents && bytes.Equal(o.Body, o2.Body) &&
			len(o.Tags) == len(o2.Tags)
		if err != nil || !same {
			t.Fatalf("%v was read, then %v, %v", o, o2, err)
		}
	})
}

// point is a row with a codec: two numbers.
type point struct{ X, Y byte }

func pointTable(version byte) kv.Table[point] {
	return kv.NewTable("test.points", version, kv.TableOptions[point]{Codec: &kv.Codec[point]{
		Append: func(dst []byte, p *point) []byte { return append(dst, p.X, p.Y) },
		Read: func(body []byte, p *point) error {
			if len(body) != 2 {
				return errors.New("a point has two bytes")
			}
			p.X, p.Y = body[0], body[1]
			return nil
		},
	}})
}

func TestTableCodec(t *testing.T) {
	t.Parallel()
	s := memkv.New(memkv.Options{})
	defer func() { _ = s.Close() }()
	table, key := pointTable(2), kv.Key{}.String("p")
	raw, err := table.Encode(point{3, 4})
	if err != nil || string(raw) != "\x02\x03\x04" {
		t.Errorf("encoded as %x, %v", raw, err)
	}
	update := func(fn func(w kv.Writer) error) {
		t.Helper()
		if err := s.Update(t.Context(), fn); err != nil {
			t.Fatal(err)
		}
	}
	update(func(w kv.Writer) error { return table.Put(w, key, point{3, 4}) })
	get := func(table kv.Table[point]) (p point, ok bool, err error) {
		_ = s.View(t.Context(), func(r kv.Reader) error {
			p, ok, err = table.Get(r, key)
			return nil
		})
		return p, ok, err
	}
	if p, ok, err := get(table); !ok || err != nil || p != (point{3, 4}) {
		t.Errorf("read %v %v %v", p, ok, err)
	}
	if p, ok, err := get(pointTable(1)); ok || !errors.Is(err, kv.ErrNewer) || p != (point{}) {
		t.Errorf("a newer row: %v %v %v, want ErrNewer", p, ok, err)
	}
	if p, ok, err := get(pointTable(3)); ok || !errors.Is(err, kv.ErrCorrupt) || p != (point{}) {
		t.Errorf("an older row: %v %v %v, want ErrCorrupt", p, ok, err)
	}
	for _, bad := range []string{"", "\x02", "\x00\x03\x04", "\x02\x03", "\x02\x03\x04\x05"} {
		update(func(w kv.Writer) error { return w.Put(table.ID(), key, []byte(bad)) })
		if p, ok, err := get(table); ok || !errors.Is(err, kv.ErrCorrupt) || p != (point{}) {
			t.Errorf("%q: %v %v %v, want ErrCorrupt", bad, p, ok, err)
		}
	}
}
