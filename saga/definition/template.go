package definition

import (
	"fmt"
	"strings"
)

// part is a piece of a text: literal, or an expression.
type part struct {
	literal string
	x       *expression
}

// textTemplate is a text with expressions in it.
type textTemplate struct {
	parts []part // literals do not stand beside each other
	// field is where it stands, for errors.
	field string
	room  int // about how long it gets, in bytes
}

// parts compiles the pieces of a text; ok is false when there are problems.
func (c *checker) parts(n *node, field string, env *env) (parts []part, ok bool) {
	pieces, problem := split(n.text)
	if problem != nil {
		c.exprAt(n, field, 0, *problem)
		return nil, false
	}
	ok = true
	for _, p := range pieces {
		if c.full() {
			return nil, false
		}
		if !p.isExpr {
			parts = append(parts, part{literal: p.literal})
			continue
		}
		x, problems := compileExpr(p.source, env)
		for _, problem := range problems {
			c.exprAt(n, field, p.at, problem)
			ok = false
		}
		parts = append(parts, part{x: x})
	}
	return parts, ok
}

// single returns the expression that is the whole text, or nil.
func single(parts []part) *expression {
	if len(parts) == 1 {
		return parts[0].x
	}
	return nil
}

// text compiles a text of a query, a header or a form.
func (c *checker) text(n *node, field string, env *env) *textTemplate {
	switch n.kind {
	case numberNode, boolNode:
		return &textTemplate{parts: []part{{literal: n.text}}, field: field}
	case stringNode:
	default:
		c.atf(n, field, "is %s; it must be text", n.kind)
		return nil
	}
	parts, ok := c.parts(n, field, env)
	if !ok {
		return nil
	}
	whole := single(parts) != nil
	for _, p := range parts {
		if p.x != nil && !c.placed(n, field, p.x, whole) {
			return nil
		}
	}
	return &textTemplate{parts: parts, field: field, room: roomOfValue*len(parts) + len(n.text)}
}

// placed checks that a value can stand within a text.
func (c *checker) placed(n *node, field string, x *expression, whole bool) bool {
	switch {
	case x.typ.kind == listKind || x.typ.kind == objectKind:
		c.atf(n, field, "has %s within a text; take a field of it", x.typ.kind)
	case x.typ.maybe && !(whole && x.nilOK):
		c.atf(n, field, "may be missing: ${%s}; put ?? and a value behind it%s", x.shown(),
			x.instead())
	default:
		return true
	}
	return false
}

// render makes the text. ok is false when it is wholly one expression that is nil on
// purpose: then it is left out.
func (t *textTemplate) render(s *scope) (text string, ok bool, err error) {
	switch {
	case t.isFixed():
		return literal(t.parts), true, nil
	case len(t.parts) == 1:
		x := t.parts[0].x
		v, err := x.value(s)
		if err != nil || v == nil {
			return "", false, t.wrap(err)
		}
		text, err = x.textOf(v, s)
		return text, err == nil, t.wrap(err)
	}
	var b strings.Builder
	b.Grow(t.room)
	for _, p := range t.parts {
		if p.x == nil {
			b.WriteString(p.literal)
			continue
		}
		v, err := p.x.text(s)
		if err != nil {
			return "", false, t.wrap(err)
		}
		b.WriteString(v)
	}
	return b.String(), true, nil
}

// isFixed reports that there is no expression in it.
func (t *textTemplate) isFixed() bool {
	return len(t.parts) == 0 || len(t.parts) == 1 && t.parts[0].x == nil
}

func (t *textTemplate) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", t.field, err)
}

// appendJSON writes the value; what is kept as it would be written is not read for that.
func (x *expression) appendJSON(b []byte, s *scope) ([]byte, error) {
	if x.whole != nil {
		if raw := s.written(x.whole(s)); raw != nil {
			return append(b, raw...), nil
		}
	}
	v, err := x.value(s)
	if err != nil {
		return nil, err
	}
	return appendJSON(b, v), nil
}

// text computes the expression as a part of a text.
func (x *expression) text(s *scope) (string, error) {
	v, err := x.value(s)
	if err != nil {
		return "", err
	}
	return x.textOf(v, s)
}

// textOf is the text of its value.
func (x *expression) textOf(v any, s *scope) (string, error) {
	text, err := textOf(v)
	if err != nil {
		return "", fmt.Errorf("${%s} %w", x.shown(), err)
	}
	return text, s.grow(len(text))
}

// valueTemplate is JSON with expressions in its texts.
type valueTemplate struct {
	raw   []byte          // of a constant
	x     *expression     // of a text that is wholly one expression
	text  *textTemplate   // of another text
	names [][]byte        // of an object, as JSON
	items []valueTemplate // of an object or a list
	typ   *typ
	field string
	room  int // about how long it gets, in bytes
}

// roomOfValue is how much longer than its text a value is taken to be, in bytes.
const roomOfValue = 16

// value compiles JSON; nil when there are problems.
func (c *checker) value(n *node, field string, env *env) *valueTemplate {
	t := &valueTemplate{field: field, typ: anyType, room: roomOfValue + len(n.text)}
	switch n.kind {
	case nullNode:
		t.raw, t.typ = []byte("null"), nilType
	case boolNode:
		t.raw, t.typ = []byte(n.text), boolType
	case numberNode:
		t.raw, t.typ = []byte(n.text), numberType
	case stringNode:
		return c.stringValue(n, t, env)
	default:
		return c.container(n, t, env)
	}
	return t
}

func (c *checker) stringValue(n *node, t *valueTemplate, env *env) *valueTemplate {
	parts, ok := c.parts(n, t.field, env)
	if !ok {
		return nil
	}
	if x := single(parts); x != nil {
		if x.typ.maybe && !x.nilOK {
			c.atf(n, t.field, "may be missing: ${%s}; put ?? and a value behind it, or ?? nil for null%s",
				x.shown(), x.instead())
			return nil
		}
		t.x, t.typ = x, x.typ
		return t
	}
	t.typ = stringType
	if t.text = c.text(n, t.field, env); t.text == nil {
		return nil
	}
	if len(parts) == 0 || len(parts) == 1 {
		t.raw = appendText(nil, literal(parts))
	}
	return t
}

func literal(parts []part) string {
	if len(parts) == 0 {
		return ""
	}
	return parts[0].literal
}

func (c *checker) container(n *node, t *valueTemplate, env *env) *valueTemplate {
	t.typ = listType
	if n.kind == objectNode {
		t.typ = &typ{kind: objectKind, fields: map[string]*typ{}}
	}
	good, fixed := true, true
	for i, item := range n.items {
		field := fmt.Sprintf("%s[%d]", t.field, i)
		if n.kind == objectNode {
			field = join(t.field, n.keys[i].text)
		}
		v := c.value(item, field, env)
		if v == nil {
			good = false
			continue
		}
		if n.kind == objectNode {
			t.names = append(t.names, appendText(nil, n.keys[i].text))
			t.room += len(t.names[len(t.names)-1]) + 1
			t.typ.fields[n.keys[i].text] = v.typ
			t.typ.secret = t.typ.secret || v.typ.secret
		}
		t.items = append(t.items, *v)
		t.room += v.room + 1
		fixed = fixed && v.raw != nil
	}
	if !good {
		return nil
	}
	if fixed {
		t.raw, _ = t.container(nil, nil) // constants do not fail
	}
	return t
}

// isInput reports that it is the input of the run and nothing else.
func (t *valueTemplate) isInput() bool { return t.x != nil && t.x.isInput }

// render makes the JSON.
func (t *valueTemplate) render(s *scope) ([]byte, error) {
	return t.append(make([]byte, 0, t.room), s)
}

// append writes the JSON.
func (t *valueTemplate) append(b []byte, s *scope) ([]byte, error) {
	switch {
	case t.raw != nil:
		return append(b, t.raw...), nil
	case t.x != nil:
		b, err := t.x.appendJSON(b, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.field, err)
		}
		if len(b) > maxRendered {
			return nil, fmt.Errorf("%s: makes more than %d bytes", t.field, maxRendered)
		}
		return b, nil
	case t.text != nil:
		text, _, err := t.text.render(s)
		if err != nil {
			return nil, err
		}
		return appendText(b, text), nil
	}
	return t.container(b, s)
}

func (t *valueTemplate) container(b []byte, s *scope) ([]byte, error) {
	open, end := byte('['), byte(']')
	if t.typ.kind == objectKind {
		open, end = '{', '}'
	}
	b = append(b, open)
	for i := range t.items {
		if i > 0 {
			b = append(b, ',')
		}
		if open == '{' {
			b = append(append(b, t.names[i]...), ':')
		}
		var err error
		if b, err = t.items[i].append(b, s); err != nil {
			return nil, err
		}
	}
	return append(b, end), nil
}

// condition compiles a text that is wholly one expression that is true or false.
func (s *section) condition(key string, env *env) *expression {
	n := s.get(key)
	if n == nil {
		return nil
	}
	field := s.path(key)
	if n.kind != stringNode {
		s.c.atf(n, field, "is %s; it must be a condition such as \"${reply.status == 404}\"", n.kind)
		return nil
	}
	parts, ok := s.c.parts(n, field, env)
	if !ok {
		return nil
	}
	x := single(parts)
	switch {
	case x == nil:
		s.c.atf(n, field, "is not wholly one ${…}; write a condition such as \"${reply.status == 404}\"")
		return nil
	case !x.typ.is(boolKind) || x.typ.maybe:
		s.c.atf(n, field, "is %s; a condition is true or false", x.typ.described())
		return nil
	}
	return x
}
