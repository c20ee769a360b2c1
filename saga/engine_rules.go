package saga

import (
	"fmt"

	"onced/kv"
	"onced/kv/invariant"
	"onced/saga/machine"
)

// RunRules returns what is true of the sagas of a store at every commit.
func RunRules() []invariant.Rule {
	return []invariant.Rule{
		{Name: "saga.run", Why: "a run could be lost from sight, or be undone in part and say otherwise",
			Check: invariant.Rows(runTable, checkRun)},
		{Name: "saga.live", Why: "a run could be lost from sight, or go on after its end",
			Check: invariant.Rows(liveTable, checkLive)},
		{Name: "saga.open", Why: "a run could be taken up twice, or not at all",
			Check: invariant.RawRows(openTable, checkOpen)},
		{Name: "saga.list", Why: "a list could show what is not there",
			Check: invariant.RawRows(listTable, checkList)},
		{Name: "saga.expiry", Why: "a run that goes on could be removed",
			Check: invariant.RawRows(expiryTable, checkExpiry)},
		{Name: "saga.key", Why: "an order could be charged by a second run",
			Check: invariant.Rows(keyTable, checkKey)},
	}
}

func checkRun(rd kv.Reader, row kv.Row[runRow]) ([]string, error) {
	id := kv.DecodeKey(row.Key).String()
	r, err := decodeRun(id, row.Value.Body)
	if err != nil {
		return []string{err.Error()}, nil
	}
	found := r.faults()
	lost, err := r.unlisted(rd)
	if err != nil {
		return nil, err
	}
	found = append(found, lost...)
	table, key := openTable, openKey(r.class, id)
	if r.class == classEnded {
		table, key = expiryTable, expiryKey(r.ended, id)
	}
	v, err := rd.Get(table, key)
	if err == nil && v == nil {
		found = append(found, fmt.Sprintf("it is %s and has no row in %s", r.state.Status, table))
	}
	return found, err
}

// checkLive is checkRun for runs that have not ended, which are in no other table.
func checkLive(rd kv.Reader, row kv.Row[runRow]) ([]string, error) {
	found, err := checkRun(rd, row)
	if err != nil {
		return nil, err
	}
	if r, err := decodeRun("", row.Value.Body); err == nil && r.class == classEnded {
		found = append(found, "it has ended and is among those that go on")
	}
	v, err := rd.Get(runTable.ID(), row.Key)
	if err == nil && v != nil {
		found = append(found, "it is among those that have ended too")
	}
	return found, err
}

// faults lists what contradicts itself in a run.
func (r *run) faults() (out []string) {
	s := &r.state
	calls, undone, done := 0, 0, 0
	for i := range s.Steps {
		st := &s.Steps[i]
		if st.Status == machine.Started || st.Undo == machine.UndoStarted {
			calls++
		}
		if st.Undo == machine.UndoDone {
			undone++
		}
		if st.Status == machine.Done || st.Status == machine.Skipped {
			done++
		}
	}
	terminal := s.Status.Terminal()
	for _, f := range []struct {
		broken bool
		text   string
	}{
		{s.Status == 0 || len(s.Steps) == 0, "it has no state"},
		{r.rev == 0 || r.created.IsZero() || r.updated.IsZero() || r.round == 0,
			"it lacks a revision, time or round"},
		{calls > 1, "two calls are under way"},
		{calls > 0 && s.Status == machine.Compensated, "it is undone and a call is under way"},
		{terminal != (r.class == classEnded) || terminal == r.ended.IsZero(),
			"its end contradicts its state"},
		{terminal && !r.wake.IsZero(), "it has ended and has a timer"},
		{(s.Status == machine.Held) != (s.Hold != machine.HoldNone), "it is held for nothing"},
		{s.Status == machine.Completed && (done < len(s.Steps) || undone > 0), "it is completed in part"},
		{s.Status == machine.Compensated && r.standing() != "", "it is undone, and this stands: " +
			r.standing()},
	} {
		if f.broken {
			out = append(out, f.text)
		}
	}
	return out
}

// standing names a step that keeps a run from being undone, as far as that can be
// told without its definition.
func (r *run) standing() string {
	for i := range r.state.Steps {
		st := &r.state.Steps[i]
		open := st.Status == machine.Ready || st.Status == machine.Waiting ||
			st.Status == machine.Unknown && st.Undo != machine.UndoDone
		if open || st.Undo != machine.UndoNone && st.Undo != machine.UndoDone {
			return st.Name
		}
	}
	return ""
}

func checkOpen(rd kv.Reader, x kv.Entry) ([]string, error) {
	d := kv.DecodeKey(x.Key)
	c, id := class(d.Uint()), d.String()
	if err := d.End(); err != nil {
		return []string{err.Error()}, nil
	}
	return pointsAt(rd, id, func(r *run) bool { return r.class == c })
}

func checkExpiry(rd kv.Reader, x kv.Entry) ([]string, error) {
	d := kv.DecodeKey(x.Key)
	at, id := d.Time(), d.String()
	if err := d.End(); err != nil {
		return []string{err.Error()}, nil
	}
	return pointsAt(rd, id, func(r *run) bool { return r.class == classEnded && r.ended.Equal(at) })
}

// pointsAt checks that an index row is the one of its run.
func pointsAt(rd kv.Reader, id string, fits func(*run) bool) ([]string, error) {
	r, err := loadRun(rd, id)
	if err != nil || r == nil {
		return []string{"it points to no run that can be read"}, nil // saga.run reports it
	}
	if !fits(r) {
		return []string{fmt.Sprintf("its run is %s and belongs elsewhere", r.state.Status)}, nil
	}
	return nil, nil
}

func checkKey(rd kv.Reader, row kv.Row[keyRow]) ([]string, error) {
	k := row.Value
	r, err := loadRun(rd, k.Run)
	if err != nil {
		return nil, nil // saga.run reports it
	}
	d := kv.DecodeKey(row.Key)
	key, def, principal := d.String(), d.String(), d.String()
	switch {
	case r == nil && !k.Status.Terminal():
		return []string{"its run is gone and had not ended"}, nil
	case r == nil:
		return nil, nil
	case r.of() != RunKey{principal, def, key} || r.round != k.Round:
		return []string{"its run is of another key or round"}, nil
	case k.Status.Terminal() && k.Status != r.state.Status:
		return []string{fmt.Sprintf("it says %s, its run is %s", k.Status, r.state.Status)}, nil
	}
	return nil, nil
}
