package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"onced/kv/money"
)

// The kinds of entries in the ledger.
const (
	kindCharge    = "charge"
	kindDecline   = "decline"
	kindAbsent    = "absent"    // a look-up was told that there is no charge
	kindDelivered = "delivered" // the shop acknowledged the callback of a charge
)

// entry is one line of the gateway's ledger.
type entry struct {
	Kind      string       `json:"kind"`
	ID        string       `json:"id"`
	Reference string       `json:"reference"`
	Amount    money.Amount `json:"amount,omitzero"`
	Key       string       `json:"key,omitempty"`
	At        time.Time    `json:"at"`
	// Asked is when the call for a charge came.
	Asked time.Time `json:"asked,omitzero"`
}

// ledger is what the gateway has done. It is the only witness of the proof.
type ledger struct {
	journal *journal

	mu        sync.Mutex
	charges   map[string][]entry // by reference, in their order
	declines  map[string]entry   // by reference
	byKey     map[string]entry   // charges by their idempotency key
	events    []entry            // charges in their order: what there are callbacks of
	delivered map[string]bool    // by the id of the charge
	last      int
}

func newLedger() *ledger {
	return &ledger{charges: map[string][]entry{}, declines: map[string]entry{}, byKey: map[string]entry{},
		delivered: map[string]bool{}}
}

func openLedger(name string) (l *ledger, err error) {
	l = newLedger()
	l.journal, err = openJournal(name, l.read)
	return l, err
}

// readLedger reads a ledger from its file alone, to check by. It cannot be added to.
func readLedger(name string) (*ledger, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	l := newLedger()
	if _, err := readLines(f, l.read); err != nil {
		return nil, fmt.Errorf("demo: %s: %w", name, err)
	}
	return l, nil
}

// read takes a line of the file.
func (l *ledger) read(line []byte) error {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	var e entry
	if err := dec.Decode(&e); err != nil {
		return err
	}
	return l.take(e)
}

// take puts an entry that is on the disk into memory.
func (l *ledger) take(e entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch e.Kind {
	case kindCharge:
		l.charges[e.Reference] = append(l.charges[e.Reference], e)
		l.events = append(l.events, e)
		if e.Key != "" {
			l.byKey[e.Key] = e
		}
		l.last = max(l.last, len(l.events))
	case kindDecline:
		l.declines[e.Reference] = e
	case kindAbsent: // it is told for whoever reads the file
	case kindDelivered:
		l.delivered[e.ID] = true
	default:
		return fmt.Errorf("demo: the ledger has an entry of the unknown kind %q", e.Kind)
	}
	return nil
}

// add writes an entry, and only then lets it be seen.
func (l *ledger) add(e entry) error {
	if err := l.journal.append(e); err != nil {
		return err
	}
	return l.take(e)
}

// nextID makes the id of a charge.
func (l *ledger) nextID() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	return fmt.Sprintf("ch_%d", l.last)
}

// lookUp returns what became of a reference.
func (l *ledger) lookUp(reference string) (e entry, found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.charges[reference]; len(c) > 0 {
		return c[0], true
	}
	e, found = l.declines[reference]
	return e, found
}

func (l *ledger) keyed(key string) (e entry, found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, found = l.byKey[key]
	return e, found
}

// after returns at most limit charges from a position on.
func (l *ledger) after(position, limit int) []entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := min(max(0, position), len(l.events))
	return slices.Clone(l.events[from:min(from+limit, len(l.events))])
}

// deliver notes that a callback was acknowledged; only the first time counts.
func (l *ledger) deliver(charge entry, at time.Time) error {
	l.mu.Lock()
	again := l.delivered[charge.ID]
	l.delivered[charge.ID] = true
	l.mu.Unlock()
	if again {
		return nil
	}
	return l.add(entry{Kind: kindDelivered, ID: charge.ID, Reference: charge.Reference, At: at})
}

// account is what the ledger says about one reference.
type account struct {
	charges  []entry
	declined bool
}

// accounts returns what there is for each reference, and how many callbacks
// nobody acknowledged.
func (l *ledger) accounts() (all map[string]account, undelivered int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all = make(map[string]account, len(l.charges))
	for reference, charges := range l.charges {
		all[reference] = account{charges: slices.Clone(charges)}
	}
	for reference := range l.declines {
		a := all[reference]
		a.declined = true
		all[reference] = a
	}
	for _, e := range l.events {
		if !l.delivered[e.ID] {
			undelivered++
		}
	}
	return all, undelivered
}

func (l *ledger) close() error { return l.journal.close() }
