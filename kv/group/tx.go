package group

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"onced/kv"
)

// checkEvery is how many rows a scan yields between two looks at its limits.
const checkEvery = 64

// reader reads a snapshot, below the overlays of batch when there is one.
type reader struct {
	s     *Store
	ctx   context.Context // of a View; nil in an Update, which is not cancelled
	now   time.Time
	began time.Duration // by Store.elapsed
	snap  Snapshot
	ended bool

	version uint64  // of snap, in a View
	doubt   overlay // rows whose state is unknown since a failed commit
}

// Now implements [kv.Reader].
func (r *reader) Now() time.Time { return r.now }

// Get implements [kv.Reader].
func (r *reader) Get(t kv.TableID, key []byte) ([]byte, error) {
	if err := r.usable(t, key); err != nil {
		return nil, err
	}
	if _, ok := r.doubt.get(t, key); ok {
		return nil, inDoubt(t, key)
	}
	return keep(r.snap.Get(t, key)), nil
}

// Scan implements [kv.Reader].
func (r *reader) Scan(t kv.TableID, rg kv.Range) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		rg := rg // a sequence may be ranged over again
		if err := r.usable(t, anyKey); err != nil {
			yield(kv.Entry{}, err)
			return
		}
		// A row in doubt may be there or not: the scan cannot pass its place.
		doubtful, ok := r.firstInDoubt(t, rg)
		if ok && rg.Reverse {
			rg.From = append(slices.Clip(doubtful), 0)
		} else if ok {
			rg.To = doubtful
		}
		if r.walk(t, r.layers(t, rg, nil), rg, yield) && ok {
			yield(kv.Entry{}, inDoubt(t, doubtful))
		}
	}
}

// firstInDoubt returns the first row that a scan of rg would find in doubt.
func (r *reader) firstInDoubt(t kv.TableID, rg kv.Range) ([]byte, bool) {
	if table := r.doubt.table(t); table != nil {
		if it := RangeIter(table, rg); it.Next() {
			return []byte(it.Key()), true
		}
	}
	return nil, false
}

// anyKey stands for "some key" where only the table's name is checked.
var anyKey = []byte{0}

func (r *reader) usable(t kv.TableID, key []byte) error {
	if err := r.check(); err != nil {
		return err
	}
	return kv.CheckKey(t, key)
}

// check returns an error when the transaction has ended or lasts too long.
func (r *reader) check() error {
	if r.ended {
		return kv.ErrTxDone
	}
	if r.ctx != nil && r.ctx.Err() != nil {
		return fmt.Errorf("kv: the view was cancelled: %w", context.Cause(r.ctx))
	}
	if d := r.s.elapsed() - r.began; d > kv.MaxTxTime {
		return &kv.LimitError{What: "duration of a transaction", Got: d.Milliseconds(),
			Limit: kv.MaxTxTime.Milliseconds(), Unit: "ms", Remedy: "split it; page long reads with kv.Pages"}
	}
	return nil
}

// layers returns the sources of a scan: the tables above, then the engine.
func (r *reader) layers(t kv.TableID, rg kv.Range, above []*rows) *merged {
	m := &merged{reverse: rg.Reverse}
	for _, table := range above {
		m.layers = append(m.layers, head{layer: &overlayLayer{Iter: RangeIter(table, rg)}})
	}
	m.layers = append(m.layers, head{layer: engineLayer{r.snap.Cursor(t, rg)}})
	return m
}

// walk yields the rows of m, and reports whether it did so to their end.
func (r *reader) walk(t kv.TableID, m *merged, rg kv.Range, yield func(kv.Entry, error) bool) bool {
	limited := rg.Limit > 0 && rg.Limit <= kv.MaxScanRows
	for n := 0; ; n++ {
		if limited && n == rg.Limit {
			return false
		}
		var err error
		if r.ended || n%checkEvery == 0 {
			err = r.check()
		}
		var key, value []byte
		ok := err == nil
		if ok {
			if key, value, ok = m.next(); !ok {
				return true
			}
			if n == kv.MaxScanRows {
				err = &kv.LimitError{What: "scan of table " + string(t), Limit: kv.MaxScanRows, Unit: "rows",
					Remedy: "set Range.Limit and go on from the last key, or use kv.Pages"}
			}
		}
		if err != nil {
			yield(kv.Entry{}, err)
			return false
		}
		if !yield(kv.Entry{Key: keep(key), Value: keep(value)}, nil) {
			return false
		}
	}
}

func inDoubt(t kv.TableID, key []byte) error {
	return &kv.DoubtError{Table: t, Key: slices.Clone(key)}
}

// keep copies bytes for the caller; nil stays nil and empty stays empty.
func keep(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}

// writer is the transaction of one Update.
type writer struct {
	reader
	b        *batch
	bytes    int
	onCommit []func()
}

// undo is what a row of the batch's overlay was before a write.
type undo struct {
	table *rows
	key   string
	was   row
	had   bool
}

// Get implements [kv.Reader]: own writes, then those of the batch, then of the
// batch that is being committed, then the snapshot.
func (w *writer) Get(t kv.TableID, key []byte) ([]byte, error) {
	if err := w.usable(t, key); err != nil {
		return nil, err
	}
	r, ok := w.b.get(t, key)
	if !ok {
		return keep(w.snap.Get(t, key)), nil
	}
	if r.deleted {
		return nil, nil
	}
	return keep(r.value), nil
}

// Scan implements [kv.Reader].
func (w *writer) Scan(t kv.TableID, rg kv.Range) iter.Seq2[kv.Entry, error] {
	err := w.usable(t, anyKey)
	var tables []*rows
	if err == nil {
		own, before := w.b.tables(t)
		if own != nil {
			// A copy, in constant time: writes made during the scan stay out of it.
			tables = append(tables, own.Copy())
		}
		if before != nil {
			tables = append(tables, before)
		}
	}
	return func(yield func(kv.Entry, error) bool) {
		if err == nil {
			err = w.check()
		}
		if err != nil {
			yield(kv.Entry{}, err)
			return
		}
		w.walk(t, w.layers(t, rg, tables), rg, yield)
	}
}

// Put implements [kv.Writer].
func (w *writer) Put(t kv.TableID, key, value []byte) error {
	if err := kv.CheckValue(t, value); err != nil {
		return err
	}
	return w.write(t, key, row{value: append(make([]byte, 0, len(value)), value...)})
}

// PutOwned serves [kv.Table.Put]: value is ours.
func (w *writer) PutOwned(t kv.TableID, key, value []byte) error {
	if err := kv.CheckValue(t, value); err != nil {
		return err
	}
	return w.write(t, key, row{value: value})
}

// Delete implements [kv.Writer].
func (w *writer) Delete(t kv.TableID, key []byte) error {
	return w.write(t, key, row{deleted: true})
}

// OnCommit implements [kv.Writer].
func (w *writer) OnCommit(fn func()) { w.onCommit = append(w.onCommit, fn) }

// AdmitIntent serves [kv.AdmitIntent].
func (w *writer) AdmitIntent() error {
	if w.s.opt.Admit == nil {
		return nil
	}
	return w.s.opt.Admit()
}

func (w *writer) write(t kv.TableID, key []byte, r row) error {
	if err := w.usable(t, key); err != nil {
		return err
	}
	journal := w.s.journal
	if len(journal) >= kv.MaxTxWrites {
		return &kv.LimitError{What: "writes of a transaction", Got: int64(len(journal)) + 1,
			Limit: kv.MaxTxWrites, Unit: "writes", Remedy: "split it into several transactions"}
	}
	size := len(key) + len(r.value)
	if w.bytes+size > kv.MaxTxBytes {
		return &kv.LimitError{What: "size of a transaction", Got: int64(w.bytes + size),
			Limit: kv.MaxTxBytes, Unit: "bytes", Remedy: "split it into several transactions"}
	}
	w.bytes += size
	table := w.b.rows.make(t)
	k := string(key)
	was, had := table.Set(k, r)
	w.s.journal = append(journal, undo{table: table, key: k, was: was, had: had})
	return nil
}

// undo takes all writes of the transaction back.
func (w *writer) undo() {
	for _, u := range slices.Backward(w.s.journal) {
		if u.had {
			u.table.Set(u.key, u.was)
		} else {
			u.table.Delete(u.key)
		}
	}
	w.s.forget()
	w.bytes, w.onCommit = 0, nil
}

// keptJournal is how many entries of the journal are kept for the next closure.
const keptJournal = 256

// forget empties the journal.
func (s *Store) forget() {
	if len(s.journal) > keptJournal {
		s.journal = nil
		return
	}
	clear(s.journal)
	s.journal = s.journal[:0]
}
