package saga

import (
	"context"
	"errors"
	"time"

	"onced/kv"
)

// SweepRuns removes runs that ended longer than Config.Retention ago, at most limit
// of them (0 means all), in small transactions beside live work, and returns how
// many. What is known of their business keys stays. With nothing to do it costs one
// read.
func (e *Engine) SweepRuns(ctx context.Context, limit int) (removed int, err error) {
	var from []byte
	for {
		page := sweepPage
		if limit > 0 {
			page = min(page, limit-removed)
		}
		if page == 0 {
			return removed, nil
		}
		due, err := e.expired(ctx, from, page)
		if err != nil || len(due) == 0 {
			return removed, err
		}
		var last ended
		n := 0
		err = e.store.Update(ctx, func(w kv.Writer) (err error) {
			n, last, err = e.removeRuns(w, due)
			return err
		})
		if err != nil {
			return removed, err
		}
		removed += n
		from = append(expiryKey(last.at, last.id), 0)
	}
}

// runWrites is the most rows that the removal of a run writes: two for each step, its
// labels, and eight more.
func runWrites(steps, labels int) int { return 2*steps + labels + 8 }

// removeRuns removes runs from the first of due on, as many as one transaction holds, and
// returns the last one that it has looked at.
func (e *Engine) removeRuns(w kv.Writer, due []ended) (n int, last ended, err error) {
	left := kv.MaxTxWrites
	for _, x := range due {
		if left < runWrites(MaxSteps, MaxLabels) {
			break
		}
		r, err := e.removeRun(w, x)
		if err != nil {
			return n, last, err
		}
		if last = x; r == nil {
			left--
			continue
		}
		left -= runWrites(len(r.state.Steps), len(r.labels))
		n++
	}
	return n, last, nil
}

// expired reads index rows of runs whose retention has passed.
func (e *Engine) expired(ctx context.Context, from []byte, limit int) (due []ended, err error) {
	err = e.store.View(ctx, func(rd kv.Reader) error {
		var got []ended
		r := kv.Range{From: from, To: kv.Key{}.Time(rd.Now().Add(-e.cfg.Retention)), Limit: limit}
		for x, err := range rd.Scan(expiryTable, r) {
			if err != nil {
				return err
			}
			d := kv.DecodeKey(x.Key)
			got = append(got, ended{at: d.Time(), id: d.String()})
		}
		due = got
		return nil
	})
	return due, err
}

// ended is a row of expiryTable.
type ended struct {
	at time.Time
	id string
}

// removeRun removes an ended run, and what says how it was corrected, and returns it; nil
// is none. One that cannot be read, or whose key cannot, is left to the rules.
func (e *Engine) removeRun(w kv.Writer, x ended) (*run, error) {
	r, err := loadRun(w, x.id)
	var key keyRow
	if err == nil && r != nil {
		key, _, err = keyTable.Get(w, r.of().row())
	}
	if errors.Is(err, kv.ErrCorrupt) || errors.Is(err, kv.ErrNewer) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := w.Delete(expiryTable, expiryKey(x.at, x.id)); err != nil {
		return nil, err
	}
	if r == nil || !r.state.Status.Terminal() || !r.ended.Equal(x.at) {
		return nil, nil // the row of the index was nobody's
	}
	for i := range r.state.Steps {
		k := correctionKey(x.id, r.state.Steps[i].Name)
		if err := correctionTable.Delete(w, k); err != nil {
			return nil, err
		}
		if err := contradictionTable.Delete(w, k); err != nil {
			return nil, err
		}
	}
	if err := r.unlist(w); err != nil {
		return nil, err
	}
	if err := r.outlive(w, key); err != nil {
		return nil, err
	}
	return r, runTable.Delete(w, runKey(x.id))
}

// outlive writes what a run has come to into the row of its business key. While the run
// is there it says that itself, and its end has one row less to write.
func (r *run) outlive(w kv.Writer, row keyRow) error {
	if row.Run != r.id {
		return nil // it is one of an earlier round, or a correction
	}
	row.Status = r.state.Status
	return keyTable.Put(w, r.of().row(), row)
}
