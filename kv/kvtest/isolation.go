package kvtest

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"

	"onced/kv"
)

var isolationTests = []namedTest{
	{"Isolation/AViewIsASnapshot", testViewIsASnapshot},
	{"Isolation/ViewsSeeWholeTransactions", testViewsSeeWholeTransactions},
	{"Isolation/NoIncrementIsLost", testNoIncrementIsLost},
	{"Isolation/NoWriteSkew", testNoWriteSkew},
	{"Isolation/NobodyStarves", testNobodyStarves},
}

// add adds n to the number in a row and returns what it was.
func add(w kv.Writer, key string, n uint64) (uint64, error) {
	was, err := number(w, key)
	if err != nil {
		return 0, err
	}
	return was, w.Put(table, []byte(key), binary.BigEndian.AppendUint64(nil, was+n))
}

func number(r kv.Reader, key string) (uint64, error) {
	v, err := r.Get(table, []byte(key))
	if err != nil || v == nil {
		return 0, err
	}
	if len(v) != 8 {
		return 0, fmt.Errorf("row %q is no number: %q", key, v)
	}
	return binary.BigEndian.Uint64(v), nil
}

func wantNumber(t testing.TB, st kv.Store, key string, want uint64) {
	t.Helper()
	view(t, st, func(r kv.Reader) error {
		got, err := number(r, key)
		if got != want {
			t.Errorf("row %q is %d, want %d", key, got, want)
		}
		return err
	})
}

// A View that is open while others commit reads on in its own state, and holds
// nobody up.
func testViewIsASnapshot(t *testing.T, s *suite) {
	st := s.store(t)
	put(t, st, "a", "old", "b", "old")
	view(t, st, func(r kv.Reader) error {
		ended := make(chan error, 1)
		go func() {
			for i := range 100 {
				err := st.Update(context.Background(), func(w kv.Writer) error {
					if err := deleteAll(w, "b"); err != nil {
						return err
					}
					return putAll(w, "a", "new", fmt.Sprint("c", i), string(fill(1000)))
				})
				if err != nil {
					ended <- err
					return
				}
			}
			ended <- nil
		}()
		seq := r.Scan(table, kv.Range{})
		if err := <-ended; err != nil {
			return err
		}
		if got, err := scan(r, kv.Range{}); got != "a=old b=old" || err != nil {
			t.Errorf("the view sees %q, %v; want what it saw at first", got, err)
		}
		for e, err := range seq {
			if err != nil || string(e.Value) != "old" {
				t.Errorf("a scan begun before the commits yields %q=%q, %v", e.Key, e.Value, err)
			}
		}
		v, err := r.Get(table, []byte("a"))
		if string(v) != "old" {
			t.Errorf("the view reads %q", v)
		}
		return err
	})
	wantRow(t, st, "a", "new")
	wantRow(t, st, "b", "-")
}

// Writers keep rows equal; no View, and no Update, ever sees them differ, and
// none goes back behind what was seen before.
func testViewsSeeWholeTransactions(t *testing.T, s *suite) {
	st := s.store(t)
	ctx := context.Background()
	equal := func(r kv.Reader, least uint64) (uint64, error) {
		a, err := number(r, "a")
		if err != nil {
			return 0, err
		}
		for e, err := range r.Scan(table, kv.Range{}) {
			if err != nil {
				return 0, err
			}
			if n := binary.BigEndian.Uint64(e.Value); n != a {
				return 0, fmt.Errorf("row %q is %d while row a is %d", e.Key, n, a)
			}
		}
		if a < least {
			return 0, fmt.Errorf("the state went back from %d to %d", least, a)
		}
		return a, nil
	}
	// rounds is what one caller does: it changes the rows, then looks at them.
	rounds := func() error {
		var least uint64
		for range 50 {
			var made, seen uint64
			err := st.Update(ctx, func(w kv.Writer) error {
				n, err := equal(w, least)
				for _, k := range []string{"a", "b", "c"} {
					if err == nil {
						_, err = add(w, k, 1)
					}
				}
				made = n + 1
				return err
			})
			if err != nil {
				return err
			}
			err = st.View(ctx, func(r kv.Reader) error {
				n, err := equal(r, made)
				seen = n
				return err
			})
			if err != nil {
				return err
			}
			least = seen
		}
		return nil
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := rounds(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	wantNumber(t, st, "c", 200)
}

func testNoIncrementIsLost(t *testing.T, s *suite) {
	st := s.store(t)
	increment(t, st, 16, 50)
}

// increment runs updates that all read and write one row, and checks that the
// values they saw are each number once.
func increment(t *testing.T, st kv.Store, callers, times int) {
	t.Helper()
	seen := make([][]uint64, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for range times {
				var was uint64
				err := st.Update(context.Background(), func(w kv.Writer) error {
					n, err := add(w, "n", 1)
					was = n
					return err
				})
				if err != nil {
					t.Error(err)
					return
				}
				seen[i] = append(seen[i], was)
			}
		})
	}
	wg.Wait()
	wantNumber(t, st, "n", uint64(callers*times))
	once := map[uint64]bool{}
	for _, own := range seen {
		for i, n := range own {
			if once[n] {
				t.Fatalf("two transactions saw the number %d", n)
			}
			once[n] = true
			if i > 0 && n <= own[i-1] {
				t.Fatalf("a caller saw %d after it had seen %d", n, own[i-1])
			}
		}
	}
}

// Two may each give up their duty only when the other is still on duty.
func testNoWriteSkew(t *testing.T, s *suite) {
	st := s.store(t)
	for range 40 {
		put(t, st, "alice", "on", "bob", "on")
		var wg sync.WaitGroup
		start := make(chan struct{})
		for _, pair := range [][2]string{{"alice", "bob"}, {"bob", "alice"}} {
			wg.Go(func() {
				<-start
				err := st.Update(context.Background(), func(w kv.Writer) error {
					other, err := w.Get(table, []byte(pair[1]))
					if err != nil || string(other) != "on" {
						return err
					}
					return putAll(w, pair[0], "off")
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		close(start)
		wg.Wait()
		if a, b := get(t, st, "alice"), get(t, st, "bob"); string(a) == string(b) {
			t.Fatalf("both are %s", a)
		}
	}
}

func testNobodyStarves(t *testing.T, s *suite) {
	st := s.store(t)
	increment(t, st, 200, 20)
}
