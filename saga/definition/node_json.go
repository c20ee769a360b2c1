package definition

import (
	"encoding/json"
	"fmt"
)

// jsonReader walks over text that is known to be JSON, to learn where its values are:
// the YAML reader takes most JSON and not all.
type jsonReader struct {
	*reader
	at        int // byte offset
	line, col int // of at, from 1
}

func (j *jsonReader) root() *node {
	j.line, j.col = 1, 1
	return j.value("", 0)
}

// to moves on to a byte offset.
func (j *jsonReader) to(offset int) {
	for ; j.at < offset; j.at++ {
		switch c := j.src[j.at]; {
		case c == '\n':
			j.line, j.col = j.line+1, 1
		case c&0xc0 != 0x80: // not in the middle of a character
			j.col++
		}
	}
}

// skip moves over blanks and separators.
func (j *jsonReader) skip() {
	end := j.at
	for end < len(j.src) && (j.src[end] <= ' ' || j.src[end] == ',' || j.src[end] == ':') {
		end++
	}
	j.to(end)
}

// value reads one value.
func (j *jsonReader) value(path string, depth int) *node {
	j.skip()
	n := &node{line: j.line, col: j.col}
	if j.nodes++; j.nodes > maxNodes || depth > maxDepth {
		j.fail(n.line, n.col, path, fmt.Sprintf("is too much: a document has at most %d values, %d deep",
			maxNodes, maxDepth))
		j.to(len(j.src))
		return n
	}
	switch j.src[j.at] {
	case '{':
		n.kind = objectNode
		for j.to(j.at + 1); j.more('}'); {
			j.member(n, path, depth)
		}
	case '[':
		n.kind = listNode
		j.to(j.at + 1)
		for i := 0; j.more(']'); i++ {
			n.items = append(n.items, j.value(fmt.Sprintf("%s[%d]", path, i), depth+1))
		}
	case '"':
		n.kind, n.text = stringNode, j.str()
	default:
		j.word(n)
	}
	return n
}

// member reads a key and its value.
func (j *jsonReader) member(n *node, path string, depth int) {
	key := &node{kind: stringNode, line: j.line, col: j.col, text: j.str()}
	read := false
	value := func(p string) *node {
		read = true
		return j.value(p, depth+1)
	}
	if j.pair(n, key, path, value); !read { // the key is there twice
		value(path)
	}
}

// more moves on to the next item of a list or an object and reports that there is one.
func (j *jsonReader) more(end byte) bool {
	if j.skip(); j.at >= len(j.src) {
		return false
	}
	if j.src[j.at] == end {
		j.to(j.at + 1)
		return false
	}
	return true
}

// str reads a text in quotes.
func (j *jsonReader) str() string {
	end := j.at + 1
	for j.src[end] != '"' {
		if j.src[end] == '\\' {
			end++
		}
		end++
	}
	var s string
	_ = json.Unmarshal(j.src[j.at:end+1], &s) // it is valid
	j.to(end + 1)
	return s
}

// word reads a number, true, false or null.
func (j *jsonReader) word(n *node) {
	end := j.at
	for end < len(j.src) && !isJSONEnd(j.src[end]) {
		end++
	}
	n.text = string(j.src[j.at:end])
	switch n.text {
	case "true", "false":
		n.kind = boolNode
	case "null":
		n.kind, n.text = nullNode, ""
	default:
		n.kind = numberNode
	}
	j.to(end)
}

func isJSONEnd(c byte) bool { return c <= ' ' || c == ',' || c == ']' || c == '}' }
