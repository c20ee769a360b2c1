package saga

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"onced/kv"
	"onced/kv/claim"
)

// sweepPage is how many rows one transaction of a sweep looks at.
const sweepPage = 256

// SweepOnce removes ids whose [KeepFor] had passed when it began, at most limit of
// them (0 means all), in small transactions beside live work, and returns how many.
// With nothing to do it costs one read. Places among those that expire which
// belong to no id are removed too. Damaged rows are passed over; the first is named
// by an error once the rest is done.
func SweepOnce(ctx context.Context, store kv.Store, limit int) (removed int, err error) {
	var damage error
	var r kv.Range
	for {
		r.Limit = sweepPage
		if limit > 0 {
			r.Limit = min(sweepPage, limit-removed)
		}
		if r.Limit == 0 {
			return removed, damage
		}
		due, err := onceDue(ctx, store, &r)
		if err != nil || len(due) == 0 {
			return removed, errors.Join(err, damage)
		}
		got, err := sweepAll(ctx, store, due)
		if err != nil {
			return removed, errors.Join(err, damage)
		}
		removed += got.removed
		damage = cmp.Or(damage, got.damage)
		r.From = append(due[len(due)-1], 0)
	}
}

type sweptPage struct {
	removed int
	damage  error // the first
}

func sweepAll(ctx context.Context, store kv.Store, due [][]byte) (sweptPage, error) {
	var out sweptPage
	err := store.Update(ctx, func(w kv.Writer) error {
		var got sweptPage
		for _, key := range due {
			gone, err := sweepOne(w, key)
			switch {
			case errors.Is(err, kv.ErrCorrupt) || errors.Is(err, kv.ErrNewer):
				got.damage = cmp.Or(got.damage, err)
			case err != nil:
				return err
			case gone:
				got.removed++
			}
		}
		out = got
		return nil
	})
	return out, err
}

// onceDue lists rows of the expiry table that are due.
func onceDue(ctx context.Context, store kv.Store, r *kv.Range) ([][]byte, error) {
	var due [][]byte
	err := store.View(ctx, func(rd kv.Reader) error {
		if r.To == nil { // or new rows would come for ever under live work
			r.To = kv.Key{}.Int(kv.UnixNano(rd.Now())).Range().To
		}
		due = due[:0]
		for e, err := range rd.Scan(onceExpiryTable, *r) {
			if err != nil {
				return err
			}
			due = append(due, e.Key)
		}
		return nil
	})
	return due, err
}

// sweepOne removes an id and its place among those that expire, if it is still
// due: what was scanned is a hint. A place that is not, or no longer, that of an id
// is removed alone.
func sweepOne(w kv.Writer, key []byte) (gone bool, err error) {
	expires, id, err := decodeOnceExpiry(key)
	if err != nil {
		return false, err
	}
	rowKey := onceKey(id)
	row, ok, err := onceTable.Get(w, rowKey)
	if err != nil {
		return false, err
	}
	if ok && row.Expires == expires {
		if !row.expired(w.Now()) { // the clock was set back
			return false, nil
		}
		if err := onceTable.Delete(w, rowKey); err != nil {
			return false, err
		}
		gone = true
	}
	return gone, w.Delete(onceExpiryTable, key)
}

func decodeOnceExpiry(key []byte) (expires int64, id claim.ID, err error) {
	d := kv.DecodeKey(key)
	expires, id.Scope, id.Key = d.Int(), d.String(), d.String()
	if d.End() != nil {
		err = fmt.Errorf("%w: key %x of %s", kv.ErrCorrupt, key, onceExpiryTable)
	}
	return expires, id, err
}
