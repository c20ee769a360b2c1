package saga

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// spans is a Tracer that writes down the spans that have ended.
type spans struct {
	mu    sync.Mutex
	trace string
	ended []string
	open  int
}

type spanKey struct{}

func (s *spans) Start(ctx context.Context, name string, attrs ...slog.Attr) (
	context.Context, func(error, ...slog.Attr),
) {
	s.mu.Lock()
	s.open++
	s.mu.Unlock()
	above, _ := ctx.Value(spanKey{}).(string)
	return context.WithValue(ctx, spanKey{}, name), func(err error, more ...slog.Attr) {
		line := above + "/" + name
		for _, a := range slices.Concat(attrs, more) {
			line += " " + a.String()
		}
		if err != nil {
			line += fmt.Sprintf(" !%T", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open--
		s.ended = append(s.ended, line)
	}
}

func (s *spans) Traceparent(context.Context) string { return s.trace }

func (s *spans) want(t *testing.T, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.ended, want) || s.open != 0 {
		t.Errorf("the spans are\n%s\nwant\n%s\n%d are open",
			strings.Join(s.ended, "\n"), strings.Join(want, "\n"), s.open)
	}
	s.ended = nil
}

func TestSpansOfACall(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), &spans{}
	o := r.charge(Trace(s))
	r.want(o)
	s.want(t, "/claim begin operation=charge decision=acquired",
		"/perform operation=charge outcome=done",
		"/claim finish operation=charge decision=finished")
	r.want(o)
	s.want(t, "/claim begin operation=charge decision=replay")

	r.gate.before = fail(NotDone(errors.New("no key 4242")))
	other := order{ID: "order-2"}
	_, _ = o.Do(t.Context(), other)
	s.want(t, "/claim begin operation=charge decision=acquired",
		"/perform operation=charge outcome=retry",
		"/claim finish operation=charge decision=freed")
}

// A later try is linked to the call that left the outcome unknown, across a
// restart.
func TestSpansOfALaterTryAreLinked(t *testing.T) {
	t.Parallel()
	const first = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	r, s := newRig(t), &spans{trace: first}
	r.gate.after = fail(errTimeout)
	o := r.charge(Trace(s), Check(r.gate.lookUp))
	r.wantUnknown(o)
	s.want(t, "/claim begin operation=charge decision=acquired",
		"/perform operation=charge outcome=unknown !*errors.errorString",
		"/claim finish operation=charge decision=still_unknown")
	c, _, err := r.book.Get(t.Context(), o.ID(theOrder))
	want := `{"downstream_key":"` + o.DownstreamKey(theOrder) + `","traceparent":"` + first + `"}`
	if err != nil || string(c.Record.Intent) != want {
		t.Errorf("the intent is %s, want %s (%v)", c.Record.Intent, want, err)
	}
	r.restart()
	s.trace = "00-ffffffffffffffffffffffffffffffff-ffffffffffffffff-01"
	r.want(r.charge(Trace(s), Check(r.gate.lookUp)))
	s.want(t, "/claim begin operation=charge decision=took_over",
		"/look up operation=charge link.traceparent="+first+" found=true",
		"/claim finish operation=charge link.traceparent="+first+" decision=finished")
	r.gate.charges(t, 1)
}

// A span ends too when the function ends its goroutine or panics.
func TestSpansEndInAnyCase(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), &spans{}
	o := r.charge(Trace(s))
	r.gate.before = func(context.Context, order) error { panic("4242") }
	r.wantUnknown(o)
	s.want(t, "/claim begin operation=charge decision=acquired",
		"/perform operation=charge outcome=unknown !*saga.PanicError",
		"/claim finish operation=charge decision=still_unknown")
	r.gate.before = func(context.Context, order) error { runtime.Goexit(); return nil }
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = o.Do(t.Context(), order{ID: "order-2"})
	}()
	<-done
	s.want(t, "/claim begin operation=charge decision=acquired",
		"/perform operation=charge outcome=unknown !*errors.errorString",
		"/claim finish operation=charge decision=still_unknown")
}

// An intent is changed only where a field can be added to it.
func TestTraceLeavesOtherIntentsAlone(t *testing.T) {
	t.Parallel()
	for _, intent := range []string{``, `pay 5`, `[1]`, `null`, `{"traceparent":"x"}`,
		`{"a":"` + strings.Repeat("x", 65500) + `"}`} {
		c := call[order, receipt]{Operation: &Operation[order, receipt]{}}
		c.set.tracer = &spans{trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
		c.req.Intent = []byte(intent)
		c.noteTrace(t.Context())
		if string(c.req.Intent) != intent {
			t.Errorf("%.40s became %.40s", intent, c.req.Intent)
		}
	}
}
