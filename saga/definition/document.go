package definition

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"onced/saga"
)

// MaxSource is the largest document, in bytes.
const MaxSource = 256 << 10

// Options are the settings of [Parse].
type Options struct {
	// File is the name that problems are reported under, or empty. A name that ends in
	// .json makes it JSON; else it is either.
	File string
	// Secrets are the names of the secrets there are; nil means that they are not
	// known, and then none is reported as missing.
	Secrets []string
}

// Document is a definition that has been read and checked. It is immutable and safe
// for concurrent use.
type Document struct {
	name, title, version string
	source               []byte
	digest               string
	deadline             time.Duration
	input                *typ
	labels               []namedText
	defs                 []*stepDef
	steps                []StepInfo
	secrets, hosts       []string
	urls                 []urlAt
	file                 string
	warnings             Problems
	notifies             bool // a call has a callback_url
}

// StepInfo describes a step for people.
type StepInfo struct {
	// Name is its name.
	Name string `json:"name"`
	// Method and URL are those of the call, expressions as they are written; empty for
	// a step that only waits.
	Method string `json:"method,omitempty"`
	URL    string `json:"url,omitempty"`
	// Undo, Check and Await say that the step has one.
	Undo  bool `json:"undo"`
	Check bool `json:"check"`
	Await bool `json:"await"`
	// Pivot, Irreversible and NothingToUndo say what a step without undo means.
	Pivot         bool `json:"pivot,omitempty"`
	Irreversible  bool `json:"irreversible,omitempty"`
	NothingToUndo bool `json:"nothing_to_undo,omitempty"`
}

// Parse reads a document of YAML or JSON and checks it. It returns all that is wrong
// with it at once; the document is nil then. It never panics, and its time and memory
// are bounded, whatever the bytes are.
func Parse(src []byte, o Options) (*Document, Problems) {
	r := &reader{file: o.File, src: src}
	root := r.read()
	var d *Document
	c := &checker{reader: r, secrets: o.Secrets, used: map[string]bool{}}
	if root != nil {
		d = c.document(root)
	}
	if len(r.problems) == 0 && d != nil {
		// What is wrong for the engine and was not seen here has no place in the text.
		if err := d.compile(Target{Version: "1"}, Deps{}).Err(); err != nil {
			r.fail(0, 0, "", err.Error())
		}
	}
	if len(r.problems) > 0 {
		return nil, r.problems.sorted()
	}
	return d, nil
}

var documentKeys = []string{"name", "title", "version", "deadline", "input", "labels", "steps"}

func (c *checker) document(n *node) *Document {
	s := c.section(n, "", documentKeys...)
	if s == nil {
		return nil
	}
	c.printable(n, "")
	d := &Document{source: slices.Clone(c.src), file: c.file}
	d.name = c.name(s, "name", true)
	d.title, _ = s.text("title")
	if len(d.title) > 200 {
		c.atf(s.n.get("title"), "title", "has more than 200 bytes")
	}
	if problem := printable(d.title); problem != "" {
		c.atf(s.n.get("title"), "title", "%s", problem)
	}
	d.version = c.name(s, "version", false)
	d.deadline = s.duration("deadline", time.Millisecond, longest)
	c.inputTypes(s)
	d.input = c.input
	d.labels = c.labels(s)
	c.allSteps(s, d)
	d.digest, d.notifies, d.warnings = digest(n), c.notifies, c.warnings.sorted()
	d.secrets = sortedKeys(c.used)
	d.urls = c.urls
	for _, u := range c.urls {
		if parsed, err := url.Parse(u.url); err == nil && !slices.Contains(d.hosts, parsed.Host) {
			d.hosts = append(d.hosts, parsed.Host)
		}
	}
	slices.Sort(d.hosts)
	return d
}

// name reads a name of a definition, a version or a step.
func (c *checker) name(s *section, key string, required bool) string {
	name, n := s.text(key)
	switch {
	case n == nil && s.lacks(key) && required:
		c.atf(s.n, s.path(key), "is missing")
	case n == nil:
	case key == "version" && !versionForm.MatchString(name), key != "version" && !nameForm.MatchString(name):
		c.atf(n, s.path(key), "is %q; a name begins with a letter and has letters, digits, - and _ only",
			cut(name, 64))
	case len(name) > saga.MaxName:
		c.atf(n, s.path(key), "has more than %d characters", saga.MaxName)
	default:
		return name
	}
	return ""
}

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// inputTypes reads the declared fields of the input.
func (c *checker) inputTypes(s *section) {
	c.input = anyType
	n := s.get("input")
	if n == nil {
		return
	}
	if n.kind != objectNode {
		c.atf(n, "input", "is %s; it must be a section of fields and their types", n.kind)
		return
	}
	t := &typ{kind: objectKind, fields: map[string]*typ{}}
	for i, k := range n.keys {
		field := join("input", k.text)
		if k.text == "" || len(k.text) > 128 {
			c.atf(k, field, "is no name of a field: it has 1 to 128 bytes")
			continue
		}
		if n.items[i].kind == objectNode {
			c.atf(n.items[i], field, "is a section; the type of a field is one word, such as object")
			t.fields[k.text] = anyType
			continue
		}
		ft, err := parseType(n.items[i].text)
		if err != nil {
			c.atf(n.items[i], field, "%s", err.Error())
			ft = anyType
		}
		t.fields[k.text] = ft
	}
	c.input = t
}

// labels reads the labels of runs.
func (c *checker) labels(s *section) []namedText {
	out := c.names(s, "labels", &env{input: c.input, run: true, used: c.used,
		noSecrets: "has no place in a label, which is shown"})
	if len(out) > saga.MaxLabels {
		c.atf(s.key("labels"), "labels", "are more than %d", saga.MaxLabels)
	}
	for _, l := range out {
		if len(l.name) > saga.MaxName {
			c.atf(s.n.get("labels").keyNode(l.name), "labels."+l.name, "has a name of more than %d bytes",
				saga.MaxName)
		}
	}
	return out
}

func (c *checker) allSteps(s *section, d *Document) {
	n := s.get("steps")
	switch {
	case n == nil:
		if s.lacks("steps") {
			c.atf(s.n, "steps", "is missing; a definition has at least one step")
		}
		return
	case n.kind != listNode:
		c.atf(n, "steps", "is %s; it must be a list of steps, each beginning with - name:", n.kind)
		return
	case len(n.items) == 0 || len(n.items) > saga.MaxSteps:
		c.atf(n, "steps", "must be 1 to %d, there are %d", saga.MaxSteps, len(n.items))
		return
	}
	c.stepNames(n)
	pivot := ""
	for i, item := range n.items {
		def := c.step(item, i)
		if def == nil {
			continue
		}
		if def.pivot && pivot != "" {
			field := fmt.Sprintf("steps[%d].pivot", i)
			c.atf(item.keyNode("pivot"), field, "is a second pivot besides %s; there is one point of no "+
				"return", pivot)
		}
		if def.pivot {
			pivot = def.name
		}
		d.defs = append(d.defs, def)
		d.steps = append(d.steps, def.info(item))
	}
	c.notes(n.items, d)
}

// stepNames reads the names first, so that every step can say which others there are.
func (c *checker) stepNames(n *node) {
	c.steps = make([]stepType, len(n.items))
	for i, item := range n.items {
		c.steps[i].output, c.steps[i].came, c.steps[i].reads = anyType, anyType, &parts{}
		if item.kind != objectNode {
			continue
		}
		field := fmt.Sprintf("steps[%d]", i)
		name := c.name(c.view(item, field, stepKeys), "name", true)
		if name != "" && slices.ContainsFunc(c.steps[:i], func(s stepType) bool { return s.name == name }) {
			c.atf(item.get("name"), field+".name", "is there twice; every step has a name of its own")
		}
		c.steps[i].name, c.steps[i].signal = name, item.get("await") != nil
	}
}

func (d *stepDef) info(n *node) StepInfo {
	i := StepInfo{Name: d.name, Undo: d.undo != nil, Check: d.check != nil, Await: d.await != nil,
		Pivot: d.pivot, Irreversible: d.irreversible, NothingToUndo: d.nothing}
	if call := n.get("call"); d.call != nil && call != nil {
		i.Method = d.call.method
		if u := call.get("url"); u != nil {
			i.URL = u.text
		}
	}
	return i
}

// digest stands for the content: keys in order, no layout.
func digest(n *node) string {
	h := sha256.Sum256(n.canonical(nil))
	return hex.EncodeToString(h[:16])
}

// canonical writes the node as JSON with its keys in order.
func (n *node) canonical(b []byte) []byte {
	switch n.kind {
	case stringNode:
		return appendText(b, n.text)
	case listNode:
		b = append(b, '[')
		for _, item := range n.items {
			b = append(item.canonical(b), ',')
		}
		return append(b, ']')
	case objectNode:
		values := map[string]*node{}
		for i, k := range n.keys {
			values[k.text] = n.items[i]
		}
		b = append(b, '{')
		for _, k := range sortedKeys(values) {
			b = append(appendText(b, k), ':')
			b = append(values[k].canonical(b), ',')
		}
		return append(b, '}')
	case nullNode:
		return append(b, "null"...)
	case boolNode, numberNode:
	}
	return append(b, n.text...)
}

// Name returns the name of the definition.
func (d *Document) Name() string { return d.name }

// Title returns the title for people, or the name when there is none.
func (d *Document) Title() string {
	if d.title == "" {
		return d.name
	}
	return d.title
}

// Version returns the version that the document itself gives, or empty: then a [Book]
// numbers it.
func (d *Document) Version() string { return d.version }

// Source returns the bytes that were parsed. They must not be changed.
func (d *Document) Source() []byte { return d.source }

// Digest stands for the content: documents that differ in comments, layout, quoting or
// the order of keys have the same.
func (d *Document) Digest() string { return d.digest }

// Steps describes the steps in order. They must not be changed.
func (d *Document) Steps() []StepInfo { return d.steps }

// Secrets returns the names of the secrets that the document uses, sorted.
func (d *Document) Secrets() []string { return d.secrets }

// Hosts returns the hosts, with port where one is given, that the document calls,
// sorted.
func (d *Document) Hosts() []string { return d.hosts }
