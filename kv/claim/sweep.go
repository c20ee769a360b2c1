package claim

import (
	"cmp"
	"context"
	"errors"
	"time"

	"onced/kv"
)

// Bounds of one transaction of a pass: small enough to run beside live work.
const (
	passRows  = 256
	passBytes = 8 << 20 // of records read
)

// Swept says what a sweep did.
type Swept struct {
	// Removed is how many claims were removed.
	Removed int
	// Damaged is how many rows were passed over because they cannot be read.
	Damaged int
	// More is true when the sweep ended at its limit and rows were left.
	More bool
}

// SweepExpired removes terminal claims whose retention had passed when it began,
// at most limit of them (0 means no limit), in small transactions beside live work.
// A claim without an outcome is never removed. With nothing to do it costs one
// read. Each claim is read again in the transaction that removes it. Rows of the
// index that belong to no claim are removed. Damaged rows are passed over; the
// first is named by an error once the rest is done.
func (b *Book) SweepExpired(ctx context.Context, limit int) (Swept, error) {
	var out Swept
	var damage error
	var r kv.Range
	for {
		r.Limit = passRows
		if limit > 0 {
			r.Limit = min(passRows, limit-out.Removed)
		}
		full := r.Limit == 0
		if full { // is anything left?
			r.Limit = 1
		}
		due, err := b.due(ctx, &r)
		if err != nil || len(due) == 0 || full {
			out.More = full && len(due) > 0
			return out, errors.Join(err, damage)
		}
		got, err := b.sweepBatch(ctx, due)
		if err != nil {
			return out, errors.Join(err, damage)
		}
		out.Removed += got.removed
		out.Damaged += got.damaged
		damage = cmp.Or(damage, got.damage)
		r.From = append(due[got.seen-1].key, 0)
	}
}

// indexed is a row of an index.
type indexed struct {
	key    kv.Key
	id     ID
	damage error // the key names no claim
}

// due reads index rows of what has expired, as hints.
func (b *Book) due(ctx context.Context, r *kv.Range) (out []indexed, err error) {
	err = b.store.View(ctx, func(rd kv.Reader) error {
		if r.To == nil { // or new rows would come for ever under live work
			r.To = kv.Key{}.Time(rd.Now()).Range().To
		}
		got, err := indexRows(rd, expiryTable, *r)
		out = got
		return err
	})
	return out, err
}

// untilLast ends a pass at the row that is the last one when it begins. Not at
// the present instant: a clock set back leaves rows behind it.
func untilLast(rd kv.Reader, t kv.TableID, r *kv.Range) error {
	if r.To != nil {
		return nil
	}
	for e, err := range rd.Scan(t, kv.Range{Reverse: true, Limit: 1}) {
		if err != nil {
			return err
		}
		r.To = append(e.Key, 0)
	}
	return nil
}

func indexRows(rd kv.Reader, t kv.TableID, r kv.Range) ([]indexed, error) {
	var out []indexed
	for e, err := range rd.Scan(t, r) {
		if err != nil {
			return nil, err
		}
		_, id, damage := decodeIndexKey(e.Key)
		out = append(out, indexed{e.Key, id, damage})
	}
	return out, nil
}

// claimOf reads the claim of a row of the index t. own is false when the row is
// not the one row of that claim. An error that isDamage is about this row alone.
func (e indexed) claimOf(rd kv.Reader, t kv.TableID) (r *Record, own bool, err error) {
	if e.damage != nil {
		return nil, false, e.damage
	}
	if r, err = load(rd, e.id); err != nil {
		return nil, false, err
	}
	table, key := indexRow(e.id, r)
	return r, table == t && string(key) == string(e.key), nil
}

type sweptBatch struct {
	seen, removed, damaged, bytes int

	damage error // the first
}

// sweepBatch removes what is still due. It ends early when it has read a lot.
func (b *Book) sweepBatch(ctx context.Context, due []indexed) (sweptBatch, error) {
	var out sweptBatch
	err := b.store.Update(ctx, func(w kv.Writer) error {
		var got sweptBatch
		for _, e := range due {
			if got.bytes >= passBytes {
				break
			}
			got.seen++
			err := b.sweepOne(w, e, &got)
			if isDamage(err) {
				got.damaged++
				got.damage = cmp.Or(got.damage, err)
				continue
			}
			if err != nil {
				return err
			}
		}
		out = got
		return nil
	})
	return out, err
}

func (b *Book) sweepOne(w kv.Writer, e indexed, got *sweptBatch) error {
	old, own, err := e.claimOf(w, expiryTable)
	if err != nil {
		return err
	}
	if !own { // a row that is not, or no longer, a claim's
		return w.Delete(expiryTable, e.key)
	}
	s := b.machine.Sweep(old, w.Now())
	if s.Write != Remove { // the clock was set back
		return nil
	}
	if err := save(w, e.id, old, s); err != nil {
		return err
	}
	got.removed++
	got.bytes += len(old.Result.Data)
	b.afterCommit(w, e.id, opSweep, s)
	return nil
}

// Recovered says what a recovery pass found and did.
type Recovered struct {
	// Open is how many open claims were looked at.
	Open int
	// Unknown is how many were written down as unknown: their owner's process
	// has ended, or their lease; or, unknown before, as of unknown age, because the
	// clock was set back.
	Unknown int
	// Anchored is how many pending ones were written because the clock was set
	// back: leases that lay further ahead than their length were shortened to it.
	Anchored int
	// Damaged is how many rows were passed over because they cannot be read.
	Damaged int
}

// Recover writes down what has become of open claims whose owner is gone, gives
// an end to leases that a clock set back has made endless, and takes note of claims
// that it has made younger, for good: they are not sent again. It is a pass in
// bounded pages, for the start and from time to time. Decisions do not depend
// on it, but for that note: they see a dead owner by themselves. Rows of the index that belong to no
// claim are removed. Damaged rows are passed over; the first is named by an error
// once the rest is done.
func (b *Book) Recover(ctx context.Context) (Recovered, error) {
	var out Recovered
	var damage error
	r := kv.Range{Limit: passRows}
	for {
		page, err := b.openPage(ctx, &r)
		if err != nil || page.last == nil {
			return out, errors.Join(err, damage)
		}
		out.Open += page.open
		out.Damaged += page.damaged
		damage = cmp.Or(damage, page.damage)
		if len(page.stale) > 0 {
			done, err := b.recoverBatch(ctx, page.stale)
			if err != nil {
				return out, errors.Join(err, damage)
			}
			out.Unknown += done.Unknown
			out.Anchored += done.Anchored
		}
		r.From = append(page.last, 0)
	}
}

// openPage is a page of the open index.
type openPage struct {
	last          kv.Key // of its rows; nil at the end
	open, damaged int
	stale         []indexed // what needs a write
	damage        error     // the first
}

func (b *Book) openPage(ctx context.Context, r *kv.Range) (openPage, error) {
	var out openPage
	err := b.store.View(ctx, func(rd kv.Reader) error {
		if err := untilLast(rd, openTable, r); err != nil {
			return err
		}
		rows, err := indexRows(rd, openTable, *r)
		if err != nil {
			return err
		}
		var p openPage
		for _, e := range rows {
			p.last = e.key
			old, own, err := e.claimOf(rd, openTable)
			switch {
			case isDamage(err):
				p.damaged++
				p.damage = cmp.Or(p.damage, err)
				continue
			case err != nil:
				return err
			case own:
				p.open++
			}
			if !own || b.machine.Recover(old, rd.Now()).Write != Keep {
				p.stale = append(p.stale, e)
			}
		}
		out = p
		return nil
	})
	return out, err
}

func (b *Book) recoverBatch(ctx context.Context, stale []indexed) (Recovered, error) {
	var out Recovered
	err := b.store.Update(ctx, func(w kv.Writer) error {
		var got Recovered
		for _, e := range stale {
			kind, err := b.recoverOne(w, e)
			if err != nil && !isDamage(err) { // damage was seen by the page, or will be by the next pass
				return err
			}
			switch kind {
			case StillUnknown:
				got.Unknown++
			case Extended:
				got.Anchored++
			default: // nothing to count
			}
		}
		out = got
		return nil
	})
	return out, err
}

func (b *Book) recoverOne(w kv.Writer, e indexed) (Kind, error) {
	_, own, err := e.claimOf(w, openTable)
	if err != nil {
		return 0, err
	}
	if !own {
		return 0, w.Delete(openTable, e.key)
	}
	d, err := b.step(w, e.id, opRecover, func(r *Record, now time.Time) (Step, error) {
		return b.machine.Recover(r, now), nil
	})
	return d.Kind, err
}
