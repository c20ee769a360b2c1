package definition

import "strings"

// settle finds the type of what a step has come to: one value, whether its call has
// ended it, a signal, a look-up or a person.
func (c *checker) settle(d *stepDef, i int) {
	main, _ := d.mainOutput()
	t := anyType
	if main != nil {
		t = main.typ
	}
	if d.check != nil && d.check.same {
		found := anyType
		if d.check.output != nil {
			found = d.check.output.typ
		}
		t = merged(t, found)
	}
	c.steps[i].output = t
}

// ownOutput is the type of the output that the undo of a step sees.
func (c *checker) ownOutput(d *stepDef, i int) *typ {
	t := c.steps[i].output
	if t == nil {
		t = anyType
	}
	if !d.undoWhenAbsent {
		return t
	}
	if d.await != nil && d.call != nil { // its signal may not have come: it is what the reply gave
		reply := anyType
		if d.output != nil {
			reply = d.output.typ
		}
		t = merged(t, reply)
	}
	return t.with(true, t.secret)
}

// mainOutput is what makes the output of the step when all goes as planned, and where it
// is written.
func (d *stepDef) mainOutput() (t *valueTemplate, key string) {
	if d.await != nil {
		return d.await.output, "await.output"
	}
	return d.output, "output"
}

// merged is the type of a value that is made in one of two ways: a field that only one
// of them has may be missing.
func merged(a, b *typ) *typ {
	if a.kind != objectKind || b.kind != objectKind || a.fields == nil || b.fields == nil {
		return either(a, b)
	}
	t := &typ{kind: objectKind, fields: map[string]*typ{}, maybe: a.maybe || b.maybe,
		secret: a.secret || b.secret}
	for name, f := range a.fields {
		if g := b.fields[name]; g != nil {
			t.fields[name] = merged(f, g)
		} else {
			t.fields[name] = f.with(true, f.secret)
		}
	}
	for name, f := range b.fields {
		if a.fields[name] == nil {
			t.fields[name] = f.with(true, f.secret)
		}
	}
	return t
}

// instead says what to write for a value that may be missing.
func (x *expression) instead() string {
	if strings.Contains(x.source, ".signal") {
		return "; there need be no signal: a look-up or a person may have ended the step; " +
			"steps.<name>.output is there however it ended"
	}
	return ""
}
