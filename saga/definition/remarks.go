package definition

import (
	"fmt"
	"slices"
)

// Remarks tells of what a document may say and is rarely meant: a step whose lost answer
// only a person can clear up, with the place of its call; a status that is taken for a
// proof and is none, and a 404 of which nothing is said; an undo that may be sent twice; a
// signal that nobody can send, or that is waited for too long; a look-up that never proves
// that nothing happened; secrets that go over plain HTTP; outputs that nobody reads, or
// that differ by the way a step ends. They are no problems. They are in the order of the
// text.
func (d *Document) Remarks() Problems {
	out := slices.Clone(d.warnings)
	for i, s := range d.defs {
		if s.call == nil || s.check != nil || s.keyValidFor > 0 || s.undoWhenAbsent {
			continue
		}
		p := Problem{File: d.file, Field: fmt.Sprintf("steps[%d]", i),
			Message: "has neither check nor repeatable: each time that an answer of its callee is lost, " +
				"the run waits for a person who finds out; give it a look-up as check, or repeatable where " +
				"the callee honours Idempotency-Key"}
		for _, u := range d.urls {
			if u.field == p.Field+".call.url" {
				p.Line, p.Column = u.line, u.col
			}
		}
		out = append(out, p)
	}
	return out.sorted()
}
