package boltkv_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"onced/kv"
	"onced/kv/boltkv"
)

const table kv.TableID = "test.rows"

func TestConcurrentIncrementsAreSerializable(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, err := boltkv.Open(ctx, filepath.Join(t.TempDir(), "s.db"), &boltkv.Options{MaxCalls: 16})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	boom := errors.New("boom")
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for j := range 20 {
				err := s.Update(ctx, func(w kv.Writer) error {
					v, err := w.Get(table, []byte("n"))
					if err != nil {
						return err
					}
					if err := w.Put(table, []byte("n"), append(v, 'x')); err != nil {
						return err
					}
					if (i+j)%4 == 0 {
						return boom
					}
					return w.Put(table, fmt.Appendf(nil, "k%d-%d", i, j), nil)
				})
				if want := (i+j)%4 == 0; errors.Is(err, boom) != want {
					t.Errorf("got %v", err)
				}
			}
		})
	}
	wg.Wait()
	err = s.View(ctx, func(r kv.Reader) error {
		v, err := r.Get(table, []byte("n"))
		if len(v) != 64*15 {
			t.Errorf("%d increments, want %d", len(v), 64*15)
		}
		e, err2 := r.Get(table, []byte("k0-1"))
		if e == nil || len(e) != 0 {
			t.Errorf("empty value came back as %v", e)
		}
		return errors.Join(err, err2)
	})
	if err != nil {
		t.Fatal(err)
	}
}
