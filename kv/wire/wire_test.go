package wire_test

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"time"

	"onced/kv/wire"
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 5).UTC()
	e := wire.Encoder{Bytes: []byte("head"), Base: at.UnixNano()}
	e.Uint(math.MaxUint64)
	e.Int(math.MinInt64)
	e.Text("naïve\x00")
	e.Blob(nil)
	e.Blob([]byte{})
	e.Blob([]byte("b"))
	e.Time(time.Time{})
	e.Time(at)
	e.Time(at.Add(-time.Hour))
	e.Nano(math.MaxInt64)
	e.Uint(wire.Flags(true, false, true))
	e.Raw([]byte("fixed"))
	d := wire.NewDecoder(e.Bytes)
	d.Base = at.UnixNano()
	if got := string(d.Take(4)); got != "head" {
		t.Errorf("head: %q", got)
	}
	if n, i := d.Uint(), d.Int(); n != math.MaxUint64 || i != math.MinInt64 {
		t.Errorf("numbers: %d %d", n, i)
	}
	if s := d.Text(); s != "naïve\x00" {
		t.Errorf("text: %q", s)
	}
	if b := d.Blob(); b != nil {
		t.Errorf("nil: %v", b)
	}
	if b := d.Blob(); b == nil || len(b) != 0 {
		t.Errorf("empty: %v", b)
	}
	if b := d.Blob(); string(b) != "b" || cap(b) != 1 {
		t.Errorf("blob: %q, room for %d", b, cap(b))
	}
	for _, want := range []time.Time{{}, at, at.Add(-time.Hour)} {
		if got := d.Time(); !got.Equal(want) || got.IsZero() != want.IsZero() {
			t.Errorf("time: %v, want %v", got, want)
		}
	}
	if n := d.Nano(); n != math.MaxInt64 {
		t.Errorf("nano: %d", n)
	}
	if n := d.UpTo(7); n != 5 {
		t.Errorf("flags: %d", n)
	}
	var fixed [5]byte
	if d.Fill(fixed[:]); string(fixed[:]) != "fixed" || d.End() != nil {
		t.Errorf("fixed: %q, %v", fixed, d.End())
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   []byte
		read func(d *wire.Decoder)
	}{
		"no number":            {nil, func(d *wire.Decoder) { d.Uint() }},
		"no signed number":     {[]byte{0x80}, func(d *wire.Decoder) { d.Int() }},
		"a long number":        {bytes.Repeat([]byte{0xff}, 11), func(d *wire.Decoder) { d.Uint() }},
		"too much":             {[]byte{8}, func(d *wire.Decoder) { d.UpTo(7) }},
		"a huge count":         {[]byte{0xff, 0xff, 0xff, 0xff, 0x7f}, func(d *wire.Decoder) { d.Count() }},
		"more than follow":     {[]byte{2, 1}, func(d *wire.Decoder) { d.Many() }},
		"a short text":         {[]byte{3, 'a'}, func(d *wire.Decoder) { d.Text() }},
		"a short blob":         {[]byte{3, 'a'}, func(d *wire.Decoder) { d.Blob() }},
		"a short part":         {[]byte{3}, func(d *wire.Decoder) { d.Fill(make([]byte, 2)) }},
		"no time":              {[]byte{2, 1}, func(d *wire.Decoder) { d.Time() }},
		"what is left":         {[]byte{3, 3}, func(d *wire.Decoder) { d.Uint() }},
		"what the caller says": {[]byte{3}, func(d *wire.Decoder) { d.Fail() }},
	} {
		t.Run(name, func(t *testing.T) {
			d := wire.NewDecoder(c.in)
			c.read(d)
			if err := d.End(); !errors.Is(err, wire.ErrMalformed) {
				t.Errorf("%v, want ErrMalformed", err)
			}
			if n, s := d.Uint(), d.Text(); n != 0 || s != "" || d.Len() != 0 {
				t.Errorf("after the fault: %d %q, %d left", n, s, d.Len())
			}
		})
	}
}

func FuzzDecoder(f *testing.F) {
	f.Add([]byte{1, 2, 3}, []byte{0, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Add([]byte("text"), []byte{3, 3, 3})
	f.Fuzz(func(t *testing.T, in, asked []byte) {
		d := wire.NewDecoder(in)
		for _, a := range asked {
			before := d.Len()
			switch a % 9 {
			case 0:
				d.Uint()
			case 1:
				d.Int()
			case 2:
				d.UpTo(uint64(a))
			case 3:
				if s := d.Text(); len(s) > before {
					t.Errorf("a text of %d bytes from %d", len(s), before)
				}
			case 4:
				if b := d.Blob(); len(b) > before {
					t.Errorf("a blob of %d bytes from %d", len(b), before)
				}
			case 5:
				d.Time()
			case 6:
				if n := d.Many(); n > before {
					t.Errorf("%d things in %d bytes", n, before)
				}
			case 7:
				d.Fill(make([]byte, a))
			case 8:
				d.Take(uint64(a) << 56)
			}
			if d.Len() > before {
				t.Fatal("bytes came back")
			}
		}
	})
}
