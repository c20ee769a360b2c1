package definition

import (
	"fmt"
	"slices"
)

// env says what may stand in an expression.
type env struct {
	input *typ
	// steps are all steps of the document in order; those before own can be referred to.
	steps []stepType
	own   string
	// output is what the own step gives, where that is known already; else nil.
	output *typ
	// reply, signal, key, run and callback say that these names have a meaning.
	reply, signal, key, run, callback bool
	// noSecrets says why there are none; empty means that they are allowed.
	noSecrets string
	secrets   []string // the names there are; nil is not known
	used      map[string]bool
	// notifies is set when callback_url is used, and named when run.id or run.key is; they
	// may be nil.
	notifies, named *bool
}

// stepType is what others may know of a step.
type stepType struct {
	name   string
	output *typ // what it has come to, however it ended
	signal bool // it awaits one
	came   *typ // what comes with it
	reads  *parts
}

func (e *env) names() []string {
	names := []string{"input", "steps"}
	for _, n := range []struct {
		name string
		ok   bool
	}{{"output", e.output != nil}, {"reply", e.reply}, {"signal", e.signal}, {"key", e.key},
		{"action_key", e.key}, {"run", e.run}, {"callback_url", e.callback}, {"secrets", e.noSecrets == ""}} {
		if n.ok {
			names = append(names, n.name)
		}
	}
	return names
}

// unknown says why a name has no meaning here.
func (e *env) unknown(name string) string {
	switch name {
	case "input", "steps":
		return "has no meaning here: only " + list(e.names()) + " have"
	case "reply":
		return "has no meaning here: there is no reply yet"
	case "signal":
		return "has no meaning here; the signal of an earlier step is steps.<name>.signal"
	case "output":
		return "has no meaning here: only undo knows the output of its own step; that of an earlier one is " +
			"steps.<name>.output"
	case "callback_url":
		return "has no meaning here: only the call of a step with await has a callback"
	case "key", "action_key", "run":
		return "has no meaning here"
	case "secrets":
		return e.noSecrets
	}
	return fmt.Sprintf("is not known%s; names are %s", didYouMean(name, e.names()), list(e.names()))
}

// step finds a step that may be referred to.
func (e *env) step(name string) (*stepType, string) {
	own := slices.IndexFunc(e.steps, func(s stepType) bool { return s.name == e.own })
	i := slices.IndexFunc(e.steps, func(s stepType) bool { return s.name == name })
	switch {
	case i < 0:
		return nil, fmt.Sprintf("is no step%s; steps before this one are %s", didYouMean(name, e.before(own)),
			list(e.before(own)))
	case i == own && e.output == nil:
		return nil, "is the step itself, whose output is not there before its call"
	case own >= 0 && i > own:
		return nil, fmt.Sprintf("comes later than %s; only steps before it are known", e.own)
	}
	s := e.steps[i]
	if i == own {
		s.output = e.output
	}
	return &s, ""
}

func (e *env) before(own int) []string {
	names := []string{}
	for i, s := range e.steps {
		if own < 0 || i < own || i == own && e.output != nil {
			names = append(names, s.name)
		}
	}
	return names
}

var runFields = map[string]*typ{"id": stringType, "key": stringType, "definition": stringType,
	"version": stringType, "round": {kind: numberKind, whole: true}}

var replyType = &typ{kind: objectKind, fields: map[string]*typ{
	"status": {kind: numberKind, whole: true}, "headers": headersType, "body": anyType,
	"text": {kind: stringKind},
}}

// headersType is that of the headers of a reply, whose names are in small letters.
var headersType = &typ{kind: objectKind}

var signalType = &typ{kind: objectKind, fields: map[string]*typ{"body": anyType}}
