package saga

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"onced/kv"
	"onced/kv/claim"
)

// The tables of OnceTx. Their keys are shared with no claim.
var (
	// onceTable has one row per id, under (scope, id).
	onceTable = kv.NewTable("saga.once", 1, kv.TableOptions[onceRow]{
		Blob: func(r *onceRow) *[]byte { return &r.Result },
	})
	// onceExpiryTable has one empty row per id that expires, under (expiry,
	// scope, id).
	onceExpiryTable = kv.TableID("saga.once_expiry")
)

// onceRow is what is kept of an id. Instants are ns since 1970.
type onceRow struct {
	At      int64  `json:"at"`
	Expires int64  `json:"expires,omitempty"` // 0 is never
	Result  []byte `json:"-"`
}

func (r *onceRow) expired(now time.Time) bool {
	return r.Expires != 0 && kv.UnixNano(now) >= r.Expires
}

// MaxKeepFor is the longest time that [KeepFor] takes: a hundred years.
const MaxKeepFor = claim.MaxRetention

// OnceOption is a setting of [OnceTx] and [OnceIn].
type OnceOption struct{ keep time.Duration }

// KeepFor bounds how long an id is remembered; then it is free again, and
// [SweepOnce] removes it. Without it an id is remembered for ever. It must be
// positive, at most [MaxKeepFor], and longer than whoever sends the id tries again.
func KeepFor(d time.Duration) OnceOption { return OnceOption{keep: d} }

// OnceTx runs fn in a transaction of store, once per scope and id: what fn writes
// and the fact that it ran commit together, so there is no unknown outcome and
// no window in which only one of them holds. Every later call returns the same
// result, for ever unless [KeepFor] is given, and costs one read.
//
// An error of fn is returned as it is; nothing is stored and the id is free. The
// result is kept as JSON. fn is a closure of a transaction: it may run more than
// once and must touch nothing outside the Writer. Concurrent calls wait for each
// other in the store.
//
// Errors besides those of fn: [ResultError] when the stored result does not fit
// T, claim.ErrInvalid for a scope or an id that is no key (see claim.ID), and
// those of the store. After kv.ErrCommitUnknown call again with the same id.
func OnceTx[T any](
	ctx context.Context, store kv.Store, scope, id string, fn func(kv.Writer) (T, error), opts ...OnceOption,
) (T, error) {
	return inTx(ctx, store, once[T]{claim.ID{Scope: scope, Key: id}, fn, opts})
}

// OnceIn is [OnceTx] in the caller's transaction, and counts when that has
// committed. When it returns an error the caller's closure must return one too:
// what fn has written before it failed is still in the transaction.
func OnceIn[T any](
	w kv.Writer, scope, id string, fn func(kv.Writer) (T, error), opts ...OnceOption,
) (T, error) {
	return once[T]{claim.ID{Scope: scope, Key: id}, fn, opts}.in(w)
}

type once[T any] struct {
	id   claim.ID
	fn   func(kv.Writer) (T, error)
	opts []OnceOption
}

func inTx[T any](ctx context.Context, store kv.Store, o once[T]) (T, error) {
	var out, none T
	var known bool
	err := store.View(ctx, func(rd kv.Reader) error {
		v, ok, err := o.stored(rd)
		out, known = v, ok && err == nil
		return err
	})
	if err != nil {
		return none, err
	}
	if known {
		return out, nil
	}
	err = store.Update(ctx, func(w kv.Writer) error {
		v, err := o.in(w)
		if err == nil {
			out = v
		}
		return err
	})
	if err != nil {
		return none, err
	}
	return out, nil
}

func onceKey(id claim.ID) kv.Key { return kv.Key{}.String(id.Scope).String(id.Key) }

func onceExpiryKey(expires int64, id claim.ID) kv.Key {
	return kv.Key{}.Int(expires).String(id.Scope).String(id.Key)
}

// stored reads the result if the id is known.
func (o once[T]) stored(rd kv.Reader) (v T, ok bool, err error) {
	if err := o.id.Validate(); err != nil {
		return v, false, err
	}
	row, ok, err := onceTable.Get(rd, onceKey(o.id))
	if err != nil || !ok || row.expired(rd.Now()) {
		return v, false, err
	}
	v, err = o.decode(row.Result)
	return v, true, err
}

func (o once[T]) decode(data []byte) (T, error) {
	v, err := caught(func() (v T, err error) {
		err = json.Unmarshal(data, &v)
		return v, err
	})
	if err != nil {
		var none T
		return none, &ResultError{Operation: o.id.Scope, Key: o.id.Key, Reason: "it cannot be read", Err: err}
	}
	return v, nil
}

// in returns the stored result, or runs fn and stores its result.
func (o once[T]) in(w kv.Writer) (T, error) {
	var none T
	if v, ok, err := o.stored(w); ok || err != nil {
		return v, err
	}
	if problem := resultProblem[T](); problem != "" {
		return none, &ConfigError{Operation: o.id.Scope, Field: "result", Problem: problem}
	}
	row := onceRow{At: kv.UnixNano(w.Now())}
	for _, opt := range o.opts {
		if opt.keep <= 0 {
			return none, &ConfigError{Operation: o.id.Scope, Field: "KeepFor",
				Problem: fmt.Sprintf("must be positive, it is %v", opt.keep)}
		}
		if opt.keep > MaxKeepFor {
			return none, &ConfigError{Operation: o.id.Scope, Field: "KeepFor",
				Problem: fmt.Sprintf("is %v, the limit is %v; leave it out to keep ids for ever",
					opt.keep, MaxKeepFor)}
		}
		row.Expires = kv.UnixNano(w.Now().Add(opt.keep))
	}
	v, err := o.fn(w)
	if err != nil {
		return none, err
	}
	if row.Result, err = encode(v); err != nil {
		return none, fmt.Errorf("saga: once %q %q: the result: %w", o.id.Scope, o.id.Key, err)
	}
	if v, err = o.decode(row.Result); err != nil {
		return none, err
	}
	if err := o.put(w, row); err != nil {
		return none, err
	}
	return v, nil
}

// put writes the row and its place among those that expire. An expired row that
// has not been swept yet gives up its place.
func (o once[T]) put(w kv.Writer, row onceRow) error {
	old, ok, err := onceTable.Get(w, onceKey(o.id))
	if err != nil {
		return err
	}
	if ok && old.Expires != 0 {
		if err := w.Delete(onceExpiryTable, onceExpiryKey(old.Expires, o.id)); err != nil {
			return err
		}
	}
	if row.Expires != 0 {
		if err := w.Put(onceExpiryTable, onceExpiryKey(row.Expires, o.id), nil); err != nil {
			return err
		}
	}
	return onceTable.Put(w, onceKey(o.id), row)
}
