package definition

import (
	"errors"
	"fmt"
	"strings"

	"github.com/expr-lang/expr/ast"
)

func (c *compiler) unary(n *ast.UnaryNode) (evalFunc, *typ) {
	f, t := c.node(n.Node)
	switch n.Operator {
	case "!", "not":
		if !t.is(boolKind) || t.maybe {
			return c.fail(n, "%s of %s; it takes true or false", n.Operator, t.described())
		}
		return func(s *scope) (any, error) {
			v, err := boolOf(f, s)
			return !v, err
		}, boolType.with(false, t.secret)
	case "-":
		if !t.is(numberKind) || t.maybe {
			return c.fail(n, "- of %s; it takes a number", t.described())
		}
		return func(s *scope) (any, error) {
			v, err := f(s)
			if err != nil {
				return nil, err
			}
			return s.compute("*", v, jsonMinusOne)
		}, numberType.with(false, t.secret)
	}
	return c.fail(n, "the operator %s is not supported", n.Operator)
}

// described names a type, and that it may be missing.
func (t *typ) described() string {
	if t.maybe && t.kind != nilKind {
		return "what may be missing (put ?? and a value behind it)"
	}
	return t.kind.String()
}

func (c *compiler) binary(n *ast.BinaryNode) (evalFunc, *typ) {
	if n.Operator == "matches" {
		return c.matches(n)
	}
	a, at := c.node(n.Left)
	b, bt := c.node(n.Right)
	secret := at.secret || bt.secret
	switch n.Operator {
	case "??":
		t := either(at.with(false, at.secret), bt)
		if at.kind == nilKind {
			t = bt
		}
		return func(s *scope) (any, error) {
			if v, err := a(s); v != nil || err != nil {
				return v, err
			}
			return b(s)
		}, t.with(bt.maybe, secret)
	case "==", "!=":
		return c.equality(n, operand{a, at}, operand{b, bt})
	case "&&", "and", "||", "or":
		if problem := wrongOperand(at, bt, boolKind); problem != "" {
			return c.fail(n, "%s of %s; it takes true or false on both sides", n.Operator, problem)
		}
		return logic(n.Operator, a, b), boolType.with(false, secret)
	case "<", "<=", ">", ">=":
		return c.order(n, operand{a, at}, operand{b, bt})
	case "+":
		return c.plus(n, operand{a, at}, operand{b, bt})
	case "-", "*":
		if problem := wrongOperand(at, bt, numberKind); problem != "" {
			return c.fail(n, "%s of %s; it takes numbers%s", n.Operator, problem, amountHint(at, bt))
		}
		return both(a, b, func(s *scope, x, y any) (any, error) { return s.compute(n.Operator, x, y) }),
			numberType.with(false, secret)
	case "contains", "startsWith", "endsWith":
		if problem := wrongOperand(at, bt, stringKind); problem != "" {
			return c.fail(n, "%s of %s; it takes texts, and for lists there is in", n.Operator, problem)
		}
		return textOperator(n.Operator, a, b), boolType.with(false, secret)
	case "in":
		if !bt.is(listKind) && !bt.is(objectKind) || bt.maybe {
			return c.fail(n, "in %s; it takes a list or an object", bt.described())
		}
		return both(a, b, within), boolType.with(false, secret)
	case "/":
		return c.fail(n, "the operator / is not supported: its result may not be exact; write div(x, y, 2), "+
			"which has 2 digits behind the point")
	case "%", "**", "^":
		return c.fail(n, "the operator %s is not supported; let the callee do it", n.Operator)
	}
	return c.fail(n, "the operator %s is not supported", n.Operator)
}

// operand is one side of an operator.
type operand struct {
	eval evalFunc
	typ  *typ
}

// wrongOperand describes the side that cannot be of kind k.
func wrongOperand(a, b *typ, k kind) string {
	for _, t := range []*typ{a, b} {
		if !t.is(k) || t.maybe {
			return t.described()
		}
	}
	return ""
}

func amountHint(a, b *typ) string {
	if a.kind == stringKind || b.kind == stringKind {
		return "; decimal(x) makes one of a text"
	}
	return ""
}

// both computes both sides first.
func both(a, b evalFunc, f func(s *scope, x, y any) (any, error)) evalFunc {
	return func(s *scope) (any, error) {
		if err := s.spend(1); err != nil {
			return nil, err
		}
		x, err := a(s)
		if err != nil {
			return nil, err
		}
		y, err := b(s)
		if err != nil {
			return nil, err
		}
		return f(s, x, y)
	}
}

func logic(op string, a, b evalFunc) evalFunc {
	or := op == "||" || op == "or"
	return func(s *scope) (any, error) {
		v, err := boolOf(a, s)
		if err != nil || v == or {
			return v, err
		}
		return anyBool(boolOf(b, s))
	}
}

func anyBool(v bool, err error) (any, error) { return v, err }

// equality refuses to compare what is never equal.
func (c *compiler) equality(n *ast.BinaryNode, l, r operand) (evalFunc, *typ) {
	a, b, at, bt := l.eval, r.eval, l.typ, r.typ
	ok := at.kind == anyKind || bt.kind == anyKind || at.kind == bt.kind || at.kind == nilKind ||
		bt.kind == nilKind || at.amount && bt.kind == stringKind || bt.amount && at.kind == stringKind
	if !ok {
		return c.fail(n, "%s compares %s with %s, which are never equal", n.Operator, at.kind, bt.kind)
	}
	not := n.Operator == "!="
	return both(a, b, func(s *scope, x, y any) (any, error) {
		if err := s.spend(size(x) + size(y)); err != nil {
			return nil, err
		}
		return equal(x, y) != not, nil
	}), boolType.with(false, at.secret || bt.secret)
}

// size is the work of comparing a value. It stops at what is too much: a value can hold
// another one so often that it could never be walked over.
func size(v any) int {
	left := maxWork + 1
	weigh(v, &left)
	return maxWork + 1 - left
}

func weigh(v any, left *int) {
	if *left <= 0 {
		return
	}
	switch v := v.(type) {
	case []any:
		*left--
		for _, x := range v {
			weigh(x, left)
		}
	case map[string]any:
		*left--
		for _, x := range v {
			weigh(x, left)
		}
	case string:
		*left -= 1 + len(v)/1024
	default:
		*left--
	}
}

func (c *compiler) order(n *ast.BinaryNode, l, r operand) (evalFunc, *typ) {
	a, b, at, bt := l.eval, r.eval, l.typ, r.typ
	numbers, texts := at.is(numberKind) && bt.is(numberKind), at.is(stringKind) && bt.is(stringKind)
	if at.maybe || bt.maybe || !numbers && !texts {
		bad := at
		if !at.maybe && (at.is(numberKind) || at.is(stringKind)) {
			bad = bt
		}
		return c.fail(n, "%s of %s; it takes two numbers or two texts%s", n.Operator, bad.described(),
			amountHint(at, bt))
	}
	op := n.Operator
	return both(a, b, func(s *scope, x, y any) (any, error) {
		cmp, err := s.compare(x, y)
		if err != nil {
			return nil, err
		}
		switch op {
		case "<":
			return cmp < 0, nil
		case "<=":
			return cmp <= 0, nil
		case ">":
			return cmp > 0, nil
		default:
			return cmp >= 0, nil
		}
	}), boolType.with(false, at.secret || bt.secret)
}

// compare orders two numbers or two texts.
func (s *scope) compare(x, y any) (int, error) {
	if err := s.spend(1 + length(x, y)/64); err != nil {
		return 0, err
	}
	if a, ok := x.(string); ok {
		if b, ok := y.(string); ok {
			return strings.Compare(a, b), nil
		}
	}
	a, err := decimalOf(x)
	if err != nil {
		return 0, operandError("compares", x, err)
	}
	b, err := decimalOf(y)
	if err != nil {
		return 0, operandError("compares", y, err)
	}
	return a.cmp(b), nil
}

// operandError says what is wrong with a side of an operator.
func operandError(verb string, v any, err error) error {
	if errors.Is(err, errNumber) {
		return fmt.Errorf("%s what is %s", verb, kindOf(v))
	}
	return fmt.Errorf("has a number that %w", err)
}

// compute is arithmetic with an error that names the side at fault.
func (s *scope) compute(op string, x, y any) (any, error) {
	if err := s.spend(1 + length(x, y)/8); err != nil {
		return nil, err
	}
	for _, v := range []any{x, y} {
		if _, err := decimalOf(v); err != nil {
			return nil, operandError("computes with", v, err)
		}
	}
	return arithmetic(op, x, y)
}

// plus adds numbers and joins texts.
func (c *compiler) plus(n *ast.BinaryNode, l, r operand) (evalFunc, *typ) {
	a, b, at, bt := l.eval, r.eval, l.typ, r.typ
	secret := at.secret || bt.secret
	numbers, texts := at.is(numberKind) && bt.is(numberKind), at.is(stringKind) && bt.is(stringKind)
	t := anyType
	switch {
	case at.maybe || bt.maybe || !numbers && !texts:
		problem := wrongOperand(at, bt, stringKind)
		if wrongOperand(at, bt, numberKind) == "" || problem == "" {
			problem = at.kind.String() + " and " + bt.kind.String()
		}
		return c.fail(n, "+ of %s; it takes two numbers or two texts; \"a${x}b\" joins anything", problem)
	case !texts:
		t = numberType
	case !numbers:
		t = stringType
	}
	return both(a, b, func(s *scope, x, y any) (any, error) {
		if p, ok := x.(string); ok {
			if q, ok := y.(string); ok {
				return p + q, s.grow(len(p) + len(q))
			}
		}
		return s.compute("+", x, y)
	}), t.with(false, secret)
}

func textOperator(op string, a, b evalFunc) evalFunc {
	test := map[string]func(s, t string) bool{"contains": strings.Contains, "startsWith": strings.HasPrefix,
		"endsWith": strings.HasSuffix}[op]
	return both(a, b, func(s *scope, x, y any) (any, error) {
		p, ok := x.(string)
		q, ok2 := y.(string)
		if !ok {
			return nil, fmt.Errorf("has %s of what is %s", op, kindOf(x))
		}
		if !ok2 {
			return nil, fmt.Errorf("has %s of what is %s", op, kindOf(y))
		}
		return test(p, q), s.spend((len(p) + len(q)) / 1024)
	})
}

// within reports that a list has the item, or an object the field.
func within(s *scope, x, y any) (any, error) {
	switch c := y.(type) {
	case []any:
		for _, item := range c {
			if err := s.spend(1 + size(item)); err != nil {
				return nil, err
			}
			if equal(x, item) {
				return true, nil
			}
		}
		return false, nil
	case map[string]any:
		name, ok := x.(string)
		if !ok {
			return nil, fmt.Errorf("looks for %s in an object", kindOf(x))
		}
		_, there := c[name]
		return there, nil
	}
	return nil, fmt.Errorf("looks for something in what is %s", kindOf(y))
}
