package api

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	"onced/api/problem"
)

// jsonWalk goes once over JSON that is known to be valid, and in UTF-8.
type jsonWalk struct {
	raw    []byte
	at     int
	spaced bool // there was space between two tokens
}

// memberName is what next returns for the name of a member.
const memberName = 'n'

// next returns the next bracket, or the next name of a member as it is written, in its
// quotes; 0 is the end. Other values are passed over.
func (w *jsonWalk) next() (kind byte, text []byte) {
	for w.at < len(w.raw) {
		switch c := w.raw[w.at]; c {
		case '{', '}', '[', ']':
			w.at++
			return c, nil
		case '"':
			from := w.at
			w.endOfText()
			text = w.raw[from:w.at]
			w.space()
			if w.at < len(w.raw) && w.raw[w.at] == ':' { // which stands behind names only
				w.at++
				return memberName, text
			}
		case ' ', '\t', '\r', '\n':
			w.space()
		default:
			w.at++
		}
	}
	return 0, nil
}

// endOfText goes behind the text that begins here.
func (w *jsonWalk) endOfText() {
	for w.at++; w.at < len(w.raw); w.at++ {
		switch w.raw[w.at] {
		case '\\':
			w.at++
		case '"':
			w.at++
			return
		}
	}
}

// space goes behind the space that is here, if any.
func (w *jsonWalk) space() {
	for w.at < len(w.raw) && strings.IndexByte(" \t\r\n", w.raw[w.at]) >= 0 {
		w.at++
		w.spaced = true
	}
}

// unquoted is the text that a JSON text stands for.
func unquoted(text []byte) string {
	inner := text[1 : len(text)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	var s string
	_ = json.Unmarshal(text, &s) // it is valid
	return s
}

// maxNested is how deep the JSON of a request may be nested that is kept: there are
// readers that give up on more.
const maxNested = 100

// doubled finds a member that an object of valid JSON has twice, how deep it is nested,
// which is read to maxNested only, and whether there is space in it.
func doubled(raw []byte) (member string, twice bool, deepest int, spaced bool) {
	w := jsonWalk{raw: raw}
	var room [8]names
	open := room[:0]
	for {
		switch kind, text := w.next(); kind {
		case 0:
			return "", false, deepest, w.spaced
		case '{', '[':
			open = append(open, names{})
			if deepest = max(deepest, len(open)); deepest > maxNested {
				return "", false, deepest, w.spaced
			}
		case '}', ']':
			open = open[:len(open)-1]
		case memberName:
			if s := unquoted(text); !open[len(open)-1].add(s) {
				return s, true, deepest, w.spaced
			}
		}
	}
}

// fewNames is up to how many names are looked through one by one.
const fewNames = 16

// names are those of the members of one object.
type names struct {
	few  []string
	many map[string]bool // instead, when they are many
}

// add reports whether a name is new.
func (n *names) add(s string) bool {
	if n.many == nil {
		if slices.Contains(n.few, s) {
			return false
		}
		if len(n.few) < fewNames {
			n.few = append(n.few, s)
			return true
		}
		n.many = make(map[string]bool, 2*fewNames)
		for _, old := range n.few {
			n.many[old] = true
		}
	}
	if n.many[s] {
		return false
	}
	n.many[s] = true
	return true
}

// memberLists has the names of the members of each type of request that was read:
// there are no more than the program has types.
var memberLists sync.Map // reflect.Type → []string

// membersOf lists the names of the members of the struct that dst points to.
func membersOf(dst any) []string {
	t := reflect.TypeOf(dst).Elem()
	if known, ok := memberLists.Load(t); ok {
		return known.([]string)
	}
	known := appendMembers(nil, t)
	memberLists.Store(t, known)
	return known
}

func appendMembers(known []string, t reflect.Type) []string {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			known = appendMembers(known, f.Type)
			continue
		}
		known = append(known, name)
	}
	return known
}

// checkMembers looks at the members of the outermost object of valid JSON.
func checkMembers(raw []byte, known []string) error {
	w := jsonWalk{raw: raw}
	w.space()
	if kind, _ := w.next(); kind != '{' {
		return notOneObject()
	}
	var room [32]bool // more than any request has members
	seen := append(room[:0], make([]bool, len(known))...)
	for depth := 1; ; {
		switch kind, text := w.next(); kind {
		case 0:
			return nil
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case memberName:
			if depth > 1 {
				continue
			}
			i := indexOf(known, text)
			if i < 0 {
				return unknownMember(unquoted(text))
			}
			if seen[i] {
				return doubledMember(known[i])
			}
			seen[i] = true
		}
	}
}

// indexOf finds the name that a JSON text stands for.
func indexOf(known []string, text []byte) int {
	if bytes.IndexByte(text, '\\') >= 0 {
		return slices.Index(known, unquoted(text))
	}
	for i, k := range known {
		if k == string(text[1:len(text)-1]) {
			return i
		}
	}
	return -1
}

func notOneObject() error {
	return problem.New(problem.InvalidJSON, "the body is not one JSON object")
}

func unknownMember(name string) error {
	return problem.New(problem.UnknownField, "the member is not one of this request").At(cutText(name))
}

func doubledMember(name string) error {
	return problem.New(problem.InvalidJSON, "a member is given more than once").At(name)
}
