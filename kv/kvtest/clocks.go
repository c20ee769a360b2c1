package kvtest

import (
	"context"
	"testing"
	"time"

	"onced/kv"
	"onced/kv/kvtest/testclock"
)

var clockTests = []namedTest{
	{"Clock/TransactionsTakeTheClocksInstant", testClockInstant},
	{"Clock/TransactionsAreBoundedInTime", testTxTime},
}

func newClock() *testclock.Clock {
	return testclock.At(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
}

func testClockInstant(t *testing.T, s *suite) {
	clock := newClock()
	st := closing(t, s.caps.Clock(t, clock))
	for range 3 {
		clock.Add(time.Hour)
		check := func(r kv.Reader) {
			want := clock.Now()
			clock.Add(time.Second)
			if got := r.Now(); !got.Equal(want) {
				t.Errorf("the transaction's instant is %v, the clock said %v when it began", got, want)
			}
		}
		update(t, st, func(w kv.Writer) error {
			check(w)
			return nil
		})
		view(t, st, func(r kv.Reader) error {
			check(r)
			return nil
		})
	}
}

func testTxTime(t *testing.T, s *suite) {
	clock := newClock()
	st := closing(t, s.caps.Clock(t, clock))
	putMany(t, st, 1000)
	late := func(r kv.Reader) error {
		clock.Add(kv.MaxTxTime)
		if _, err := r.Get(table, rowKey(1)); err != nil {
			t.Errorf("Get within the time: %v", err)
		}
		n := 0
		var last error
		for _, err := range r.Scan(table, kv.Range{}) {
			if n++; n == 3 {
				clock.Add(time.Millisecond)
			}
			last = err
		}
		wantLimit(t, last, "10000 ms", "split")
		if n > 900 {
			t.Errorf("a scan went on for %d rows after its time", n-3)
		}
		_, err := r.Get(table, rowKey(1))
		wantLimit(t, err, "10000 ms")
		return err
	}
	wantLimit(t, st.View(context.Background(), late), "10000 ms")
	err := st.Update(context.Background(), func(w kv.Writer) error {
		if err := putAll(w, "a", "1"); err != nil {
			return err
		}
		err := late(w)
		wantLimit(t, w.Put(table, []byte("b"), nil), "10000 ms")
		wantLimit(t, w.Delete(table, rowKey(1)), "10000 ms")
		return err
	})
	wantLimit(t, err, "10000 ms")
	wantRow(t, st, "a", "-")
	put(t, st, "a", "1") // the next one has its own time
}
