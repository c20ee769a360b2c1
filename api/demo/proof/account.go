package proof

import (
	"slices"

	"onced/api/demo/book"
)

// account is what the ledgers say about one order.
type account struct{ lines map[book.Service]*line }

// none is the line of a service that has nothing for an order.
var none = newLine()

func (a *account) at(s book.Service) *line {
	if a == nil || a.lines[s] == nil {
		return none
	}
	return a.lines[s]
}

// refused reports that a service refused the order.
func (a *account) refused() bool {
	return slices.ContainsFunc(book.Services(), func(s book.Service) bool { return len(a.at(s).refused) > 0 })
}

// line is what one ledger says about one order, over all its references.
type line struct {
	effects, undone int
	refused         map[string]bool   // references
	stands          map[string]string // effects that stand, with their values
	taken           map[string]string // effects that were taken back, with their values
	at              int               // how many stand at once at most
	values          []string          // of effects
	vain            bool              // something was taken back that did not stand
	unequal         bool              // something was taken back with another value
}

func newLine() *line {
	return &line{refused: map[string]bool{}, stands: map[string]string{}, taken: map[string]string{}}
}

func (l *line) standing() int { return len(l.stands) }

// most is how many effects stood at the same time.
func (l *line) most() int { return l.at }

// ids are the effects that stand.
func (l *line) ids() (ids []string) {
	for id := range l.stands {
		ids = append(ids, id)
	}
	return ids
}

// take reads an entry, in the order of the ledger.
func (l *line) take(e book.Entry) {
	switch e.Kind {
	case book.Effect:
		id := e.ID
		for l.stands[id] != "" || l.taken[id] != "" { // a line that was written twice is an effect of its own
			id += "'"
		}
		l.effects++
		l.stands[id] = mark(e.Value)
		l.values = append(l.values, e.Value)
		l.at = max(l.at, len(l.stands))
	case book.Undo:
		if e.Of == "" { // there was nothing to take back
			return
		}
		l.undone++
		value, stood := l.stands[e.Of]
		l.vain = l.vain || !stood
		l.unequal = l.unequal || stood && value != mark(e.Value)
		if stood {
			l.taken[e.Of] = value
		}
		delete(l.stands, e.Of)
	case book.Refusal:
		l.refused[e.Reference] = true
	case book.Absent, book.Told:
	}
}

// mark makes a value that is never empty.
func mark(value string) string { return "=" + value }

// accounts sorts the entries by order.
func (f Facts) accounts() map[string]*account {
	all := map[string]*account{}
	for s, entries := range f.Books {
		for _, e := range entries {
			a := all[e.Order]
			if a == nil {
				a = &account{lines: map[book.Service]*line{}}
				all[e.Order] = a
			}
			if a.lines[s] == nil {
				a.lines[s] = newLine()
			}
			a.lines[s].take(e)
		}
	}
	return all
}
