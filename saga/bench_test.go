package saga

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"onced/kv"
	"onced/kv/boltkv"
	"onced/kv/claim"
	"onced/kv/memkv"
)

// BenchmarkIdempotent measures a call of an effect that costs nothing: fresh is
// two commits, replay one read.
func BenchmarkIdempotent(b *testing.B) {
	for _, engine := range []struct {
		name string
		open func() (kv.Store, error)
	}{
		{"memkv", func() (kv.Store, error) { return memkv.New(memkv.Options{}), nil }},
		{"boltkv", func() (kv.Store, error) {
			return boltkv.Open(b.Context(), filepath.Join(b.TempDir(), "s.db"), nil)
		}},
	} {
		for _, clients := range []int{1, 64} {
			for _, fresh := range []bool{true, false} {
				b.Run(fmt.Sprintf("%s/fresh=%v/clients=%d", engine.name, fresh, clients), func(b *testing.B) {
					store, err := engine.open()
					if err != nil {
						b.Fatal(err)
					}
					defer store.Close()
					benchmarkIdempotent(b, store, clients, fresh)
				})
			}
		}
	}
}

func benchmarkIdempotent(b *testing.B, store kv.Store, clients int, fresh bool) {
	claims, err := claim.New(b.Context(), store, claim.Config{})
	if err != nil {
		b.Fatal(err)
	}
	var n atomic.Int64
	charge := Idempotent(claims, "charge", func(context.Context, order) (receipt, error) {
		return receipt{No: int(n.Add(1))}, nil
	}, Key(orderID))
	var next atomic.Int64
	var wg sync.WaitGroup
	if !fresh {
		if _, err := charge(b.Context(), order{ID: "0"}); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	for range clients {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if !fresh {
					i = 0
				}
				if _, err := charge(b.Context(), order{ID: fmt.Sprint(i)}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
