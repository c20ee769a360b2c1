package kv_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"onced/kv"
	"onced/kv/memkv"
)

// viewCounter counts Views, to see how a scan is paged.
type viewCounter struct {
	kv.Store
	views int
	err   error // of the next View
}

func (v *viewCounter) View(ctx context.Context, fn func(kv.Reader) error) error {
	v.views++
	if v.err != nil {
		return v.err
	}
	return v.Store.View(ctx, fn)
}

func numbered(t *testing.T, n, size int) *viewCounter {
	t.Helper()
	s := memkv.New(memkv.Options{})
	t.Cleanup(func() { s.Close() })
	for i := range n {
		err := s.Update(context.Background(), func(w kv.Writer) error {
			return w.Put("t", fmt.Appendf(nil, "%03d", i), make([]byte, size))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return &viewCounter{Store: s}
}

func readPages(t *testing.T, s kv.Store, r kv.Range, page int) []string {
	t.Helper()
	var keys []string
	for e, err := range kv.Pages(context.Background(), s, "t", r, page) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, string(e.Key))
	}
	return keys
}

// Every size of page, limit, bound and direction against the plain meaning.
func TestPages(t *testing.T) {
	t.Parallel()
	const rows = 7
	s := numbered(t, rows, 1)
	for page := 1; page <= rows+1; page++ {
		for limit := 0; limit <= rows+1; limit++ {
			for from := 0; from <= rows; from++ {
				for to := from; to <= rows+1; to++ {
					for _, reverse := range []bool{false, true} {
						checkPages(t, s, bounds{from, to, page}, kv.Range{Reverse: reverse, Limit: limit})
					}
				}
			}
		}
	}
}

// bounds are the numbers of the first row and of the one after the last, and
// the size of a page.
type bounds struct{ from, to, page int }

func checkPages(t *testing.T, s *viewCounter, b bounds, r kv.Range) {
	t.Helper()
	from, to, page := b.from, b.to, b.page
	r.From = fmt.Appendf(nil, "%03d", from)
	if from == 0 {
		r.From = nil
	}
	r.To = fmt.Appendf(nil, "%03d", to)
	if to == 8 {
		r.To, to = nil, 7
	}
	var want []string
	for i := from; i < min(to, 7); i++ {
		want = append(want, fmt.Sprintf("%03d", i))
	}
	if r.Reverse {
		slices.Reverse(want)
	}
	if r.Limit > 0 {
		want = want[:min(len(want), r.Limit)]
	}
	s.views = 0
	got := readPages(t, s, r, page)
	if !slices.Equal(got, want) {
		t.Fatalf("[%s, %s) %+v page %d: %v, want %v", r.From, r.To, r, page, got, want)
	}
	if most := len(want)/page + 1; s.views > most || s.views < (len(want)+page-1)/page {
		t.Fatalf("%d rows in pages of %d took %d views", len(want), page, s.views)
	}
}

func TestPagesDefaultSizeAndBytes(t *testing.T) {
	t.Parallel()
	s := numbered(t, 501, 1)
	if n := len(readPages(t, s, kv.Range{}, 0)); n != 501 || s.views != 2 {
		t.Errorf("501 rows: %d rows in %d views, want 2", n, s.views)
	}
	s = numbered(t, 10, 1<<20)
	if n := len(readPages(t, s, kv.Range{Reverse: true}, 0)); n != 10 || s.views != 3 {
		t.Errorf("10 rows of 1 MiB: %d rows in %d views, want pages of 4 MiB, so 3", n, s.views)
	}
}

func TestPagesCanBeReadAgain(t *testing.T) {
	t.Parallel()
	s := numbered(t, 5, 1)
	seq := kv.Pages(context.Background(), s, "t", kv.Range{Limit: 4}, 2)
	for range 2 {
		var keys []string
		for e, err := range seq {
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, string(e.Key))
		}
		if got := strings.Join(keys, " "); got != "000 001 002 003" {
			t.Errorf("read %s", got)
		}
	}
}

// Between two pages rows come and go; each row is seen at most once, in order.
func TestPagesWhileRowsChange(t *testing.T) {
	t.Parallel()
	s := numbered(t, 6, 1)
	ctx := context.Background()
	var keys []string
	for e, err := range kv.Pages(ctx, s, "t", kv.Range{}, 2) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, string(e.Key))
		err := s.Update(ctx, func(w kv.Writer) error { // no View is open here
			if err := w.Delete("t", e.Key); err != nil {
				return err
			}
			return w.Put("t", []byte("0015"), nil)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(keys, " "); got != "000 001 0015 002 003 004 005" {
		t.Errorf("read %s", got)
	}
}

func TestPagesErrorsAndBreak(t *testing.T) {
	t.Parallel()
	s := numbered(t, 6, 1)
	broken := errors.New("broken")
	n, failed := 0, 0
	for _, err := range kv.Pages(context.Background(), s, "t", kv.Range{}, 2) {
		if err != nil {
			if !errors.Is(err, broken) {
				t.Errorf("error %v", err)
			}
			failed++
			continue
		}
		if n++; n == 3 {
			s.err = broken
		}
	}
	if n != 4 || failed != 1 {
		t.Errorf("%d rows and %d errors, want two pages and one error at the end", n, failed)
	}
	s.err, s.views = nil, 0
	for range kv.Pages(context.Background(), s, "t", kv.Range{}, 2) {
		break
	}
	if s.views != 1 {
		t.Errorf("%d views after leaving the first page", s.views)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, err := range kv.Pages(ctx, s, "t", kv.Range{}, 2) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	}
}
