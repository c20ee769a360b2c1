package definition

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
)

const jsonMinusOne = json.Number("-1")

// fn is a function of the language. Its parameters are of the given kinds.
type fn struct {
	params []kind
	result *typ
	call   func(s *scope, args []any) (any, error)
}

var plainFuncs = map[string]fn{
	"len": {[]kind{anyKind}, &typ{kind: numberKind, whole: true}, callLen},
	"lower": {[]kind{stringKind}, stringType, func(_ *scope, a []any) (any, error) {
		return strings.ToLower(a[0].(string)), nil
	}},
	"upper": {[]kind{stringKind}, stringType, func(_ *scope, a []any) (any, error) {
		return strings.ToUpper(a[0].(string)), nil
	}},
	"trim": {[]kind{stringKind}, stringType, func(_ *scope, a []any) (any, error) {
		return strings.TrimSpace(a[0].(string)), nil
	}},
	"split": {[]kind{stringKind, stringKind}, listType, callSplit},
	"join":  {[]kind{listKind, stringKind}, stringType, callJoin},
	"base64": {[]kind{stringKind}, stringType, func(s *scope, a []any) (any, error) {
		return base64.StdEncoding.EncodeToString([]byte(a[0].(string))), nil
	}},
	"string":  {[]kind{anyKind}, stringType, func(_ *scope, a []any) (any, error) { return textOf(a[0]) }},
	"decimal": {[]kind{anyKind}, &typ{kind: numberKind, amount: true}, callDecimal},
	"number":  {[]kind{anyKind}, numberType, callNumber},
	"sum":     {[]kind{listKind}, numberType, callSum},
	"min":     {[]kind{numberKind, numberKind}, numberType, callMin},
	"max":     {[]kind{numberKind, numberKind}, numberType, callMax},
}

// predicateFuncs look at each item of a list.
var predicateFuncs = map[string]*typ{"filter": listType, "map": listType, "all": boolType, "any": boolType,
	"none": boolType, "one": boolType, "count": numberType, "find": anyType}

func functionNames() []string {
	return slices.Concat(sortedKeys(plainFuncs), sortedKeys(rounders), sortedKeys(predicateFuncs))
}

func (c *compiler) function(n ast.Node, name string, args []ast.Node) (evalFunc, *typ) {
	if result, ok := predicateFuncs[name]; ok {
		return c.predicate(n, name, args, result)
	}
	if rounders[name] > 0 {
		return c.rounder(n, name, args)
	}
	f, ok := plainFuncs[name]
	if !ok {
		return c.fail(n, "there is no function %s%s; functions are %s", name,
			didYouMean(name, functionNames()), list(functionNames()))
	}
	if len(args) != len(f.params) {
		return c.fail(n, "%s takes %d values, here are %d", name, len(f.params), len(args))
	}
	evals, secret := make([]evalFunc, len(args)), false
	for i, a := range args {
		var t *typ
		evals[i], t = c.node(a)
		if t.maybe || f.params[i] != anyKind && !t.is(f.params[i]) {
			return c.fail(a, "%s of %s; it takes %s", name, t.described(), f.params[i])
		}
		secret = secret || t.secret
	}
	return func(s *scope) (any, error) {
		values := make([]any, len(evals))
		for i, e := range evals {
			v, err := e(s)
			if err != nil {
				return nil, err
			}
			if got := kindOfValue(v); v == nil || f.params[i] != anyKind && got != f.params[i] {
				return nil, fmt.Errorf("has %s of what is %s", name, kindOf(v))
			}
			values[i] = v
		}
		if err := s.spend(1 + length(values...)/64); err != nil {
			return nil, err
		}
		v, err := f.call(s, values)
		if text, ok := v.(string); ok && err == nil {
			err = s.grow(len(text))
		}
		return v, err
	}, f.result.with(false, secret)
}

// length is how long the texts and numbers are, in bytes.
func length(values ...any) (n int) {
	for _, v := range values {
		switch v := v.(type) {
		case string:
			n += len(v)
		case json.Number:
			n += len(v)
		case quoted:
			n += len(v)
		}
	}
	return n
}

func callLen(_ *scope, a []any) (any, error) {
	var n int
	switch v := a[0].(type) {
	case string:
		n = utf8.RuneCountInString(v)
	case []any:
		n = len(v)
	case map[string]any:
		n = len(v)
	default:
		return nil, fmt.Errorf("has len of what is %s", kindOf(v))
	}
	return json.Number(strconv.Itoa(n)), nil
}

func callSplit(s *scope, a []any) (any, error) {
	parts := strings.Split(a[0].(string), a[1].(string))
	out := make([]any, len(parts))
	for i, p := range parts {
		out[i] = p
	}
	return out, s.grow(16 * len(out))
}

func callJoin(s *scope, a []any) (any, error) {
	items := a[0].([]any)
	parts := make([]string, len(items))
	for i, item := range items {
		text, err := textOf(item)
		if err != nil {
			return nil, fmt.Errorf("has join of an item that %w", err)
		}
		parts[i] = text
		if err := s.spend(1); err != nil {
			return nil, err
		}
		if err := s.grow(len(text) + len(a[1].(string))); err != nil {
			return nil, err
		}
	}
	return strings.Join(parts, a[1].(string)), nil
}

// callDecimal makes a number that is written as text again.
func callDecimal(_ *scope, a []any) (any, error) {
	text, err := textOf(a[0])
	if err != nil || !plainDecimal(text) {
		return nil, fmt.Errorf("has decimal of what is no decimal, such as 12.50")
	}
	return quoted(text), nil
}

// callNumber makes a number that is written without quotes.
func callNumber(_ *scope, a []any) (any, error) {
	text, err := textOf(a[0])
	if err != nil || !isNumber(text) {
		return nil, fmt.Errorf("has number of what is no number")
	}
	return json.Number(text), nil
}

func callSum(s *scope, a []any) (any, error) {
	var total any = json.Number("0")
	for _, item := range a[0].([]any) {
		next, err := s.compute("+", total, item)
		if err != nil {
			return nil, err
		}
		total = next
	}
	return total, nil
}

func callMin(s *scope, a []any) (any, error) { return pick(s, a, -1) }

func callMax(s *scope, a []any) (any, error) { return pick(s, a, 1) }

// pick returns the smaller (-1) or the larger (1) of two numbers.
func pick(s *scope, a []any, sign int) (any, error) {
	cmp, err := s.compare(a[0], a[1])
	if err != nil {
		return nil, err
	}
	if cmp*sign >= 0 {
		return a[0], nil
	}
	return a[1], nil
}

func (c *compiler) predicate(n ast.Node, name string, args []ast.Node, result *typ) (evalFunc, *typ) {
	if len(args) != 2 {
		return c.fail(n, "%s takes a list and what to look for: %s(list, # > 1)", name, name)
	}
	of, t := c.node(args[0])
	if !t.is(listKind) || t.maybe {
		return c.fail(args[0], "%s of %s; it takes a list", name, t.described())
	}
	p, ok := args[1].(*ast.PredicateNode)
	if !ok {
		return c.fail(args[1], "%s takes what to look for as # > 1 or .field == 1", name)
	}
	c.items = append(c.items, anyType.with(false, t.secret))
	test, pt := c.node(p.Node)
	c.items = c.items[:len(c.items)-1]
	if name != "map" && !pt.is(boolKind) {
		return c.fail(p, "is %s; what %s looks for is true or false", pt.kind, name)
	}
	loop := loops[name]
	return func(s *scope) (any, error) {
		v, err := of(s)
		if err != nil {
			return nil, err
		}
		items, ok := v.([]any)
		if !ok {
			return nil, fmt.Errorf("has %s of what is %s", name, kindOf(v))
		}
		s.frames = append(s.frames, frame{})
		defer func() { s.frames = s.frames[:len(s.frames)-1] }()
		return loop(s, items, test)
	}, result.with(name == "find", t.secret || pt.secret)
}
