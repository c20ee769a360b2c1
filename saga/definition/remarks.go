package definition

import "fmt"

// Remarks tells of what a document may say and is rarely meant: a step whose lost answer
// only a person can clear up. They are no problems. They are in the order of the steps,
// each with the place of the step's call.
func (d *Document) Remarks() Problems {
	var out Problems
	for i, s := range d.defs {
		if s.call == nil || s.check != nil || s.keyValidFor > 0 || s.undoWhenAbsent {
			continue
		}
		p := Problem{File: d.file, Field: fmt.Sprintf("steps[%d]", i), Message: "has neither check nor repeatable: each time " +
			"that an answer of its callee is lost, the run waits for a person who finds out; give it a look-up " +
			"as check, or repeatable where the callee honours Idempotency-Key"}
		for _, u := range d.urls {
			if u.field == p.Field+".call.url" {
				p.Line, p.Column = u.line, u.col
			}
		}
		out = append(out, p)
	}
	return out
}
