package kv

import (
	"context"
	"iter"
	"time"
)

// TableID names a table: one ordered map from keys to values. By convention it
// is "package.content", for example "claim.record". Tables come into being
// with their first row.
type TableID string

// Store is a transactional, ordered key-value store. All methods are safe for
// concurrent use.
type Store interface {
	// View runs fn on one consistent snapshot of durable state. It is bounded:
	// after [MaxTxTime] reads fail with a [LimitError]; so does a scan past its
	// rows. fn must not open another transaction ([ErrNested]), nor wait for a
	// goroutine that does, which is not seen.
	View(ctx context.Context, fn func(Reader) error) error

	// Update runs fn and commits what it wrote; transactions are serializable.
	// When it returns nil the change is durable. When fn returns an error
	// nothing is written and that error is returned, after the commit of
	// whatever fn may have read. fn may run more than once.
	//
	// A context cancelled while the call waits for its turn withdraws it: fn
	// never ran. Once fn has begun, the context is no longer looked at and
	// Update returns the true outcome.
	Update(ctx context.Context, fn func(Writer) error) error

	// Epoch rises with every opening of the store for writing, when the engine
	// makes sure that one process holds the store at a time; what an earlier
	// epoch had under way is then known to be dead. An engine that cannot
	// promise this answers 0.
	Epoch() uint64

	// Close waits for transactions under way and releases the store. Later
	// calls answer [ErrClosed]. Closing twice is harmless. It knows nothing of
	// effects outside: end whatever holds claims before, for whoever opens the
	// store next takes their owners for dead.
	Close() error
}

// Reader reads one consistent state. It is valid only inside the closure it
// was given to, and for one goroutine.
type Reader interface {
	// Get returns the value, or nil when the key is absent. The bytes are the
	// caller's to keep. An empty value comes back empty and not nil.
	Get(t TableID, key []byte) ([]byte, error)

	// Scan yields the rows of r in key order, or in reverse. It sees the
	// transaction's writes made before the call of Scan and none made during
	// it, so deleting while scanning is safe. An error ends the sequence.
	Scan(t TableID, r Range) iter.Seq2[Entry, error]

	// Now is the one instant of this transaction.
	Now() time.Time
}

// Writer reads and writes. Reads see the transaction's own writes.
type Writer interface {
	Reader

	// Put sets a row. Key and value are copied.
	Put(t TableID, key, value []byte) error

	// Delete removes a row; an absent one is no error.
	Delete(t TableID, key []byte) error

	// OnCommit registers fn to run after the commit, on the goroutine that
	// called Update and before Update returns; it is dropped on rollback. It
	// is for waking runners: it must be quick and open no transaction.
	OnCommit(fn func())
}

// Entry is one row of a scan. Its bytes are the caller's to keep.
type Entry struct {
	Key   []byte
	Value []byte
}

// Range selects rows of a table by key.
type Range struct {
	// From is the inclusive lower bound; nil means the first key.
	From []byte
	// To is the exclusive upper bound; nil means past the last key.
	To []byte
	// Reverse yields from the highest key to the lowest.
	Reverse bool
	// Limit ends the scan after that many rows. With 0, or more than
	// [MaxScanRows], a scan that finds more than MaxScanRows rows ends with a
	// [LimitError] instead of cutting the result short in silence.
	Limit int
}

// Prefix returns the range of all keys that begin with the bytes p. For tuples
// use [Key.Range], which does not take in parts that only begin alike.
func Prefix(p []byte) Range {
	return Range{From: p, To: PrefixEnd(p)}
}

// PrefixEnd returns the smallest key greater than every key with prefix p, or
// nil when there is none.
func PrefixEnd(p []byte) []byte {
	end := append([]byte(nil), p...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return nil
}

// AdmitIntent reports whether new work may begin in this transaction. It
// answers an error wrapping [ErrNoSpace] when free space on the store's disk is
// below its mark: outcomes of work already begun are still recorded, new work
// is refused so that there is room for them.
func AdmitIntent(w Writer) error {
	if a, ok := w.(interface{ AdmitIntent() error }); ok {
		return a.AdmitIntent()
	}
	return nil
}

// Pages scans a whole range in short Views of at most page rows each (0 means
// 500) and about 4 MiB, so that no long read holds back the reuse of pages and
// none fills the memory. Rows written between two pages may or may not be seen;
// each row is consistent in itself. Each loop over the sequence starts anew.
func Pages(ctx context.Context, s Store, t TableID, r Range, page int) iter.Seq2[Entry, error] {
	if page <= 0 || page > MaxScanRows {
		page = 500
	}
	return func(yield func(Entry, error) bool) {
		r, left := r, r.Limit // a sequence may be ranged over again
		for {
			rows, more, err := onePage(ctx, s, t, r, page, left)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for _, e := range rows {
				if !yield(e, nil) {
					return
				}
			}
			if left > 0 {
				if left -= len(rows); left <= 0 {
					return
				}
			}
			if !more {
				return
			}
			last := rows[len(rows)-1].Key
			if r.Reverse {
				r.To = last
			} else {
				r.From = append(append([]byte(nil), last...), 0)
			}
		}
	}
}

// maxPageBytes ends a page early; its last row may go beyond it.
const maxPageBytes = 4 << 20

// onePage reads the next rows of r, at most left of them when that is not 0,
// and reports whether more may follow.
func onePage(ctx context.Context, s Store, t TableID, r Range, page, left int) ([]Entry, bool, error) {
	r.Limit = page
	if left > 0 && left < page {
		r.Limit = left
	}
	var rows []Entry
	var more bool
	err := s.View(ctx, func(rd Reader) error {
		var got []Entry
		full, size := false, 0
		for e, err := range rd.Scan(t, r) {
			if err != nil {
				return err
			}
			got = append(got, e)
			size += len(e.Key) + len(e.Value)
			if full = len(got) == r.Limit || size >= maxPageBytes; full {
				break
			}
		}
		rows, more = got, full
		return nil
	})
	return rows, more, err
}
