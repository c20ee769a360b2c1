package kv_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"onced/kv"
)

// part is one part of a tuple in the form the tests reason about.
type part struct {
	kind byte // 0 bytes, 1 string, 2 uint, 3 int, 4 time: their order in a key
	text string
	n    uint64
}

func (p part) appendTo(k kv.Key) kv.Key {
	switch p.kind {
	case 0:
		return k.Bytes([]byte(p.text))
	case 1:
		return k.String(p.text)
	case 2:
		return k.Uint(p.n)
	case 3:
		return k.Int(int64(p.n))
	}
	return k.Time(time.Unix(0, int64(p.n)))
}

func (p part) readFrom(d *kv.KeyDecoder) part {
	switch p.kind {
	case 0:
		return part{kind: 0, text: string(d.Bytes())}
	case 1:
		return part{kind: 1, text: d.String()}
	case 2:
		return part{kind: 2, n: d.Uint()}
	case 3:
		return part{kind: 3, n: uint64(d.Int())}
	}
	return part{kind: 4, n: uint64(d.Time().UnixNano())}
}

func compareParts(a, b part) int {
	if c := cmp.Compare(a.kind, b.kind); c != 0 {
		return c
	}
	switch a.kind {
	case 0, 1:
		return strings.Compare(a.text, b.text)
	case 2:
		return cmp.Compare(a.n, b.n)
	}
	return cmp.Compare(int64(a.n), int64(b.n))
}

func encode(parts []part) kv.Key {
	k := kv.Key{}
	for _, p := range parts {
		k = p.appendTo(k)
	}
	return k
}

// takeParts makes a tuple of arbitrary bytes: a kind, then a number or a length
// and that many bytes.
func takeParts(b []byte) []part {
	var parts []part
	for len(b) > 0 && len(parts) < 6 {
		p := part{kind: b[0] % 5}
		b = b[1:]
		if p.kind < 2 {
			n := 0
			if len(b) > 0 {
				n, b = min(int(b[0]%8), len(b)-1), b[1:]
			}
			p.text, b = string(b[:n]), b[n:]
		} else {
			var n [8]byte
			b = b[copy(n[:], b):]
			p.n = binary.BigEndian.Uint64(n[:])
		}
		parts = append(parts, p)
	}
	return parts
}

func checkPair(t *testing.T, a, b []part) {
	t.Helper()
	ka, kb := encode(a), encode(b)
	want := slices.CompareFunc(a, b, compareParts)
	if got := bytes.Compare(ka, kb); got != want {
		t.Fatalf("order of %v and %v is %d, want %d (keys %x and %x)", a, b, got, want, ka, kb)
	}
	checkRoundTrip(t, a)
	r := ka.Range()
	in := bytes.Compare(kb, r.From) >= 0 && bytes.Compare(kb, r.To) < 0
	if extends := len(b) >= len(a) && slices.Equal(b[:len(a)], a); in != extends {
		t.Fatalf("range of %v holds %v: %v, want %v", a, b, in, extends)
	}
}

func checkRoundTrip(t *testing.T, parts []part) {
	t.Helper()
	d := kv.DecodeKey(encode(parts))
	for i, p := range parts {
		if got := p.readFrom(d); got != p {
			t.Fatalf("part %d of %v came back as %v", i, parts, got)
		}
	}
	if err := d.End(); err != nil {
		t.Fatalf("%v: %v", parts, err)
	}
}

func FuzzKey(f *testing.F) {
	f.Add([]byte{1, 1, 'a'}, []byte{1, 2, 'a', 0})
	f.Add([]byte{0, 0}, []byte{0, 1, 0})
	f.Add([]byte{0, 2, 0, 0xff}, []byte{0, 1, 0})
	f.Add([]byte{0, 3, 0xff, 0xff, 0xff}, []byte{1, 0, 2, 0xff})
	f.Add([]byte{3, 0x80, 0, 0, 0, 0, 0, 0, 0}, []byte{3, 0, 0, 0, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, a, b []byte) { checkPair(t, takeParts(a), takeParts(b)) })
}

// Few values and many pairs, so that equal beginnings are common.
func TestKeyOrderAndInjectivityOfNearTuples(t *testing.T) {
	t.Parallel()
	texts := []string{"", "\x00", "\x00\x00", "\x00\xff", "\xff", "\xff\xff", "\xff\x00", "a", "a\x00",
		"a\x00\x01", "a\x00\xff", "a\x01", "aa", "ab", "\x01", "\x02", "\x06"}
	nums := []uint64{0, 1, 255, 256, math.MaxInt64, 1 << 63, math.MaxUint64 - 1, math.MaxUint64}
	var all []part
	for kind := range byte(5) {
		if kind < 2 {
			for _, s := range texts {
				all = append(all, part{kind: kind, text: s})
			}
			continue
		}
		for _, n := range nums {
			all = append(all, part{kind: kind, n: n})
		}
	}
	tuples := [][]part{nil}
	for _, p := range all {
		tuples = append(tuples, []part{p})
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		p := []part{all[rnd.IntN(len(all))], all[rnd.IntN(len(all))]}
		tuples = append(tuples, p, append(slices.Clone(p), all[rnd.IntN(len(all))]))
	}
	for _, a := range tuples {
		for _, b := range tuples {
			checkPair(t, a, b)
		}
	}
}

func TestKeysFromACommonBeginningDoNotShareMemory(t *testing.T) {
	t.Parallel()
	base := kv.Key(make([]byte, 0, 100)).String("scope")
	base = append(make(kv.Key, 0, 100), base...) // room to overwrite each other
	a, b, c := base.String("a"), base.Uint(7), base.Range()
	if !bytes.Equal(a, kv.Key{}.String("scope").String("a")) {
		t.Errorf("a later key changed an earlier one: %x", a)
	}
	if !bytes.Equal(b, kv.Key{}.String("scope").Uint(7)) {
		t.Errorf("a range changed a key: %x", b)
	}
	if !bytes.HasPrefix(c.To, base) {
		t.Errorf("range end %x does not begin with %x", c.To, base)
	}
}

// An id that is a prefix of another must not find the other's rows.
func TestDecodedBytesHaveMemoryOfTheirOwn(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"plain", "with \x00 a zero"} {
		key := kv.Key{}.Bytes([]byte(text))
		got := kv.DecodeKey(key).Bytes()
		clear(key)
		if string(got) != text {
			t.Errorf("%q became %q with the key it was read from", text, got)
		}
		if got == nil || cap(kv.DecodeKey(kv.Key{}.Bytes(nil)).Bytes()) != 0 {
			t.Error("an empty part is read as nil, or with the bytes of others behind it")
		}
	}
}

func TestKeyRangeLeavesOutLongerIDs(t *testing.T) {
	t.Parallel()
	r := kv.Key{}.String("order").Range()
	ids := map[string]bool{"order": true, "order\x00": false, "order\x00x": false, "order1": false,
		"orde": false}
	for id, want := range ids {
		k := kv.Key{}.String(id).Uint(1)
		if in := bytes.Compare(k, r.From) >= 0 && bytes.Compare(k, r.To) < 0; in != want {
			t.Errorf("rows of %q in the range of \"order\": %v, want %v", id, in, want)
		}
	}
}

func TestKeyTimeBounds(t *testing.T) {
	t.Parallel()
	decode := func(at time.Time) time.Time {
		d := kv.DecodeKey(kv.Key{}.Time(at))
		got := d.Time()
		if err := d.End(); err != nil {
			t.Fatal(err)
		}
		return got
	}
	at := time.Date(2026, 3, 4, 5, 6, 7, 89, time.FixedZone("x", 3600))
	if got := decode(at); !got.Equal(at) || got.Location() != time.UTC {
		t.Errorf("%v came back as %v", at, got)
	}
	if got := decode(time.Time{}); got.Year() != 1677 {
		t.Errorf("the zero time came back as %v, want the lower bound", got)
	}
	if got := decode(time.Date(2900, 1, 1, 0, 0, 0, 0, time.UTC)); got.Year() != 2262 {
		t.Errorf("the year 2900 came back as %v, want the upper bound", got)
	}
	low, high := kv.Key{}.Time(time.Time{}), kv.Key{}.Time(time.Date(2900, 1, 1, 0, 0, 0, 0, time.UTC))
	if now := (kv.Key{}.Time(at)); bytes.Compare(low, now) >= 0 || bytes.Compare(now, high) >= 0 {
		t.Error("the bounds do not enclose an instant of today")
	}
}

// Whatever is read from any bytes, either an error comes or the bytes are
// exactly the encoding of what was read.
func FuzzKeyDecoder(f *testing.F) {
	f.Add([]byte("\x02a\x00\x03"), "suit")
	f.Add([]byte(encode([]part{{kind: 1, text: "a\x00b"}, {kind: 2, n: 1}})), "\x01\x02")
	f.Add([]byte("\x01\x00\xff"), "\x00")
	f.Add([]byte{}, "")
	f.Fuzz(func(t *testing.T, raw []byte, kinds string) {
		d := kv.DecodeKey(raw)
		var parts []part
		for i := range min(len(kinds), 8) {
			parts = append(parts, part{kind: kinds[i] % 5}.readFrom(d))
		}
		if d.End() == nil && !bytes.Equal(encode(parts), raw) {
			t.Fatalf("%x was read as %v, which is written %x", raw, parts, encode(parts))
		}
	})
}

func TestKeyDecoderRefuses(t *testing.T) {
	t.Parallel()
	good := kv.Key{}.String("id").Uint(3)
	both := func(d *kv.KeyDecoder) {
		_ = d.String()
		d.Uint()
	}
	cases := map[string]struct {
		key  []byte
		read func(*kv.KeyDecoder)
		want string
	}{
		"nothing":       {nil, func(d *kv.KeyDecoder) { _ = d.String() }, "part of type"},
		"left over":     {good, func(d *kv.KeyDecoder) { _ = d.String() }, "9 bytes are left over"},
		"a garbage end": {append(slices.Clone(good), 9), both, "1 bytes"},
		"wrong type":    {good, func(d *kv.KeyDecoder) { _ = d.Bytes() }, "part of type 0x01"},
		"text cut":      {good[:2], func(d *kv.KeyDecoder) { _ = d.String() }, "no end"},
		"number cut":    {good[:len(good)-1], both, "cut short"},
		"sticky":        {good, func(d *kv.KeyDecoder) { d.Uint(); both(d) }, "part of type 0x03"},
	}
	for name, c := range cases {
		d := kv.DecodeKey(c.key)
		c.read(d)
		if err := d.End(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
	d := kv.DecodeKey(good)
	d.Uint() // an error: what follows is not read as if nothing had happened
	if s := d.String(); s != "" {
		t.Errorf("after an error a part is read as %q", s)
	}
	d = kv.DecodeKey(nil)
	if d.Bytes() != nil || d.String() != "" || d.Uint() != 0 || d.Int() != 0 || !d.Time().IsZero() {
		t.Error("after an error a part is not its zero value")
	}
}

func TestPrefixEnd(t *testing.T) {
	t.Parallel()
	ends := map[string]string{"": "", "\xff": "", "\xff\xff": "", "a": "b", "a\xff": "b", "a\xff\xff": "b",
		"\x00": "\x01", "a\x00": "a\x01", "\xfe\xff": "\xff"}
	for p, want := range ends {
		got := kv.PrefixEnd([]byte(p))
		if string(got) != want || (got == nil) != (want == "") {
			t.Errorf("PrefixEnd(%q) = %q, want %q", p, got, want)
		}
	}
}

func FuzzPrefix(f *testing.F) {
	f.Add([]byte("a\xff"), []byte("a\xff\xff"))
	f.Add([]byte{0xff}, []byte{0xff, 0xff, 0})
	f.Fuzz(func(t *testing.T, p, key []byte) {
		before := bytes.Clone(p)
		r := kv.Prefix(p)
		in := bytes.Compare(key, r.From) >= 0 && (r.To == nil || bytes.Compare(key, r.To) < 0)
		if in != bytes.HasPrefix(key, p) {
			t.Fatalf("key %x in Prefix(%x): %v", key, p, in)
		}
		if !bytes.Equal(p, before) {
			t.Fatal("Prefix changed its argument")
		}
	})
}

func TestUnixNanoNeverOverflows(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC)
	for _, c := range []struct {
		at   time.Time
		want int64
	}{
		{at, at.UnixNano()}, {at.Add(1<<63 - 1), 1<<63 - 1}, {time.Time{}, -1 << 63},
		{time.Unix(0, 1<<63-1), 1<<63 - 1}, {time.Unix(0, -1<<63), -1 << 63},
	} {
		if got := kv.UnixNano(c.at); got != c.want {
			t.Errorf("%v: %d, want %d", c.at, got, c.want)
		}
	}
}
