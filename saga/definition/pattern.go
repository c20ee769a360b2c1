package definition

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/expr-lang/expr/ast"
)

// matches takes patterns that are written down, so that they are known to be good.
func (c *compiler) matches(n *ast.BinaryNode) (evalFunc, *typ) {
	f, t := c.node(n.Left)
	pattern, ok := named(n.Right)
	if !ok {
		return c.fail(n.Right, "matches takes a pattern in quotes")
	}
	re, size, err := compilePattern(pattern)
	if err != nil {
		return c.fail(n.Right, "%s", err.Error())
	}
	if !t.is(stringKind) || t.maybe {
		return c.fail(n, "matches of %s; it takes a text", t.described())
	}
	return func(s *scope) (any, error) {
		v, err := f(s)
		if err != nil {
			return nil, err
		}
		text, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("has matches of what is %s", kindOf(v))
		}
		// Before it is done: a pattern looks at each byte with each of its parts.
		if err := s.spend(1 + len(text)/64*size); err != nil {
			return nil, err
		}
		return re.MatchString(text), nil
	}, boolType.with(false, t.secret)
}

// maxPattern is the largest pattern, in parts: what its repetitions stand for is counted.
const maxPattern = 1000

// compilePattern makes a pattern and says how many parts it has.
func compilePattern(pattern string) (re *regexp.Regexp, size int, err error) {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, 0, errors.New("is no pattern: " + oneLine(err.Error()))
	}
	parts, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, 0, errors.New("is no pattern: " + oneLine(err.Error()))
	}
	if size = len(parts.Inst); size > maxPattern {
		return nil, 0, fmt.Errorf("is a pattern of %d parts, repetitions counted; the limit is %d", size,
			maxPattern)
	}
	re, err = regexp.Compile(pattern)
	return re, size, err
}
