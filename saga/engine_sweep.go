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
		last := due[len(due)-1]
		from = append(expiryKey(last.at, last.id), 0)
		n := 0
		err = e.store.Update(ctx, func(w kv.Writer) error {
			n = 0
			for _, x := range due {
				gone, err := e.removeRun(w, x)
				if err != nil {
					return err
				}
				if gone {
					n++
				}
			}
			return nil
		})
		if err != nil {
			return removed, err
		}
		removed += n
	}
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

// removeRun removes an ended run, and what says how it was corrected. One that cannot
// be read is left to the rules.
func (e *Engine) removeRun(w kv.Writer, x ended) (gone bool, err error) {
	r, err := loadRun(w, x.id)
	if errors.Is(err, kv.ErrCorrupt) || errors.Is(err, kv.ErrNewer) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := w.Delete(expiryTable, expiryKey(x.at, x.id)); err != nil {
		return false, err
	}
	if r == nil || !r.state.Status.Terminal() || !r.ended.Equal(x.at) {
		return false, nil // the row of the index was nobody's
	}
	for i := range r.state.Steps {
		k := correctionKey(x.id, r.state.Steps[i].Name)
		if err := correctionTable.Delete(w, k); err != nil {
			return false, err
		}
		if err := contradictionTable.Delete(w, k); err != nil {
			return false, err
		}
	}
	if err := r.unlist(w); err != nil {
		return false, err
	}
	if err := r.outlive(w); err != nil {
		return false, err
	}
	return true, runTable.Delete(w, runKey(x.id))
}

// outlive writes what a run has come to into the row of its business key. While the run
// is there it says that itself, and its end has one row less to write.
func (r *run) outlive(w kv.Writer) error {
	k := r.of().row()
	row, ok, err := keyTable.Get(w, k)
	if err != nil || !ok || row.Run != r.id {
		return err // it is one of an earlier round, or a correction
	}
	row.Status = r.state.Status
	return keyTable.Put(w, k, row)
}
