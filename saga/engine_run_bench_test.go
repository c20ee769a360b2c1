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
	"onced/kv/feed"
	"onced/kv/memkv"
	"onced/kv/timer"
)

// BenchmarkEngine measures what the engine itself takes for a run of three steps whose
// functions do nothing, from the start to its end: good completes, bad is undone after
// its third step was refused. On memkv, with -cpu 1, the time is that of the processor.
func BenchmarkEngine(b *testing.B) {
	for _, of := range []struct {
		name string
		open func() (kv.Store, error)
	}{
		{"memkv", func() (kv.Store, error) { return memkv.New(memkv.Options{}), nil }},
		{"boltkv", func() (kv.Store, error) {
			return boltkv.Open(b.Context(), filepath.Join(b.TempDir(), "s.db"), nil)
		}},
	} {
		for _, clients := range []int{1, 64} {
			for _, last := range []error{nil, Refused(errTimeout)} {
				kind := "good"
				if last != nil {
					kind = "bad"
				}
				b.Run(fmt.Sprintf("%s/%s/clients=%d", of.name, kind, clients), func(b *testing.B) {
					store, err := of.open()
					if err != nil {
						b.Fatal(err)
					}
					defer store.Close()
					benchmarkEngine(b, store, clients, last)
				})
			}
		}
	}
}

// rawSteps is a saga of three steps of functions of a [Call].
func rawSteps(last error) *Definition {
	d := New("checkout")
	for i := range 3 {
		act := func(context.Context, *Call) ([]byte, error) {
			if i == 2 && last != nil {
				return nil, last
			}
			return []byte(`{"id":"ch_1","order":"1001","amount":"49.90"}`), nil
		}
		undo := func(context.Context, *Call) error { return nil }
		d.Step(fmt.Sprint("step", i), act, undo, Host("shop"))
	}
	return d
}

func benchmarkEngine(b *testing.B, store kv.Store, clients int, last error) {
	b.ReportAllocs()
	timers := timer.New(store, timer.Config{})
	e, err := NewEngine(store, Config{Timers: timers, Feed: feed.New(feed.Config{}), Calls: 1024})
	if err == nil {
		err = e.Register(rawSteps(last))
	}
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var serve, work sync.WaitGroup
	serve.Go(func() { _ = e.Serve(ctx) })
	serve.Go(func() { _ = timers.Run(ctx) })
	defer serve.Wait()
	defer cancel()
	input := []byte(`{"order":"1001","amount":"49.90","card":"good"}`)
	var next atomic.Int64
	if _, err := e.Run(ctx, rawSteps(last), "first", nil); err != nil && last == nil { // it is served
		b.Fatal(err)
	}
	b.ResetTimer()
	for range clients {
		work.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				s, err := e.StartRun(b.Context(), StartRequest{Definition: "checkout", Principal: "shop",
					Key: fmt.Sprint("order-", i), Input: input})
				if err != nil {
					b.Error(err)
					return
				}
				if v, err := e.Wait(b.Context(), s.Run); v == nil || !v.State.Status.Terminal() {
					b.Error(err)
					return
				}
			}
		})
	}
	work.Wait()
	b.StopTimer()
}
