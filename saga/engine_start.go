package saga

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"onced/kv"
	"onced/saga/machine"
)

// MaxLabels is the most labels of a run.
const MaxLabels = 16

// StartRequest says what to start.
type StartRequest struct {
	// Definition is its name; Version is one of its versions, or empty for the latest.
	Definition, Version string
	// Principal separates tenants: the same key of two principals is two runs, with
	// other downstream keys. Runs of the program itself have none. At most MaxRunKey
	// bytes.
	Principal string
	// Key is the business key, for example an order's id: 1 to MaxRunKey bytes of text.
	Key string
	// Input is JSON, at most MaxData bytes, or nil.
	Input []byte
	// Labels are for finding the run, for example {"customer": "c-7"}.
	Labels map[string]string
	// Join starts nothing: the error is [ErrNoRun] when the key has no run to join.
	Join bool
	// Round says which run of the key is meant, from 1; 0 does not say. A start that may
	// be sent again after a lost answer should say it: the run of that round is then the
	// answer, also when it was undone meanwhile or a later round has begun, and only a
	// start that says the next round begins anew. A round whose run is no longer kept, or
	// that cannot begin yet, is an [InputError].
	Round uint64
}

func (r *StartRequest) of() RunKey {
	return RunKey{Principal: r.Principal, Definition: r.Definition, Key: r.Key}
}

// RunKey names a business key: of a principal, or "" for the program itself.
type RunKey struct{ Principal, Definition, Key string }

// Started is the answer of a start.
type Started struct {
	// Run is the id of the run.
	Run string
	// Status is its state.
	Status machine.Status
	// Round counts the runs of the key that began after the one before was undone.
	Round uint64
	// Joined is true when the key had a run already: one that has not ended, or has
	// completed, or was closed. Nothing was started.
	Joined bool
}

// Start starts a run of d for a business key, or finds the one there is: a key has
// one run at a time, and one that completed for ever. A run that was undone makes
// room for a new one, in the next round. Start returns when the run is stored; see
// [Engine.Wait]. It may be called again with the same key after any error.
//
// The input becomes JSON. Another input under the same key is a [MismatchError],
// until the run is undone. Errors are those of the input (an [InputError] also when it
// does not fit the type that the steps take), a [ConfigError] for a
// definition that is not registered, and those of the store.
func (e *Engine) Start(ctx context.Context, d *Definition, key string, input any) (Started, error) {
	raw, err := json.Marshal(input)
	if err != nil {
		return Started{}, fmt.Errorf("saga: input of %s: %w", d.name, err)
	}
	return e.StartRun(ctx, StartRequest{Definition: d.name, Version: d.version, Key: key, Input: raw})
}

// Run starts a run and waits for its end; see [Engine.Start] and [Engine.Wait]. When
// ctx ends the run goes on.
func (e *Engine) Run(ctx context.Context, d *Definition, key string, input any) (*RunView, error) {
	s, err := e.Start(ctx, d, key, input)
	if err != nil {
		return nil, err
	}
	v, err := e.Wait(ctx, s.Run)
	if errors.Is(err, ErrNoRun) && s.Status == machine.Completed { // it is no longer kept
		return e.Find(ctx, d.name, key)
	}
	return v, err
}

// StartRun is [Engine.Start] for callers that have the input as JSON.
func (e *Engine) StartRun(ctx context.Context, req StartRequest) (Started, error) {
	reg, err := e.checked(&req)
	if err != nil {
		return Started{}, err
	}
	b := &beginning{e: e, req: &req, reg: reg, random: e.random()}
	if b.id, err = e.newID(); err != nil {
		return Started{}, err
	}
	if e.cfg.Tracer != nil {
		b.trace = e.cfg.Tracer.Traceparent(ctx)
	}
	b.slot = slot{def: reg.name, host: reg.steps[0].host}
	if e.serving.Load() && e.slots.try(b.slot) {
		if b.held = e.claim(b.id); !b.held {
			e.slots.release(b.slot)
		}
	}
	err = e.store.Update(ctx, b.run)
	for range saveTries - 1 {
		if !errors.Is(err, kv.ErrCommitUnknown) {
			break
		}
		err = e.store.Update(context.WithoutCancel(ctx), b.run)
	}
	if !b.held {
		return b.started, err
	}
	if err == nil && b.turn.work != nil {
		d, t := e.newDrive(b.id, b.slot), b.turn
		go d.goOn(func() turn { return t })
		return b.started, nil
	}
	e.slots.release(b.slot)
	go func() { // after an error it may be that the run was begun all the same: look
		defer e.work.Done()
		e.leave(b.id, err != nil || b.turn.again)
	}()
	return b.started, err
}

// StartTx is [Engine.StartRun] in the caller's transaction, which causes the run.
func (e *Engine) StartTx(w kv.Writer, req StartRequest) (Started, error) {
	reg, err := e.checked(&req)
	if err != nil {
		return Started{}, err
	}
	b := &beginning{e: e, req: &req, reg: reg}
	if b.id, err = e.newID(); err != nil {
		return Started{}, err
	}
	err = b.run(w)
	return b.started, err
}

func (e *Engine) newID() (string, error) {
	e.randMu.Lock()
	defer e.randMu.Unlock()
	return kv.NewID("run", e.cfg.Clock.Now(), e.rand)
}

// checked finds the definition and checks the rest.
func (e *Engine) checked(req *StartRequest) (*registered, error) {
	e.mu.Lock()
	reg := e.latest[req.Definition]
	if req.Version != "" {
		reg = e.defs[defID{req.Definition, req.Version}]
	}
	e.mu.Unlock()
	if reg == nil {
		return nil, &ConfigError{Operation: req.Definition, Field: "definition",
			Problem: "version \"" + req.Version + "\" is not registered; use Engine.Register"}
	}
	if k := req.Key; k == "" || len(k) > MaxRunKey || !utf8.ValidString(k) || strings.TrimSpace(k) == "" {
		return nil, &InputError{Field: "key", Problem: fmt.Sprintf("must be 1 to %d bytes of text",
			MaxRunKey)}
	}
	if len(req.Principal) > MaxRunKey || !utf8.ValidString(req.Principal) {
		return nil, &InputError{Field: "principal", Problem: fmt.Sprintf("must be at most %d bytes of text",
			MaxRunKey)}
	}
	if len(req.Input) > MaxData {
		return nil, &kv.LimitError{What: "input of a run", Got: int64(len(req.Input)), Limit: MaxData,
			Unit:   "bytes",
			Remedy: "keep the data elsewhere and pass a reference"}
	}
	if len(req.Input) > 0 && !json.Valid(req.Input) {
		return nil, &InputError{Field: "input", Problem: "is not JSON"}
	}
	if err := reg.fits(req.Input); err != nil {
		return nil, err
	}
	if reg.prepare != nil && !req.Join {
		req.Version = reg.version
		if err := reg.prepare(req); err != nil {
			return nil, err
		}
	}
	if len(req.Labels) > MaxLabels {
		return nil, &InputError{Field: "labels", Problem: fmt.Sprintf("are more than %d", MaxLabels)}
	}
	for name, value := range req.Labels {
		if name == "" || len(name) > MaxName || len(value) > MaxRunKey || !utf8.ValidString(name+value) {
			return nil, &InputError{Field: "labels",
				Problem: fmt.Sprintf("have names of 1 to %d bytes and values of "+
					"at most %d", MaxName, MaxRunKey)}
		}
	}
	return reg, nil
}

// beginning is a start in the making. Its closure may run again.
type beginning struct {
	e      *Engine
	req    *StartRequest
	reg    *registered
	id     string
	random uint32
	slot   slot // of the first call
	held   bool // it is held
	trace  string
	parent string // of a rerun

	started Started
	turn    turn
}

// sum stands for the input in the key's row.
func sum(input []byte) []byte {
	h := sha256.Sum256(input)
	return h[:12]
}

func (b *beginning) run(w kv.Writer) error {
	k := b.req.of().row()
	row, ok, err := keyTable.Get(w, k)
	if err != nil {
		return err
	}
	round := uint64(1)
	if ok {
		join, err := b.join(w, &row)
		if err != nil || join {
			return err
		}
		round = row.Round + 1
	}
	if b.req.Join {
		return ErrNoRun
	}
	if b.req.Round > round {
		return wrongRound("is %d; the next round of the key is %d", b.req.Round, round)
	}
	if ok {
		if err := supersede(w, b.req.of(), row.Run); err != nil {
			return err
		}
	}
	if err := kv.AdmitIntent(w); err != nil {
		return err
	}
	c := b.newRun(w, round)
	var t turn
	if b.held {
		if t, err = c.goOn(b.random, b.slot.host, b.slot.host); err != nil {
			return err
		}
	}
	row = keyRow{Run: b.id, Round: round, Status: machine.Running, Sum: sum(b.req.Input)}
	if err := keyTable.Put(w, k, row); err != nil {
		return err
	}
	if err := c.save(); err != nil {
		return err
	}
	b.started, b.turn = Started{Run: b.id, Status: c.r.state.Status, Round: round}, t
	return nil
}

// join answers with the run the key has, if it has one that counts.
func (b *beginning) join(w kv.Writer, row *keyRow) (bool, error) {
	status := row.Status
	r, err := loadRun(w, row.Run)
	if err != nil {
		return false, err
	}
	if r != nil {
		status = r.state.Status
	}
	if r != nil && r.class == classDue && (!b.held || r.id != b.id) {
		// Usually it is worked on already. Not so after a commit that was in doubt: then
		// nobody was woken.
		next := b.e.asStored(r).slot()
		w.OnCommit(func() { b.e.enqueue(r.id, next) })
	}
	if row.Run == b.id { // ours, of a commit that was in doubt
		c, err := b.e.edit(w, b.id)
		if err != nil || c == nil {
			return false, err
		}
		b.started, b.turn = Started{Run: b.id, Status: status, Round: row.Round}, turn{again: true}
		if call, ok := r.state.InFlight(); ok && b.held && !status.Terminal() {
			b.turn = turn{work: c.work(call)}
		}
		return true, nil
	}
	want := b.req.Round
	switch {
	case want != 0 && want < row.Round:
		return b.joinOld(w, row.Round)
	case want == row.Round && status == machine.Compensated: // a repeated start of what was undone
	case status == machine.Compensated || b.parent == row.Run && status.Terminal():
		return false, nil
	case want > row.Round:
		return false, wrongRound("is %d; it cannot begin, for the run of round %d is %s", want, row.Round,
			status)
	}
	if b.parent != "" {
		return false, &machine.Error{Status: status, Problem: "the key has another run, " + row.Run}
	}
	if !bytes.Equal(row.Sum, sum(b.req.Input)) {
		return false, &MismatchError{Operation: b.req.Definition, Key: b.req.Key}
	}
	b.started, b.turn = Started{Run: row.Run, Status: status, Round: row.Round, Joined: true}, turn{}
	return true, nil
}

// oldRuns is how many runs before the last one of a key are looked at.
const oldRuns = 200

// joinOld answers with the run of a round that is over: a repeated start is answered as it
// was, whatever began after it.
func (b *beginning) joinOld(w kv.Writer, last uint64) (bool, error) {
	k, want := b.req.of(), b.req.Round
	r := byKey.of(k.Key, k.Definition, k.Principal).Range()
	r.Reverse, r.Limit = true, oldRuns
	for x, err := range w.Scan(listTable, r) {
		if err != nil {
			return false, err
		}
		id, err := lastPart(x.Key)
		if err != nil {
			return false, err
		}
		old, err := loadRun(w, id)
		if err != nil {
			return false, err
		}
		if old == nil || old.link == linkCorrection || old.round != want {
			continue
		}
		if !bytes.Equal(sum(old.input), sum(b.req.Input)) {
			return false, &MismatchError{Operation: b.req.Definition, Key: b.req.Key}
		}
		b.started, b.turn = Started{Run: id, Status: old.state.Status, Round: want, Joined: true}, turn{}
		return true, nil
	}
	return false, wrongRound("is %d, which is over, and its run is no longer kept; the key is in round %d",
		want, last)
}

func wrongRound(format string, args ...any) error {
	return &InputError{Field: "round", Problem: fmt.Sprintf(format, args...) + "; look at the key's last run"}
}

func (b *beginning) newRun(w kv.Writer, round uint64) *change {
	now := w.Now()
	r := &run{id: b.id, def: b.reg.name, version: b.reg.version, principal: b.req.Principal, key: b.req.Key,
		round: round, created: now,
		trace: b.trace, input: b.req.Input, labels: sortedLabels(b.req.Labels), epoch: b.e.epoch,
		state: machine.New(b.reg.m, now), history: make([]entry, 0, roomForNotes)}
	if b.parent != "" {
		r.parent, r.link = b.parent, linkRerun
	}
	return &change{e: b.e, w: w, r: r, key: runKey(r.id), reg: b.reg, m: b.reg.m, by: b.held}
}
