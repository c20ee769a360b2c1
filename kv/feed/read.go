package feed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"onced/kv"
)

// Bounds of one page.
const (
	// DefaultLimit is how many events a page has when none is asked for.
	DefaultLimit = 100
	// MaxLimit is the most events of a page; asking for more gives this many.
	MaxLimit = 1000
	// maxPageBytes ends a page early; its last event may go beyond it.
	maxPageBytes = 4 << 20
)

// Page is a piece of the log.
type Page struct {
	// Events are in the order of their numbers, without a hole.
	Events []Event
	// Next is the cursor behind the last event; it is set also when there is none.
	// Store it in the transaction that stores the effects of the events.
	Next string
	// Head is the number of the last entry of the log, 0 when it is empty.
	Head uint64
	// More reports that entries behind this page existed when it was read.
	More bool
}

// Read returns the entries behind the cursor, at most limit (0 means
// [DefaultLimit]). An empty cursor reads from the oldest entry kept. Errors:
// [*CursorError], [*GoneError], [*ConflictError], and those of the store. An entry
// that cannot be read ends the page before it and is the error of the next
// reading ([kv.ErrCorrupt], [kv.ErrNewer]): nothing is read past it. The same
// cursor gives the same events until retention removes them.
func (f *Feed) Read(ctx context.Context, s kv.Store, cursor string, limit int) (p Page, err error) {
	err = s.View(ctx, func(rd kv.Reader) error {
		got, err := ReadIn(rd, cursor, limit)
		p = got
		return err
	})
	return p, err
}

// ReadIn is [Feed.Read] inside a transaction, for consumers in the same store.
func ReadIn(rd kv.Reader, cursor string, limit int) (Page, error) {
	limit = pageLimit(limit)
	var pos position
	var err error
	if cursor != "" {
		if pos, err = parseCursor(cursor); err != nil {
			return Page{}, err
		}
	}
	m, ok, err := metaTable.Get(rd, metaKey)
	switch {
	case err != nil:
		return Page{}, err
	case !ok && pos != (position{}):
		return Page{}, &ConflictError{Kind: ConflictEpoch, Resume: position{}.encode()}
	case !ok:
		return Page{Next: position{}.encode()}, nil
	case cursor == "":
		pos = m.oldest()
	}
	next, err := m.next(rd, pos)
	if err != nil {
		return Page{}, err
	}
	return m.read(rd, next, limit)
}

// pageLimit is how many events a page has at most for which limit are asked.
func pageLimit(limit int) int {
	if limit <= 0 {
		return DefaultLimit
	}
	return min(limit, MaxLimit)
}

func (m meta) read(rd kv.Reader, next uint64, limit int) (Page, error) {
	p := Page{Head: m.Head}
	size := 0
	r := kv.Range{From: entryKey(next), Limit: limit}
	for row, err := range entryTable.Scan(rd, r) {
		var ev Event
		if err == nil {
			ev, err = eventOf(row, next+uint64(len(p.Events)))
		}
		if unreadable(err) && len(p.Events) > 0 {
			break // those before it are good; the next reading begins at it
		}
		if err != nil {
			return Page{}, err
		}
		p.Events = append(p.Events, ev)
		if size += len(row.Value.Body); size >= maxPageBytes {
			break
		}
	}
	last := next + uint64(len(p.Events)) - 1
	if len(p.Events) == 0 && m.Head >= next {
		return Page{}, fmt.Errorf("feed: entry %d is missing: %w", next, kv.ErrCorrupt)
	}
	pos, err := m.at(rd, last)
	if err != nil {
		return Page{}, err
	}
	p.Next, p.More = pos.encode(), last < m.Head
	return p, nil
}

// eventOf returns the event of a row that must be the entry seq.
func eventOf(row kv.Row[entry], seq uint64) (Event, error) {
	if string(row.Key) != string(entryKey(seq)) {
		return Event{}, fmt.Errorf("feed: entry %d is missing: %w", seq, kv.ErrCorrupt)
	}
	return row.Value.event(seq)
}

// unreadable reports an error of a row itself, not of the store.
func unreadable(err error) bool {
	return errors.Is(err, kv.ErrCorrupt) || errors.Is(err, kv.ErrNewer)
}

// Latest returns the newest entries first, at most limit (0 means [DefaultLimit]),
// with numbers below before (0 means from the head). It is for people who look, not for consumers:
// it has no cursor and promises no completeness.
func (f *Feed) Latest(ctx context.Context, s kv.Store, before uint64, limit int) (events []Event, err error) {
	r := kv.Range{Reverse: true, Limit: pageLimit(limit)}
	if before > 0 {
		r.To = entryKey(before)
	}
	err = s.View(ctx, func(rd kv.Reader) error {
		var got []Event
		size := 0
		for row, err := range entryTable.Scan(rd, r) {
			if err != nil {
				return err
			}
			d := kv.DecodeKey(row.Key)
			seq := d.Uint()
			if err := d.End(); err != nil {
				return err
			}
			ev, err := row.Value.event(seq)
			if err != nil {
				return err
			}
			got = append(got, ev)
			if size += len(row.Value.Body); size >= maxPageBytes {
				break
			}
		}
		events = got
		return nil
	})
	return events, err
}

// Retention says what [Feed.Trim] may remove. An entry goes when it is too old or
// one too many; with both bounds zero nothing goes.
type Retention struct {
	// MaxAge is how long an entry is kept after it was appended; 0 means no bound.
	MaxAge time.Duration
	// MaxEntries is how many of the newest entries are kept; 0 means no bound.
	MaxEntries uint64
	// KeepFrom protects this entry and all later ones, for example what a push
	// has not delivered yet; 0 protects none.
	KeepFrom uint64
	// Batch is the most entries removed by one call; 0 means 500, the most is 2000.
	Batch int
}

// Trim removes the oldest entries that may go, in one transaction that also
// moves the beginning of the log. It returns how many it removed; call it again
// while that is Batch. When nothing may go it writes nothing.
func (f *Feed) Trim(ctx context.Context, s kv.Store, keep Retention) (removed int, err error) {
	switch {
	case keep.Batch <= 0:
		keep.Batch = 500
	case keep.Batch > 2000:
		keep.Batch = 2000
	}
	var due bool
	err = s.View(ctx, func(rd kv.Reader) error {
		m, ok, err := metaTable.Get(rd, metaKey)
		if err != nil || !ok {
			return err
		}
		_, may, err := keep.mayGo(rd, m, m.Oldest)
		due = may
		return err
	})
	if err != nil || !due {
		return 0, err
	}
	err = s.Update(ctx, func(w kv.Writer) error {
		n, err := keep.trim(w)
		removed = n
		return err
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}

func (keep Retention) trim(w kv.Writer) (int, error) {
	m, ok, err := metaTable.Get(w, metaKey)
	if err != nil || !ok {
		return 0, err
	}
	n := 0
	for ; n < keep.Batch; n++ {
		e, may, err := keep.mayGo(w, m, m.Oldest)
		if err != nil {
			return 0, err
		}
		if !may {
			break
		}
		if err := remove(w, m.Oldest, e.ID); err != nil {
			return 0, err
		}
		m.Oldest, m.Before = m.Oldest+1, mark(e.ID)
	}
	if n == 0 {
		return 0, nil
	}
	return n, metaTable.Put(w, metaKey, m)
}

// mayGo reports whether the entry seq, the oldest one, may be removed.
func (keep Retention) mayGo(rd kv.Reader, m meta, seq uint64) (e entry, may bool, err error) {
	if seq > m.Head || (keep.KeepFrom > 0 && seq >= keep.KeepFrom) {
		return e, false, nil
	}
	e, ok, err := entryTable.Get(rd, entryKey(seq))
	if err != nil {
		return e, false, err
	}
	if !ok {
		return e, false, fmt.Errorf("feed: entry %d is missing: %w", seq, kv.ErrCorrupt)
	}
	old := keep.MaxAge > 0 && rd.Now().Sub(time.Unix(0, e.At)) > keep.MaxAge
	many := keep.MaxEntries > 0 && m.Head-seq >= keep.MaxEntries
	return e, old || many, nil
}

func remove(w kv.Writer, seq uint64, id string) error {
	key := kv.Key{}.String(id)
	row, ok, err := onceTable.Get(w, key)
	if err != nil && !unreadable(err) {
		return err
	}
	// A row that cannot be read stays: it may be that of a later entry, whose fact
	// must not be told again.
	if ok && row.Seq == seq {
		if err := onceTable.Delete(w, key); err != nil {
			return err
		}
	}
	return entryTable.Delete(w, entryKey(seq))
}
