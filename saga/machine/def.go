package machine

import (
	"fmt"
	"time"
)

// Def is what the machine must know of a definition.
type Def struct {
	// Deadline is how long a run may take before it is undone; 0 is for ever. It
	// does not count once the pivot has been sent.
	Deadline time.Duration
	// Restored is when the store was restored from a copy; zero is never. What was
	// sent in the time that was lost is not known. So for as long as its key is valid
	// (a day, when that is not known) a first send is preceded by its look-up.
	Restored time.Time
	// Steps run in this order.
	Steps []Step
}

// defaultKeyValidFor is the least that real callees promise.
const defaultKeyValidFor = 24 * time.Hour

// Step is the policy of one step.
type Step struct {
	// Name is unique within the definition.
	Name string
	// Act and Undo say how the action and the undo are tried.
	Act, Undo Policy
	// NoAction marks a step that only waits for its signal.
	NoAction bool
	// Await: after its action the step waits for its signal, AwaitFor at most (0 is
	// for ever).
	Await    bool
	AwaitFor time.Duration
	// HasUndo says that the step can be undone.
	HasUndo bool
	// UndoWhenAbsent says that undoing what has not happened does no harm. The undo of a
	// step in doubt is sent SettlesAfter after the last send of its action, not before.
	UndoWhenAbsent bool
	// Pivot is the point of no return.
	Pivot bool
	// Irreversible: the step cannot be undone, and that matters. A step without
	// undo that is not irreversible has nothing to undo.
	Irreversible bool
	// Check says that a look-up can tell what became of an action; it is believed
	// that there is nothing SettlesAfter after the last send.
	Check bool
	// SettlesAfter is how long after its send an action can still take effect, or not be
	// shown yet.
	SettlesAfter time.Duration
	// KeyValidFor is how long the callee honours the key of the action; 0 means that
	// an action in doubt must not be sent again.
	KeyValidFor time.Duration
	// UndoKeyValidFor is the same for the undo.
	UndoKeyValidFor time.Duration
}

// settled is when nothing new can come of what was sent.
func (s *Step) settled(st *StepState) time.Time { return st.LastSend.Add(s.SettlesAfter) }

// Policy says how often and how fast a call is tried.
type Policy struct {
	// Attempts is the most tries, at least 1.
	Attempts int
	// Backoff is the pause after the first try, doubled after each up to MaxBackoff.
	Backoff, MaxBackoff time.Duration
}

// MaxRetryAfter bounds what a callee may ask for.
const MaxRetryAfter = time.Hour

// delay is the pause after try n. The callee's wish is a lower bound of it, within
// MaxRetryAfter. random spreads it over the upper half, or the tenth above a wish.
func (p Policy) delay(n int, wish time.Duration, random uint32) time.Duration {
	d := p.Backoff
	for range min(n-1, 62) {
		if d >= p.MaxBackoff {
			break
		}
		d *= 2
	}
	d = min(d, p.MaxBackoff)
	d = d/2 + share(d/2, random)
	wish = min(max(wish, 0), MaxRetryAfter)
	if wish > d {
		d = wish + share(wish/10, random)
	}
	return d
}

// share is the part random/2^32 of d.
func share(d time.Duration, random uint32) time.Duration {
	const bits = 16 // 2^16 parts are enough, and do not overflow
	return time.Duration((uint64(d) >> bits) * uint64(random>>(32-bits)))
}

// Match finds the step of the definition for each step of a stored state, by
// name. The error names the first step that the definition does not have, has in
// another order, or has in addition.
func (d *Def) Match(s *State) error {
	for i := range s.Steps {
		if i >= len(d.Steps) {
			return fmt.Errorf("step %q is missing", s.Steps[i].Name)
		}
		if d.Steps[i].Name != s.Steps[i].Name {
			return fmt.Errorf("step %d is %q, in the run it is %q", i+1, d.Steps[i].Name, s.Steps[i].Name)
		}
	}
	if len(d.Steps) > len(s.Steps) {
		return fmt.Errorf("step %q was added", d.Steps[len(s.Steps)].Name)
	}
	return nil
}
