package saga

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"onced/kv"
	"onced/saga/machine"
)

// Query selects runs for [Engine.List]. Empty fields select all.
type Query struct {
	Definition, Key string
	// Principal selects the runs of one; empty is all, those of the program too.
	Principal    string
	Statuses     []machine.Status
	Label, Value string    // a label and its value
	From, To     time.Time // the time of creation: from, and before
	// Contradicted selects the runs of which a word denies what is known.
	Contradicted bool
	Limit        int // 0 means 50, at most 500
	// Cursor is what the page before gave; it stays good while runs are added.
	Cursor string
}

// listScan bounds the rows that one call of List reads.
const listScan = 2000

// index is a kind of rows of listTable. Each row ends with the id of a run, so that
// each index is in the order of time.
type index uint64

const (
	byDefinition index = iota + 1 // (definition, id)
	byPrincipal                   // (principal, id), for runs that have one
	byLabel                       // (name, value, id)
	byEnd                         // (status, id), for runs that ended and are not completed
	// byKey is (key, definition, principal, id), for runs that keyTable does not name:
	// those of earlier rounds, and corrections.
	byKey
)

func (i index) of(parts ...string) kv.Key {
	k := kv.Key{}.Uint(uint64(i))
	for _, p := range parts {
		k = k.String(p)
	}
	return k
}

func byKeyRow(k RunKey, id string) kv.Key { return byKey.of(k.Key, k.Definition, k.Principal, id) }

// endIndex is the row of a run that has ended; nil is none.
func (r *run) endIndex() kv.Key {
	if s := r.state.Status; s.Terminal() && s != machine.Completed {
		return byEnd.of(s.String(), r.id)
	}
	return nil
}

// indexed are the rows that a run has from its beginning.
func (r *run) indexed() []kv.Key {
	rows := []kv.Key{byDefinition.of(r.def, r.id)}
	if r.principal != "" {
		rows = append(rows, byPrincipal.of(r.principal, r.id))
	}
	for _, l := range r.labels {
		rows = append(rows, byLabel.of(l.name, l.value, r.id))
	}
	if r.link == linkCorrection {
		rows = append(rows, byKeyRow(r.of(), r.id))
	}
	return rows
}

// list makes a new run known to lists.
func (c *change) list() error {
	for _, k := range c.r.indexed() {
		if err := c.w.Put(listTable, k, []byte{}); err != nil {
			return err
		}
	}
	return nil
}

// supersede keeps the run of the round before findable by its key.
func supersede(w kv.Writer, k RunKey, id string) error {
	r, err := loadRun(w, id)
	if err != nil || r == nil {
		return err
	}
	return w.Put(listTable, byKeyRow(k, id), []byte{})
}

// unlist takes a run out of all lists.
func (r *run) unlist(w kv.Writer) error {
	rows := append(r.indexed(), byKeyRow(r.of(), r.id))
	if k := r.endIndex(); k != nil {
		rows = append(rows, k)
	}
	for _, k := range rows {
		if err := w.Delete(listTable, k); err != nil {
			return err
		}
	}
	return nil
}

// unlisted says which rows a run lacks.
func (r *run) unlisted(rd kv.Reader) (found []string, err error) {
	rows := r.indexed()
	if k := r.endIndex(); k != nil {
		rows = append(rows, k)
	}
	row, ok, err := keyTable.Get(rd, r.of().row())
	if err != nil {
		return nil, err
	}
	if !ok || row.Run != r.id {
		rows = append(rows, byKeyRow(r.of(), r.id))
	}
	for _, k := range rows {
		v, err := rd.Get(listTable, k)
		if err != nil {
			return nil, err
		}
		if v == nil {
			found = append(found, fmt.Sprintf("it is in no list of kind %d", kv.DecodeKey(k).Uint()))
		}
	}
	return found, nil
}

// checkList is the rule that a row of a list points to a run that has it.
func checkList(rd kv.Reader, x kv.Entry) ([]string, error) {
	id, err := lastPart(x.Key)
	if err != nil {
		return []string{err.Error()}, nil //nolint:nilerr // it is what is found
	}
	return pointsAt(rd, id, func(r *run) bool {
		rows := append(r.indexed(), byKeyRow(r.of(), r.id))
		if k := r.endIndex(); k != nil {
			rows = append(rows, k)
		}
		return slices.ContainsFunc(rows, func(k kv.Key) bool { return bytes.Equal(k, x.Key) })
	})
}

// lastPart is the id at the end of a row of listTable.
func lastPart(key []byte) (string, error) {
	d := kv.DecodeKey(key)
	n := 0
	switch index(d.Uint()) {
	case byDefinition, byPrincipal, byEnd:
		n = 1
	case byLabel:
		n = 2
	case byKey:
		n = 3
	}
	for range n {
		_ = d.String()
	}
	id := d.String()
	return id, d.End()
}

// List returns runs, newest first, without their inputs and histories. next is the
// cursor of the page after it, empty at the end. A page can be shorter than the
// limit, or empty, and have a next one: a call reads a bounded number of rows, those
// of the most selective index that fits. A run that is there when the first page is
// read comes exactly once, however many are added meanwhile, unless what is selected
// by changes.
//
// When the store has stopped after a failed commit, the runs whose last change is in
// doubt are left out, until a restart; [Engine.Get] of one is kv.ErrCommitUnknown.
func (e *Engine) List(ctx context.Context, q Query) (page []*RunView, next string, err error) {
	if q.Limit <= 0 {
		q.Limit = 50
	}
	q.Limit = min(q.Limit, 500)
	err = e.store.View(ctx, func(rd kv.Reader) error {
		got, cursor, err := e.listPage(rd, &q)
		page, next = got, cursor
		return err
	})
	return page, next, err
}

func (e *Engine) listPage(rd kv.Reader, q *Query) (page []*RunView, next string, err error) {
	ids, err := q.ids(rd)
	if err != nil {
		return nil, "", err
	}
	seen, last := 0, ""
	for id, err := range ids {
		if err != nil {
			return nil, "", err
		}
		seen++
		if id != last { // of a contradicted run there is a row for each of its steps
			v, err := e.listed(rd, q, id)
			if err != nil {
				return nil, "", err
			}
			if v != nil {
				page = append(page, v)
			}
		}
		if last = id; len(page) == q.Limit || seen == listScan {
			return page, id, nil
		}
	}
	return page, "", nil
}

// listed is a run as lists show it; nil is one that is not selected, or that cannot be read,
// which the rules report.
func (e *Engine) listed(rd kv.Reader, q *Query, id string) (*RunView, error) {
	r, err := loadRun(rd, id)
	if errors.Is(err, kv.ErrCorrupt) || errors.Is(err, kv.ErrNewer) || uncertain(err) {
		return nil, nil
	}
	if err != nil || r == nil || !q.selects(r) {
		return nil, err
	}
	v := e.view(r, rd.Now())
	v.Input, v.History = nil, nil
	for x, err := range surely(rd, contradictionTable.ID(), kv.Key{}.String(id).Range()) {
		if err != nil {
			return nil, err
		}
		d := kv.DecodeKey(x.Key)
		if _, step := d.String(), d.String(); d.End() == nil {
			if err := v.contradicted(rd, step); err != nil {
				return nil, err
			}
		}
	}
	if q.Contradicted && len(v.Contradictions) == 0 {
		return nil, nil
	}
	return v, nil
}

// ids are the runs to look at, the newest first.
func (q *Query) ids(rd kv.Reader) (iter.Seq2[string, error], error) {
	if q.Key != "" {
		return q.idsOfKey(rd)
	}
	var of []iter.Seq2[string, error]
	scan := func(t kv.TableID, prefix kv.Key) {
		of = append(of, q.scan(rd, t, prefix))
	}
	switch {
	case q.Contradicted: // the fewest
		scan(contradictionTable.ID(), kv.Key{})
	case q.Label != "" && q.Value != "":
		scan(listTable, byLabel.of(q.Label, q.Value))
	case len(q.Statuses) > 0 && !slices.Contains(q.Statuses, machine.Completed):
		for c := classDue; c <= classStuck; c++ {
			if slices.ContainsFunc(q.Statuses, c.holds) {
				scan(openTable, kv.Key{}.Uint(uint64(c)))
			}
		}
		for _, s := range []machine.Status{machine.Compensated, machine.Closed} {
			if slices.Contains(q.Statuses, s) {
				scan(listTable, byEnd.of(s.String()))
			}
		}
	case q.Principal != "":
		scan(listTable, byPrincipal.of(q.Principal))
	case q.Definition != "":
		scan(listTable, byDefinition.of(q.Definition))
	default:
		scan(liveTable.ID(), kv.Key{})
		scan(runTable.ID(), kv.Key{})
	}
	return merged(of), nil
}

// holds reports whether a run of the status can be in the class.
func (c class) holds(s machine.Status) bool {
	switch c {
	case classDue, classWaiting:
		return s == machine.Running || s == machine.Compensating
	case classHeld:
		return s == machine.Held
	case classStuck:
		return s == machine.Stuck
	default:
		return false
	}
}

// idSlack is how much earlier than its run an id may be made.
const idSlack = 5 * time.Minute

// scan yields the ids at the end of the rows that begin with prefix, the last first,
// within the time and before the cursor.
func (q *Query) scan(rd kv.Reader, t kv.TableID, prefix kv.Key) iter.Seq2[string, error] {
	r := prefix.Range()
	r.Reverse, r.Limit = true, listScan
	if !q.From.IsZero() {
		r.From = prefix.String(idAt(q.From.Add(-idSlack)))
	}
	to := q.Cursor
	if last := idAt(q.To.Add(time.Millisecond)); !q.To.IsZero() && (to == "" || last < to) {
		to = last
	}
	if to != "" {
		r.To = prefix.String(to)
	}
	if r.To != nil && bytes.Compare(r.From, r.To) >= 0 {
		return func(func(string, error) bool) {}
	}
	return func(yield func(string, error) bool) {
		for x, err := range surely(rd, t, r) {
			id := ""
			if err == nil {
				id = kv.DecodeKey(x.Key[len(prefix):]).String()
			}
			if !yield(id, err) {
				return
			}
		}
	}
}

// surely scans the rows that are known to be there: it passes by those in doubt.
func surely(rd kv.Reader, t kv.TableID, r kv.Range) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		for r, again := r, true; again; {
			again = false
			for x, err := range rd.Scan(t, r) {
				if doubt, ok := errors.AsType[*kv.DoubtError](err); ok {
					if again = true; r.Reverse {
						r.To = doubt.Key
					} else {
						r.From = append(slices.Clip(doubt.Key), 0)
					}
					break
				}
				if !yield(x, err) {
					return
				}
			}
		}
	}
}

func uncertain(err error) bool {
	var doubt *kv.DoubtError
	return errors.As(err, &doubt)
}

// idAt is at most every id that is made from t on, and more than all before.
func idAt(t time.Time) string {
	id, err := kv.NewID("run", t, bytes.NewReader(make([]byte, 10)))
	if err != nil || t.UnixMilli() < 0 {
		return ""
	}
	return id
}

// idsOfKey finds the runs of a business key. There are few of them.
func (q *Query) idsOfKey(rd kv.Reader) (iter.Seq2[string, error], error) {
	parts := []string{q.Key}
	if q.Definition != "" {
		if parts = append(parts, q.Definition); q.Principal != "" {
			parts = append(parts, q.Principal)
		}
	}
	prefix := kv.Key{}
	for _, p := range parts {
		prefix = prefix.String(p)
	}
	var ids []string
	for x, err := range surely(rd, keyTable.ID(), prefix.Range()) {
		if err != nil {
			return nil, err
		}
		row, ok, err := keyTable.Get(rd, x.Key)
		if err != nil {
			return nil, err
		}
		if ok {
			ids = append(ids, row.Run)
		}
	}
	for x, err := range surely(rd, listTable, byKey.of(parts...).Range()) {
		if err != nil {
			return nil, err
		}
		id, err := lastPart(x.Key)
		if err != nil {
			continue // the rules report it
		}
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Compare(b, a) })
	ids = slices.Compact(ids)
	if i := slices.IndexFunc(ids, func(id string) bool { return q.Cursor == "" || id < q.Cursor }); i >= 0 {
		ids = ids[i:]
	} else {
		ids = nil
	}
	return func(yield func(string, error) bool) {
		for _, id := range ids {
			if !yield(id, nil) {
				return
			}
		}
	}, nil
}

// merged yields what all yield, the greatest first. Each yields in that order, and no
// two the same.
func merged(of []iter.Seq2[string, error]) iter.Seq2[string, error] {
	if len(of) == 1 {
		return of[0]
	}
	return func(yield func(string, error) bool) {
		type head struct {
			id   string
			err  error
			next func() (string, error, bool)
		}
		var heads []head
		for _, s := range of {
			next, stop := iter.Pull2(s)
			defer stop()
			if id, err, ok := next(); ok {
				heads = append(heads, head{id, err, next})
			}
		}
		for len(heads) > 0 {
			first := 0
			for i := range heads {
				if heads[i].err != nil || heads[first].err == nil && heads[i].id > heads[first].id {
					first = i
				}
			}
			h := &heads[first]
			if !yield(h.id, h.err) {
				return
			}
			var ok bool
			if h.id, h.err, ok = h.next(); !ok {
				heads = slices.Delete(heads, first, first+1)
			}
		}
	}
}

func (q *Query) selects(r *run) bool {
	hasLabel := func(l label) bool { return l.name == q.Label && (q.Value == "" || l.value == q.Value) }
	return (q.Definition == "" || r.def == q.Definition) && (q.Key == "" || r.key == q.Key) &&
		(q.Principal == "" || r.principal == q.Principal) &&
		(len(q.Statuses) == 0 || slices.Contains(q.Statuses, r.state.Status)) &&
		(q.From.IsZero() || !r.created.Before(q.From)) && (q.To.IsZero() || r.created.Before(q.To)) &&
		(q.Label == "" || slices.ContainsFunc(r.labels, hasLabel))
}
