package saga

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// BenchmarkWaiting measures an engine with runs that wait for a signal or a time: how
// long it takes from opening the file until a new saga is done and until the earliest
// timer has fired, and what memory it takes; and with 1,000 of them, how long from a
// signal to the next step.
func BenchmarkWaiting(b *testing.B) {
	for _, runs := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("runs=%d", runs), func(b *testing.B) {
			for b.Loop() {
				measureWaiting(b, runs)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func measureWaiting(b *testing.B, runs int) {
	next := make(chan string, runs)
	d := New("wait").
		Step("ask", func(context.Context, order) (receipt, error) { return receipt{}, nil },
			func(context.Context, order, receipt) error { return nil }, AwaitFor(100*time.Hour)).
		Step("next", func(_ context.Context, o order) (receipt, error) {
			next <- o.ID
			return receipt{}, nil
		}, nil)
	nap := New("nap").Await("time", AwaitFor(time.Second))
	quick := quickSteps("quick", nil)
	x := openBench(b, d, nap, quick)
	startMany(b, x, d, runs)
	if _, err := x.engine.Start(b.Context(), nap, "nap", nil); err != nil {
		b.Fatal(err)
	}
	x.end()
	<-time.NewTimer(time.Second).C // the timer becomes due meanwhile
	debug.FreeOSMemory()

	began := time.Now()
	x.open(d, nap, quick)
	defer func() { x.end() }()
	if err := x.sagaOnce(quick); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(time.Since(began).Milliseconds()), "to-first-run-ms")
	v, err := x.engine.Find(b.Context(), "nap", "nap")
	if err != nil {
		b.Fatal(err)
	}
	if _, err := x.engine.Wait(b.Context(), v.Run); err == nil {
		b.Fatal("it has not given up")
	}
	b.ReportMetric(float64(time.Since(began).Milliseconds()), "to-timers-ms")
	debug.FreeOSMemory()
	b.ReportMetric(rssAnon(b), "RssAnon-MB")
	if runs > 1000 {
		return
	}
	var took []time.Duration
	for i := range runs {
		key := fmt.Sprint(i)
		sent := time.Now()
		if err := x.engine.Signal(b.Context(), Signal{Definition: "wait", Key: key,
			Step: "ask"}); err != nil {
			b.Fatal(err)
		}
		<-next
		took = append(took, time.Since(sent))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[runs*99/100].Microseconds())/1000, "signal-p99-ms")
	b.ReportMetric(float64(took[runs/2].Microseconds())/1000, "signal-p50-ms")
}

func startMany(b *testing.B, x *engineBench, d *Definition, runs int) {
	var wg sync.WaitGroup
	const clients = 250
	for c := range clients {
		wg.Go(func() {
			for i := c; i < runs; i += clients {
				if _, err := x.engine.Start(b.Context(), d, fmt.Sprint(i),
					order{ID: fmt.Sprint(i)}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// rssAnon is the memory of the process that is not of files, in MB.
func rssAnon(b *testing.B) float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0 // not on this system
	}
	for line := range strings.Lines(string(text)) {
		var kb float64
		if n, _ := fmt.Sscanf(line, "RssAnon: %f kB", &kb); n == 1 {
			return kb / 1024
		}
	}
	return 0
}
