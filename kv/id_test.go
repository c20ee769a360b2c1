package kv_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"onced/kv"
)

var may = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func newID(t *testing.T, at time.Time, random io.Reader) string {
	t.Helper()
	id, err := kv.NewID("run", at, random)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestNewIDSortsByTime(t *testing.T) {
	t.Parallel()
	var ids []string
	high, low := bytes.Repeat([]byte{0xff}, 10), make([]byte, 10)
	for at := range 200 {
		// Random bits that fall with time: they must not matter.
		random := high
		if at%2 == 1 {
			random = low
		}
		ids = append(ids, newID(t, may.Add(time.Duration(at)*time.Millisecond), bytes.NewReader(random)))
	}
	ids = append(ids, newID(t, may.AddDate(100, 0, 0), bytes.NewReader(low)))
	if !slices.IsSorted(ids) {
		t.Errorf("ids of rising milliseconds are not in order: %q", ids)
	}
}

func TestNewIDShape(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 5000 {
		id := newID(t, may, rand.Reader)
		rest, ok := strings.CutPrefix(id, "run_")
		if !ok || len(rest) != 26 || strings.Trim(rest, "0123456789abcdefghjkmnpqrstvwxyz") != "" {
			t.Fatalf("id %q is not run_ and 26 letters of the alphabet", id)
		}
		if seen[id] {
			t.Fatalf("id %q twice", id)
		}
		seen[id] = true
	}
}

// All 80 random bits and all 48 bits of time must be in the id.
func TestNewIDKeepsEveryBit(t *testing.T) {
	t.Parallel()
	base := newID(t, may, bytes.NewReader(make([]byte, 10)))
	seen := map[string]bool{base: true}
	for bit := range 80 {
		random := make([]byte, 10)
		random[bit/8] = 1 << (bit % 8)
		seen[newID(t, may, bytes.NewReader(random))] = true
	}
	for bit := range 47 {
		at := time.UnixMilli(may.UnixMilli() ^ 1<<bit)
		seen[newID(t, at, bytes.NewReader(make([]byte, 10)))] = true
	}
	if len(seen) != 1+80+47 {
		t.Errorf("%d different ids, want %d", len(seen), 1+80+47)
	}
}

func TestNewIDWithoutRandomness(t *testing.T) {
	t.Parallel()
	id, err := kv.NewID("run", may, bytes.NewReader(make([]byte, 9)))
	if !errors.Is(err, io.ErrUnexpectedEOF) || id != "" {
		t.Errorf("id %q, error %v; want no id and ErrUnexpectedEOF", id, err)
	}
}

func TestLimitErrorsPrintTheLimitAndTheRemedy(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", kv.MaxTableName+1)
	cases := map[string]struct {
		err  error
		want []string
	}{
		"long key": {kv.CheckKey("claim.record", make([]byte, kv.MaxKeySize+1)),
			[]string{"claim.record", "2048 bytes", "2049", "shorten"}},
		"empty key": {kv.CheckKey("claim.record", nil),
			[]string{"claim.record", "2048 bytes", "at least one byte"}},
		"long name":  {kv.CheckKey(kv.TableID(long), []byte("k")), []string{"64 bytes", "65", "use a name"}},
		"empty name": {kv.CheckKey("", []byte("k")), []string{"64 bytes", "use a name"}},
		"large value": {kv.CheckValue("t", make([]byte, kv.MaxValueSize+1)),
			[]string{"16777216 bytes", "16777217", "reference"}},
		"huge count": {&kv.LimitError{What: "w", Limit: math.MaxInt64, Unit: "rows", Remedy: "r"},
			[]string{"9223372036854775807 rows"}},
	}
	for name, c := range cases {
		if _, ok := errors.AsType[*kv.LimitError](c.err); !ok {
			t.Errorf("%s: %v is no LimitError", name, c.err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(c.err.Error(), w) {
				t.Errorf("%s: %q does not say %q", name, c.err, w)
			}
		}
	}
	for name, err := range map[string]error{
		"longest key":   kv.CheckKey("t", make([]byte, kv.MaxKeySize)),
		"shortest key":  kv.CheckKey("t", []byte{0}),
		"longest name":  kv.CheckKey(kv.TableID(long[1:]), []byte("k")),
		"largest value": kv.CheckValue("t", make([]byte, kv.MaxValueSize)),
		"nil value":     kv.CheckValue("t", nil),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
