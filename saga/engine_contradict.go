package saga

import (
	"encoding/json"
	"time"

	"onced/kv"
	"onced/kv/feed"
	"onced/saga/machine"
)

// Contradiction is a word about a step that came after the end of its run and denies
// it: a refusal in a run that is completed, a success where a person has closed the run
// without knowing. Nothing can be done for it by itself, and the run stays as it is.
type Contradiction struct {
	// Outcome is the word: done or refused.
	Outcome machine.Outcome
	// At is when it came first.
	At time.Time
}

// contradictionTable keeps the words that deny the end of a run, under (run, step).
var contradictionTable = kv.NewTable[contradictionRow]("saga.contradiction", 1)

type contradictionRow struct {
	Outcome machine.Outcome `json:"o"`
	At      time.Time       `json:"at"`
}

// contradict keeps a word that contradicts the run's end, and tells of it, once.
func (c *change) contradict(x *machine.Effect, said machine.Outcome) error {
	n := c.r.notice()
	n.Step, n.Reason = c.r.state.Steps[x.Step].Name, x.Text
	data, err := json.Marshal(n)
	if err != nil {
		return err
	}
	_, added, err := c.e.cfg.Feed.AppendOnce(c.w, feed.Event{ID: feed.DerivedID("run", c.r.id,
		"contradicted", n.Step, x.Text), Type: "run.contradicted", Subject: c.r.id, Data: data})
	if err != nil || !added {
		return err
	}
	e := c.e
	c.w.OnCommit(func() {
		e.cfg.Logger.Warn("saga: a word contradicts the end of a run; a person has to look at it",
			"run", n.Run, "definition", n.Definition, "step", n.Step, "status", n.Status,
			"said", said.String())
	})
	return contradictionTable.Put(c.w, correctionKey(n.Run, n.Step), contradictionRow{said, c.w.Now()})
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
	v.Contradictions[step] = Contradiction(row)
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
