package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrInvalid is what [Error] unwraps to.
var ErrInvalid = errors.New("config: invalid configuration")

// Kind says where a value comes from.
type Kind string

// The sources of a value, from the weakest to the strongest.
const (
	FromDefault Kind = "default" // nothing was said
	FromFile    Kind = "file"    // the configuration file
	FromEnv     Kind = "env"     // a variable of the environment
	FromFlag    Kind = "flag"    // an argument
)

// Origin is where a value comes from.
type Origin struct {
	Kind Kind
	// Name is the file, the variable or the flag.
	Name string
	// Line and Column count from 1 in a file, and are 0 elsewhere.
	Line, Column int
	// Via is the file or the variable that a secret was read from.
	Via string
}

// String returns the origin as it stands before a problem: onced.yaml:3:5.
func (o Origin) String() string {
	s := o.Name
	switch {
	case o.Kind == FromFlag:
		s = "--" + o.Name
	case o.Kind == FromDefault || o.Kind == "":
		s = "default"
	case o.Line > 0:
		s += ":" + strconv.Itoa(o.Line) + ":" + strconv.Itoa(o.Column)
	}
	if o.Via != "" {
		s += " (" + o.Via + ")"
	}
	return s
}

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	Origin Origin
	// Key is the path of the key: routes[0].upstream. It is empty when the file
	// as a whole cannot be read.
	Key string
	// Value is what is there, empty for secrets and when the key itself is wrong.
	Value string
	// Text says what is wrong: "is not a duration".
	Text string
	// Allowed says what may be there, and Remedy what to do; either may be empty.
	Allowed, Remedy string
}

// String returns the problem in one line.
func (p Problem) String() string {
	var b strings.Builder
	if o := p.Origin.String(); o != "" {
		b.WriteString(o + ": ")
	}
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	if p.Value != "" {
		b.WriteString(quote(p.Value) + " ")
	}
	b.WriteString(p.Text)
	if p.Allowed != "" {
		b.WriteString("; allowed: " + p.Allowed)
	}
	if p.Remedy != "" {
		b.WriteString("; " + p.Remedy)
	}
	return b.String()
}

// quote returns text on one line, shortened.
func quote(text string) string {
	const most = 60
	if r := []rune(text); len(r) > most {
		text = string(r[:most]) + "…"
	}
	return strconv.Quote(text)
}

// Error are all problems of a configuration, in the order of the file.
type Error struct{ Problems []Problem }

// Error returns one line for each problem.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns [ErrInvalid].
func (e *Error) Unwrap() error { return ErrInvalid }

// problemList collects problems.
type problemList []Problem

// err returns the problems as one error, those of the file first and by line.
func (l problemList) err() error {
	if len(l) == 0 {
		return nil
	}
	sorted := slices.Clone(l)
	slices.SortStableFunc(sorted, func(a, b Problem) int {
		if a.Origin.Line != b.Origin.Line {
			return place(a.Origin) - place(b.Origin)
		}
		return a.Origin.Column - b.Origin.Column
	})
	return &Error{Problems: sorted}
}

func place(o Origin) int {
	if o.Kind == FromFile {
		return o.Line
	}
	return 1 << 30
}

// nearest returns the name that differs least from what was written, or "" when
// none is near.
func nearest(written string, names []string) string {
	best, least := "", max(2, len(written)/3)+1
	for _, name := range names {
		if d := distance(written, name); d < least {
			best, least = name, d
		}
	}
	return best
}

// Nearest returns the name that a person who wrote written most likely meant, or
// "" when none is near.
func Nearest(written string, names []string) string { return nearest(written, names) }

// distance counts the letters that have to be added, taken away, changed or
// swapped with their neighbour.
func distance(a, b string) int {
	const most = 64 // long names are not mistyped short ones
	if len(a) > most || len(b) > most {
		return most
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// allowedText says what the schema allows.
func allowedText(minimum, maximum string) string {
	switch {
	case minimum != "" && maximum != "":
		return fmt.Sprintf("%s to %s", minimum, maximum)
	case minimum != "":
		return "at least " + minimum
	case maximum != "":
		return "at most " + maximum
	}
	return ""
}
