package claim

import (
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
	// More is true when the sweep ended at its limit.
	More bool
}

// SweepExpired removes terminal claims whose retention had passed when it began,
// at most limit of them (0 means no limit), in small transactions beside live work.
// A claim without an outcome is never removed. With nothing to do it costs one
// read. Each claim is read again in the transaction that removes it. Damaged
// claims are passed over; they are named by an error once the rest is done.
func (b *Book) SweepExpired(ctx context.Context, limit int) (Swept, error) {
	var out Swept
	var damage error
	var r kv.Range
	for {
		want := passRows
		if limit > 0 {
			want = min(want, limit-out.Removed)
		}
		if want == 0 {
			return Swept{out.Removed, true}, damage
		}
		r.Limit = want
		due, err := b.due(ctx, &r)
		if err != nil || len(due) == 0 {
			return out, errors.Join(err, damage)
		}
		got, err := b.sweepBatch(ctx, due)
		if err != nil {
			return out, err
		}
		out.Removed += got.removed
		if damage == nil {
			damage = got.damage
		}
		r.From = append(due[got.seen-1].key, 0)
	}
}

type indexed struct {
	key kv.Key // of the index row
	id  ID
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
		_, id, err := decodeIndexKey(e.Key)
		if err != nil {
			return nil, err
		}
		out = append(out, indexed{e.Key, id})
	}
	return out, nil
}

type sweptBatch struct {
	seen, removed, bytes int
	damage               error
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
			if err := b.sweepOne(w, e, &got); err != nil {
				return err
			}
		}
		out = got
		return nil
	})
	return out, err
}

func (b *Book) sweepOne(w kv.Writer, e indexed, got *sweptBatch) error {
	old, err := load(w, e.id)
	if isDamage(err) {
		got.damage = err
		return nil
	}
	if err != nil {
		return err
	}
	s := b.machine.Sweep(old, w.Now())
	if err := save(w, e.id, old, s); err != nil {
		return err
	}
	if s.Write == Remove {
		got.removed++
		got.bytes += len(old.Result.Data)
		b.afterCommit(w, e.id, opSweep, s)
	}
	if table, key := indexRow(e.id, old); table == expiryTable && string(key) == string(e.key) {
		return nil
	}
	return w.Delete(expiryTable, e.key) // a row that is not, or no longer, a claim's
}

// Recovered says what a recovery pass found and did.
type Recovered struct {
	// Open is how many open claims were looked at.
	Open int
	// Unknown is how many were written down as unknown: their owner's process
	// has ended, or their lease.
	Unknown int
	// Anchored is how many leases lay further ahead than their length, because
	// the clock was set back, and were shortened to it.
	Anchored int
}

// Recover writes down what has become of open claims whose owner is gone, and
// gives an end to leases that a clock set back has made endless. It is a pass in
// bounded pages, for the start and from time to time. Decisions do not depend
// on it: they see a dead owner by themselves. Damaged claims are passed over;
// they are named by an error once the rest is done.
func (b *Book) Recover(ctx context.Context) (Recovered, error) {
	var out Recovered
	var damage error
	r := kv.Range{Limit: passRows}
	for {
		page, stale, err := b.openPage(ctx, &r)
		if isDamage(err) && len(page) > 0 {
			damage, err = err, nil
		}
		if err != nil || len(page) == 0 {
			return out, errors.Join(err, damage)
		}
		out.Open += len(page)
		if len(stale) > 0 {
			done, err := b.recoverBatch(ctx, stale)
			if err != nil {
				return out, err
			}
			out.Unknown += done.Unknown
			out.Anchored += done.Anchored
		}
		r.From = append(page[len(page)-1].key, 0)
	}
}

// openPage reads a page of the open index, and which of its claims need a write.
// A page with damaged claims comes with an error that says so.
func (b *Book) openPage(ctx context.Context, r *kv.Range) (page, stale []indexed, err error) {
	var damage error
	err = b.store.View(ctx, func(rd kv.Reader) error {
		if err := untilLast(rd, openTable, r); err != nil {
			return err
		}
		rows, err := indexRows(rd, openTable, *r)
		if err != nil {
			return err
		}
		var need []indexed
		damage = nil
		for _, e := range rows {
			old, err := load(rd, e.id)
			if isDamage(err) {
				damage = err
				continue
			}
			if err != nil {
				return err
			}
			if b.machine.Recover(old, rd.Now()).Write != Keep {
				need = append(need, e)
			}
		}
		page, stale = rows, need
		return nil
	})
	if err == nil {
		err = damage
	}
	return page, stale, err
}

func (b *Book) recoverBatch(ctx context.Context, stale []indexed) (Recovered, error) {
	var out Recovered
	err := b.store.Update(ctx, func(w kv.Writer) error {
		var got Recovered
		for _, e := range stale {
			d, err := b.step(w, e.id, opRecover, func(r *Record, now time.Time) (Step, error) {
				return b.machine.Recover(r, now), nil
			})
			if err != nil {
				return err
			}
			switch d.Kind {
			case StillUnknown:
				got.Unknown++
			case Extended:
				got.Anchored++
			}
		}
		out = got
		return nil
	})
	return out, err
}
