package jsonlog

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

var texts = []string{"", "a", "request", "rq_0123", "a b", `"`, `\`, "<&>", "\n", "\x00", "\x7f", "é", "\xff",
	"\u2028", strings.Repeat("x", 1000)}

func attrOf(m *rand.Rand) slog.Attr {
	key := texts[m.IntN(len(texts))]
	switch m.IntN(12) {
	case 0:
		return slog.Int64(key, m.Int64()-m.Int64())
	case 1:
		return slog.Bool(key, m.IntN(2) == 0)
	case 2:
		return []slog.Attr{slog.Uint64(key, m.Uint64()), slog.Float64(key, m.Float64()),
			slog.Duration(key, time.Second), slog.Time(key, time.Unix(m.Int64N(1e9), 0)), slog.Any(key, nil),
			slog.Any(key, errors.New("x")), slog.Any(key, netip.MustParseAddr("::1")), {},
			slog.Group(key, slog.Int("a", 1)), slog.Any(key, slog.LevelInfo)}[m.IntN(10)]
	}
	return slog.String(key, texts[m.IntN(len(texts))])
}

// Whatever a record holds, the line is that of the standard library.
func TestLinesAreThoseOfTheStandardLibrary(t *testing.T) {
	var got, want bytes.Buffer
	ours, theirs := New(&got, slog.LevelDebug), slog.Handler(slog.NewJSONHandler(&want,
		&slog.HandlerOptions{Level: slog.LevelDebug}))
	m := rand.New(rand.NewPCG(1, 2))
	plain := 0
	for i := range 20_000 {
		at := time.Unix(m.Int64N(1<<32), m.Int64N(1e9))
		switch m.IntN(20) {
		case 0:
			at = time.Time{}
		case 1:
			at = at.AddDate(m.IntN(20_000)-10_000, 0, 0)
		case 2:
			at = at.In(time.FixedZone("", 3600*m.IntN(9)+60*m.IntN(60)))
		case 3:
			at = time.Now()
		}
		r := slog.NewRecord(at, slog.Level(m.IntN(20)-8), texts[m.IntN(4)], 0)
		for range m.IntN(12) {
			a := attrOf(m)
			if i%2 == 0 {
				a = slog.String("key", "value")
			}
			r.AddAttrs(a)
		}
		a, b := ours, theirs
		switch m.IntN(5) {
		case 0:
			a, b = a.WithAttrs([]slog.Attr{slog.Int("n", 1)}), b.WithAttrs([]slog.Attr{slog.Int("n", 1)})
		case 1:
			a, b = a.WithGroup("g"), b.WithGroup("g")
		default:
			if new(line).write(&r) {
				plain++
			}
		}
		if err := errors.Join(a.Handle(t.Context(), r), b.Handle(t.Context(), r)); err != nil {
			t.Fatal(err)
		}
		if got.String() != want.String() {
			t.Fatalf("%q, want %q", got.String(), want.String())
		}
		got.Reset()
		want.Reset()
	}
	if plain < 4000 {
		t.Errorf("only %d were plain", plain)
	}
}

// oneByOne fails when two write at once.
type oneByOne struct {
	t    *testing.T
	busy sync.Mutex
	n    int
}

func (w *oneByOne) Write(p []byte) (int, error) {
	if !w.busy.TryLock() {
		w.t.Error("two write at once")
	}
	defer w.busy.Unlock()
	if p[0] != '{' || bytes.IndexByte(p, '\n') != len(p)-1 {
		w.t.Errorf("%q is no line", p)
	}
	w.n++
	return len(p), nil
}

func TestLinesDoNotMix(t *testing.T) {
	w := &oneByOne{t: t}
	log := slog.New(New(w, slog.LevelInfo))
	with := log.With("a", 1)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				log.Info("plain", "n", 1)
				log.Info("not plain", "n", 1.5)
				with.Info("with")
				log.Debug("below the level")
			}
		})
	}
	all.Wait()
	if w.n != 8*200*3 {
		t.Errorf("%d lines", w.n)
	}
}

type failing struct{ error }

func (f failing) Write([]byte) (int, error) { return 0, f.error }

func TestAFailureIsTold(t *testing.T) {
	h := New(failing{io.ErrClosedPipe}, slog.LevelInfo)
	err := h.Handle(t.Context(), slog.NewRecord(time.Unix(1, 0), 0, "x", 0))
	if !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v", err)
	}
}

func BenchmarkLine(b *testing.B) {
	for name, h := range map[string]slog.Handler{"ours": New(io.Discard, slog.LevelInfo),
		"theirs": slog.NewJSONHandler(io.Discard, nil)} { //nolint:sloglint // its work is measured
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				r := slog.NewRecord(time.Unix(1_700_000_000, 123_456_789), slog.LevelInfo, "request", 0)
				r.AddAttrs(slog.String("request_id", "rq_06evrj3w5whcsdb3tq8ge3xb6m"),
					slog.String("method", "POST"), slog.String("route", "charges"), slog.Int("status", 200),
					slog.Int64("bytes", 123), slog.Bool("replayed", true), slog.Int64("took_ms", 0),
					slog.String("remote", "127.0.0.1"), slog.String("token_id", "tk_06evrj3w5whcsdb3tq8ge3x"))
				_ = h.Handle(context.Background(), r)
			}
		})
	}
}
