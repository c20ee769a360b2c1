package definition

import (
	"errors"
	"fmt"

	"github.com/expr-lang/expr/ast"

	"onced/saga/httpstep"
)

// parts are those parts of the output of a step that the document reads: by its undo, or
// by later steps. Of a reply that is too long to be kept whole they are kept.
type parts struct {
	whole  bool
	fields map[string]*parts
}

// add notes that a part is read.
func (p *parts) add(path []string) {
	for _, name := range path {
		if p.fields == nil {
			p.fields = map[string]*parts{}
		}
		if p.fields[name] == nil {
			p.fields[name] = &parts{}
		}
		p = p.fields[name]
	}
	p.whole = true
}

// some reports that anything is read.
func (p *parts) some() bool { return p != nil && (p.whole || len(p.fields) > 0) }

// of is the value with these parts only.
func (p *parts) of(v any) any {
	m, ok := v.(map[string]any)
	if p.whole || !ok {
		return v
	}
	out := map[string]any{}
	for name, f := range p.fields {
		if item, there := m[name]; there {
			out[name] = f.of(item)
		}
	}
	return out
}

// String lists them, for people.
func (p *parts) String() string {
	if p.whole {
		return "all of it"
	}
	return list(sortedKeys(p.fields))
}

// note remembers which parts of the outputs of steps an expression reads.
func (e *env) note(root ast.Node) {
	reads(root, nil, func(step string, path []string) {
		for _, s := range e.steps {
			if s.name == step && s.reads != nil {
				s.reads.add(path)
			}
		}
	}, e.own)
}

// reads finds the outputs that are read below n; path is what is taken of n itself.
func reads(n ast.Node, path []string, see func(step string, path []string), own string) {
	all := func(nodes ...ast.Node) {
		for _, x := range nodes {
			reads(x, nil, see, own)
		}
	}
	switch n := n.(type) {
	case *ast.IdentifierNode:
		if n.Value == "output" {
			see(own, path)
		}
	case *ast.ChainNode:
		reads(n.Node, path, see, own)
	case *ast.MemberNode:
		name, ok := named(n.Property)
		if !ok { // an item of a list, or a name that is computed
			all(n.Property, n.Node)
			return
		}
		if step, is := stepOf(n.Node); is {
			if name == "output" {
				see(step, path)
			}
			return
		}
		reads(n.Node, append([]string{name}, path...), see, own)
	case *ast.UnaryNode:
		all(n.Node)
	case *ast.BinaryNode:
		all(n.Left, n.Right)
	case *ast.ConditionalNode:
		all(n.Cond, n.Exp1, n.Exp2)
	case *ast.ArrayNode:
		all(n.Nodes...)
	case *ast.MapNode:
		all(n.Pairs...)
	case *ast.PairNode:
		all(n.Key, n.Value)
	case *ast.PredicateNode:
		all(n.Node)
	case *ast.BuiltinNode:
		all(n.Arguments...)
	case *ast.CallNode:
		all(n.Arguments...)
	}
}

// stepOf is the step that steps.<name> names.
func stepOf(n ast.Node) (step string, ok bool) {
	if c, is := n.(*ast.ChainNode); is {
		n = c.Node
	}
	m, is := n.(*ast.MemberNode)
	if !is || rootOf(m.Node) != "steps" {
		return "", false
	}
	return named(m.Property)
}

// defaultOutput is the output of a step that does not say what it is: the JSON of the
// body when it is small, else the parts that the document reads, or nothing when it
// reads none. An error says that what it reads cannot be kept.
func (r *runner) defaultOutput(reply *httpstep.Reply, s *scope) ([]byte, error) {
	if out := wholeBody(reply, s); out != nil || !r.reads.some() || r.await != nil {
		return out, nil
	}
	v, err := decodeJSON(reply.Body)
	switch {
	case reply.Truncated:
		err = errors.New("is longer than what is read of a reply")
	case err == nil && v == nil, err != nil && !deeper(reply.Body, maxNested):
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the document reads %s of its output, and the body %w", r.reads, err)
	}
	out := appendJSON(nil, r.reads.of(cleaned(v, s.mask())))
	if problem := storable(out); problem != "" {
		return nil, fmt.Errorf("what the document reads of its output %s", problem)
	}
	return out, nil
}
