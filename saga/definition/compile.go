package definition

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"onced/saga"
	"onced/saga/egress"
	"onced/saga/httpstep"
)

// Origin says where a document comes from, and so what it may call.
type Origin string

// The origins. They are part of the file format.
const (
	// FromFile: the operator's file. Its hosts are trusted.
	FromFile Origin = "file"
	// FromAPI: posted. Its hosts must be public or on the allow-list.
	FromAPI Origin = "api"
)

// trust is what an origin may reach; one that is not known may least.
func (o Origin) trust() egress.Trust {
	if o == FromFile {
		return egress.Trusted
	}
	return egress.Guarded
}

// Target says which document and version is compiled, and from where.
type Target struct {
	// Version is the name of the version.
	Version string
	// Origin decides what the calls may reach.
	Origin Origin
}

// SecretUse says what a secret is wanted for.
type SecretUse struct {
	// Name is the secret's name.
	Name string
	// Definition, Step and Origin say who asks.
	Definition, Step string
	Origin           Origin
	// Host is where it will be sent, with the port where the URL has one.
	Host string
}

// CallbackUse says what a callback URL is wanted for.
type CallbackUse struct {
	// Run, Step and Round are what the token is derived from. The URL must be the same
	// on every try.
	Run, Step string
	Round     uint64
}

// Deps are what the calls of a compiled document need. Its functions are called for
// every call, concurrently.
type Deps struct {
	// Caller makes the calls. Required.
	Caller *httpstep.Caller
	// Secret returns the value of a secret now. An error means that the call is not
	// made; its text is shown to operators and must hold no value. nil means that
	// there are no secrets.
	Secret func(ctx context.Context, use SecretUse) (string, error)
	// CallbackURL makes the callback URL of a step that awaits a signal; nil means
	// that there is none.
	CallbackURL func(use CallbackUse) (string, error)
}

// Compile makes the definition that an engine runs. It fails when a dependency is
// missing, or the version is no name.
func (d *Document) Compile(t Target, deps Deps) (*saga.Definition, error) {
	if deps.Caller == nil {
		return nil, errors.New("definition: Deps.Caller is missing: use httpstep.New")
	}
	def := d.compile(t, deps)
	return def, def.Err()
}

func (d *Document) compile(t Target, deps Deps) *saga.Definition {
	def := saga.New(d.name).Version(t.Version).Prepare(d.Prepare)
	if d.deadline > 0 {
		def.Deadline(d.deadline)
	}
	for _, s := range d.defs {
		r := &runner{stepDef: s, doc: d, target: t, deps: deps}
		var act, undo any
		if s.call != nil {
			act = r.act
		}
		if s.undo != nil {
			undo = r.takeBack
		}
		opts := s.options()
		if s.check != nil {
			opts = append(opts, saga.Check(r.lookUp))
		}
		def.Step(s.name, act, undo, opts...)
	}
	return def
}

// options are those of the engine's step.
func (d *stepDef) options() (opts []saga.Option) {
	timeout, host := d.timeout(), ""
	if calls := d.calls(); len(calls) > 0 {
		host = calls[0].url.host
	}
	first, most := d.first, d.most
	if first == 0 {
		first = saga.DefaultBackoff
	}
	if most == 0 {
		most = max(saga.DefaultMaxBackoff, first)
	}
	for _, o := range []struct {
		set bool
		o   saga.Option
	}{
		{timeout > 0, saga.Timeout(timeout)}, {host != "", saga.Host(host)},
		{true, saga.Backoff(first, most)},
		{d.attempts > 0, saga.Attempts(d.attempts)}, {d.undoAttempts > 0, saga.UndoAttempts(d.undoAttempts)},
		{d.keyValidFor > 0, saga.Repeatable(d.keyValidFor)},
		{d.settlesAfter > 0, saga.SettlesAfter(d.settlesAfter)},
		{true, saga.UndoKeyValidFor(d.undoKeyValidFor)},
		{d.pivot, saga.Pivot()}, {d.irreversible, saga.Irreversible()}, {d.nothing, saga.NothingToUndo()},
		{d.undoWhenAbsent, saga.UndoWhenAbsent()},
		{d.await != nil && d.await.limit == 0, saga.AwaitSignal()},
	} {
		if o.set {
			opts = append(opts, o.o)
		}
	}
	if d.await != nil && d.await.limit > 0 {
		opts = append(opts, saga.AwaitFor(d.await.limit))
	}
	return opts
}

// runner is a step with what its calls need.
type runner struct {
	*stepDef
	doc    *Document
	target Target
	deps   Deps
}

// act makes the call of the step.
//
// What goes wrong before the send did not happen. Where somebody can correct the cause,
// a secret or an address that is not allowed, it is tried again, and then the run is held
// and not undone, for the order is not to blame. What the run's own data makes of the
// request, no try and nobody can change: the step is refused. Once the request has left, an
// expression that fails proves nothing: the effect may stand, so the outcome is
// unknown, and is looked up, sent again under the same key, or held.
func (r *runner) act(ctx context.Context, c *saga.Call) ([]byte, error) {
	s := r.scope(ctx, c, r.call)
	reply, err := r.send(ctx, r.call, s)
	if err != nil {
		return nil, err
	}
	if r.output == nil {
		out, err := r.defaultOutput(reply, s)
		if err != nil {
			return nil, reply.Err(httpstep.Unknown, err.Error())
		}
		return out, nil
	}
	s.take(reply)
	out, err := r.output.render(s)
	if err != nil {
		return nil, reply.Err(httpstep.Unknown, "its reply is unclear: "+err.Error())
	}
	if problem := storable(out); problem != "" {
		return nil, reply.Err(httpstep.Unknown, "its output "+problem)
	}
	return out, nil
}

// takeBack makes the call of the undo.
func (r *runner) takeBack(ctx context.Context, c *saga.Call) error {
	_, err := r.send(ctx, r.undo, r.scope(ctx, c, r.undo))
	return err
}

// scope is what a call of the step sees, and what is to be taken out of its reply.
func (r *runner) scope(ctx context.Context, c *saga.Call, d *callDef) *scope {
	s := d.newScope(ctx, c, &r.target, &r.deps)
	r.hide(s)
	return s
}

// send renders a call, makes it, and says what the reply means.
func (r *runner) send(ctx context.Context, d *callDef, s *scope) (*httpstep.Reply, error) {
	req, err := d.request(s, &r.target)
	if errors.Is(err, errTime) || err == nil && ctx.Err() != nil {
		return nil, saga.NotDone(fmt.Errorf("the call was not made: %w", cmp.Or(err, errTime)))
	}
	if err != nil {
		err = fmt.Errorf("the call was not made: %w", err)
		if _, mends := errors.AsType[*awayError](err); mends {
			return nil, saga.Blocked(0, err)
		}
		return nil, saga.Refused(err) // every try would render the same
	}
	reply, err := r.deps.Caller.Ask(ctx, req)
	if e, ok := errors.AsType[*httpstep.CallError](err); ok && e.Unsendable { // it is too long
		return nil, saga.Refused(err)
	}
	if err != nil {
		return nil, err
	}
	meaning := d.outcomes.Of(reply.Status)
	for _, reading := range d.readings {
		s.take(reply)
		yes, err := reading.when.condition(s)
		if err != nil && meaning != httpstep.Done {
			continue // the status says enough: a proxy answers 429 in its own words
		}
		if err != nil {
			return nil, reply.Err(httpstep.Unknown, reading.key+" cannot tell: "+err.Error())
		}
		if yes {
			return nil, reply.Err(reading.meaning, reading.key+" holds")
		}
	}
	return reply, reply.Err(meaning, "")
}

// take shows a reply to the expressions that follow.
func (s *scope) take(r *httpstep.Reply) {
	if s.reply == nil {
		s.reply = &replied{Reply: r, mask: s.mask()}
	}
	s.work, s.text = 0, 0
}

// lookUp is look in the form of an option; the input is in the call too.
func (r *runner) lookUp(ctx context.Context, _ json.RawMessage, _ saga.Doubt) (json.RawMessage, bool, error) {
	return r.look(ctx, saga.CallOf(ctx))
}

// look makes the look-up. Only a reply that answers the question counts: one that
// could not be given, or that two of the conditions claim, tells nothing.
func (r *runner) look(ctx context.Context, c *saga.Call) (out []byte, found bool, err error) {
	d := r.check
	s := r.scope(ctx, c, d.call)
	req, err := d.call.request(s, &r.target)
	if err != nil {
		return nil, false, saga.NotDone(fmt.Errorf("the look-up was not made: %w", err))
	}
	reply, err := r.deps.Caller.Ask(ctx, req)
	if err != nil {
		return nil, false, err
	}
	if !answers(reply.Status) {
		return nil, false, reply.Err(httpstep.Unknown, "the look-up was not answered")
	}
	s.take(reply)
	said, err := d.read(s)
	if err != nil {
		return nil, false, reply.Err(httpstep.Unknown, "the look-up is unclear: "+err.Error())
	}
	switch said {
	case "refused":
		return nil, false, reply.Err(httpstep.Refused, "the look-up finds it refused")
	case "absent":
		return nil, false, nil
	}
	if d.output == nil {
		if out, err = r.defaultOutput(reply, s); err != nil {
			return nil, false, reply.Err(httpstep.Unknown, "the look-up is unclear: "+err.Error())
		}
		return out, true, nil
	}
	if out, err = d.output.render(s); err != nil {
		return nil, false, reply.Err(httpstep.Unknown, "the look-up is unclear: "+err.Error())
	}
	if problem := storable(out); problem != "" {
		return nil, false, reply.Err(httpstep.Unknown, "the look-up is unclear: its output "+problem)
	}
	return out, true, nil
}

// storable says why JSON that was made cannot be kept.
func storable(out []byte) string {
	switch {
	case len(out) > saga.MaxData:
		return fmt.Sprintf("has %d bytes, the limit is %d", len(out), saga.MaxData)
	case deeper(out, maxNested):
		return fmt.Sprintf("is nested deeper than %d", maxNested)
	}
	return ""
}

// answers reports a status with which a callee can say what it knows of the effect.
func answers(status int) bool {
	switch status {
	case 401, 407, 408, 425, 429:
		return false
	}
	return status >= 200 && status < 300 || status >= 400 && status < 500
}

var (
	errNothing = errors.New("neither done, refused nor absent holds")
	errTwo     = errors.New("more than one of done, refused and absent holds")
)

// read finds the one condition that holds.
func (d *checkDef) read(s *scope) (string, error) {
	said := ""
	for _, c := range []struct {
		name string
		x    *expression
	}{{"done", d.done}, {"refused", d.refused}, {"absent", d.absent}} {
		if c.x == nil {
			continue
		}
		yes, err := c.x.condition(s)
		switch {
		case err != nil:
			return "", fmt.Errorf("%s: %w", c.name, err)
		case yes && said != "":
			return "", errTwo
		case yes:
			said = c.name
		}
	}
	if said == "" {
		return "", errNothing
	}
	return said, nil
}
