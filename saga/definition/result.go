package definition

import (
	"slices"

	"onced/saga"
)

// CheckResult checks what a person gives as the result of a step that happened, in
// place of the callee: it must have every field that the step's own output would have,
// for the steps behind it and the undo read those. For a step that awaits a signal that
// is await.output; else output, or that of the look-up. A step that does not say what
// its output is takes anything, nil too. The error is a [saga.InputError] about "data".
func (d *Document) CheckResult(step string, data []byte) error {
	i := slices.IndexFunc(d.defs, func(s *stepDef) bool { return s.name == step })
	if i < 0 {
		return nil // the engine says so, with the steps there are
	}
	want := d.defs[i].result()
	if want == nil || want.raw != nil { // nothing of a signal or a reply is in it
		return nil
	}
	var v any
	if len(data) > 0 {
		var err error
		if v, err = decodeJSON(data); err != nil {
			return &saga.InputError{Field: "data", Problem: err.Error()}
		}
	}
	if field, problem := want.lacks(v, "data"); problem != "" {
		return &saga.InputError{Field: field,
			Problem: problem + "; the steps behind and the undo read what " +
				"the definition names in " + want.field}
	}
	return nil
}

// result is what makes the output of the step, or nil.
func (d *stepDef) result() *valueTemplate {
	switch {
	case d.await != nil:
		return d.await.output
	case d.output != nil || d.check == nil:
		return d.output
	}
	return d.check.output
}

// lacks finds the first part of v that is not there, or cannot be what t makes.
func (t *valueTemplate) lacks(v any, field string) (at, problem string) {
	if v == nil {
		if t.typ.maybe || t.typ.kind == nilKind {
			return "", ""
		}
		return field, "is missing"
	}
	if got := kindOfValue(v); !t.typ.is(got) {
		return field, "is " + got.String() + "; it must be " + t.typ.kind.String()
	}
	m, ok := v.(map[string]any)
	if !ok || t.typ.kind != objectKind {
		return "", ""
	}
	for i := range t.items {
		name, err := decodeJSON(t.names[i])
		if err != nil {
			continue // it was written by us
		}
		key, _ := name.(string)
		if at, problem := t.items[i].lacks(m[key], join(field, key)); problem != "" {
			return at, problem
		}
	}
	return "", ""
}

// CheckResult is [Document.CheckResult] for a run's definition and version; one that is
// not the book's takes anything.
func (b *Book) CheckResult(name, version, step string, data []byte) error {
	if d := b.Document(name, version); d != nil {
		return d.CheckResult(step, data)
	}
	return nil
}
