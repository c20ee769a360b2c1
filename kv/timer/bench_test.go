package timer

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"onced/kv"
	"onced/kv/boltkv"
	"onced/kv/memkv"
)

func goexit() { runtime.Goexit() }

// engines are what a benchmark runs on.
var engines = map[string]func(b *testing.B) kv.Store{
	"mem": func(*testing.B) kv.Store { return memkv.New(memkv.Options{}) },
	"bolt": func(b *testing.B) kv.Store {
		s, err := boltkv.Open(b.Context(), filepath.Join(b.TempDir(), "store"), nil)
		if err != nil {
			b.Fatal(err)
		}
		return s
	},
}

func BenchmarkSet(b *testing.B) {
	for name, open := range engines {
		b.Run(name, func(b *testing.B) {
			s := open(b)
			defer s.Close()
			r := New(s, Config{})
			due := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
			for i := 0; b.Loop(); i++ {
				err := s.Update(b.Context(), func(w kv.Writer) error {
					t := Timer{Kind: "bench", Owner: fmt.Sprint(i), Due: due.Add(time.Duration(i))}
					return r.Set(w, t)
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "timers/s")
		})
	}
}

// BenchmarkFire measures from Run to the last of 10,000 due timers.
func BenchmarkFire(b *testing.B) {
	for name, open := range engines {
		for _, kind := range []string{"tx", "outside"} {
			b.Run(name+"/"+kind, func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					s := open(b)
					fireAll(b, s, kind)
					s.Close()
					b.StartTimer()
				}
				b.ReportMetric(float64(b.N*benchTimers)/b.Elapsed().Seconds(), "timers/s")
			})
		}
	}
}

const benchTimers = 10_000

// fireAll runs the benchmark's clock while timers fire, and leaves it stopped.
func fireAll(b *testing.B, s kv.Store, kind string) {
	r := New(s, Config{})
	left := make(chan struct{}, benchTimers)
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
	for part := range benchTimers / 1000 {
		err := s.Update(b.Context(), func(w kv.Writer) error {
			for i := range 1000 {
				t := Timer{Kind: "bench", Owner: fmt.Sprint(i), Due: time.Unix(int64(part), int64(i+1))}
				if err := r.Set(w, t); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error)
	b.StartTimer()
	go func() { done <- r.Run(ctx) }()
	for range benchTimers {
		<-left
	}
	b.StopTimer()
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}
