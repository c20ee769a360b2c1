package app

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// recorder notes what happens, in order.
type recorder struct {
	mu   sync.Mutex
	seen []string
}

func (r *recorder) add(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, what)
}

// member runs until it is stopped, or until its channel gives an error.
func (r *recorder) member(name string, fail <-chan error) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			r.add("stop " + name)
			return ctx.Err()
		case err := <-fail:
			r.add("fail " + name)
			return err
		}
	}
}

func TestGroupStopsInReverseOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		var g group
		for _, name := range []string{"a", "b", "c"} {
			g.add(name, r.member(name, nil))
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- g.run(ctx) }()
		synctest.Wait()
		if len(r.seen) > 0 {
			t.Fatalf("stopped by itself: %q", r.seen)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("a clean stop is %v", err)
		}
		if want := []string{"stop c", "stop b", "stop a"}; !slices.Equal(r.seen, want) {
			t.Errorf("got %q, want %q", r.seen, want)
		}
	})
}

func TestGroupStopsWhenOneEnds(t *testing.T) {
	broken := errors.New("broken")
	for name, end := range map[string]error{"an error": broken, "nil": nil} {
		synctest.Test(t, func(t *testing.T) {
			var r recorder
			var g group
			fail := make(chan error, 1)
			g.add("a", r.member("a", nil))
			g.add("b", r.member("b", fail))
			g.add("c", r.member("c", nil))
			fail <- end
			err := g.run(t.Context())
			if !errors.Is(err, end) || end != nil && err.Error() != "b: broken" {
				t.Errorf("%s: got %v", name, err)
			}
			if want := []string{"fail b", "stop c", "stop a"}; !slices.Equal(r.seen, want) {
				t.Errorf("%s: got %q, want %q", name, r.seen, want)
			}
		})
	}
}

func TestGroupSurvivesAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		var g group
		g.add("a", r.member("a", nil))
		g.add("b", func(context.Context) error { panic("oops") })
		err := g.run(t.Context())
		if err == nil || err.Error() != "b: panic: oops" || !slices.Equal(r.seen, []string{"stop a"}) {
			t.Errorf("got %v, %q", err, r.seen)
		}
	})
}

func TestGroupThatIsToldToStopBeforeItStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		var g group
		g.add("a", r.member("a", nil))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := g.run(ctx); err != nil || !slices.Equal(r.seen, []string{"stop a"}) {
			t.Errorf("got %v, %q", err, r.seen)
		}
	})
	if err := (&group{}).run(t.Context()); err != nil {
		t.Errorf("an empty group: %v", err)
	}
}
