package saga

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"onced/kv"
	"onced/kv/boltkv"
	"onced/kv/feed"
	"onced/kv/timer"
)

// engineBench is an engine on a file, for measuring.
type engineBench struct {
	*testing.B
	store  *boltkv.Store
	path   string
	engine *Engine
	end    func()
	runs   atomic.Int64
}

func openBench(b *testing.B, defs ...*Definition) *engineBench {
	b.Helper()
	x := &engineBench{B: b, path: filepath.Join(b.TempDir(), "saga.db")}
	x.open(defs...)
	return x
}

func (x *engineBench) open(defs ...*Definition) {
	x.Helper()
	store, err := boltkv.Open(x.Context(), x.path, nil)
	if err != nil {
		x.Fatal(err)
	}
	timers := timer.New(store, timer.Config{})
	e, err := NewEngine(store, Config{Timers: timers, Feed: feed.New(feed.Config{}), Calls: 1024})
	if err == nil {
		err = e.Register(defs...)
	}
	if err != nil {
		x.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = e.Serve(ctx) })
	work.Go(func() { _ = timers.Run(ctx) })
	x.store, x.engine = store, e
	x.end = func() {
		cancel()
		work.Wait()
		if err := store.Close(); err != nil {
			x.Error(err)
		}
	}
}

// quickSteps is a saga of three steps that do nothing.
func quickSteps(name string, last error) *Definition {
	d := New(name)
	for i := range 3 {
		act := func(context.Context, order) (receipt, error) {
			if i == 2 && last != nil {
				return receipt{}, last
			}
			return receipt{Order: "o", No: i}, nil
		}
		d.Step(fmt.Sprint("step", i), act, func(context.Context, order, receipt) error { return nil })
	}
	return d
}

// sagaOnce runs one saga to its end.
func (x *engineBench) sagaOnce(d *Definition) error {
	id := fmt.Sprint("order-", x.runs.Add(1))
	v, err := x.engine.Run(context.Background(), d, id, order{ID: id, Cents: 4200})
	if v == nil || !v.State.Status.Terminal() {
		return err
	}
	return nil
}

// bareOnce makes n commits of one row of 300 bytes, one after the other.
func bareOnce(s kv.Store, key string, n int) error {
	value := bytes.Repeat([]byte("v"), 300)
	for i := range n {
		err := s.Update(context.Background(), func(w kv.Writer) error {
			return w.Put("bare", kv.Key{}.String(key).Uint(uint64(i)), value)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// rate runs fn from clients goroutines for a while, and returns how often a second.
func rate(b *testing.B, clients int, fn func(client, n int) error) float64 {
	var done atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for c := range clients {
		wg.Go(func() {
			for n := 0; time.Since(start) < 400*time.Millisecond; n++ {
				if err := fn(c, n); err != nil {
					b.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(start).Seconds()
}

// BenchmarkSaga runs sagas of three steps that do nothing, and those whose third is
// refused, beside as many bare commits in a row as they need (4, and 6), round by
// round, and reports medians and their ratios.
func BenchmarkSaga(b *testing.B) {
	good, bad := quickSteps("good", nil), quickSteps("bad", Refused(errTimeout))
	for _, clients := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			x := openBench(b, good, bad)
			defer x.end()
			bare, err := boltkv.Open(b.Context(), filepath.Join(b.TempDir(), "bare.db"), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer bare.Close()
			var rates [4][]float64
			for round := 0; b.Loop(); round++ {
				for i, fn := range []func(c, n int) error{
					func(int, int) error { return x.sagaOnce(good) },
					func(c, n int) error { return bareOnce(bare, fmt.Sprint("g", round, " ", c, " ", n), 4) },
					func(int, int) error { return x.sagaOnce(bad) },
					func(c, n int) error { return bareOnce(bare, fmt.Sprint("b", round, " ", c, " ", n), 6) },
				} {
					rates[i] = append(rates[i], rate(b, clients, fn))
				}
			}
			ratio := func(i, j int) float64 {
				r := make([]float64, len(rates[i]))
				for k := range r {
					r[k] = rates[i][k] / rates[j][k]
				}
				return medianOf(r)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(medianOf(rates[0]), "good/s")
			b.ReportMetric(ratio(0, 1), "good-of-bare")
			b.ReportMetric(medianOf(rates[2]), "bad/s")
			b.ReportMetric(ratio(2, 3), "bad-of-bare")
		})
	}
}

func medianOf(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}

// BenchmarkRunSize measures what a finished run keeps: the bytes of all its rows,
// those in the feed and those kept for ever too; and what they take in a compacted
// file, where a row has a header of 16 bytes and pages are nine tenths full.
func BenchmarkRunSize(b *testing.B) {
	const runs = 2000
	d := quickSteps("checkout", nil)
	for b.Loop() {
		x := openBench(b, d)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				for range runs / 50 {
					if err := x.sagaOnce(d); err != nil {
						b.Error(err)
					}
				}
			})
		}
		wg.Wait()
		bytes, rows := 0, 0
		for _, t := range []kv.TableID{"saga.run", "saga.live", "saga.key", "saga.open",
			"saga.expiry", "saga.correction",
			"feed.entry", "feed.once", "feed.meta", "timer.due", "timer.moved"} {
			for e, err := range kv.Pages(b.Context(), x.store, t, kv.Range{}, 0) {
				if err != nil {
					b.Fatal(err)
				}
				bytes += len(e.Key) + len(e.Value)
				rows++
			}
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(bytes)/runs, "row-B/run")
		b.ReportMetric((float64(bytes)+16*float64(rows))/0.9/runs, "compacted-B/run")
		x.end()
	}
}
