package definition

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrInvalid is the class of [Problems], for errors.Is.
var ErrInvalid = errors.New("definition: invalid")

// Problem is one thing that is wrong with a document.
type Problem struct {
	// File is the name that Options gave, or empty.
	File string `json:"-"`
	// Line and Column count from 1, columns in characters. They point to the value or
	// the name at fault, inside an expression to the part of it. 0 means the whole.
	Line   int `json:"line"`
	Column int `json:"column"`
	// Field is the path of the field: steps[1].call.url.
	Field string `json:"field"`
	// Message says what is wrong and what to do. It shows no value of a secret.
	Message string `json:"message"`
}

// String returns the problem in one line: checkout.yaml:7:5: steps[0].undo: …
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File + ":")
	}
	if p.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", p.Line, p.Column)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	if p.Field != "" {
		b.WriteString(p.Field + ": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Problems are all that is wrong with a document, in the order of the text. As an
// error they are of the class [ErrInvalid].
type Problems []Problem

// Error returns one line for each problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, x := range p {
		lines[i] = x.String()
	}
	return strings.Join(lines, "\n")
}

// Is reports that target is [ErrInvalid].
func (p Problems) Is(target error) bool { return target == ErrInvalid }

// Err returns the problems as an error, nil when there are none.
func (p Problems) Err() error {
	if len(p) == 0 {
		return nil
	}
	return p
}

// sorted puts them in the order of the text.
func (p Problems) sorted() Problems {
	slices.SortStableFunc(p, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return p
}
