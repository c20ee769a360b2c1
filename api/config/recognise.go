package config

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

var fieldPath = regexp.MustCompile(`^[^.\x00-\x1f]+(\.[^.\x00-\x1f]+)*$`)

// named is a match and where it stands.
type named struct {
	name string
	Match
}

// recognise checks how the answers of a look-up are told apart.
func (l *loader) recognise(c *Check, path string) {
	unread := l.failed[path+".done.status"] || l.failed[path+".refused.status"] ||
		l.failed[path+".absent.status"]
	if !unread && !c.Done.Set() && !c.Refused.Set() && !c.Absent.Set() {
		l.wrong(path, Problem{Text: "recognises no answer",
			Remedy: "say for example done: {status: 200} and absent: {status: 404}"})
	}
	all := []named{{"done", c.Done}, {"refused", c.Refused}, {"absent", c.Absent}}
	for i, m := range all {
		l.match(path+"."+m.name, m.Match)
		if c.Method == http.MethodHead && (m.Field != "" || m.Is != "") {
			l.wrong(path+"."+m.name+".field", Problem{Text: "is in the body, and an answer to HEAD has none",
				Remedy: "use method: GET"})
		}
		if m.Is != "" && m.name != "absent" {
			l.wrong(path+"."+m.name+".is", Problem{Value: m.Is, Text: "is for absent only",
				Remedy: "name a field that is there, and what it equals"})
		}
		l.catchAll(path, m, all[:i])
	}
	l.replyField(c, path+".reply_field")
}

func (l *loader) match(path string, m Match) {
	if m.Field != "" {
		l.fieldPath(path+".field", m.Field)
	}
	if !m.Set() && (m.Field != "" || len(m.Equals) > 0 || m.Is != "") {
		l.wrong(path+".status", Problem{Text: "is missing", Remedy: "for example status: 200"})
	}
	if m.Field == "" && len(m.Equals) > 0 {
		l.wrong(path+".field", Problem{Text: "is missing", Remedy: "say which field equals"})
	}
	switch {
	case m.Is == "":
	case len(m.Equals) > 0:
		l.wrong(path+".is", Problem{Value: m.Is, Text: "cannot stand beside equals",
			Remedy: "remove one of the two"})
	case m.Field == "" && m.Is == IsMissing:
		l.wrong(path+".field", Problem{Text: "is missing", Remedy: "say which field is not there"})
	case slices.Contains(strings.Split(m.Field, "."), AnyEntry):
		l.wrong(path+".is", Problem{Value: m.Is, Text: "says nothing of the entries of a list",
			Remedy: "name the list itself, for example field: data, is: empty"})
	}
}

// fieldPath checks the path of a field.
func (l *loader) fieldPath(path, field string) {
	switch {
	case !fieldPath.MatchString(field):
		l.wrong(path, Problem{Value: field, Text: "is not the path of a field",
			Remedy: "names and numbers with points between them, for example data.0.status"})
	case strings.Count("."+field+".", "."+AnyEntry+".") > 1 || strings.Contains("."+field+".", ".*.*."):
		l.wrong(path, Problem{Value: field, Text: "has more than one *",
			Remedy: "one * stands for every entry of one list, for example data.*.status"})
	}
}

// catchAll complains of a match by status alone behind one that looks into the
// answers of that status: it would take every other answer, one that is pending
// too, and what is pending would be sent again.
func (l *loader) catchAll(path string, m named, before []named) {
	if m.Field != "" || m.Is != "" || !m.Set() {
		return
	}
	for _, b := range before {
		if !b.Set() || b.Field == "" {
			continue
		}
		for status := 200; status <= 599; status++ {
			if m.Status.Has(status) && b.Status.Has(status) {
				l.wrong(path+"."+m.name, Problem{Text: fmt.Sprintf("takes every answer with %d that %s does "+
					"not: one that is pending too", status, b.name),
					Remedy: "name the field that tells it, for example field: data, is: empty"})
				return
			}
		}
	}
}

// replyField checks which part of an answer is stored.
func (l *loader) replyField(c *Check, path string) {
	if c.ReplyField == "" {
		return
	}
	l.fieldPath(path, c.ReplyField)
	switch {
	case c.Method == http.MethodHead:
		l.wrong(path, Problem{Value: c.ReplyField, Text: "is in the body, and an answer to HEAD has none",
			Remedy: "use method: GET"})
	case !c.Done.Set() && !c.Refused.Set():
		l.wrong(path, Problem{Value: c.ReplyField, Text: "is of no use: only what done and refused " +
			"recognise is stored", Remedy: "remove it"})
	}
	list, ok := listOf(c.ReplyField)
	if !ok {
		return
	}
	for _, m := range []named{{"done", c.Done}, {"refused", c.Refused}} {
		if theirs, ok := listOf(m.Field); m.Set() && (!ok || theirs != list) {
			l.wrong(path, Problem{Value: c.ReplyField, Text: "has a * that " + m.name + ".field has not",
				Remedy: "a * stands for the entry that matched: write the same list in both, for example " +
					"reply_field: data.* with field: data.*.status"})
			return
		}
	}
}

// listOf is the path of the list whose entries a field names, with its point.
func listOf(field string) (list string, ok bool) {
	list, _, ok = strings.Cut("."+field+".", "."+AnyEntry+".")
	return list, ok
}
