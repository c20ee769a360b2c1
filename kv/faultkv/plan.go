package faultkv

import "fmt"

// Plan says what happens at one point.
type Plan struct {
	Point int // its number, from 1; 0 is the next point to be reached
	When  When
	Mode  Mode
}

// When says how far the commit or call of a plan's point gets.
type When int

// The places at a point. The zero value is Before.
const (
	// Before: it does not happen and, unless it crashes, the caller is told so.
	Before When = iota
	// Lost: it does not happen, but the caller is told that it may have.
	Lost
	// Kept: it happens, but the caller is told that it may have.
	Kept
	// After: it happens and the process crashes before the caller learns of it,
	// whatever the plan's mode.
	After
)

// Mode says how the program lives on.
type Mode int

// The modes. The zero value is Fail.
const (
	// Fail: only the one answer is an error.
	Fail Mode = iota
	// Stop: as Fail, and the store takes no more writes ([kv.ErrStopped]), as
	// engines do after a commit error. At an outside call it is Fail.
	Stop
	// Crash: this and every later call answers [ErrCrashed].
	Crash
)

func (p Plan) happens() bool { return p.When == Kept || p.When == After }

func (p Plan) crashes() bool { return p.Mode == Crash || p.When == After }

// String describes the plan, for the name of a subtest.
func (p Plan) String() string {
	return fmt.Sprintf("%03d-%s-%s", p.Point, p.When, p.Mode)
}

// String returns the name of the constant in lower case.
func (w When) String() string {
	return pick([]string{"before", "lost", "kept", "after"}, int(w))
}

// String returns the name of the constant in lower case.
func (m Mode) String() string { return pick([]string{"fail", "stop", "crash"}, int(m)) }

func pick(names []string, i int) string {
	if i < 0 || i >= len(names) {
		return fmt.Sprintf("(%d)", i)
	}
	return names[i]
}

// Kind tells commits and outside calls apart.
type Kind string

// The kinds of points.
const (
	// KindCommit is an Update whose closure returned nil.
	KindCommit Kind = "commit"
	// KindCall is a [Store.Call] or [Store.Mark].
	KindCall Kind = "call"
)

// Point is one commit or outside call that a program came to.
type Point struct {
	N    int // from 1, in the order of the program
	Kind Kind
	Name string // the name given to Call, or the tables written, joined by +
}

// String describes the point for a listing.
func (p Point) String() string { return fmt.Sprintf("%03d %s %s", p.N, p.Kind, p.Name) }

// Plans returns every different plan for the points: seven for a commit, five
// for an outside call. Lost and Kept with Crash are left out, for nobody can
// tell them from Before and After.
func Plans(points []Point) []Plan {
	var plans []Plan
	for _, p := range points {
		plans = append(plans,
			Plan{p.N, Before, Fail}, Plan{p.N, Before, Crash},
			Plan{p.N, Lost, Fail}, Plan{p.N, Kept, Fail}, Plan{p.N, After, Crash})
		if p.Kind == KindCommit {
			plans = append(plans, Plan{p.N, Lost, Stop}, Plan{p.N, Kept, Stop})
		}
	}
	return plans
}
