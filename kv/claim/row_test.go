package claim

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"onced/kv"
)

// Of a row that was cut, lengthened, or has no state, nothing is believed.
func TestDamagedRecordsAreRefused(t *testing.T) {
	t.Parallel()
	m := Machine{Epoch: 3, Opened: start, Retention: time.Hour, MaxResult: 10}
	away, err := m.Begin(nil, start, ask("A", remote(time.Minute)))
	if err != nil {
		t.Fatal(err)
	}
	omitted, err := m.Refused(&away.Record, start, token("A"), text("more than ten bytes"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := recordTable.Encode(omitted.Record)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decodeRecord(raw); err != nil {
		t.Fatal(err)
	}
	for n := range raw {
		if r, err := decodeRecord(raw[:n]); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("the first %d bytes: %+v, %v; want ErrCorrupt", n, r, err)
		}
	}
	if r, err := decodeRecord(append(bytes.Clone(raw), 0)); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("a byte more: %+v, %v; want ErrCorrupt", r, err)
	}
	none := omitted.Record
	none.State = Absent
	raw, err = recordTable.Encode(none)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := decodeRecord(raw); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("a row of no claim: %+v, %v; want ErrCorrupt", r, err)
	}
}
