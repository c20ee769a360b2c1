package definition

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
)

// maxExpr is the longest expression, in bytes.
const maxExpr = 4 << 10

// evalFunc computes a value.
type evalFunc func(*scope) (any, error)

// expression is one ${…}, ready to be computed.
type expression struct {
	source string
	typ    *typ
	eval   evalFunc
	// nilOK says that it may be nil on purpose: nil stands in it as a result.
	nilOK bool
	// isInput says that it is wholly the input of the run. whole finds what is kept of a step
	// that it wholly is; nil when it is something else.
	isInput bool
	whole   func(*scope) kept
}

// problemAt is one thing wrong with an expression; at counts characters.
type problemAt struct {
	at      int
	message string
}

// compileExpr checks an expression and makes it ready. What is wrong with it is all in
// the problems.
func compileExpr(source string, env *env) (*expression, []problemAt) {
	if len(source) > maxExpr {
		return nil, []problemAt{{0, fmt.Sprintf("is longer than %d bytes", maxExpr)}}
	}
	if strings.TrimSpace(source) == "" {
		return nil, []problemAt{{0, "is empty; write ${input.name} or another expression"}}
	}
	root, err := parseExpr(source)
	if err != nil {
		at := 0
		if e, ok := errors.AsType[*file.Error](err); ok {
			at = e.From
			err = errors.New(e.Message)
			if strings.Contains(e.Message, `Operator("=")`) {
				return nil, []problemAt{{at, "has a single =; compare with =="}}
			}
		}
		return nil, []problemAt{{at, "is no expression: " + oneLine(err.Error())}}
	}
	c := &compiler{env: env, source: []rune(source)}
	eval, t := c.node(root)
	if len(c.problems) > 0 {
		return nil, c.problems
	}
	env.note(root)
	return &expression{source: source, typ: t, eval: eval, nilOK: mayBeNil(root),
		isInput: rootOf(root) == "input", whole: wholeOf(root)}, nil
}

// wholeOf returns what an expression is that is wholly what is kept of a step; nil for
// another one.
func wholeOf(n ast.Node) func(*scope) kept {
	if rootOf(n) == "output" {
		return func(s *scope) kept { return kept{step: s.call.Step} }
	}
	m, ok := n.(*ast.MemberNode)
	if !ok {
		return nil
	}
	step, isStep := stepOf(m.Node)
	name, isName := named(m.Property)
	if !isStep || !isName || name != "output" && name != "signal" {
		return nil
	}
	return func(*scope) kept { return kept{step, name == "signal"} }
}

// parseExpr keeps a panic of the parser from the caller.
func parseExpr(source string) (root ast.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("the parser cannot read it")
		}
	}()
	tree, err := parser.Parse(source)
	if err != nil {
		return nil, err
	}
	if tree == nil || tree.Node == nil {
		return nil, errors.New("there is nothing")
	}
	return tree.Node, nil
}

// mayBeNil reports that nil stands as a possible result: x ?? nil, a ? b : nil.
func mayBeNil(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.NilNode:
		return true
	case *ast.BinaryNode:
		return n.Operator == "??" && mayBeNil(n.Right)
	case *ast.ConditionalNode:
		return mayBeNil(n.Exp1) || mayBeNil(n.Exp2)
	}
	return false
}

// value computes the expression. A value that is missing is an error, unless it may be
// nil on purpose. Errors name the expression and no value.
func (x *expression) value(s *scope) (any, error) {
	v, err := x.eval(s)
	if err == nil && v == nil && !x.nilOK {
		err = errMissing
	}
	if err != nil {
		err = fmt.Errorf("${%s} %w", x.shown(), err)
		if x.typ.secret {
			err = &awayError{err}
		}
		return nil, err
	}
	if x.typ.secret {
		if text, err := textOf(v); err == nil {
			s.keep(text)
		}
	}
	return v, nil
}

// condition computes a yes or no.
func (x *expression) condition(s *scope) (bool, error) {
	v, err := x.eval(s)
	if err != nil {
		return false, fmt.Errorf("${%s} %w", x.shown(), err)
	}
	b, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("${%s} is %s, not true or false", x.shown(), kindOf(v))
	}
	return b, nil
}

// shown is the expression in one line, cut.
func (x *expression) shown() string {
	const most = 80
	s := oneLine(x.source)
	if len(s) <= most {
		return s
	}
	cut := most
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// piece is a part of a text: literal, or an expression.
type piece struct {
	literal string
	source  string // of an expression
	isExpr  bool
	at      int // byte offset of the source within the text
}

// split cuts a text into literals and expressions. $${ stands for ${.
func split(text string) ([]piece, *problemAt) {
	var pieces []piece
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			pieces = append(pieces, piece{literal: literal.String()})
			literal.Reset()
		}
	}
	for i := 0; i < len(text); {
		switch {
		case strings.HasPrefix(text[i:], "$${"):
			literal.WriteString("${")
			i += 3
		case strings.HasPrefix(text[i:], "${"):
			end := closing(text, i+2)
			if end < 0 {
				return nil, &problemAt{utf8.RuneCountInString(text[:i]),
					"has ${ without its }; write $${ for the two characters themselves"}
			}
			flush()
			pieces = append(pieces, piece{source: text[i+2 : end], isExpr: true, at: i + 2})
			i = end + 1
		default:
			literal.WriteByte(text[i])
			i++
		}
	}
	flush()
	return pieces, nil
}

// closing finds the brace that ends an expression, past those inside of it and in texts.
func closing(s string, i int) int {
	depth := 0
	for ; i < len(s); i++ {
		switch c := s[i]; c {
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return i
			}
			depth--
		case '\'', '"', '`':
			i++
			for i < len(s) && s[i] != c {
				if s[i] == '\\' && c != '`' {
					i++
				}
				i++
			}
		}
	}
	return -1
}
