package definition

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"onced/saga/egress"
)

// urlTemplate is a URL with expressions in its path and its query.
type urlTemplate struct {
	field string
	base  string // scheme, host and port, as they are written
	host  string
	path  []part
	query []part // without the ?
	has   bool   // it has a ?
	room  int    // about how long it gets, in bytes
}

// url compiles the URL of a call; nil when there are problems.
func (c *checker) url(n *node, field string, pathEnv, queryEnv *env) *urlTemplate {
	if n.kind != stringNode {
		c.atf(n, field, "is %s; it must be a URL", n.kind)
		return nil
	}
	pieces, problem := split(n.text)
	if problem != nil {
		c.exprAt(n, field, 0, *problem)
		return nil
	}
	if problem := urlProblem(pieces); problem != "" {
		c.atf(n, field, "%s", problem)
		return nil
	}
	t, good := &urlTemplate{field: field, room: roomOfValue*len(pieces) + len(n.text)}, true
	rest := t.takeBase(pieces)
	for _, p := range rest {
		if c.full() {
			return nil
		}
		if !p.isExpr {
			t.add(part{literal: p.literal})
			continue
		}
		env := pathEnv
		if t.has {
			env = queryEnv
			if problem := queryNameProblem(t.query); problem != "" {
				c.atf(n, field, "%s", problem)
				good = false
			}
		}
		x, problems := compileExpr(p.source, env)
		for _, problem := range problems {
			c.exprAt(n, field, p.at, problem)
		}
		if x == nil || !c.placed(n, field, x, false) {
			good = false
			continue
		}
		t.add(part{x: x})
	}
	if !good {
		return nil
	}
	c.urls = append(c.urls, urlAt{url: shape(pieces), field: field, line: n.line, col: n.col})
	return t
}

// shape is the URL with x for its expressions.
func shape(pieces []piece) string {
	var b strings.Builder
	for _, p := range pieces {
		if p.isExpr {
			b.WriteByte('x')
		} else {
			b.WriteString(p.literal)
		}
	}
	return b.String()
}

// urlProblem checks what is written down.
func urlProblem(pieces []piece) string {
	text := shape(pieces)
	blank := func(r rune) bool { return r <= ' ' || unicode.IsSpace(r) || unicode.IsControl(r) || r == '\\' }
	if strings.ContainsFunc(text, blank) {
		return "has a space, a backslash or a control character; write a space as %20"
	}
	if len(pieces) == 0 || pieces[0].isExpr || baseEnd(pieces[0].literal) < 0 && len(pieces) > 1 {
		return "has an expression in its scheme, host or port; these are written down, and expressions " +
			"stand " +
			"in the path and the query only"
	}
	u, err := url.Parse(text)
	if err != nil {
		return "is no URL; write it as https://host/path"
	}
	if err := egress.CheckURL(u); err != nil {
		return err.Error()
	}
	if strings.Contains(text, "#") {
		return "has a fragment (#); leave it out, it is never sent"
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if segment == "." || segment == ".." {
			return "has a segment " + segment + "; write the path as it is"
		}
	}
	return ""
}

// baseEnd is where the path or the query begins, -1 when it does not.
func baseEnd(s string) int {
	i := strings.Index(s, "://")
	if i < 0 {
		return -1
	}
	if end := strings.IndexAny(s[i+3:], "/?"); end >= 0 {
		return i + 3 + end
	}
	return -1
}

// takeBase takes scheme, host and port and returns what follows.
func (t *urlTemplate) takeBase(pieces []piece) []piece {
	first := pieces[0]
	end := baseEnd(first.literal)
	if end < 0 {
		end = len(first.literal)
	}
	t.base = first.literal[:end]
	_, t.host, _ = strings.Cut(t.base, "://")
	first.literal = first.literal[end:]
	return append([]piece{first}, pieces[1:]...)
}

// add appends a part to the path or the query.
func (t *urlTemplate) add(p part) {
	if !t.has && p.x == nil {
		path, query, has := strings.Cut(p.literal, "?")
		if path != "" {
			t.path = append(t.path, part{literal: path})
		}
		if t.has = has; has && query != "" {
			t.query = append(t.query, part{literal: query})
		}
		return
	}
	if t.has {
		t.query = append(t.query, p)
	} else {
		t.path = append(t.path, p)
	}
}

// queryNameProblem reports that an expression would be a name of the query.
func queryNameProblem(query []part) string {
	var text strings.Builder
	for _, p := range query {
		if p.x == nil {
			text.WriteString(p.literal)
		}
	}
	written := text.String()
	if !strings.Contains(written[strings.LastIndexByte(written, '&')+1:], "=") {
		return "has an expression for a name in its query; names are written down: ?order=${input.order}"
	}
	return ""
}

var (
	errEmptySegment = errors.New("is empty, and would change what the path means")
	errDotSegment   = errors.New("makes a segment . or .. of the path")
)

// isFixed reports that there is no expression in it.
func (t *urlTemplate) isFixed() bool {
	is := func(p part) bool { return p.x != nil }
	return !slices.ContainsFunc(t.path, is) && !slices.ContainsFunc(t.query, is)
}

// render makes the URL. Values are escaped, so that they end no segment and no value.
func (t *urlTemplate) render(s *scope, extra string) (string, error) {
	var b strings.Builder
	b.Grow(t.room + len(extra))
	b.WriteString(t.base)
	if err := t.renderPath(&b, s); err != nil {
		return "", fmt.Errorf("%s: %w", t.field, err)
	}
	if t.has {
		b.WriteByte('?')
	}
	for _, p := range t.query {
		if p.x == nil {
			b.WriteString(p.literal)
			continue
		}
		text, err := p.x.text(s)
		if err != nil {
			return "", fmt.Errorf("%s: %w", t.field, err)
		}
		b.WriteString(url.QueryEscape(text))
	}
	if extra != "" {
		switch {
		case !t.has:
			b.WriteByte('?')
		case len(t.query) > 0:
			b.WriteByte('&')
		}
		b.WriteString(extra)
	}
	return b.String(), nil
}

// renderPath appends the path to the base.
func (t *urlTemplate) renderPath(b *strings.Builder, s *scope) error {
	from := b.Len()
	for _, p := range t.path {
		if p.x == nil {
			b.WriteString(p.literal)
			continue
		}
		text, err := p.x.text(s)
		if err != nil {
			return err
		}
		if text == "" {
			return fmt.Errorf("${%s} %w", p.x.shown(), errEmptySegment)
		}
		b.WriteString(url.PathEscape(text))
	}
	for segment := range strings.SplitSeq(b.String()[from:], "/") {
		if plain, err := url.PathUnescape(segment); err != nil || plain == "." || plain == ".." {
			return errDotSegment // callees take %2e for a dot
		}
	}
	return nil
}
