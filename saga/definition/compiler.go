package definition

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// compiler turns the tree of one expression into functions. The parser and its tree are
// those of the expression language; what a value is and what operators do is ours: exact
// numbers, missing fields that are nil, no clock and no chance.
type compiler struct {
	env      *env
	source   []rune
	items    []*typ // the elements that predicates around look at
	problems []problemAt
}

func (c *compiler) fail(n ast.Node, format string, args ...any) (evalFunc, *typ) {
	at := 0
	if n != nil {
		at = n.Location().From
	}
	c.problems = append(c.problems, problemAt{at, fmt.Sprintf(format, args...)})
	return func(*scope) (any, error) { return nil, errors.New("is wrong") }, anyType
}

func constant(v any, t *typ) (evalFunc, *typ) {
	return func(*scope) (any, error) { return v, nil }, t
}

func (c *compiler) node(n ast.Node) (evalFunc, *typ) {
	switch n := n.(type) {
	case *ast.NilNode:
		return constant(nil, nilType)
	case *ast.BoolNode:
		return constant(n.Value, boolType)
	case *ast.StringNode:
		return constant(n.Value, stringType)
	case *ast.IntegerNode:
		return constant(json.Number(strconv.Itoa(n.Value)), numberType)
	case *ast.FloatNode:
		return c.float(n)
	case *ast.IdentifierNode:
		return c.root(n)
	case *ast.MemberNode:
		return c.member(n)
	case *ast.ChainNode: // a missing field is nil anyway
		return c.node(n.Node)
	case *ast.UnaryNode:
		return c.unary(n)
	case *ast.BinaryNode:
		return c.binary(n)
	case *ast.ConditionalNode:
		return c.conditional(n)
	case *ast.ArrayNode:
		return c.array(n)
	case *ast.MapNode:
		return c.object(n)
	case *ast.PointerNode:
		return c.pointer(n)
	case *ast.BuiltinNode:
		return c.function(n, n.Name, n.Arguments)
	case *ast.CallNode:
		if name, ok := n.Callee.(*ast.IdentifierNode); ok {
			return c.function(n, name.Value, n.Arguments)
		}
		return c.fail(n, "values have no methods; functions are %s", list(functionNames()))
	case nil:
		return c.fail(nil, "is not complete")
	}
	return c.fail(n, "uses a form that is not supported here; there are operators, ?:, ??, lists, objects "+
		"and "+
		"the functions %s", list(functionNames()))
}

// float takes a number as it is written, for a float may not hold it.
func (c *compiler) float(n *ast.FloatNode) (evalFunc, *typ) {
	from, to := n.Location().From, n.Location().To
	if from < 0 || to > len(c.source) || from > to || !isNumber(string(c.source[from:to])) {
		return c.fail(n, "has a number that JSON does not write so; write 0.5 or 1e3")
	}
	return constant(json.Number(string(c.source[from:to])), numberType)
}

// root is a name by itself.
func (c *compiler) root(n *ast.IdentifierNode) (evalFunc, *typ) {
	e := c.env
	switch {
	case n.Value == "input" && e.input != nil:
		return (*scope).inputValue, e.input
	case n.Value == "output" && e.output != nil:
		return func(s *scope) (any, error) { return s.value(kept{step: s.call.Step}) }, e.output
	case n.Value == "reply" && e.reply:
		return c.fail(n, "reply stands for nothing by itself; write reply.status, reply.headers, "+
			"reply.body or "+
			"reply.text")
	case n.Value == "signal" && e.signal:
		return func(s *scope) (any, error) { return s.signal, nil }, signalType
	case n.Value == "key" && e.key:
		return func(s *scope) (any, error) { return s.call.DownstreamKey, nil }, stringType
	case n.Value == "action_key" && e.key:
		return func(s *scope) (any, error) { return s.call.ActionKey, nil }, stringType
	case n.Value == "callback_url" && e.callback:
		if e.notifies != nil {
			*e.notifies = true
		}
		return (*scope).callbackValue, stringType
	case n.Value == "steps" && e.steps != nil:
		return c.fail(n, "steps stands for nothing by itself; write steps.<name>.output")
	case n.Value == "secrets" && e.noSecrets == "":
		return c.fail(n, "secrets stands for nothing by itself; write secrets.<name>")
	case n.Value == "run" && e.run:
		return c.fail(n, "run stands for nothing by itself; write run.id, run.key, run.round, "+
			"run.definition "+
			"or run.version")
	}
	return c.fail(n, "%s %s", n.Value, e.unknown(n.Value))
}

// named returns the name of a property, if it is written down.
func named(n ast.Node) (string, bool) {
	s, ok := n.(*ast.StringNode)
	if !ok {
		return "", false
	}
	return s.Value, true
}

// rootOf returns the name that a member is of, if it is of one.
func rootOf(n ast.Node) string {
	if chain, ok := n.(*ast.ChainNode); ok {
		n = chain.Node
	}
	if id, ok := n.(*ast.IdentifierNode); ok {
		return id.Value
	}
	return ""
}

func (c *compiler) member(n *ast.MemberNode) (evalFunc, *typ) {
	if n.Method {
		return c.fail(n, "values have no methods; functions are %s", list(functionNames()))
	}
	name, isName := named(n.Property)
	switch root := rootOf(n.Node); {
	case root == "secrets" && c.env.noSecrets == "":
		return c.secret(n, name, isName)
	case root == "run" && c.env.run:
		t := runFields[name]
		if t == nil {
			return c.fail(n.Property, "run.%s is not known%s; there are %s", name,
				didYouMean(name, sortedKeys(runFields)), list(sortedKeys(runFields)))
		}
		if c.env.named != nil && (name == "id" || name == "key") {
			*c.env.named = true
		}
		return func(s *scope) (any, error) { return s.runField(name), nil }, t
	case root == "steps" && c.env.steps != nil:
		return c.stepAlone(n, name, isName)
	}
	if isName && c.env.reply && rootOf(n.Node) == "reply" {
		return c.replyPart(n, name)
	}
	if inner, ok := n.Node.(*ast.MemberNode); ok && rootOf(inner.Node) == "steps" && c.env.steps != nil {
		if step, ok := named(inner.Property); ok {
			return c.ofStep(n, inner, step, name)
		}
	}
	return c.field(n, name, isName)
}

func (c *compiler) secret(n *ast.MemberNode, name string, isName bool) (evalFunc, *typ) {
	if !isName {
		return c.fail(n, "a secret is named as it is: secrets.<name>")
	}
	if known := c.env.secrets; known != nil && !slices.Contains(known, name) {
		return c.fail(n.Property, "secrets.%s is not known%s; the configuration has %s", name,
			didYouMean(name, known), list(known))
	}
	c.env.used[name] = true
	return func(s *scope) (any, error) { return s.secretValue(name) }, stringType.with(false, true)
}

func (c *compiler) stepAlone(n *ast.MemberNode, name string, isName bool) (evalFunc, *typ) {
	if !isName {
		return c.fail(n, "a step is named as it is: steps.<name>.output")
	}
	if _, problem := c.env.step(name); problem != "" {
		return c.fail(n.Property, "steps.%s %s", name, problem)
	}
	return c.fail(n.Property, "steps.%s stands for nothing by itself; write steps.%s.output", name, name)
}

// ofStep is what a step gave, or what came with its signal.
func (c *compiler) ofStep(n, inner *ast.MemberNode, step, what string) (evalFunc, *typ) {
	s, problem := c.env.step(step)
	switch {
	case problem != "":
		return c.fail(inner.Property, "steps.%s %s", step, problem)
	case what == "output":
		return func(sc *scope) (any, error) { return sc.value(kept{step: step}) }, s.output
	case what == "signal" && s.signal:
		return func(sc *scope) (any, error) { return sc.value(kept{step, true}) },
			s.came.with(true, s.came.secret)
	case what == "signal":
		return c.fail(n.Property, "step %s has no await, so it gets no signal", step)
	}
	return c.fail(n.Property, "steps.%s.%s is not known%s; there are output and signal", step, what,
		didYouMean(what, []string{"output", "signal"}))
}

// field is a field of an object or an item of a list.
func (c *compiler) field(n *ast.MemberNode, name string, isName bool) (evalFunc, *typ) {
	of, t := c.node(n.Node)
	if isName {
		return c.namedField(n, name, of, t)
	}
	index, it := c.node(n.Property)
	if t.kind != anyKind && t.kind != listKind && t.kind != objectKind {
		return c.fail(n, "%s has no items", t.kind)
	}
	if it.kind != anyKind && it.kind != numberKind && it.kind != stringKind {
		return c.fail(n.Property, "is %s; an index is a number or text", it.kind)
	}
	return func(s *scope) (any, error) {
		v, err := of(s)
		if err != nil {
			return nil, err
		}
		i, err := index(s)
		if err != nil {
			return nil, err
		}
		return itemOf(v, i)
	}, anyType.with(t.maybe, t.secret)
}

func (c *compiler) namedField(n *ast.MemberNode, name string, of evalFunc, t *typ) (evalFunc, *typ) {
	ft := anyType
	if t == headersType {
		name, ft = strings.ToLower(name), stringType
	}
	switch {
	case t.kind != anyKind && t.kind != objectKind:
		return c.fail(n.Property, "%s is a field of %s, which has none", name, t.kind)
	case t.fields != nil && t.fields[name] == nil:
		names := sortedKeys(t.fields)
		return c.fail(n.Property, "%s is not known%s; there are %s", name, didYouMean(name, names),
			list(names))
	case t.fields != nil:
		ft = t.fields[name]
	}
	amount := ft.amount
	return func(s *scope) (any, error) {
		if err := s.spend(1); err != nil {
			return nil, err
		}
		v, err := of(s)
		if err != nil {
			return nil, err
		}
		f, err := fieldOf(v, name)
		if text, ok := f.(string); ok && amount && plainDecimal(text) {
			return quoted(text), err
		}
		return f, err
	}, ft.with(ft.maybe || t.maybe, ft.secret || t.secret)
}

// replyPart is a part of a reply.
func (c *compiler) replyPart(n *ast.MemberNode, name string) (evalFunc, *typ) {
	t := replyType.fields[name]
	if t == nil {
		names := sortedKeys(replyType.fields)
		return c.fail(n.Property, "reply.%s is not known%s; there are %s", name, didYouMean(name, names),
			list(names))
	}
	return func(s *scope) (any, error) { return s.reply.part(name) }, t
}

// fieldOf reads a field; what is not there is nil.
func fieldOf(v any, name string) (any, error) {
	switch m := v.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return m[name], nil
	}
	return nil, fmt.Errorf("reads the field %s of %s", name, kindOf(v))
}

// itemOf reads an item by its number from 0, or a field by its name.
func itemOf(v, index any) (any, error) {
	switch i := index.(type) {
	case string:
		return fieldOf(v, i)
	case json.Number:
		items, ok := v.([]any)
		if v == nil {
			return nil, nil
		}
		if !ok {
			return nil, fmt.Errorf("reads an item of %s", kindOf(v))
		}
		at, err := strconv.Atoi(string(i))
		if err != nil {
			return nil, errors.New("has an index that is no whole number")
		}
		if at < 0 || at >= len(items) {
			return nil, nil
		}
		return items[at], nil
	}
	return nil, fmt.Errorf("has an index that is %s", kindOf(index))
}

func (c *compiler) conditional(n *ast.ConditionalNode) (evalFunc, *typ) {
	cond, ct := c.node(n.Cond)
	a, at := c.node(n.Exp1)
	b, bt := c.node(n.Exp2)
	if !ct.is(boolKind) {
		return c.fail(n.Cond, "is %s; what stands before the ? is true or false", ct.kind)
	}
	return func(s *scope) (any, error) {
		yes, err := boolOf(cond, s)
		if err != nil {
			return nil, err
		}
		if yes {
			return a(s)
		}
		return b(s)
	}, either(at, bt)
}

// either is the type of a value that comes from one of two places.
func either(a, b *typ) *typ {
	maybe, secret := a.maybe || b.maybe, a.secret || b.secret
	switch {
	case a.kind == nilKind:
		return b.with(maybe, secret)
	case b.kind == nilKind || a == b:
		return a.with(maybe, secret)
	case a.kind == b.kind && a.kind != objectKind && a.kind != numberKind:
		return a.with(maybe, secret)
	case a.kind == b.kind:
		return (&typ{kind: a.kind}).with(maybe, secret)
	}
	return anyType.with(maybe, secret)
}

func boolOf(f evalFunc, s *scope) (bool, error) {
	v, err := f(s)
	if err != nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("has a condition that is %s", kindOf(v))
	}
	return b, nil
}

func (c *compiler) array(n *ast.ArrayNode) (evalFunc, *typ) {
	items, secret := make([]evalFunc, len(n.Nodes)), false
	for i, x := range n.Nodes {
		var t *typ
		items[i], t = c.node(x)
		secret = secret || t.secret
	}
	return func(s *scope) (any, error) {
		out := make([]any, len(items))
		for i, f := range items {
			v, err := f(s)
			if err != nil {
				return nil, err
			}
			out[i] = v
		}
		return out, s.grow(16 * len(out))
	}, listType.with(false, secret)
}

func (c *compiler) object(n *ast.MapNode) (evalFunc, *typ) {
	names, values := []string{}, []evalFunc{}
	t := &typ{kind: objectKind, fields: map[string]*typ{}}
	for _, p := range n.Pairs {
		pair, ok := p.(*ast.PairNode)
		if !ok {
			return c.fail(p, "is no pair")
		}
		name, ok := named(pair.Key)
		if !ok {
			return c.fail(pair.Key, "a name in an object is written as it is")
		}
		f, ft := c.node(pair.Value)
		names, values = append(names, name), append(values, f)
		t.fields[name], t.secret = ft, t.secret || ft.secret
	}
	return func(s *scope) (any, error) {
		out := make(map[string]any, len(names))
		for i, f := range values {
			v, err := f(s)
			if err != nil {
				return nil, err
			}
			out[names[i]] = v
		}
		return out, s.grow(32 * len(names))
	}, t
}

// pointer is the element that a predicate looks at, or its place.
func (c *compiler) pointer(n *ast.PointerNode) (evalFunc, *typ) {
	if len(c.items) == 0 {
		return c.fail(n, "# stands within filter, map, all, any, none, one, count or find only")
	}
	switch n.Name {
	case "":
		item := func(s *scope) (any, error) { return s.frames[len(s.frames)-1].item, nil }
		return item, c.items[len(c.items)-1]
	case "index":
		return func(s *scope) (any, error) {
			return json.Number(strconv.Itoa(s.frames[len(s.frames)-1].index)), nil
		}, numberType
	}
	return c.fail(n, "#%s is not known; there are # and #index", n.Name)
}
