package book

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// Service names a service that keeps a ledger of its own.
type Service string

// The services, in the order of the steps of a checkout.
const (
	Loyalty Service = "loyalty" // keeps points: spent, or given back
	Voucher Service = "voucher" // keeps vouchers: redeemed, or released
	Charge  Service = "charge"  // the gateway: charged, or refunded
	Order   Service = "order"   // the orders that exist
)

// Services are all of them, in the order of the steps.
func Services() []Service { return []Service{Loyalty, Voucher, Charge, Order} }

// File is the name of the service's file.
func (s Service) File() string {
	if s == Charge {
		return "gateway-ledger.jsonl"
	}
	return string(s) + "-ledger.jsonl"
}

// Kind says what an entry is about.
type Kind string

// The kinds of entries.
const (
	Effect  Kind = "effect"  // it happened: points spent, a card charged
	Undo    Kind = "undo"    // it was taken back
	Refusal Kind = "refusal" // it did not happen, and will not
	Absent  Kind = "absent"  // a look-up was told that there is nothing
	Told    Kind = "told"    // a callback was acknowledged
)

// Entry is one line of a ledger.
type Entry struct {
	Kind Kind `json:"kind"`
	// ID is the effect's, or of the thing that Kind says.
	ID string `json:"id"`
	// Order is what it is for, Reference the one try of it: an order that was undone
	// and is tried again has another reference.
	Order     string `json:"order"`
	Reference string `json:"reference"`
	// Of is the effect that an undo takes back; empty when there was none.
	Of string `json:"of,omitempty"`
	// Value is how much: points, a voucher, an amount, and of an order its charge.
	Value string `json:"value,omitempty"`
	// Key is the idempotency key that came with the call.
	Key string    `json:"key,omitempty"`
	At  time.Time `json:"at"`
	// Asked is when the call came.
	Asked time.Time `json:"asked,omitzero"`
}

// Ledger is what one service has done.
type Ledger struct {
	journal *Journal

	mu      sync.Mutex
	entries []Entry
	byRef   map[string]*Account
	byOrder map[string]*Account
	byKey   map[string]Entry
	told    map[string]bool // by the id of what was told
	last    int
}

// Account is what a ledger says about one reference, or one order.
type Account struct {
	Effects, Undos []Entry
	Refused        bool
}

// Open opens or makes a ledger in a file.
func Open(name string) (l *Ledger, err error) {
	l = empty()
	l.journal, err = OpenJournal(name, l.read)
	return l, err
}

// Read reads a ledger from its file alone, to check by. It cannot be added to.
func Read(name string) (*Ledger, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	l := empty()
	if _, err := readLines(f, l.read); err != nil {
		return nil, fmt.Errorf("demo: %s: %w", name, err)
	}
	return l, nil
}

func empty() *Ledger {
	return &Ledger{byRef: map[string]*Account{}, byOrder: map[string]*Account{}, byKey: map[string]Entry{},
		told: map[string]bool{}}
}

// read takes a line of the file.
func (l *Ledger) read(line []byte) error {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	var e Entry
	if err := dec.Decode(&e); err != nil {
		return err
	}
	return l.take(e)
}

// take puts an entry that is on the disk into memory.
func (l *Ledger) take(e Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch e.Kind {
	case Effect, Undo, Refusal:
		note(l.byRef, e.Reference, e)
		note(l.byOrder, e.Order, e)
	case Told:
		l.told[e.ID] = true
	case Absent: // it is told for whoever reads the file
	default:
		return fmt.Errorf("demo: the ledger has an entry of the unknown kind %q", e.Kind)
	}
	if _, known := l.byKey[e.Key]; e.Key != "" && !known {
		l.byKey[e.Key] = e
	}
	l.entries = append(l.entries, e)
	l.last = max(l.last, len(l.entries))
	return nil
}

// note puts an entry into its account.
func note(accounts map[string]*Account, name string, e Entry) {
	a := accounts[name]
	if a == nil {
		a = &Account{}
		accounts[name] = a
	}
	switch e.Kind {
	case Effect:
		a.Effects = append(a.Effects, e)
	case Undo:
		a.Undos = append(a.Undos, e)
	case Refusal:
		a.Refused = true
	case Absent, Told:
	}
}

// Add writes an entry, and only then lets it be seen.
func (l *Ledger) Add(e Entry) error {
	if err := l.journal.Append(e); err != nil {
		return err
	}
	return l.take(e)
}

// NextID makes an id with the prefix, which nobody else gets.
func (l *Ledger) NextID(prefix string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	return fmt.Sprintf("%s_%d", prefix, l.last)
}

// Find returns what there is for a reference.
func (l *Ledger) Find(reference string) Account {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byRef[reference].clone()
}

// OfOrder returns what there is for an order, over all its references.
func (l *Ledger) OfOrder(order string) Account {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byOrder[order].clone()
}

// Standing is how many effects were not taken back.
func (a Account) Standing() int {
	taken := map[string]bool{}
	for _, u := range a.Undos {
		taken[u.Of] = true
	}
	n := 0
	for _, e := range a.Effects {
		if !taken[e.ID] {
			n++
		}
	}
	return n
}

func (a *Account) clone() Account {
	if a == nil {
		return Account{}
	}
	return Account{Effects: slices.Clone(a.Effects), Undos: slices.Clone(a.Undos), Refused: a.Refused}
}

// Keyed returns the first entry that was made for an idempotency key.
func (l *Ledger) Keyed(key string) (e Entry, found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, found = l.byKey[key]
	return e, found
}

// WasTold reports whether the callback of an id was acknowledged.
func (l *Ledger) WasTold(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.told[id]
}

// Entries returns all entries in their order. The caller must not change them.
func (l *Ledger) Entries() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clip(l.entries) // entries are only ever appended
}

// Close ends the writing.
func (l *Ledger) Close() error { return l.journal.Close() }
