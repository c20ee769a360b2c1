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
func unquoted(text []byte) []byte {
	inner := text[1 : len(text)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	var s string
	_ = json.Unmarshal(text, &s) // it is valid
	return []byte(s)
}

// maxNested is how deep the JSON of a request may be nested that is kept: there are
// readers that give up on more.
const maxNested = 100

// doubled finds a member that an object of valid JSON has twice, how deep it is nested,
// which is read to maxNested only, and whether there is space in it.
func doubled(raw []byte) (member string, twice bool, deepest int, spaced bool) {
	w := jsonWalk{raw: raw}
	var opened [8]group
	var named [2 * fewNames][]byte
	open, names := opened[:0], named[:0]
	for {
		switch kind, text := w.next(); kind {
		case 0:
			return "", false, deepest, w.spaced
		case '{', '[':
			open = append(open, group{from: len(names)})
			if deepest = max(deepest, len(open)); deepest > maxNested {
				return "", false, deepest, w.spaced
			}
		case '}', ']':
			last := len(open) - 1
			open, names = open[:last], names[:open[last].from]
		case memberName:
			name := unquoted(text)
			var isNew bool
			if names, isNew = open[len(open)-1].add(names, name); !isNew {
				return string(name), true, deepest, w.spaced
			}
		}
	}
}

// fewNames is up to how many names of one object are looked through one by one.
const fewNames = 16

// group is an object or an array that is open. The names of an object's members are
// those from a place on in the list of all, as long as they are few.
type group struct {
	from int
	many map[string]bool // all of them, when they are many
}

// add adds a name to those of all open objects, and reports whether it is new to this
// one, which is the innermost.
func (g *group) add(names [][]byte, name []byte) (_ [][]byte, isNew bool) {
	mine := names[g.from:]
	if g.many == nil {
		if slices.ContainsFunc(mine, func(n []byte) bool { return bytes.Equal(n, name) }) {
			return names, false
		}
		if len(mine) < fewNames {
			return append(names, name), true
		}
		g.many = make(map[string]bool, 2*fewNames)
		for _, old := range mine {
			g.many[string(old)] = true
		}
	}
	if g.many[string(name)] {
		return names, false
	}
	g.many[string(name)] = true
	return names, true
}

// memberLists has the names of the members of each type of request that was read:
// there are no more than the program has types.
var memberLists sync.Map // reflect.Type → []string

// membersOf lists the names of the members of the struct that dst points to.
func membersOf(dst any) []string {
	t := reflect.TypeOf(dst).Elem()
	stored, _ := memberLists.Load(t)
	if known, ok := stored.([]string); ok {
		return known
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
				return unknownMember(string(unquoted(text)))
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
	name := unquoted(text)
	return slices.IndexFunc(known, func(k string) bool { return k == string(name) })
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
