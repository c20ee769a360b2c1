package demo

import (
	"strings"
	"testing"
	"time"

	"onced/api/demo/book"
	"onced/api/demo/callee"
)

// What the report counts adds up: what was taken back twice is told.
func TestTheReportAddsUp(t *testing.T) {
	w := newTestWorld(t)
	fill(t, w, "A:paid B:failed")
	l := w.ledgers[book.Loyalty]
	for _, e := range []book.Entry{
		{Kind: book.Effect, ID: "e", Order: "B", Reference: "B.9", Value: values()[book.Loyalty]},
		{Kind: book.Undo, ID: "u1", Of: "e", Order: "B", Reference: "B.9", Value: values()[book.Loyalty]},
		{Kind: book.Undo, ID: "u2", Of: "e", Order: "B", Reference: "B.9", Value: values()[book.Loyalty]},
	} {
		if err := l.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	p := w.proof()
	s := p.Ledgers[book.Loyalty]
	if s.Again() != 1 || s.Effects != s.Undone-s.Again()+s.Standing {
		t.Errorf("%+v, %d again", s, s.Again())
	}
	var out strings.Builder
	if err := report(Config{Orders: 2, Stdout: &out}, p, time.Second); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "given back (1 of them again, or for nothing), ") {
		t.Errorf("it does not add up:\n%s", out.String())
	}
}

func TestChargesInWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stand int
		was   bool
		want  string
	}{{0, false, "not charged"}, {0, true, "charged and refunded"}, {1, true, "charged once"},
		{2, true, "charged 2×"}} {
		if got := charged(c.stand, c.was); got != c.want {
			t.Errorf("%+v is %s", c, got)
		}
	}
}

// What two switches mean together is said together: a callback that never comes is not
// early.
func TestDropAndEarlyTogether(t *testing.T) {
	t.Parallel()
	c := &crasher{kill: func() {}, tell: func(string) {}, killed: func(string, string) {}}
	s := newToggles(Faults{}, false, c)
	for _, name := range []string{callee.Early, callee.Drop} {
		if got := s.meaning(callee.Early); strings.Contains(got, "would") {
			t.Errorf("%s: %s", name, got)
		}
		if _, err := s.flip(name, "on", ""); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.meaning(callee.Early); !strings.Contains(got, "never come") {
		t.Errorf("both: %s", got)
	}
}
