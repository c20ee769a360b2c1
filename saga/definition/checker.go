package definition

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"onced/saga/httpstep"
)

// checker reads a document from its nodes and collects what is wrong with it.
type checker struct {
	*reader
	secrets  []string
	used     map[string]bool // secrets that are used
	steps    []stepType
	input    *typ
	urls     []urlAt
	warnings Problems
	// notifies says that a callback_url is used.
	notifies bool
}

// urlAt is a URL of the document, expressions replaced by x.
type urlAt struct {
	url, field string
	line, col  int
}

func (c *checker) atf(n *node, field, format string, args ...any) {
	c.fail(n.line, n.col, field, fmt.Sprintf(format, args...))
}

// exprAt is a problem within an expression: its source begins at byte from of the
// text of n.
func (c *checker) exprAt(n *node, field string, from int, p problemAt) {
	line, col := c.locate(n, from, p.at)
	c.fail(line, col, field, p.message)
}

// locate finds the place of a character of an expression in the document. Where the
// text is written with escapes or folded it is the place of the whole text.
func (c *checker) locate(n *node, from, chars int) (line, col int) {
	start := c.offset(n.line, n.col)
	if start < 0 || from > len(n.text) {
		return n.line, n.col
	}
	rest := n.text[from:]
	if end := strings.IndexAny(rest, "\r\n"); end >= 0 {
		rest = rest[:end]
	}
	before := n.text[:from]
	if cut := strings.LastIndexAny(before, "\r\n"); cut >= 0 {
		before = before[cut+1:]
	}
	window := c.src[start:min(len(c.src), start+2*len(n.text)+1024)]
	i := bytes.Index(window, []byte(before+rest))
	if i < 0 {
		return n.line, n.col
	}
	at := start + i + len(before)
	for range chars {
		if at >= len(c.src) {
			break
		}
		_, size := utf8.DecodeRune(c.src[at:])
		at += size
	}
	return place(c.src, at)
}

// offset is the byte at a line and column, or -1.
func (c *checker) offset(line, col int) int {
	at := 0
	for range line - 1 {
		end := bytes.IndexByte(c.src[at:], '\n')
		if end < 0 {
			return -1
		}
		at += end + 1
	}
	for range col - 1 {
		if at >= len(c.src) {
			return -1
		}
		_, size := utf8.DecodeRune(c.src[at:])
		at += size
	}
	return at
}

// section is an object with known keys.
type section struct {
	c     *checker
	n     *node
	field string
	meant map[string]bool // keys that are there, misspelled
}

// section checks that n is an object with no other keys; nil when it is none.
func (c *checker) section(n *node, field string, keys ...string) *section {
	if n.kind != objectNode {
		c.atf(n, field, "is %s; it must be a section with the keys %s", n.kind, strings.Join(keys, ", "))
		return nil
	}
	for _, k := range n.keys {
		if !slices.Contains(keys, k.text) && !c.full() {
			c.atf(k, join(field, k.text), "is not known%s; keys are %s", didYouMean(k.text, keys),
				strings.Join(keys, ", "))
		}
	}
	return c.view(n, field, keys)
}

// view is a section of which the keys are not checked.
func (c *checker) view(n *node, field string, keys []string) *section {
	s := &section{c: c, n: n, field: field, meant: map[string]bool{}}
	for _, k := range n.keys {
		if !slices.Contains(keys, k.text) {
			s.meant[nearest(k.text, keys)] = true
		}
	}
	return s
}

// lacks reports that a key is not there, not even misspelled, which is reported.
func (s *section) lacks(key string) bool { return s.n.get(key) == nil && !s.meant[key] }

// get returns a value that is there and not empty.
func (s *section) get(key string) *node {
	v := s.n.get(key)
	if v != nil && v.kind == nullNode {
		s.c.atf(v, join(s.field, key), "is empty; give it a value or leave it out")
		return nil
	}
	return v
}

func (s *section) path(key string) string { return join(s.field, key) }

// key returns the node of the key itself.
func (s *section) key(key string) *node {
	for _, k := range s.n.keys {
		if k.text == key {
			return k
		}
	}
	return s.n
}

// text returns a text that is there; a number may stand for one, as in version: 2.
func (s *section) text(key string) (string, *node) {
	v := s.get(key)
	if v == nil {
		return "", nil
	}
	if v.kind != stringNode && v.kind != numberNode {
		s.c.atf(v, s.path(key), "is %s; it must be text", v.kind)
		return "", nil
	}
	return v.text, v
}

func (s *section) flag(key string) bool {
	v := s.get(key)
	if v == nil {
		return false
	}
	if v.kind != boolNode {
		s.c.atf(v, s.path(key), "is %s; it must be true or false", v.kind)
		return false
	}
	return v.text == "true"
}

// integer returns a whole number within bounds, or 0.
func (s *section) integer(key string, least, most int) int {
	v := s.get(key)
	if v == nil {
		return 0
	}
	i, err := strconv.Atoi(v.text)
	if v.kind != numberNode || err != nil || i < least || i > most {
		s.c.atf(v, s.path(key), "must be a whole number from %d to %d", least, most)
		return 0
	}
	return i
}

// duration returns a time within bounds, or 0.
func (s *section) duration(key string, least, most time.Duration) time.Duration {
	v := s.get(key)
	if v == nil {
		return 0
	}
	return s.c.duration(v, s.path(key), least, most)
}

func (c *checker) duration(v *node, field string, least, most time.Duration) time.Duration {
	d, err := parseDuration(v.text)
	switch {
	case v.kind == numberNode:
		c.atf(v, field, "has no unit; did you mean %ss? Write it as 500ms, 30s, 15m, 24h or 30d", v.text)
	case v.kind != stringNode || err != nil:
		c.atf(v, field, "is not a time; write it as 500ms, 30s, 15m, 24h or 30d")
	case d < least || d > most:
		c.atf(v, field, "must be from %s to %s", least, most)
	default:
		return d
	}
	return 0
}

// parseDuration is time.ParseDuration that knows days.
func parseDuration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.Atoi(days)
		if err != nil || n < 0 || n > 100_000 {
			return 0, fmt.Errorf("is no time")
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	return time.ParseDuration(s)
}

// statuses reads a list of statuses, or nil.
func (s *section) statuses(key string) *httpstep.Statuses {
	v := s.get(key)
	if v == nil {
		return nil
	}
	items := []*node{v}
	if v.kind == listNode {
		items = v.items
	}
	texts := make([]string, 0, len(items))
	for i, item := range items {
		field := s.path(key)
		if v.kind == listNode {
			field = fmt.Sprintf("%s[%d]", field, i)
		}
		if item.kind != stringNode && item.kind != numberNode {
			s.c.atf(item, field, "is %s; write statuses as 404, 2xx or 402-405", item.kind)
			return nil
		}
		if _, err := httpstep.ParseStatuses(item.text); err != nil {
			s.c.atf(item, field, "%s", err.Error())
			return nil
		}
		texts = append(texts, item.text)
	}
	set, err := httpstep.ParseStatuses(texts...)
	if err != nil {
		s.c.atf(v, s.path(key), "%s", err.Error())
		return nil
	}
	return &set
}
