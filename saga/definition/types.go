package definition

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// kind is what is known of a value before it is there.
type kind uint8

const (
	anyKind kind = iota // nothing
	nilKind
	boolKind
	numberKind
	stringKind
	listKind
	objectKind
)

var kindNames = [...]string{"anything", "nil", "true or false", "a number", "text", "a list", "an object"}

// String names the kind for people.
func (k kind) String() string { return kindNames[k] }

// typ is the type of an expression.
type typ struct {
	kind   kind
	whole  bool // a number without a fraction
	amount bool // a number that may come as text, see quoted
	maybe  bool // it may be missing
	// fields are those of an object that has no others; nil means that they are not known.
	fields map[string]*typ
	secret bool // made of a secret
}

var (
	anyType    = &typ{}
	nilType    = &typ{kind: nilKind, maybe: true}
	boolType   = &typ{kind: boolKind}
	numberType = &typ{kind: numberKind}
	stringType = &typ{kind: stringKind}
	listType   = &typ{kind: listKind}
)

// with returns t that may be missing, or is made of a secret, when those it comes from are.
func (t *typ) with(maybe, secret bool) *typ {
	if t.maybe == maybe && t.secret == secret {
		return t
	}
	c := *t
	c.maybe, c.secret = maybe, secret
	return &c
}

// is reports that a value of t can be of kind k.
func (t *typ) is(k kind) bool { return t.kind == anyKind || t.kind == k }

// inputTypes are the names of types in the declaration of an input.
var inputTypes = map[string]typ{
	"string":  {kind: stringKind},
	"int":     {kind: numberKind, whole: true},
	"decimal": {kind: numberKind, amount: true},
	"bool":    {kind: boolKind},
	"object":  {kind: objectKind},
	"list":    {kind: listKind},
	"any":     {},
}

// parseType reads a type of the declaration of an input.
func parseType(s string) (*typ, error) {
	name, maybe := strings.CutSuffix(s, "?")
	t, ok := inputTypes[name]
	if !ok {
		names := sortedKeys(inputTypes)
		return nil, fmt.Errorf("%q is no type%s; types are %s, each with a ? behind it when it may be "+
			"missing",
			s, didYouMean(strings.ToLower(name), names), strings.Join(names, ", "))
	}
	t.maybe = maybe
	return &t, nil
}

// fits checks a value of the input. It returns what is wrong with it, or nothing.
func (t *typ) fits(v any) (problem string) {
	if v == nil {
		if t.maybe || t.kind == anyKind {
			return ""
		}
		return "is missing; it is " + t.kind.String()
	}
	switch n := v.(type) {
	case json.Number:
		if t.kind == numberKind {
			return t.numberProblem(string(n))
		}
	case string:
		if t.amount {
			if !plainDecimal(n) {
				return "is no decimal; write it as 12.50 or \"12.50\""
			}
			return t.numberProblem(n)
		}
	}
	if got := kindOfValue(v); !t.is(got) {
		return fmt.Sprintf("is %s; it must be %s", got, t.want())
	}
	return ""
}

// misfit is what is wrong with a part of a value.
type misfit struct{ field, problem string }

// misfits checks a value of the input and, when that is an object whose fields are
// declared, each of them.
func (t *typ) misfits(v any, field string) (out []misfit) {
	if problem := t.fits(v); problem != "" {
		return []misfit{{field, problem}}
	}
	m, ok := v.(map[string]any)
	if !ok || t.fields == nil || t.hold(m) {
		return nil
	}
	names := sortedKeys(t.fields)
	for _, name := range names {
		out = append(out, t.fields[name].misfits(m[name], join(field, name))...)
	}
	for _, name := range sortedKeys(m) {
		if !slices.Contains(names, name) {
			out = append(out, misfit{join(field, name), "is not declared" + didYouMean(name, names) +
				"; the definition declares " + list(names)})
		}
	}
	return out
}

// hold reports that each of the declared fields fits, and that there are no others; where
// it is false misfits has yet to look.
func (t *typ) hold(m map[string]any) bool {
	for name, f := range t.fields {
		if f.fields != nil || f.fits(m[name]) != "" {
			return false
		}
	}
	for name := range m {
		if t.fields[name] == nil {
			return false
		}
	}
	return true
}

func (t *typ) want() string {
	switch {
	case t.whole:
		return "a whole number"
	case t.amount:
		return "a decimal, as a number or as text"
	}
	return t.kind.String()
}

func (t *typ) numberProblem(n string) string {
	switch {
	case t.whole && !plainWhole(n):
		return "is no whole number; write it as 12"
	case t.amount && !plainDecimal(n):
		return "is no decimal without an exponent; write it as 12.50"
	case len(n) > maxDigits:
		return fmt.Sprintf("has more than %d digits", maxDigits)
	}
	return ""
}

func plainWhole(s string) bool { return plainDecimal(s) && !strings.Contains(s, ".") }

// kindOfValue is the kind of a value that is there.
func kindOfValue(v any) kind {
	switch v.(type) {
	case nil:
		return nilKind
	case bool:
		return boolKind
	case json.Number, quoted:
		return numberKind
	case string:
		return stringKind
	case []any:
		return listKind
	}
	return objectKind
}

func list(names []string) string {
	const most = 30
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > most:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
