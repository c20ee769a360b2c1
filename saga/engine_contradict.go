package saga

import (
	"bytes"
	"encoding/json"
	"reflect"
	"time"

	"onced/kv"
	"onced/kv/feed"
	"onced/saga/machine"
)

// Contradiction is a word about a step that denies what is known of it, and that nothing
// can be done for by itself; the run stays as it is. It is a refusal in a run that is
// completed, a success where a person has closed the run without knowing, or at any time
// a second success by signal with other data than the first, such as another charge.
type Contradiction struct {
	// Outcome is the word: done or refused.
	Outcome machine.Outcome
	// At is when it came first.
	At time.Time
	// Data is what came with it, JSON, or nil.
	Data []byte
}

// Is reports that the word is this one: the same outcome, with data that say the same.
func (c *Contradiction) Is(outcome machine.Outcome, data []byte) bool {
	return c.Outcome == outcome && (bytes.Equal(c.Data, data) || sameJSON(c.Data, data))
}

// contradictionTable keeps the words that deny the end of a run, under (run, step).
var contradictionTable = kv.NewTable[contradictionRow]("saga.contradiction", 1)

type contradictionRow struct {
	Outcome machine.Outcome `json:"o"`
	At      time.Time       `json:"at"`
	Data    json.RawMessage `json:"d,omitempty"`
}

// contradict keeps a word that contradicts what is known, and tells of it, once. Of several
// about a step the last is kept.
func (c *change) contradict(x *machine.Effect, ev *machine.Event) error {
	n := c.r.notice()
	n.Step, n.Reason = c.r.state.Steps[x.Step].Name, x.Text
	data, err := json.Marshal(n)
	if err != nil {
		return err
	}
	eventID := feed.DerivedID("run", c.r.id, "contradicted", n.Step, x.Text, string(ev.Data))
	_, added, err := c.e.cfg.Feed.AppendOnce(c.w, feed.Event{ID: eventID, Type: "run.contradicted",
		Subject: c.r.id, Data: data})
	if err != nil || !added {
		return err
	}
	e, said := c.e, ev.Outcome
	c.w.OnCommit(func() {
		e.cfg.Logger.Warn("saga: a word contradicts what is known of a run; a person has to look at it",
			"run", n.Run, "definition", n.Definition, "step", n.Step, "status", n.Status,
			"said", said.String(), "why", n.Reason)
	})
	row := contradictionRow{Outcome: said, At: c.w.Now(), Data: ev.Data}
	return contradictionTable.Put(c.w, correctionKey(n.Run, n.Step), row)
}

// contradicted reads what denies the end of the run about a step.
func (v *RunView) contradicted(rd kv.Reader, step string) error {
	row, ok, err := contradictionTable.Get(rd, correctionKey(v.Run, step))
	if err != nil || !ok {
		return err
	}
	if v.Contradictions == nil {
		v.Contradictions = map[string]Contradiction{}
	}
	v.Contradictions[step] = Contradiction{row.Outcome, row.At, row.Data}
	return nil
}

// Awaits reports whether a step of a run waits for a signal by its definition. known is
// false when the process does not have that now, or it has no such step.
func (e *Engine) Awaits(v *RunView, step string) (awaits, known bool) {
	e.mu.Lock()
	d := e.defs[defID{v.Definition, v.Version}]
	e.mu.Unlock()
	i := v.State.Find(step)
	if d == nil || i < 0 || i >= len(d.m.Steps) || d.m.Steps[i].Name != step {
		return false, false
	}
	return d.m.Steps[i].Await, true
}

// sameJSON reports that two documents say the same, whatever their spaces and the order of
// their members.
func sameJSON(a, b []byte) bool {
	read := func(b []byte) (v any, err error) {
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		err = d.Decode(&v)
		return v, err
	}
	x, err := read(a)
	if err != nil {
		return false
	}
	y, err := read(b)
	return err == nil && reflect.DeepEqual(x, y)
}
