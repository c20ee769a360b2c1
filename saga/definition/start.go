package definition

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	"onced/saga"
)

// CheckInput checks the input of a run against the declared fields. The error is a
// [saga.InputError] that names the first field at fault, and tells all: they are not
// there, of another type, or not declared. Without declared fields every JSON is good.
func (d *Document) CheckInput(input []byte) error {
	if len(input) > saga.MaxData {
		return nil // the engine says so, with its limit
	}
	v, err := decodeJSON(input)
	if err != nil {
		return &saga.InputError{Field: "input", Problem: err.Error()}
	}
	if d.input.fields == nil {
		return nil
	}
	if v == nil {
		v = map[string]any{}
	}
	wrong := d.input.misfits(v, "input")
	if len(wrong) == 0 {
		return nil
	}
	e := &saga.InputError{Field: wrong[0].field, Problem: wrong[0].problem}
	for i, w := range wrong[1:] {
		if i == maxTold {
			e.Problem += fmt.Sprintf("; and %d more", len(wrong)-1-i)
			break
		}
		e.Problem += "; and " + w.field + " " + w.problem
	}
	return e
}

// maxTold bounds how many more than one fault of an input are told.
const maxTold = 19

// Prepare checks the input of a start and sets the labels that the document declares;
// labels that the request has already stand. Its error is a [saga.InputError].
func (d *Document) Prepare(req *saga.StartRequest) error {
	if err := d.CheckInput(req.Input); err != nil {
		return err
	}
	if problem := printable(req.Key); problem != "" {
		return &saga.InputError{Field: "key", Problem: problem}
	}
	if len(d.labels) == 0 {
		return nil
	}
	s := &scope{input: req.Input, run: map[string]any{"key": req.Key, "definition": d.name,
		"version": req.Version}}
	labels := map[string]string{}
	for _, l := range d.labels {
		text, ok, err := l.text.render(s)
		switch {
		case err != nil:
			return &saga.InputError{Field: "input", Problem: "does not give the label: " + err.Error()}
		case ok && (len(text) > saga.MaxRunKey || !utf8.ValidString(text)):
			return &saga.InputError{Field: "input", Problem: fmt.Sprintf("gives the label %s more than %d "+
				"bytes",
				l.name, saga.MaxRunKey)}
		case ok && text != "":
			labels[l.name] = strings.Clone(text) // it may be a piece of the input, which it would keep
		}
	}
	maps.Copy(labels, req.Labels)
	if len(labels) > 0 {
		req.Labels = labels
	}
	return nil
}

// ReadSignal reads the body of a callback for a step that awaits one. The body is any
// JSON; await.done, await.refused and await.output of the step say how it is read.
// Without them it is {"outcome":"done"|"refused","data":…,"reason":…}.
//
// decided is false when the body says neither that the step is done nor that it is
// refused, such as "pending": there is nothing to signal then, and the sender has done
// its part. The signal names the step and not the run: the caller sets Run. The secrets
// are taken out of the body before it is read. The error
// is a [saga.InputError] that names what is wrong with the body, or the step.
func (d *Document) ReadSignal(step string, body []byte, secrets ...string) (
	s saga.Signal, decided bool, err error,
) {
	var def *stepDef
	names := []string{}
	for _, x := range d.defs {
		if x.await != nil {
			names = append(names, x.name)
		}
		if x.name == step {
			def = x
		}
	}
	if def == nil || def.await == nil {
		return s, false, &saga.InputError{Field: "step", Problem: fmt.Sprintf(
			"%q awaits no signal%s; steps that do are %s", cut(step, saga.MaxName), didYouMean(step,
				names), list(names))}
	}
	if len(body) > saga.MaxData {
		return s, false, &saga.InputError{Field: "body", Problem: fmt.Sprintf("has %d bytes, the limit is %d",
			len(body), saga.MaxData)}
	}
	v, err := decodeJSON(body)
	if err == nil && v == nil {
		err = errors.New("is not JSON")
	}
	if err != nil {
		return s, false, &saga.InputError{Field: "body", Problem: err.Error()}
	}
	v = cleaned(v, maskOf(secrets))
	s.Step = step
	if def.await.done == nil {
		return plainSignal(s, v)
	}
	return def.await.read(s, v)
}

// plainSignal reads the form that needs no description.
func plainSignal(s saga.Signal, v any) (saga.Signal, bool, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return s, false, &saga.InputError{Field: "body",
			Problem: "is " +
				"" + kindOf(v) + `; it must be {"outcome":"done"} or {"outcome":"refused"}, with "data"`}
	}
	switch m["outcome"] {
	case "done":
	case "refused":
		s.Refused = true
	default:
		return s, false, &saga.InputError{Field: "body.outcome", Problem: "must be done or refused"}
	}
	data := m["data"]
	if reason, ok := m["reason"].(string); ok && data == nil {
		data = map[string]any{"reason": reason}
	}
	if data != nil {
		s.Data = appendJSON(nil, data)
	}
	return s, true, nil
}

func (a *awaitDef) read(s saga.Signal, v any) (saga.Signal, bool, error) {
	sc := &scope{signal: map[string]any{"body": v}}
	done, err := a.done.condition(sc)
	if err != nil {
		return s, false, &saga.InputError{Field: "body", Problem: "is unclear: done: " + err.Error()}
	}
	if a.refused != nil {
		if s.Refused, err = a.refused.condition(sc); err != nil {
			return s, false, &saga.InputError{Field: "body", Problem: "is unclear: refused: " + err.Error()}
		}
	}
	switch {
	case done && s.Refused:
		return s, false, &saga.InputError{Field: "body", Problem: "is unclear: it is done and refused at " +
			"once"}
	case !done && !s.Refused:
		return s, false, nil
	}
	if a.at != nil {
		if s.At, err = a.time(sc); err != nil {
			return s, false, &saga.InputError{Field: "body", Problem: "is unclear: at: " + err.Error()}
		}
	}
	if a.output == nil || s.Refused {
		s.Data = appendJSON(nil, v)
		return s, true, nil
	}
	if s.Data, err = a.output.append(nil, sc); err != nil {
		return s, false, &saga.InputError{Field: "body", Problem: "is unclear: " + err.Error()}
	}
	if problem := storable(s.Data); problem != "" {
		return s, false, &saga.InputError{Field: "body", Problem: "gives an output that " + problem}
	}
	return s, true, nil
}

// time reads when it happened: a text of RFC 3339, or seconds since 1970.
func (a *awaitDef) time(sc *scope) (time.Time, error) {
	v, err := a.at.value(sc)
	if err != nil || v == nil {
		return time.Time{}, err
	}
	switch v := v.(type) {
	case string:
		if t, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return t.UTC(), nil
		}
	case json.Number:
		if n, err := v.Int64(); err == nil && n > 0 && n < 1<<40 {
			return time.Unix(n, 0).UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("${%s} is no time as 2026-01-31T10:00:00Z, nor seconds since 1970",
		a.at.shown())
}
