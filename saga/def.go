package saga

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"onced/kv"
	"onced/saga/machine"
)

// Limits of definitions and runs.
const (
	// MaxSteps is the most steps of a definition.
	MaxSteps = 100
	// MaxName is the longest name of a definition, a version or a step, in bytes.
	MaxName = 64
	// MaxRunKey is the longest business key, in bytes.
	MaxRunKey = 255
	// MaxData is the largest input or output, in bytes of JSON.
	MaxData = 256 << 10
	// MaxRunData is the most of input, outputs and data of signals that a run keeps
	// together, in bytes. An output beyond it, or what comes with a signal, is not kept, and
	// the history says so; what a person gives as an output is then an error.
	MaxRunData = 4 << 20
	// MaxWait is the longest deadline, pause or time to await a signal.
	MaxWait = 10 * 365 * 24 * time.Hour
)

// Definition is a saga: steps in order, each with its undo. It is made by [New] and
// its methods, registered with [Engine.Register], and then no longer changed.
//
// A run keeps to the version it was started with, and matches its steps by name. So
// give a new version, and register the old one too until its runs have ended, when
// steps are added, removed, renamed or put in another order. What a step does may
// change under one version.
type Definition struct {
	name, version string
	steps         []*stepDef
	def           machine.Def
	problem       *ConfigError
	superseded    bool
	prepare       func(*StartRequest) error // or nil
}

// stepDef is one step: what the machine knows of it, and the functions.
type stepDef struct {
	name    string
	key     kv.Key // see keyOfStep
	act     actFunc
	undo    undoFunc
	check   checkFunc
	in      reflect.Type // the input of its typed functions; nil when there are none
	host    string
	timeout time.Duration // of one call
	nothing bool          // says that there is nothing to undo
}

// New begins a definition with the version "1". The name is a stable one: it is
// part of every downstream key.
//
//	checkout := saga.New("checkout").
//		Step("loyalty", spendPoints, returnPoints).
//		Step("charge", charge, refund, saga.Check(lookUpCharge)).
//		Step("order", createOrder, nil)
func New(name string) *Definition {
	d := &Definition{name: name, version: "1"}
	d.checkName("name", name)
	return d
}

// Name returns the name.
func (d *Definition) Name() string { return d.name }

// VersionName returns the version.
func (d *Definition) VersionName() string { return d.version }

// StepNames returns the names of the steps in order.
func (d *Definition) StepNames() []string {
	names := make([]string, len(d.steps))
	for i, s := range d.steps {
		names[i] = s.name
	}
	return names
}

// Version names the version of the definition; see [Definition].
func (d *Definition) Version(version string) *Definition {
	d.checkName("version", version)
	d.version = version
	return d
}

// Superseded says that this version is an earlier one: [Engine.Register] makes it known
// to the runs that have it, and does not have new runs use it unless they name it.
func (d *Definition) Superseded() *Definition {
	d.superseded = true
	return d
}

// Prepare has every start of a run of the definition looked at first, a [Engine.Rerun]
// too, and not one that only joins: look may refuse the input, with an [InputError], or
// add labels. The request has the version that the run will have. look must depend on
// the request only, may be called more than once for a start, and within a transaction.
func (d *Definition) Prepare(look func(*StartRequest) error) *Definition {
	d.prepare = look
	return d
}

// Deadline bounds how long a run may take: then it is undone, unless its pivot has
// been sent. Without it there is no bound.
func (d *Definition) Deadline(limit time.Duration) *Definition {
	if limit <= 0 || limit > MaxWait {
		d.fail("Deadline", fmt.Sprintf("must be positive and at most %v, it is %v", MaxWait, limit))
	}
	d.def.Deadline = limit
	return d
}

// Step adds a step. action causes the effect, undo takes it back:
//
//	action func(ctx context.Context, in I) (O, error)
//	undo   func(ctx context.Context, in I, out O) error
//
// I is the input of the run, one type for all steps; O what the step gives. Both
// survive restarts as JSON,
// and every call gets its own copy: an undo sees what its own step stored, whatever
// later steps did. [Output] gives the outputs of earlier steps. What a function
// returns means what it means everywhere in this package: nil is done, [Refused]
// and [NotDone] are what they say, and every other error, a panic and a time-out
// are unknown. The functions send [DownstreamKey], which is the same on every try.
// A function must end when its context does. A second later its run goes on without
// it; that a look-up finds nothing is no proof as long as it has not ended.
//
// An undo is tried again until it succeeds or its attempts are used up, always with
// the same key. So an undo may be sent twice, for example after a crash in it, and its
// callee must honour [DownstreamKey], or a refund is paid twice; for one that knows no
// keys say UndoKeyValidFor(0), see [UndoKeyValidFor]. undo is nil for a step that has
// none; it then is the last one, or says with [Pivot], [Irreversible] or
// [NothingToUndo] what that means. A step without an action is an
// [Definition.Await], or says [AwaitSignal] itself and has an undo.
//
// An input that does not fit I is an error of the start. If it does not fit later, in a
// program with other types, nothing is sent or undone for that: the run is held until
// the program is corrected and a person says retry.
//
// Steps take [Timeout], [Check], [SettlesAfter], [Repeatable] and the options named
// in [StepOptions]. Step also takes untyped functions, see [Call]. A mistake is
// reported by [Engine.Register].
func (d *Definition) Step(name string, action, undo any, opts ...Option) *Definition {
	s := &stepDef{name: name, key: keyOfStep(d.name, name)}
	set := defaultSettings()
	set.step = defaultStepSettings()
	for _, o := range opts {
		if o.apply != nil {
			o.apply(&set)
		}
	}
	field := "step " + name
	if action == nil && !set.step.await {
		d.fail(field, "has no action; use Await for a step that only waits for its signal")
	}
	if d.checkName(field, name); slices.Contains(d.StepNames(), name) {
		d.fail(field, "is there twice")
	}
	if err := s.take(action, undo, set.check); err != nil {
		d.fail(field, err.Error())
	}
	if problem := set.stepProblem(); problem != "" {
		d.fail(field, problem)
	}
	s.host, s.timeout, s.nothing = set.step.host, set.timeout, set.step.nothing
	d.steps = append(d.steps, s)
	d.def.Steps = append(d.def.Steps, set.machineStep(s))
	return d
}

// Await adds a step that does nothing but wait for its signal: an approval, a
// delivery. Its output is what comes with the signal.
func (d *Definition) Await(name string, opts ...Option) *Definition {
	return d.Step(name, nil, nil, append(opts, AwaitSignal(), NothingToUndo())...)
}

func (d *Definition) fail(field, problem string) {
	if d.problem == nil {
		d.problem = &ConfigError{Operation: d.name, Field: field, Problem: problem}
	}
}

func (d *Definition) checkName(field, name string) {
	bad := func(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) }
	if name == "" || len(name) > MaxName || strings.ContainsFunc(name, bad) {
		d.fail(field, fmt.Sprintf("is %q; a name has 1 to %d bytes of text without spaces", name, MaxName))
	}
}

// Err returns the first mistake in the definition, a [ConfigError], or nil.
func (d *Definition) Err() error {
	if d.problem != nil {
		return d.problem
	}
	if field, problem := d.problemOfSteps(); problem != "" {
		return &ConfigError{Operation: d.name, Field: field, Problem: problem}
	}
	return nil
}

func (d *Definition) problemOfSteps() (field, problem string) {
	if len(d.steps) == 0 || len(d.steps) > MaxSteps {
		return "steps", fmt.Sprintf("must be 1 to %d, there are %d", MaxSteps, len(d.steps))
	}
	pivots := 0
	for i := range d.def.Steps {
		s := &d.def.Steps[i]
		field := "step " + s.Name
		if s.Pivot {
			pivots++
		}
		switch {
		case pivots > 1:
			return field, "is a second pivot; there is one point of no return"
		case s.HasUndo && (s.Pivot || s.Irreversible || d.nothingToUndo(i)):
			return field, "has an undo and says that it is not undone; leave one of them out"
		case d.steps[i].in != nil && d.steps[i].in != d.inputType():
			return field, fmt.Sprintf("takes the input %s, the steps before it take %s; all get the input "+
				"of the run, so give them one type, or use functions of a Call", d.steps[i].in, d.inputType())
		case s.UndoWhenAbsent && !s.HasUndo:
			return field, "has UndoWhenAbsent and no undo"
		case !s.HasUndo && !s.Pivot && !s.Irreversible && !d.nothingToUndo(i) && i < len(d.steps)-1:
			return field,
				"has no undo; give one, or say what that means with Pivot, Irreversible or NothingToUndo"
		}
	}
	return "", ""
}

// inputType is the input of the typed steps, nil when there are none.
func (d *Definition) inputType() reflect.Type {
	for _, s := range d.steps {
		if s.in != nil {
			return s.in
		}
	}
	return nil
}

// fits reports what is wrong with an input, if a typed step could not read it.
func (d *Definition) fits(input []byte) error {
	t := d.inputType()
	if t == nil {
		return nil
	}
	if _, err := decoded(t, input); err != nil {
		return &InputError{Field: "input",
			Problem: "does not fit the steps of " + d.name + ": " + err.Error()}
	}
	return nil
}

func (d *Definition) nothingToUndo(i int) bool { return d.steps[i].nothing }

// machineDef is the machine's view. The last step is a point of no return when it
// has no undo: once it is done, so is the run.
func (d *Definition) machineDef() *machine.Def {
	def := d.def
	def.Steps = slices.Clone(def.Steps)
	last := &def.Steps[len(def.Steps)-1]
	if !last.HasUndo && !last.Irreversible && !d.nothingToUndo(len(def.Steps)-1) {
		last.Pivot = true
	}
	return &def
}
