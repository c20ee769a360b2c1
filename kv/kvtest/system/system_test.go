package system

import (
	"strings"
	"testing"
)

// fakeTB records how a test ended, instead of ending it.
type fakeTB struct {
	testing.TB
	ended string
}

func (f *fakeTB) Helper()               {}
func (f *fakeTB) Skipf(string, ...any)  { f.end("skipped") }
func (f *fakeTB) Fatalf(string, ...any) { f.end("failed") }

func (f *fakeTB) end(how string) {
	f.ended = how
	panic(f) // as the real ones do, it does not return
}

func outcome(run func(testing.TB)) (how string) {
	f := &fakeTB{ended: "ran"}
	defer func() {
		if r := recover(); r != nil && r != any(f) {
			panic(r)
		}
		how = f.ended
	}()
	run(f)
	return
}

func TestNeed(t *testing.T) {
	for _, c := range []struct{ optOut, programs, want string }{
		{"", "go", "ran"},
		{"", "go no-such-program", "failed"},
		{"0", "no-such-program", "failed"},
		{"1", "no-such-program", "skipped"},
		{"1", "go", "skipped"},
	} {
		t.Setenv(OptOut, c.optOut)
		got := outcome(func(tb testing.TB) { Need(tb, strings.Fields(c.programs)...) })
		if got != c.want {
			t.Errorf("%s=%s, programs %s: %s, want %s", OptOut, c.optOut, c.programs, got, c.want)
		}
	}
}
