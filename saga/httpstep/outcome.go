package httpstep

import (
	"fmt"

	"onced/saga"
	"onced/saga/idemhttp"
)

// Meaning is what a reply says of the effect.
type Meaning uint8

// The meanings. The zero value is the one that claims least.
const (
	// Unknown: the effect may have happened.
	Unknown Meaning = iota
	// Done: the effect happened.
	Done
	// Refused: it did not happen and will not. See saga.Refused.
	Refused
	// Retry: it did not happen; asking again may help. See saga.RetryAfter, and
	// saga.Blocked where our credentials are why.
	Retry
	// Unfinished: it may happen, or is under way; asking again tells. To the engine it
	// is unknown, with a hint when to ask. See saga.Unfinished.
	Unfinished
)

var meaningNames = [...]string{"unknown", "done", "refused", "retry", "unfinished"}

// String returns the name; the names are a closed set.
func (m Meaning) String() string {
	if int(m) < len(meaningNames) {
		return meaningNames[m]
	}
	return meaningNames[Unknown]
}

// Outcomes say what a status means. A status that none of the lists has is unknown.
// The zero value knows no status; begin with [DefaultOutcomes] or [AwaitOutcomes].
type Outcomes struct{ Done, Refused, Retry, Unfinished Statuses }

// DefaultOutcomes are those of the package comment. What is done and refused is what
// package idemhttp takes it for, so that both ends of a call agree.
func DefaultOutcomes() Outcomes {
	var o Outcomes
	for status := firstStatus; status <= lastStatus; status++ {
		switch {
		case status == 202 || status == 409 || status == 425:
			o.Unfinished.set(status)
		case idemhttp.ClassOf(status) == saga.OutcomeDone:
			o.Done.set(status)
		case idemhttp.ClassOf(status) == saga.OutcomeRefused:
			o.Refused.set(status)
		case idemhttp.ClassOf(status) == saga.OutcomeRetry:
			o.Retry.set(status)
		}
	}
	return o
}

// AwaitOutcomes are those of a step that a signal finishes: as [DefaultOutcomes], but
// 202 is done, for the callee has taken the step on.
func AwaitOutcomes() Outcomes {
	o := DefaultOutcomes()
	accepted, _ := ParseStatuses("202") // it is one
	o.Unfinished = o.Unfinished.Without(accepted)
	o.Done.set(202)
	return o
}

// Of returns what a status means.
func (o *Outcomes) Of(status int) Meaning {
	switch {
	case o.Done.Has(status):
		return Done
	case o.Refused.Has(status):
		return Refused
	case o.Retry.Has(status):
		return Retry
	case o.Unfinished.Has(status):
		return Unfinished
	}
	return Unknown
}

// Lists are the lists that a definition writes; nil is one that it does not write.
type Lists struct{ Done, Refused, Retry, Unfinished, Unknown *Statuses }

// OutcomesError is a list that cannot be.
type OutcomesError struct {
	// List is "done", "refused", "retry" or "unfinished", Problem what is wrong with it.
	List, Problem string
}

// Error names the list and the problem.
func (e *OutcomesError) Error() string { return "outcomes." + e.List + ": " + e.Problem }

// With replaces the lists that are written. Their statuses are taken out of those that
// are not, so that who writes 409 under refused need not say what else it is not;
// statuses of Unknown are taken out of all. A status in two written lists, and done
// without any status, is an *[OutcomesError].
func (o Outcomes) With(l Lists) (Outcomes, error) {
	lists := []struct {
		name    string
		list    *Statuses
		written *Statuses
	}{
		{"done", &o.Done, l.Done}, {"refused", &o.Refused, l.Refused}, {"retry", &o.Retry, l.Retry},
		{"unfinished", &o.Unfinished, l.Unfinished},
	}
	var taken Statuses // by lists that are written
	for _, x := range lists {
		if x.written == nil {
			continue
		}
		*x.list = *x.written
		if l.Unknown != nil {
			*x.list = x.list.Without(*l.Unknown)
		}
		for status := firstStatus; status <= lastStatus; status++ {
			if !x.list.Has(status) {
				continue
			}
			if taken.Has(status) {
				return Outcomes{}, &OutcomesError{x.name, fmt.Sprintf(
					"has %d, which another list has too; a status means one thing", status)}
			}
			taken.set(status)
		}
	}
	for _, x := range lists {
		if x.written != nil {
			continue
		}
		*x.list = x.list.Without(taken)
		if l.Unknown != nil {
			*x.list = x.list.Without(*l.Unknown)
		}
	}
	if o.Done.Empty() {
		return Outcomes{}, &OutcomesError{"done", "is empty; the call could never succeed; name a status"}
	}
	return o, nil
}
