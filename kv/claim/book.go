package claim

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"time"

	"onced/kv"
	"onced/kv/feed"
)

// Defaults and bounds of [Config].
const (
	// DefaultRetention is how long terminal claims are kept.
	DefaultRetention = 30 * 24 * time.Hour
	// MaxRetention is the longest Retention: a hundred years. An expiry must be
	// an instant that the store can hold, and those end in 2262.
	MaxRetention = 100 * 366 * 24 * time.Hour
	// DefaultMaxResult is the largest result that is kept, in bytes.
	DefaultMaxResult = 8 << 20
	// MaxMaxResult is the most that MaxResult can be, in bytes.
	MaxMaxResult = kv.MaxValueSize - 1<<20
	// DefaultKeyValidFor is how long real callees at least promise to remember
	// keys; see [Book.Repeat].
	DefaultKeyValidFor = 24 * time.Hour
)

// Config are the settings of a Book. The zero value works.
type Config struct {
	// Retention is how long terminal claims are kept and replayed; 0 means
	// DefaultRetention, the limit is MaxRetention. Publish it. It has nothing to do with leases.
	Retention time.Duration
	// MaxResult is the largest result that is kept, in bytes; 0 means
	// DefaultMaxResult. A larger one is omitted; see [Record].
	MaxResult int
	// Rand makes tokens; nil means crypto/rand.Reader.
	Rand io.Reader
	// Observer is told of decisions; nil means nobody.
	Observer Observer
	// Feed takes the notifications of operators' acts, in the same transaction.
	// Without it [Book.Resolve] is refused.
	Feed *feed.Feed
}

// Observer is told what was decided, after it is durable, for metrics. Its
// methods are quick, open no transaction, and are safe for concurrent use.
type Observer interface {
	// ClaimDecided reports one decision; op is "begin", "done", "refused",
	// "release", "unknown", "heartbeat", "looked_up", "repeat", "resolve",
	// "recover" or "sweep".
	ClaimDecided(op string, k Kind)
}

// Book keeps claims in a store. It is safe for concurrent use; any number of
// Books may share a store, but a Book wakes only those who wait at it, so use one
// per store and process.
type Book struct {
	store    kv.Store
	machine  Machine
	rand     io.Reader
	observer Observer
	feed     *feed.Feed
	waiters  waiters
}

// New returns the Book of a store. It reads the store's clock once: whatever a
// dead process had under way was sent before that instant. An [InvalidError]
// names the field of cfg.
func New(ctx context.Context, store kv.Store, cfg Config) (*Book, error) {
	if cfg.Retention == 0 {
		cfg.Retention = DefaultRetention
	}
	if cfg.Retention < 0 || cfg.Retention > MaxRetention {
		return nil, invalid("Retention", fmt.Sprintf("is %v, the limit is %v", cfg.Retention, MaxRetention),
			"use a positive time up to the limit, or 0 for 30 days")
	}
	if cfg.MaxResult == 0 {
		cfg.MaxResult = DefaultMaxResult
	}
	if cfg.MaxResult < 0 || cfg.MaxResult > MaxMaxResult {
		return nil, invalid("MaxResult", fmt.Sprintf("is %d, the limit is %d", cfg.MaxResult, MaxMaxResult),
			"use fewer bytes, or 0 for 8 MiB")
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.Reader
	}
	b := &Book{store: store, rand: cfg.Rand, observer: cfg.Observer, feed: cfg.Feed,
		machine: Machine{Epoch: store.Epoch(), Retention: cfg.Retention, MaxResult: cfg.MaxResult}}
	err := store.View(ctx, func(rd kv.Reader) error {
		b.machine.Opened = rd.Now()
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("claim: new book: %w", err)
	}
	return b, nil
}

// NewToken returns a fresh token; see [NewToken].
func (b *Book) NewToken() (string, error) { return NewToken(b.rand) }

// Machine returns the rules this book decides by.
func (b *Book) Machine() Machine { return b.machine }

// step decides about one record inside a transaction and writes what follows.
func (b *Book) step(
	w kv.Writer, id ID, op string, decide func(*Record, time.Time) (Step, error),
) (Decision, error) {
	old, err := load(w, id)
	if err != nil {
		return Decision{}, err
	}
	s, err := decide(old, w.Now())
	if err != nil {
		return Decision{}, err
	}
	if op == opBegin && s.Write == Put && s.Decision.Kind == Acquired {
		if err := kv.AdmitIntent(w); err != nil {
			return Decision{}, err
		}
	}
	if err := save(w, id, old, s); err != nil {
		return Decision{}, err
	}
	b.afterCommit(w, id, op, s)
	return s.Decision, nil
}

// afterCommit wakes those who wait for the claim, and tells the observer.
func (b *Book) afterCommit(w kv.Writer, id ID, op string, s Step) {
	if s.Write == Keep && b.observer == nil {
		return
	}
	kind, changed := s.Decision.Kind, s.Write != Keep
	w.OnCommit(func() {
		if changed {
			b.waiters.wake(id)
		}
		b.observe(op, kind)
	})
}

func (b *Book) observe(op string, k Kind) {
	if b.observer != nil {
		b.observer.ClaimDecided(op, k)
	}
}

// update runs one decision in a transaction of its own.
func (b *Book) update(ctx context.Context, f func(kv.Writer) (Decision, error)) (Decision, error) {
	var out Decision
	err := b.store.Update(ctx, func(w kv.Writer) error {
		d, err := f(w)
		if err != nil {
			return err
		}
		out = d
		return nil
	})
	if err != nil {
		return Decision{}, err
	}
	return out, nil
}
