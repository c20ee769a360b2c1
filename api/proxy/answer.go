package proxy

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"onced/api/config"
)

// answer is what a look-up got back.
type answer struct {
	status int
	body   []byte
}

// quantity says how many of the entries that a field names have to fit.
type quantity bool

// The quantities.
const (
	one   quantity = false
	every quantity = true // and one at least
)

// matches recognises an answer. entry is the number of the first entry that fits,
// -1 when the field names no entries.
func (a answer) matches(m config.Match, how quantity) (entry int, ok bool) {
	if !m.Status.Has(a.status) {
		return -1, false
	}
	if m.Is != "" {
		return -1, a.is(m)
	}
	if m.Field == "" {
		return -1, true
	}
	list, rest, several := cutAtEntries(m.Field)
	if !several {
		return -1, fits(m, walk(a.body, split(m.Field)))
	}
	at := walk(a.body, list)
	var entries []json.RawMessage
	if !at.found() || json.Unmarshal(at.raw, &entries) != nil {
		return -1, false
	}
	entry = slices.IndexFunc(entries, func(raw json.RawMessage) bool { return fits(m, follow(raw, rest)) })
	if entry < 0 {
		return -1, false
	}
	misfit := func(raw json.RawMessage) bool { return !fits(m, follow(raw, rest)) }
	return entry, how == one || !slices.ContainsFunc(entries, misfit)
}

// is reports that a list is empty, or a field missing. What is no JSON, or of
// another form, tells neither.
func (a answer) is(m config.Match) bool {
	at := walk(a.body, split(m.Field))
	if m.Is == config.IsMissing {
		return at.kind == nodeMissing
	}
	var entries []json.RawMessage
	return at.found() && json.Unmarshal(at.raw, &entries) == nil && len(entries) == 0
}

// part is the part of the answer at a path, its bytes as they came; a * in it
// stands for the entry. ok is false when there is none.
func (a answer) part(path string, entry int) (raw []byte, ok bool) {
	names := split(path)
	if i := slices.Index(names, config.AnyEntry); i >= 0 {
		names[i] = strconv.Itoa(entry)
	}
	at := walk(a.body, names)
	return at.raw, at.found()
}

// split takes a path apart; the empty one has no segments.
func split(path string) []string {
	if path == "" {
		return nil
	}
	return strings.Split(path, ".")
}

// cutAtEntries splits a path at its *.
func cutAtEntries(path string) (list, rest []string, ok bool) {
	names := split(path)
	i := slices.Index(names, config.AnyEntry)
	if i < 0 {
		return nil, nil, false
	}
	return names[:i], names[i+1:], true
}

// nodeKind says what is at a path.
type nodeKind uint8

const (
	nodeOdd     nodeKind = iota // the document has another form, or is none
	nodeMissing                 // nothing, or null
	nodeScalar                  // a text, a number, true or false
	nodeGroup                   // an object or a list
)

// node is the place in a document where a path leads.
type node struct {
	kind nodeKind
	raw  json.RawMessage
}

func (n node) found() bool { return n.kind >= nodeScalar }

// walk follows a path in one JSON document.
func walk(body []byte, path []string) node {
	if !json.Valid(body) { // or there is more behind the document
		return node{}
	}
	raw := json.RawMessage(bytes.TrimSpace(body))
	if kindOf(raw) != nodeGroup {
		return node{} // null alone is no answer
	}
	return follow(raw, path)
}

// follow is walk inside of a valid document.
func follow(raw json.RawMessage, path []string) node {
	for _, name := range path {
		next, kind := step(raw, name)
		if kind != nodeGroup {
			return node{kind: kind}
		}
		raw = next
	}
	return node{kind: kindOf(raw), raw: raw}
}

// step goes down one segment. The kind is that of the way: nodeGroup while there
// is one.
func step(raw json.RawMessage, name string) (json.RawMessage, nodeKind) {
	switch raw[0] {
	case 'n':
		return nil, nodeMissing
	case '{':
		var members map[string]json.RawMessage
		_ = json.Unmarshal(raw, &members) // it is valid
		if next, ok := members[name]; ok {
			return next, nodeGroup
		}
		return nil, nodeMissing
	case '[':
		i, err := strconv.ParseUint(name, 10, 31)
		if err != nil {
			return nil, nodeOdd
		}
		var entries []json.RawMessage
		_ = json.Unmarshal(raw, &entries) // it is valid
		if i < uint64(len(entries)) {
			return entries[i], nodeGroup
		}
		return nil, nodeMissing
	}
	return nil, nodeOdd
}

func kindOf(raw json.RawMessage) nodeKind {
	switch raw[0] {
	case 'n':
		return nodeMissing
	case '{', '[':
		return nodeGroup
	}
	return nodeScalar
}

// fits reports that a value is there and, if a match names texts, is one of them.
// Objects and lists are no text.
func fits(m config.Match, at node) bool {
	switch {
	case !at.found():
		return false
	case len(m.Equals) == 0:
		return true
	case at.kind == nodeGroup:
		return false
	}
	text := string(at.raw)
	if at.raw[0] == '"' {
		_ = json.Unmarshal(at.raw, &text) // it is valid
	}
	return slices.Contains(m.Equals, text)
}
