package saga

import (
	"context"
	"fmt"
	"time"

	"onced/saga/machine"
)

// Defaults of steps.
const (
	// DefaultAttempts is how often an action is tried.
	DefaultAttempts = 5
	// DefaultUndoAttempts is how often an undo is tried before it is stuck.
	DefaultUndoAttempts = 12
	// DefaultBackoff is the pause after the first try. It is doubled after each, and
	// spread over its upper half.
	DefaultBackoff = time.Second
	// DefaultMaxBackoff bounds the pause.
	DefaultMaxBackoff = 10 * time.Minute
	// DefaultUndoKeyValidFor is how long after its first send an undo in doubt may be
	// sent again.
	DefaultUndoKeyValidFor = 24 * time.Hour
)

// StepOptions lists the options that only steps of a [Definition] take: [Attempts],
// [UndoAttempts], [Backoff], [Pivot], [Irreversible], [NothingToUndo],
// [UndoWhenAbsent], [UndoKeyValidFor], [AwaitSignal], [AwaitFor], [CheckCall], [Host].
type StepOptions struct{}

// stepSettings are the settings that only steps have; the zero value is none.
type stepSettings struct {
	attempts, undoAttempts       int
	backoff, maxBackoff          time.Duration
	undoKeyValidFor, awaitFor    time.Duration
	pivot, irreversible, nothing bool
	undoWhenAbsent, await        bool
	host                         string
}

func defaultStepSettings() stepSettings {
	return stepSettings{attempts: DefaultAttempts, undoAttempts: DefaultUndoAttempts, backoff: DefaultBackoff,
		maxBackoff: DefaultMaxBackoff, undoKeyValidFor: DefaultUndoKeyValidFor}
}

func stepOption(set func(*stepSettings)) Option {
	return Option{func(s *settings) { set(&s.step) }}
}

// Attempts is how often the action of a step is tried, pauses between them, before
// the step has failed. The default is [DefaultAttempts].
func Attempts(n int) Option { return stepOption(func(s *stepSettings) { s.attempts = n }) }

// UndoAttempts is how often the undo of a step is tried before it is stuck and
// waits for a person. The default is [DefaultUndoAttempts].
func UndoAttempts(n int) Option { return stepOption(func(s *stepSettings) { s.undoAttempts = n }) }

// Backoff is the pause after the first try of the action or the undo, doubled after
// each try up to most.
func Backoff(first, most time.Duration) Option {
	return stepOption(func(s *stepSettings) { s.backoff, s.maxBackoff = first, most })
}

// Pivot makes the step the point of no return: once it has been sent, the run is no
// longer undone, and goes on until it is completed or waits for a person.
func Pivot() Option { return stepOption(func(s *stepSettings) { s.pivot = true }) }

// Irreversible says that the step cannot be undone and that this matters: when a
// later step fails the run waits for a person.
func Irreversible() Option { return stepOption(func(s *stepSettings) { s.irreversible = true }) }

// NothingToUndo says that the step leaves nothing that would have to be undone.
func NothingToUndo() Option { return stepOption(func(s *stepSettings) { s.nothing = true }) }

// UndoWhenAbsent says that undoing what did not happen does no harm. A step of which
// it cannot be found out whether it happened is then undone, not held; the undo gets
// the zero output.
//
// Its request may still be under way, and the undo must not overtake it: it is sent
// [SettlesAfter] after the last send, unless the effect becomes known sooner. So it
// comes minutes later where SettlesAfter is left at its default; say what the callee
// promises.
func UndoWhenAbsent() Option { return stepOption(func(s *stepSettings) { s.undoWhenAbsent = true }) }

// UndoKeyValidFor is how long after its first send the callee knows the key of an
// undo. An undo has no look-up: one that may have happened, after a time-out or a
// crash, is sent again under its key for this long, and then is stuck and waits for a
// person. 0 says that the callee knows no keys and that an undo which comes twice does
// harm: one that may have happened is then stuck at once. The default is
// [DefaultUndoKeyValidFor].
func UndoKeyValidFor(d time.Duration) Option {
	return stepOption(func(s *stepSettings) { s.undoKeyValidFor = d })
}

// AwaitSignal says that the step has only begun when its action is done: a signal
// finishes it, see [Engine.Signal].
//
// With it, that a [Check] has found the effect means finished, not begun: a crash during
// the action, followed by a look-up that answers found, ends the step without its
// signal. So answer found only for what needs no signal any more, and [Begun] while it
// has only begun; the run then waits for the signal again. A look-up that cannot tell
// the one from the other answers Begun: the signal decides.
func AwaitSignal() Option { return stepOption(func(s *stepSettings) { s.await = true }) }

// AwaitFor is [AwaitSignal] with a bound: what has not been signalled by then is
// looked up, or undone as unknown, or held.
func AwaitFor(d time.Duration) Option {
	return stepOption(func(s *stepSettings) {
		if s.await, s.awaitFor = true, d; d == 0 {
			s.awaitFor = -1
		}
	})
}

// CheckCall is [Check] for untyped functions, see [Call]: output is JSON. What it
// answers means what it means there.
func CheckCall(look func(ctx context.Context, c *Call) (output []byte, found bool, err error)) Option {
	return Option{func(s *settings) { s.check = look }}
}

// Host names what the step's calls go to, for the bound of calls per host. It is
// any label; without it no bound per host counts.
func Host(label string) Option { return stepOption(func(s *stepSettings) { s.host = label }) }

// stepProblem reports the first setting that is wrong for a step.
func (s *settings) stepProblem() string {
	const positive = "%s must be positive, it is %v"
	p := &s.step
	switch {
	case s.key != nil || s.principal != nil || s.fingerprint != nil || s.intent != nil ||
		s.oldResult != nil ||
		s.encodeResult != nil || s.tracer != nil || s.scope != nil || s.resultType != typeJSON ||
		s.wait != DefaultWait:
		return "has an option that is not for steps"
	case s.timeout <= 0:
		return fmt.Sprintf(positive, "Timeout", s.timeout)
	case s.settlesAfter <= 0:
		return fmt.Sprintf(positive, "SettlesAfter", s.settlesAfter)
	case s.keyValidFor < 0:
		return "Repeatable must name for how long the callee remembers keys"
	case p.attempts < 1 || p.undoAttempts < 1:
		return "Attempts and UndoAttempts must be at least 1"
	case p.backoff <= 0 || p.maxBackoff < p.backoff || p.maxBackoff > MaxWait:
		return fmt.Sprintf("Backoff must be positive and not above its bound, at most %v; it is %v and %v",
			MaxWait, p.backoff, p.maxBackoff)
	case p.undoKeyValidFor < 0:
		return "UndoKeyValidFor must not be negative; 0 says that an undo must not be sent twice"
	case p.awaitFor < 0 || p.awaitFor > MaxWait:
		return fmt.Sprintf("AwaitFor must be positive and at most %v; AwaitSignal waits without a bound",
			MaxWait)
	case s.settlesAfter > MaxWait:
		return fmt.Sprintf("SettlesAfter must be at most %v, it is %v", MaxWait, s.settlesAfter)
	}
	return ""
}

func (s *settings) machineStep(d *stepDef) machine.Step {
	p := &s.step
	return machine.Step{Name: d.name,
		Act:      machine.Policy{Attempts: p.attempts, Backoff: p.backoff, MaxBackoff: p.maxBackoff},
		Undo:     machine.Policy{Attempts: p.undoAttempts, Backoff: p.backoff, MaxBackoff: p.maxBackoff},
		NoAction: d.act == nil, Await: p.await, AwaitFor: p.awaitFor,
		HasUndo: d.undo != nil, UndoWhenAbsent: p.undoWhenAbsent, Pivot: p.pivot,
		Irreversible: p.irreversible,
		Check:        d.check != nil, SettlesAfter: s.settlesAfter,
		KeyValidFor: s.keyValidFor, UndoKeyValidFor: p.undoKeyValidFor}
}
