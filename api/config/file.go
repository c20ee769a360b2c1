package config

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v4"
)

// maxFile is the largest configuration file in bytes, and the largest file that
// a secret is read from.
const maxFile = 1 << 20

// The endings of the keys that say where a secret is read from.
const (
	fileSuffix = "_file"
	envSuffix  = "_env"
)

// parseFile reads the text of a file into the loader's Config.
func (l *loader) parseFile(name string, text []byte) {
	l.file = name
	node, err := parseNode(text)
	if err != nil {
		l.add(l.syntaxProblem(err))
		return
	}
	if node != nil {
		l.section(node, l.root, "")
	}
}

// parseNode returns the root of the only document of text, nil when it is empty.
func parseNode(text []byte) (*yaml.Node, error) {
	loader, err := yaml.NewLoader(strings.NewReader(string(text)))
	if err != nil {
		return nil, err
	}
	var doc, second yaml.Node
	if err := loader.Load(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, err
	}
	switch err := loader.Load(&second); {
	case err == nil:
		return nil, &yaml.LoadError{Message: "a second document begins; write all into one",
			Mark: yaml.Mark{Line: second.Line, Column: second.Column}}
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	if doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 {
		return doc.Content[0], nil
	}
	return nil, nil
}

func (l *loader) syntaxProblem(err error) Problem {
	p := Problem{Origin: Origin{Kind: FromFile, Name: l.file}, Text: err.Error(),
		Remedy: "indent with spaces and put texts with : or # into quotes"}
	if syntax, ok := errors.AsType[*yaml.LoadError](err); ok {
		p.Origin.Line, p.Origin.Column = syntax.Mark.Line, max(1, syntax.Mark.Column)
		p.Text = "is not YAML: " + syntax.Message
		if syntax.ContextMsg != "" {
			p.Text += " " + syntax.ContextMsg
		}
	}
	return p
}

func (l *loader) at(n *yaml.Node) Origin {
	return Origin{Kind: FromFile, Name: l.file, Line: n.Line, Column: n.Column}
}

// usable reports whether n is of the kind wanted, and complains when it is not.
func (l *loader) usable(n *yaml.Node, kind yaml.Kind, path string) bool {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		l.add(Problem{Origin: l.at(n), Key: path, Text: "is an anchor or an alias",
			Remedy: "write the value out; they are not supported"})
		return false
	}
	if n.Kind == kind {
		return true
	}
	l.add(Problem{Origin: l.at(n), Key: path, Text: "is " + kindName(n.Kind),
		Allowed: kindName(kind)})
	return false
}

func kindName(k yaml.Kind) string {
	switch k {
	case yaml.MappingNode:
		return "a section of keys"
	case yaml.SequenceNode:
		return "a list"
	default:
		return "a single value"
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// section reads the keys of n into the struct v.
func (l *loader) section(n *yaml.Node, v reflect.Value, path string) {
	if isNull(n) { // all of its keys are commented out
		return
	}
	if !l.usable(n, yaml.MappingNode, path) {
		return
	}
	seen := map[string]int{}
	fields := fieldsOf(v.Type())
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if !l.usable(key, yaml.ScalarNode, path) {
			continue
		}
		p := join(path, key.Value)
		if first := seen[key.Value]; first > 0 {
			l.add(Problem{Origin: l.at(key), Key: p,
				Text:   fmt.Sprintf("stands here again, first in line %d", first),
				Remedy: "remove one of the two"})
			continue
		}
		seen[key.Value] = key.Line
		f, source := findField(fields, key.Value)
		if f == nil {
			l.add(l.unknownKey(key, fields, path))
			continue
		}
		at := where{path: join(path, f.key), source: source}
		l.value(value, v.Field(f.index), *f, at)
	}
}

// findField returns the field of a key, and for a secret's key with an ending
// that ending.
func findField(fields []field, key string) (*field, string) {
	for i, f := range fields {
		if f.key == key {
			return &fields[i], ""
		}
		if f.typ == secretType && (key == f.key+fileSuffix || key == f.key+envSuffix) {
			return &fields[i], strings.TrimPrefix(key, f.key)
		}
	}
	return nil, ""
}

func (l *loader) unknownKey(key *yaml.Node, fields []field, path string) Problem {
	p := Problem{Origin: l.at(key), Key: join(path, quoteKey(key.Value)), Text: "is not a key"}
	var names []string
	for _, f := range fields {
		names = append(names, f.key)
	}
	if near := nearest(strings.ToLower(key.Value), names); near != "" {
		p.Remedy = "did you mean " + near + "?"
		return p
	}
	for _, k := range Keys() {
		if k.Path == key.Value || strings.HasSuffix(k.Path, "."+key.Value) {
			p.Remedy = "did you mean " + k.Path + "?"
			return p
		}
	}
	p.Allowed = strings.Join(names, ", ")
	return p
}

// quoteKey returns a key as it stands in a path, quoted when it would not be
// read as one.
func quoteKey(key string) string {
	if strings.IndexFunc(key, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
	}) >= 0 || key == "" || len(key) > 60 {
		return quote(key)
	}
	return key
}

// where is a key, and for a secret's the ending that it was written with.
type where struct{ path, source string }

// value reads n into v by its type.
func (l *loader) value(n *yaml.Node, v reflect.Value, f field, at where) {
	path := at.path
	if f.typ.Kind() == reflect.Pointer {
		if isNull(n) {
			return
		}
		item := reflect.New(f.typ.Elem())
		setDefaults(item.Elem())
		v.Set(item)
		l.origins[path] = l.at(n)
		l.section(n, item.Elem(), path)
		return
	}
	switch {
	case isSection(f.typ):
		l.section(n, v, path)
	case isSections(f.typ):
		l.sections(n, v, path)
	case f.typ == secretsType:
		l.secrets(n, v, path)
	case f.typ.Kind() == reflect.Map:
		l.texts(n, v, f, path)
	case isList(f.typ) && n.Kind != yaml.ScalarNode:
		l.list(n, v, f, path)
	default:
		l.scalar(n, v, f, at)
	}
}

// sections reads a list of sections, each with its own defaults.
func (l *loader) sections(n *yaml.Node, v reflect.Value, path string) {
	if isNull(n) || !l.usable(n, yaml.SequenceNode, path) {
		return
	}
	v.SetZero()
	if len(n.Content) == 0 {
		l.origins[path] = l.at(n) // somebody means it
	}
	for i, item := range n.Content {
		p := fmt.Sprintf("%s[%d]", path, i)
		s := reflect.New(v.Type().Elem()).Elem()
		setDefaults(s)
		l.origins[p] = l.at(item)
		if isNull(item) {
			l.add(Problem{Origin: l.at(item), Key: p, Text: "is empty", Remedy: "remove it or fill it in"})
		}
		l.section(item, s, p)
		v.Set(reflect.Append(v, s))
	}
}

// list reads a list of values.
func (l *loader) list(n *yaml.Node, v reflect.Value, f field, path string) {
	if !l.usable(n, yaml.SequenceNode, path) {
		return
	}
	v.SetZero()
	l.origins[path] = l.at(n)
	for i, item := range n.Content {
		p := fmt.Sprintf("%s[%d]", path, i)
		if !l.usable(item, yaml.ScalarNode, p) {
			continue
		}
		if e := f.appendLeaf(v, item.Value); e != nil {
			l.addLeaf(l.at(item), p, item.Value, e)
			l.failed[path] = true // what is missing from it is not known
		}
	}
}

// texts reads a section whose keys are free.
func (l *loader) texts(n *yaml.Node, v reflect.Value, f field, path string) {
	if isNull(n) || !l.usable(n, yaml.MappingNode, path) {
		return
	}
	l.origins[path] = l.at(n)
	texts := map[string]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		p := join(path, quoteKey(key.Value))
		if !l.usable(key, yaml.ScalarNode, p) || !l.usable(value, yaml.ScalarNode, p) {
			continue
		}
		if _, again := texts[key.Value]; again {
			l.add(Problem{Origin: l.at(key), Key: p, Text: "stands here again",
				Remedy: "remove one of the two"})
			continue
		}
		var text string
		if e := f.parseBasic(reflect.ValueOf(&text).Elem(), value.Value); e != nil {
			l.addLeaf(l.at(value), p, value.Value, e)
			continue
		}
		texts[key.Value] = text
		l.origins[p] = l.at(value)
	}
	v.Set(reflect.ValueOf(texts))
}

// scalar reads one value.
func (l *loader) scalar(n *yaml.Node, v reflect.Value, f field, key where) {
	written := key.path + key.source
	if isNull(n) {
		l.add(Problem{Origin: l.at(n), Key: written, Text: "has no value",
			Remedy: `remove the line, or write "" for an empty text`})
		return
	}
	if !l.usable(n, yaml.ScalarNode, written) {
		return
	}
	at := l.at(n)
	if f.typ == secretType {
		if o, set := l.origins[key.path]; set && o.Kind == FromFile {
			l.add(Problem{Origin: at, Key: written, Text: "is given twice",
				Remedy: fmt.Sprintf("leave one of %[1]s, %[1]s_file and %[1]s_env", f.key)})
			return
		}
	}
	l.set(v, f, given{path: key.path, at: at, source: key.source, text: n.Value})
}

// given is a text that was given for a key.
type given struct {
	path   string
	at     Origin
	source string // the ending of a secret's key
	text   string
}

// set gives v the value that was given, and notes its origin.
func (l *loader) set(v reflect.Value, f field, g given) {
	if g.source != "" {
		secret, ok := l.secret(g)
		if !ok {
			return
		}
		g.at.Via, g.text = strings.TrimPrefix(g.source, "_")+" "+g.text, secret
	}
	if f.typ == secretType &&
		strings.ContainsFunc(g.text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		l.add(Problem{Origin: g.at, Key: g.path, Text: "holds a control character",
			Remedy: "a secret is one line of text"})
		return
	}
	if e := f.parseLeaf(v, g.text); e != nil {
		l.addLeaf(g.at, g.path, g.text, e)
		return
	}
	l.origins[g.path] = g.at
}

// secret reads what a _file or _env key names. One line break at the end does
// not belong to it, since editors write it.
func (l *loader) secret(g given) (string, bool) {
	if l.noSecrets {
		return hidden, true
	}
	problem := Problem{Origin: g.at, Key: g.path + g.source, Value: g.text}
	if g.source == envSuffix {
		if text, ok := l.env[g.text]; ok && text != "" {
			return text, true
		}
		problem.Text, problem.Remedy = "is not set", "set the variable, or name another"
		l.add(problem)
		return "", false
	}
	name := g.text
	if g.at.Kind == FromFile {
		name = l.beside(name)
	}
	text, err := l.readFile(name)
	switch {
	case err != nil:
		problem.Text, problem.Remedy = "cannot be read: "+reason(err),
			"make the file readable, or name another"
	case len(text) == 0:
		problem.Text, problem.Remedy = "is empty", "write the secret into it"
	default:
		s := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
		return s, true
	}
	l.add(problem)
	return "", false
}

func (l *loader) addLeaf(at Origin, path, text string, e *leafError) {
	if e.shown != "" {
		text = e.shown
	}
	l.add(Problem{Origin: at, Key: path, Value: text, Text: e.problem, Allowed: e.allowed, Remedy: e.remedy})
}
