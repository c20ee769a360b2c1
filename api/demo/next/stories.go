package demo

import (
	"slices"
	"sync"
)

// The bounds of what is told.
const (
	storiesKept = 30
	linesKept   = 14
)

// stories tell in plain words what happened to the last orders. They are kept in
// memory only.
type stories struct {
	mu     sync.Mutex
	orders []*tale // the newest last
	live   map[string]*tale
}

type tale struct {
	order string
	lines []line
	more  int // lines that were left out
}

// line is a sentence and how often it was told in a row.
type line struct {
	Text  string
	Times int
}

func newStories() *stories { return &stories{live: map[string]*tale{}} }

// tell adds a sentence to the story of an order.
func (s *stories) tell(order, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.live[order]
	if t == nil {
		t = &tale{order: order}
		s.live[order] = t
		s.orders = append(s.orders, t)
		if len(s.orders) > storiesKept {
			delete(s.live, s.orders[0].order)
			s.orders = slices.Delete(s.orders, 0, 1)
		}
	}
	if n := len(t.lines); n > 0 && t.lines[n-1].Text == text {
		t.lines[n-1].Times++
		return
	}
	if len(t.lines) == linesKept {
		t.lines = slices.Delete(t.lines, 1, 2)
		t.more++
	}
	t.lines = append(t.lines, line{Text: text, Times: 1})
}

// last returns the stories, the newest first.
func (s *stories) last() []tale {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]tale, 0, len(s.orders))
	for _, t := range slices.Backward(s.orders) {
		out = append(out, tale{order: t.order, lines: slices.Clone(t.lines), more: t.more})
	}
	return out
}
