package feed

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"onced/kv"
	"onced/kv/invariant"
)

// Rules returns what is true of the log of a store at every commit.
func Rules() []invariant.Rule {
	return []invariant.Rule{
		{Name: "feed.gapless", Why: "A consumer that reads past a hole never learns what was in it.",
			Check: checkLog},
		{Name: "feed.once", Why: "An id that leads to another entry keeps a fact from being told.",
			Check: invariant.Rows(onceTable, judgeOnce)},
	}
}

// rulePage is how many entries are judged in one View.
const rulePage = 200

// checkLog judges every entry from the first row to the last: the numbers are
// those from oldest to head, and each entry is one that a consumer can use. Each
// page reads the bounds anew, because a live log grows and is trimmed.
func checkLog(ctx context.Context, s kv.Store) iter.Seq2[invariant.Violation, error] {
	return func(yield func(invariant.Violation, error) bool) {
		c := logCheck{next: 1}
		for !c.end {
			var found []invariant.Violation
			after := c
			err := s.View(ctx, func(rd kv.Reader) error {
				after, found = c, nil
				got, err := after.page(rd)
				found = got
				return err
			})
			if err != nil {
				yield(invariant.Violation{}, err)
				return
			}
			c = after
			for _, v := range found {
				if !yield(v, nil) {
					return
				}
			}
		}
	}
}

// logCheck is the progress of checkLog: from is behind the last row judged, and
// next the number to be seen next.
type logCheck struct {
	from kv.Key
	next uint64
	end  bool
}

func (c *logCheck) page(rd kv.Reader) (found []invariant.Violation, err error) {
	report := func(seq uint64, format string, args ...any) {
		found = append(found, invariant.Violation{Subject: fmt.Sprintf("feed.entry %d", seq),
			Detail: fmt.Sprintf(format, args...)})
	}
	m, ok, err := metaTable.Get(rd, metaKey)
	if err != nil {
		return nil, err
	}
	if !ok {
		m = meta{Oldest: 1}
	}
	if ok && c.from == nil {
		m.judge(func(detail string) { report(m.Head, "%s", detail) })
	}
	c.next = max(c.next, m.Oldest)
	n := 0
	for e, err := range rd.Scan(entryTable.ID(), kv.Range{From: c.from, Limit: rulePage}) {
		if err != nil {
			return nil, err
		}
		n++
		c.from = append(slices.Clip(e.Key), 0) // not behind next: a damaged key has no number
		d := kv.DecodeKey(e.Key)
		seq := d.Uint()
		switch {
		case d.End() != nil:
			report(c.next, "the key %x is no number", e.Key)
			continue
		case seq < m.Oldest:
			report(seq, "is before the oldest entry %d", m.Oldest)
			continue
		case seq > m.Head:
			report(seq, "is after the head %d", m.Head)
		case seq != c.next:
			report(c.next, "is missing, and so are all up to %d", seq-1)
		}
		c.next = seq + 1
		judgeEntry(seq, e, func(detail string) { report(seq, "%s", detail) })
	}
	if c.end = n < rulePage; c.end && c.next <= m.Head {
		report(c.next, "is missing, and so are all up to the head %d", m.Head)
	}
	return found, nil
}

func (m meta) judge(report func(string)) {
	switch {
	case len(m.Epoch) != epochSize || bytes.Equal(m.Epoch, make([]byte, epochSize)):
		report("the epoch is not 16 random bytes")
	case len(m.Before) != markSize:
		report("the mark of the entry before the oldest is missing")
	case m.Oldest < 1 || m.Head < m.Oldest-1:
		report(fmt.Sprintf("the log ends at %d before it begins at %d", m.Head, m.Oldest))
	}
}

func judgeEntry(seq uint64, raw kv.Entry, report func(string)) {
	one := func(yield func(kv.Entry, error) bool) { yield(raw, nil) }
	for row, err := range entryTable.Decode(one) {
		if err != nil {
			report("cannot be decoded: " + err.Error())
			return
		}
		ev, err := row.Value.event(seq)
		if err != nil {
			report(err.Error())
			return
		}
		_, dataErr := checkedData(ev.Data)
		for _, err := range []error{ev.check(), checkSource(ev.Source), dataErr} {
			if err != nil {
				report(err.Error())
			}
		}
		if err := ev.checkAhead(time.Unix(0, row.Value.At)); err != nil {
			report(err.Error())
		}
	}
}

// judgeOnce: the row of an id leads to the entry with that id.
func judgeOnce(rd kv.Reader, row kv.Row[onceRow]) ([]string, error) {
	d := kv.DecodeKey(row.Key)
	id := d.String()
	if err := d.End(); err != nil {
		return []string{err.Error()}, nil
	}
	e, ok, err := entryTable.Get(rd, entryKey(row.Value.Seq))
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return []string{fmt.Sprintf("id %q leads to entry %d, which is missing", id, row.Value.Seq)}, nil
	case e.ID != id:
		return []string{fmt.Sprintf("id %q leads to entry %d, which has another id", id, row.Value.Seq)}, nil
	}
	return nil, nil
}
