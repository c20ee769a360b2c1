// Package invariant checks rules over a store: what must be true of the rows
// of every package at every commit. Packages contribute rules; tests run them
// at the end of every store test, and the verify command runs the same rules
// on a live store.
//
// # What is guaranteed
//
//   - A check only reads. It pages through the store in short Views, so it can
//     run beside live work and holds back nothing.
//   - A rule built with [Rows] or [RawRows] judges a row and whatever it reads
//     to judge it in one snapshot, so live work causes no false alarm.
//   - The report is bounded: at most [MaxPerRule] violations per rule, and the
//     number of further ones.
//
// # What is not
//
// Rows written while a check runs may be missed until the next one. A rule sees
// only what it reads: no report means that the rules hold, not that the store
// is whole; the engine checks its own file.
package invariant

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"onced/kv"
)

// MaxPerRule is the most violations reported per rule; more are only counted.
const MaxPerRule = 100

// Rule is something that is true of a store at every commit. Rules are values
// without state and safe for concurrent use.
type Rule struct {
	// Name is "package.rule", for example "feed.gapless".
	Name string
	// Why says what goes wrong for people when the rule is broken.
	Why string
	// Check yields what breaks the rule. An error means that the rule could not
	// be checked to its end; it ends the sequence. It must not write, and must
	// judge what belongs together in one View. See [Rows].
	Check func(ctx context.Context, s kv.Store) iter.Seq2[Violation, error]
}

// Violation is one broken rule at one place.
type Violation struct {
	// Rule is the rule's name. [Check] fills it in.
	Rule string
	// Subject names the row or thing, for example "feed.entry seq 12".
	Subject string
	// Detail says what is wrong. It never holds secrets or whole values.
	Detail string
}

// String is "rule: subject: detail".
func (v Violation) String() string { return v.Rule + ": " + v.Subject + ": " + v.Detail }

// Report is the result of a check.
type Report struct {
	// Rules is the number of rules that were checked to their end.
	Rules int
	// Violations lists at most MaxPerRule per rule, in the order of the rules.
	Violations []Violation
	// More counts, by rule, the violations beyond those listed.
	More map[string]int
}

// OK reports that no rule is broken. It says nothing of rules that could not
// be checked; those are the error of [Check].
func (r Report) OK() bool { return len(r.Violations) == 0 }

// Total is the number of violations, listed or not.
func (r Report) Total() int {
	n := len(r.Violations)
	for _, more := range r.More {
		n += more
	}
	return n
}

// String has one line per violation and "and N more" after a rule that has
// more of them than are listed.
func (r Report) String() string {
	if r.OK() {
		return fmt.Sprintf("%d rules hold", r.Rules)
	}
	var b strings.Builder
	for i, v := range r.Violations {
		fmt.Fprintln(&b, v)
		last := i == len(r.Violations)-1 || r.Violations[i+1].Rule != v.Rule
		if more := r.More[v.Rule]; last && more > 0 {
			fmt.Fprintf(&b, "%s: and %d more\n", v.Rule, more)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Check runs the rules one after the other. A rule that fails or panics does
// not keep the others from being checked; its error is in the joined error.
// The report is valid also beside an error. Check ends early when ctx ends.
func Check(ctx context.Context, s kv.Store, rules ...Rule) (Report, error) {
	rep := Report{More: map[string]int{}}
	var errs []error
	for _, rule := range rules {
		if err := ctx.Err(); err != nil {
			return rep, errors.Join(append(errs, err)...)
		}
		if err := rep.run(ctx, s, rule); err != nil {
			errs = append(errs, fmt.Errorf("invariant: rule %s: %w", rule.Name, err))
			continue
		}
		rep.Rules++
	}
	return rep, errors.Join(errs...)
}

func (r *Report) run(ctx context.Context, s kv.Store, rule Rule) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the check panicked: %v", p)
		}
	}()
	listed := 0
	for v, err := range rule.Check(ctx, s) {
		if err != nil {
			return err
		}
		if listed++; listed > MaxPerRule {
			r.More[rule.Name]++
			continue
		}
		v.Rule = rule.Name
		r.Violations = append(r.Violations, v)
	}
	return nil
}
