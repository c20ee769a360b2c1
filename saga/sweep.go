package saga

import (
	"context"
	"fmt"

	"onced/kv"
	"onced/kv/claim"
)

// sweepPage is how many rows one transaction of a sweep looks at.
const sweepPage = 256

// SweepOnce removes ids whose [KeepFor] has passed, at most limit of them (0
// means all), in small transactions beside live work, and returns how many.
// With nothing to do it costs one read.
func SweepOnce(ctx context.Context, store kv.Store, limit int) (removed int, err error) {
	for {
		page := sweepPage
		if limit > 0 {
			page = min(page, limit-removed)
		}
		if page == 0 {
			return removed, nil
		}
		due, err := onceDue(ctx, store, page)
		if err != nil || len(due) == 0 {
			return removed, err
		}
		n, err := sweepAll(ctx, store, due)
		removed += n
		if err != nil || n == 0 { // nothing that is still due
			return removed, err
		}
	}
}

func sweepAll(ctx context.Context, store kv.Store, due [][]byte) (removed int, err error) {
	err = store.Update(ctx, func(w kv.Writer) error {
		n := 0
		for _, key := range due {
			gone, err := sweepOne(w, key)
			if err != nil {
				return err
			}
			if gone {
				n++
			}
		}
		removed = n
		return nil
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}

// onceDue lists rows of the expiry table that are due.
func onceDue(ctx context.Context, store kv.Store, limit int) ([][]byte, error) {
	var due [][]byte
	err := store.View(ctx, func(rd kv.Reader) error {
		due = due[:0]
		r := kv.Range{To: kv.Key{}.Int(kv.UnixNano(rd.Now())).Range().To, Limit: limit}
		for e, err := range rd.Scan(onceExpiryTable, r) {
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
// due: what was scanned is a hint.
func sweepOne(w kv.Writer, key []byte) (gone bool, err error) {
	expires, id, err := decodeOnceExpiry(key)
	if err != nil {
		return false, err
	}
	rowKey := onceKey(id)
	row, ok, err := onceTable.Get(w, rowKey)
	if err != nil || !ok || row.Expires != expires || !row.expired(w.Now()) {
		return false, err
	}
	if err := onceTable.Delete(w, rowKey); err != nil {
		return false, err
	}
	return true, w.Delete(onceExpiryTable, key)
}

func decodeOnceExpiry(key []byte) (expires int64, id claim.ID, err error) {
	d := kv.DecodeKey(key)
	expires, id.Scope, id.Key = d.Int(), d.String(), d.String()
	if d.End() != nil {
		err = fmt.Errorf("%w: key %x of %s", kv.ErrCorrupt, key, onceExpiryTable)
	}
	return expires, id, err
}
