package definition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// Limits of the text of a document.
const (
	maxDepth = 32
	maxNodes = 20_000
)

type nodeKind uint8

const (
	nullNode nodeKind = iota
	boolNode
	numberNode
	stringNode
	listNode
	objectNode
)

var nodeNames = [...]string{"empty", "true or false", "a number", "text", "a list", "a section of keys"}

// String names the kind as people read it.
func (k nodeKind) String() string { return nodeNames[k] }

// node is one value of a document, of YAML or JSON alike.
type node struct {
	kind      nodeKind
	text      string // of a scalar: "true", the number as it is written, the text
	line, col int
	keys      []*node // of an object
	names     map[string]bool
	items     []*node // of a list, or the values of an object
}

// get returns the value of a key, or nil.
func (n *node) get(key string) *node {
	for i, k := range n.keys {
		if k.text == key {
			return n.items[i]
		}
	}
	return nil
}

// reader turns the text into nodes.
type reader struct {
	file     string
	src      []byte
	nodes    int
	broken   bool // what was read is not what is written
	problems Problems
}

// maxProblems is how many problems are told at once.
const maxProblems = 100

// full reports that no more problems are told.
func (r *reader) full() bool { return len(r.problems) >= maxProblems }

func (r *reader) fail(line, col int, field, message string) {
	if r.full() {
		return
	}
	if len(r.problems) == maxProblems-1 {
		line, col, field, message = 0, 0, "", "has more problems than these; correct them first"
	}
	r.problems = append(r.problems, Problem{File: r.file, Line: line, Column: col, Field: field,
		Message: message})
}

// read returns the root, or nil when there is a problem.
func (r *reader) read() *node {
	switch {
	case len(r.src) > MaxSource:
		r.fail(0, 0, "", fmt.Sprintf("is %d bytes long, the limit is %d; make it several definitions",
			len(r.src), MaxSource))
		return nil
	case !utf8.Valid(r.src):
		line, col := place(r.src, invalidAt(r.src))
		r.fail(line, col, "", "is not UTF-8; save it as UTF-8")
		return nil
	}
	first := bytes.TrimLeft(r.src, " \t\r\n")
	if len(first) > 0 && first[0] == '{' && json.Valid(r.src) {
		j := &jsonReader{reader: r}
		return j.root()
	}
	if strings.HasSuffix(r.file, ".json") {
		r.syntaxOfJSON()
		return nil
	}
	root, err := parseYAML(r.src)
	if err != nil {
		r.syntaxOfYAML(err)
		return nil
	}
	if root == nil {
		r.fail(1, 1, "", "is empty; a definition has a name and steps")
		return nil
	}
	n := r.fromYAML(root, "", 0)
	if r.broken {
		return nil
	}
	return n
}

func invalidAt(src []byte) int {
	for i := 0; i < len(src); {
		c, size := utf8.DecodeRune(src[i:])
		if c == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return 0
}

// place returns line and column of a byte offset, from 1.
func place(src []byte, offset int) (line, col int) {
	before := src[:min(max(offset, 0), len(src))]
	last := before[bytes.LastIndexByte(before, '\n')+1:]
	return bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(last) + 1
}

// parseYAML returns the root of the only document, nil when there is none.
func parseYAML(src []byte) (*yaml.Node, error) {
	var doc yaml.Node
	// Keys that are there twice are found by us, with their place.
	err := yaml.Load(src, &doc, yaml.WithUniqueKeys(false), yaml.WithAllDocuments(false))
	if err != nil {
		if len(strings.TrimSpace(string(src))) == 0 || strings.Contains(err.Error(), "no documents") {
			return nil, nil
		}
		return nil, err
	}
	if doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 {
		return doc.Content[0], nil
	}
	return nil, nil
}

func (r *reader) syntaxOfYAML(err error) {
	message, mark := err.Error(), yaml.Mark{}
	if all, ok := errors.AsType[*yaml.LoadErrors](err); ok && len(all.Errors) > 0 {
		message, mark = all.Errors[0].Error(), all.Errors[0].Mark
	}
	if one, ok := errors.AsType[*yaml.LoadError](err); ok {
		message, mark = one.Message, one.Mark
		if one.ContextMsg != "" {
			message += " " + one.ContextMsg
		}
	}
	line, col := mark.Line, max(1, mark.Column)
	if mark.Line == 0 && mark.Index > 0 {
		line, col = place(r.src, mark.Index)
	}
	if strings.Contains(message, "found multiple") {
		message = "a second document begins; one file holds one definition"
	} else {
		message = "is not YAML: " + oneLine(message) + "; " + r.yamlHint(line)
	}
	r.fail(line, col, "", message)
}

// yamlHint guesses what is wrong with a line.
func (r *reader) yamlHint(line int) string {
	lines := strings.Split(string(r.src), "\n")
	if line > 0 && line <= len(lines) && strings.Contains(lines[line-1], "${") {
		return "put a text with ${ into quotes where it stands between { and }"
	}
	return "indent with spaces and put texts with : { or # into quotes"
}

func (r *reader) syntaxOfJSON() {
	var v json.RawMessage
	err := json.Unmarshal(r.src, &v)
	message, at := "is not JSON", 0
	if s, ok := errors.AsType[*json.SyntaxError](err); ok {
		message, at = "is not JSON: "+s.Error(), int(s.Offset)-1
	} else if err == nil {
		message = "is not a JSON object"
	}
	line, col := place(r.src, at)
	r.fail(line, col, "", message)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// fromYAML converts a node and all below.
func (r *reader) fromYAML(y *yaml.Node, path string, depth int) *node {
	n := &node{line: y.Line, col: y.Column}
	if r.nodes++; r.nodes > maxNodes || depth > maxDepth {
		r.broken = true
		if r.nodes == maxNodes+1 || depth == maxDepth+1 {
			r.fail(y.Line, y.Column, path, fmt.Sprintf(
				"is too much: a document has at most %d values, %d deep", maxNodes, maxDepth))
		}
		return n
	}
	if y.Kind == yaml.AliasNode || y.Anchor != "" {
		r.broken = true
		r.fail(y.Line, y.Column, path, "is an anchor or an alias; write the value out, they are not "+
			"supported")
		return n
	}
	switch y.Kind {
	case yaml.MappingNode:
		n.kind = objectNode
		for i := 0; i+1 < len(y.Content); i += 2 {
			r.pair(n, r.keyOfYAML(y.Content[i], path), path, func(p string) *node {
				return r.fromYAML(y.Content[i+1], p, depth+1)
			})
		}
	case yaml.SequenceNode:
		n.kind = listNode
		for i, item := range y.Content {
			n.items = append(n.items, r.fromYAML(item, fmt.Sprintf("%s[%d]", path, i), depth+1))
		}
	default:
		r.scalar(n, y, path)
	}
	return n
}

func (r *reader) keyOfYAML(y *yaml.Node, path string) *node {
	k := &node{kind: stringNode, text: y.Value, line: y.Line, col: y.Column}
	switch {
	case y.Kind != yaml.ScalarNode || y.Anchor != "":
		r.broken = true
		r.fail(y.Line, y.Column, path, "has a key that is no plain text")
	case y.ShortTag() == "!!merge":
		r.broken = true
		r.fail(y.Line, y.Column, path, "has a merge key <<; write the fields out, it is not supported")
	}
	return k
}

// pair adds a key with its value, unless it is there already.
func (r *reader) pair(n, key *node, path string, value func(path string) *node) {
	at := join(path, key.text)
	if n.names[key.text] {
		r.fail(key.line, key.col, at, "is there twice; leave one of them out")
		return
	}
	if n.names == nil {
		n.names = map[string]bool{}
	}
	n.names[key.text] = true
	v := value(at)
	n.keys, n.items = append(n.keys, key), append(n.items, v)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func (r *reader) scalar(n *node, y *yaml.Node, path string) {
	n.text = y.Value
	switch y.ShortTag() {
	case "!!null":
		n.kind, n.text = nullNode, ""
	case "!!bool":
		if n.kind = boolNode; n.text != "true" && n.text != "false" {
			n.text = strings.ToLower(n.text)
		}
	case "!!int", "!!float":
		if n.kind = numberNode; !isNumber(n.text) {
			r.fail(y.Line, y.Column, path, fmt.Sprintf(
				"%s is not a number as JSON writes it; write 7, 0.5 or -12, or put it into quotes as text",
				n.text))
		}
	case "!!str", "!!timestamp":
		n.kind = stringNode
	default:
		n.kind = stringNode
		r.fail(y.Line, y.Column, path, "has the tag "+y.ShortTag()+"; tags are not supported")
	}
}
