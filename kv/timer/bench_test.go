package timer

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"onced/kv"
	"onced/kv/memkv"
)

func goexit() { runtime.Goexit() }

func BenchmarkSet(b *testing.B) {
	s := memkv.New(memkv.Options{})
	defer s.Close()
	r := New(s, Config{})
	due := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := 0; b.Loop(); i++ {
		err := s.Update(b.Context(), func(w kv.Writer) error {
			return r.Set(w, Timer{Kind: "bench", Owner: fmt.Sprint(i), Due: due.Add(time.Duration(i))})
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "timers/s")
}

// BenchmarkFire measures from Run to the last of 10,000 due timers.
func BenchmarkFire(b *testing.B) {
	const n = 10_000
	for _, kind := range []string{"tx", "outside"} {
		b.Run(kind, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				s := memkv.New(memkv.Options{})
				r := New(s, Config{})
				left := make(chan struct{}, n)
				h := Handler{Outside: func(context.Context, Timer) error { left <- struct{}{}; return nil }}
				if kind == "tx" {
					h = Handler{Tx: func(_ context.Context, w kv.Writer, _ Timer) error {
						w.OnCommit(func() { left <- struct{}{} })
						return nil
					}}
				}
				if err := r.Handle("bench", h); err != nil {
					b.Fatal(err)
				}
				err := s.Update(b.Context(), func(w kv.Writer) error {
					for i := range n {
						t := Timer{Kind: "bench", Owner: fmt.Sprint(i), Due: time.Unix(int64(i), 1)}
						if err := r.Set(w, t); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
				ctx, cancel := context.WithCancel(b.Context())
				done := make(chan error)
				b.StartTimer()
				go func() { done <- r.Run(ctx) }()
				for range n {
					<-left
				}
				b.StopTimer()
				cancel()
				if err := <-done; err != nil {
					b.Fatal(err)
				}
				s.Close()
				b.StartTimer()
			}
			b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "timers/s")
		})
	}
}
