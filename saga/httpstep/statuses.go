package httpstep

import (
	"fmt"
	"strconv"
	"strings"
)

// The statuses that a set can hold.
const (
	firstStatus = 100
	lastStatus  = 599
)

// Statuses is a set of HTTP statuses from 100 to 599. The zero value is empty. Sets
// are values: they are compared with == and never change.
type Statuses struct {
	bits [(lastStatus-firstStatus)/64 + 1]uint64
}

// StatusForms are examples of what a set is written with, for messages.
const StatusForms = "200 to 599, 2xx, 402-405"

// StatusError is a text that is no set of statuses.
type StatusError struct{ Text string }

// Error says what may be written.
func (e *StatusError) Error() string {
	return fmt.Sprintf("%q is not a status, a class of them or a range; allowed: %s", e.Text, StatusForms)
}

// ParseStatuses returns the set of all that is written: "404", "2xx", "402-405", and
// several with commas. The only error is *[StatusError]. Statuses below 200 are no
// final answers and cannot be written.
func ParseStatuses(texts ...string) (Statuses, error) {
	var s Statuses
	for _, text := range texts {
		for part := range strings.SplitSeq(text, ",") {
			part = strings.TrimSpace(part)
			from, to, ok := statusRange(part)
			if !ok {
				return Statuses{}, &StatusError{Text: part}
			}
			for status := from; status <= to; status++ {
				s.set(status)
			}
		}
	}
	return s, nil
}

func statusRange(text string) (first, last int, ok bool) {
	from, to, isRange := strings.Cut(text, "-")
	if class, is := strings.CutSuffix(strings.ToLower(text), "xx"); is {
		from, to, isRange = class+"00", class+"99", true
	}
	if !isRange {
		to = from
	}
	a, errA := strconv.ParseUint(from, 10, 16)
	b, errB := strconv.ParseUint(to, 10, 16)
	if errA != nil || errB != nil || len(from) != 3 || len(to) != 3 || a < 200 || b > lastStatus || a > b {
		return 0, 0, false
	}
	return int(a), int(b), true
}

func (s *Statuses) set(status int) {
	i := status - firstStatus
	s.bits[i/64] |= 1 << (i % 64)
}

// Has reports whether the set has the status; one outside 100 to 599 it never has.
func (s Statuses) Has(status int) bool {
	i := status - firstStatus
	return i >= 0 && status <= lastStatus && s.bits[i/64]&(1<<(i%64)) != 0
}

// Empty reports that the set has none.
func (s Statuses) Empty() bool { return s == Statuses{} }

// With returns the set with those of other too.
func (s Statuses) With(other Statuses) Statuses {
	for i := range s.bits {
		s.bits[i] |= other.bits[i]
	}
	return s
}

// Without returns the set without those of other.
func (s Statuses) Without(other Statuses) Statuses {
	for i := range s.bits {
		s.bits[i] &^= other.bits[i]
	}
	return s
}

// String returns the set as it is written: "2xx,402-405,409".
func (s Statuses) String() string {
	var parts []string
	for from := firstStatus; from <= lastStatus; from++ {
		if !s.Has(from) {
			continue
		}
		to := from
		for s.Has(to + 1) {
			if to%100 == 99 && from%100 == 0 {
				break // a whole class is written as one
			}
			to++
		}
		switch {
		case from == to:
			parts = append(parts, strconv.Itoa(from))
		case from%100 == 0 && to == from+99:
			parts = append(parts, strconv.Itoa(from/100)+"xx")
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", from, to))
		}
		from = to
	}
	return strings.Join(parts, ",")
}
