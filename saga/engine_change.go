package saga

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"onced/kv"
	"onced/kv/feed"
	"onced/kv/timer"
	"onced/saga/machine"
)

// change is one run in the hands of one transaction. The run is its own until it is
// saved; then nobody changes it any more.
type change struct {
	e      *Engine
	w      kv.Writer
	r      *run
	key    kv.Key       // of the run's row
	reg    *registered  // nil when the definition is not there
	m      *machine.Def // of reg, or what can be known without
	raw    []byte       // the row as it was read; nil for a new run
	in     kv.TableID   // where it was
	was    machine.Status
	noted  bool         // the history has another entry than the row
	called bool         // call is to be made after the commit
	call   machine.Call // see called
	by     bool         // a driver has the run: it goes on by itself
	who    string       // the person who acts, or speaks in the callee's place

	// Room for the row, and for the effects of an event.
	buf     []byte
	effects []machine.Effect

	missing error // what is wrong with the definition, when reg is nil
}

// edit reads a run for a change; nil when there is none. What a dead process had
// under way is unknown from here on, and a run without its definition is held.
func (e *Engine) edit(w kv.Writer, id string) (*change, error) {
	key := runKey(id)
	row, in, err := readRow(w, key)
	if err != nil || row == nil {
		return nil, err
	}
	r, err := decodeRun(id, row)
	if err != nil {
		return nil, err
	}
	c := &change{e: e, w: w, r: r, key: key, raw: row, in: in, was: r.state.Status}
	if c.reg, c.missing = e.definition(r); c.missing != nil {
		c.m = unknownDef(&r.state)
	} else {
		c.m = c.reg.m
	}
	switch {
	case r.state.Status.Terminal():
	case c.missing != nil && r.state.Hold != machine.HoldNone: // what it is held for must not be forgotten
	case c.missing != nil:
		return c, c.apply(machine.Event{Kind: machine.Park, Hold: machine.HoldDefinition,
			Text: c.missing.Error()})
	case r.epoch != e.epoch:
		return c, c.apply(machine.Event{Kind: machine.Recover, SetBack: e.opened.Before(r.updated)})
	}
	return c, nil
}

// unknownDef stands for a definition that is not there.
func unknownDef(s *machine.State) *machine.Def {
	d := &machine.Def{Steps: make([]machine.Step, len(s.Steps))}
	for i := range d.Steps {
		d.Steps[i].Name = s.Steps[i].Name
	}
	return d
}

// apply lets one event happen. After an error the change is not to be saved.
func (c *change) apply(ev machine.Event) error {
	if err := c.fit(&ev); err != nil {
		return err
	}
	if c.effects == nil {
		c.effects = make([]machine.Effect, 0, usualEffects)
	}
	effects, err := c.r.state.Apply(c.m, ev, c.w.Now(), c.effects[:0])
	if err != nil {
		return err
	}
	c.effects = effects
	return c.carryOut(effects, ev)
}

// usualEffects is how many effects an event has, at most, if nothing goes wrong.
const usualEffects = 4

// fit sees to it that the run stays small enough to be stored. What a call gave, or came
// with a signal, is left out rather than lost with all that became of the call. Only a
// person is told to send less.
func (c *change) fit(ev *machine.Event) error {
	if len(ev.Data) == 0 || c.r.data()+len(ev.Data) <= MaxRunData {
		return nil
	}
	gone := func(what string) string {
		return fmt.Sprintf("its %s of %d bytes was not kept, the run has %d already and the limit is %d",
			what, len(ev.Data), c.r.data(), MaxRunData)
	}
	switch ev.Kind {
	case machine.Result, machine.Found:
		ev.Text, ev.Data = "it happened; "+gone("output"), nil
		return nil
	case machine.Signal:
		if bytes.Equal(ev.Data, c.r.state.Steps[ev.Step].SignalData) {
			return nil // it is there already
		}
		text := gone("data")
		if ev.Text != "" {
			text = cut(ev.Text, maxNote/2) + "; " + text
		}
		ev.Text, ev.Data = text, nil
		if c.m.Steps[ev.Step].Await && ev.Outcome == machine.OutcomeDone { // the reply does not stand for it
			ev.Data = noData
		}
		return nil
	default: // what a person sends may be refused
	}
	return &kv.LimitError{What: "data of a run", Got: int64(c.r.data() + len(ev.Data)), Limit: MaxRunData,
		Unit: "bytes", Remedy: "keep the data elsewhere and pass a reference"}
}

// noData stands for data of a signal that were not kept.
var noData = []byte("null")

func (c *change) carryOut(effects []machine.Effect, ev machine.Event) error {
	for i := range effects {
		x := &effects[i]
		switch x.Kind {
		case machine.EffectCall:
			c.call, c.called = x.Call, true
		case machine.EffectNote:
			if !c.was.Terminal() {
				c.note(c.signed(x))
			}
		case machine.EffectTell:
			if err := c.tell(); err != nil {
				return err
			}
		case machine.EffectContradict:
			if err := c.contradict(x, &ev); err != nil {
				return err
			}
		case machine.EffectCorrect:
			if err := c.correct(ev); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxNote bounds a text of the history, in bytes.
const maxNote = 300

// signed names the person before what a person did or said.
func (c *change) signed(x *machine.Effect) *machine.Effect {
	if c.who != "" && (x.Note == machine.NoteOperator || x.Note == machine.NoteSignal ||
		x.Note == machine.NoteConflict) {
		x.Text = c.who + ": " + x.Text
	}
	return x
}

func (c *change) note(x *machine.Effect) {
	c.noted = true
	r, limit := c.r, c.e.cfg.History
	r.history = append(r.history, entry{at: c.w.Now(), note: x.Note, step: x.Step, text: cut(x.Text,
		maxNote)})
	if head := limit / 4; len(r.history) > limit {
		r.history = append(r.history[:head], r.history[head+1:]...)
		r.dropped++
	}
}

// cut shortens a text to limit bytes of valid UTF-8.
func cut(s string, limit int) string {
	if len(s) > limit {
		s = strings.Clone(s[:limit]) // what is long is not kept for its beginning
	}
	return strings.ToValidUTF8(s, "")
}

// notice is the data of a run's events in the feed.
type notice struct {
	Run        string `json:"run"`
	Definition string `json:"definition"`
	Version    string `json:"version"`
	Principal  string `json:"principal,omitempty"`
	Key        string `json:"key"`
	Round      uint64 `json:"round"`
	Status     string `json:"status"`
	Step       string `json:"step,omitempty"`
	Cause      string `json:"cause,omitempty"`
	Hold       string `json:"hold,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Corrects   string `json:"corrects,omitempty"`
	RerunOf    string `json:"rerun_of,omitempty"`
	Actor      string `json:"actor,omitempty"`
}

func (r *run) notice() notice {
	s := &r.state
	n := notice{Run: r.id, Definition: r.def, Version: r.version, Principal: r.principal, Key: r.key,
		Round: r.round, Status: s.Status.String(), Cause: s.Cause.String(), Hold: s.Hold.String(),
		Reason: s.Reason}
	if i := s.Failed; s.HoldStep > 0 {
		n.Step = s.Steps[s.HoldStep-1].Name
	} else if i > 0 {
		n.Step = s.Steps[i-1].Name
	}
	switch r.link {
	case linkCorrection:
		n.Corrects = r.parent
	case linkRerun:
		n.RerunOf = r.parent
	case linkNone:
	}
	return n
}

// tell puts what the run has come to into the feed.
func (c *change) tell() error {
	status := c.r.state.Status
	parts := []string{"run", c.r.id, status.String()}
	if !status.Terminal() { // it may come to it again
		parts = append(parts, strconv.FormatUint(c.r.rev+1, 10))
	}
	return c.append("run."+status.String(), c.r.notice(), parts...)
}

func (c *change) append(typ string, n notice, id ...string) error {
	data, err := json.Marshal(n)
	if err != nil {
		return err
	}
	_, err = c.e.cfg.Feed.Append(c.w, feed.Event{ID: feed.DerivedID(id...), Type: typ, Subject: c.r.id,
		Data: data})
	return err
}

// class is what the run waits for.
func (c *change) class(now time.Time) class {
	s := &c.r.state
	switch s.Status {
	case machine.Held:
		return classHeld
	case machine.Stuck:
		return classStuck
	default: // it depends
	}
	if s.Status.Terminal() {
		return classEnded
	}
	if _, ok := s.InFlight(); ok {
		return classDue
	}
	if _, at, ok := machine.Want(c.m, s); ok && !at.After(now) {
		return classDue
	}
	return classWaiting
}

// changed reports whether the run is another than its row. What happens to a run is in
// its history, nearly always: the rest is compared.
func (c *change) changed() bool {
	return c.noted || !bytes.Equal(c.raw, c.r.encode(nil))
}

// save stores the run and all that belongs to it. A run that has not changed is not
// written.
func (c *change) save() error {
	r, now := c.r, c.w.Now()
	if c.raw != nil && (c.was.Terminal() || !c.changed()) {
		// What changed it may have been in doubt: then nobody was told.
		c.announce(r.class)
		return nil
	}
	r.rev++
	r.updated = now
	if c.reg != nil { // or what was under way is recovered when the definition is there
		r.epoch = c.e.epoch
	}
	to := c.class(now)
	if c.raw == nil {
		if err := c.list(); err != nil {
			return err
		}
	}
	if err := c.setTimer(now); err != nil {
		return err
	}
	if to == classEnded {
		if err := c.end(now); err != nil {
			return err
		}
	}
	if err := c.index(to); err != nil {
		return err
	}
	if err := c.store(to); err != nil {
		return err
	}
	c.announce(to)
	return nil
}

// store writes the row of the run into the table it belongs to, and to no other.
func (c *change) store(to class) error {
	table := liveTable.ID()
	if to == classEnded {
		table = runTable.ID()
	}
	if c.raw != nil && c.in != table {
		if err := c.w.Delete(c.in, c.key); err != nil {
			return err
		}
	}
	c.buf = c.r.encode(append(c.buf[:0], runVersion))
	return c.w.Put(table, c.key, c.buf)
}

// setTimer sets the one timer of the run, if it is another than before.
func (c *change) setTimer(now time.Time) error {
	r := c.r
	wake := machine.WakeAt(c.m, &r.state, now)
	if wake.Equal(r.wake) {
		return nil
	}
	if !r.wake.IsZero() {
		err := c.e.cfg.Timers.Delete(c.w, timer.Timer{Kind: timerKind, Owner: r.id, Due: r.wake})
		if err != nil {
			return err
		}
	}
	if r.wake = wake; wake.IsZero() {
		return nil
	}
	return c.e.cfg.Timers.Set(c.w, timer.Timer{Kind: timerKind, Owner: r.id, Due: wake})
}

// end writes what outlives the run.
func (c *change) end(now time.Time) error {
	r := c.r
	r.ended = now
	if err := c.w.Put(expiryTable, expiryKey(now, r.id), []byte{}); err != nil {
		return err
	}
	if k := r.endIndex(); k != nil {
		if err := c.w.Put(listTable, k, []byte{}); err != nil {
			return err
		}
	}
	return nil
}

func (c *change) index(to class) error {
	from := c.r.class
	if to == from {
		return nil
	}
	if from != classEnded {
		if err := c.w.Delete(openTable, openKey(from, c.r.id)); err != nil {
			return err
		}
	}
	c.r.class = to
	if to == classEnded {
		return nil
	}
	return c.w.Put(openTable, openKey(to, c.r.id), []byte{})
}

// announce tells the program, after the commit. Of a driver's run that goes on there is
// nothing to tell.
func (c *change) announce(to class) {
	e, r, was := c.e, c.r, c.was
	if c.by && to <= classWaiting && to != classEnded && r.state.Status == was {
		return
	}
	if !c.by {
		e.expect(r.id)
	}
	c.w.OnCommit(func() {
		if !c.by {
			e.confirm(r.id)
		}
		if r.state.Hold == machine.HoldDefinition {
			e.defined(r)
		}
		if r.state.Status != was {
			e.cfg.Observer.RunChanged(r.info(was))
		}
		if to == classEnded || to == classHeld || to == classStuck {
			e.notify(r)
		}
		if to == classDue && !c.by {
			e.enqueue(r.id, c.slot())
		}
	})
}

// slot is what the next call takes up.
func (c *change) slot() slot {
	want, _, ok := machine.Want(c.m, &c.r.state)
	if inFlight, flies := c.r.state.InFlight(); flies {
		want, ok = inFlight, true
	}
	if !ok || c.reg == nil {
		return slot{def: c.r.def}
	}
	return slot{def: c.r.def, host: c.reg.steps[want.Step].host}
}
