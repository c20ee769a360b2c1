package definition

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"onced/saga/httpstep"
)

// notes notes what is allowed, and rarely meant, in steps as a whole. It is for a
// document without problems.
func (c *checker) notes(items []*node, d *Document) {
	if len(c.problems) > 0 || len(d.defs) != len(items) {
		return
	}
	pivot := slices.IndexFunc(d.defs, func(s *stepDef) bool { return s.pivot })
	for i, def := range d.defs {
		s := c.view(items[i], fmt.Sprintf("steps[%d]", i), stepKeys)
		// Once the pivot is sent the deadline of the run ends nothing any more.
		limit := d.deadline
		if pivot >= 0 && i >= pivot {
			limit = 0
		}
		c.noteUndo(s, def)
		c.noteAwait(s, def, limit)
		if def.check != nil && def.check.absent == nil && def.keyValidFor == 0 && !def.undoWhenAbsent {
			c.warnf(s.key("check"), s.path("check"), "has no absent, so that it never proves that nothing "+
				"has happened: after a call that was lost on its way the run is held for a person; write "+
				"how a reply shows that there is nothing, such as absent: \"${reply.status == 404}\"")
		}
	}
	c.noteNotFound(items, d)
}

// noteUndo is about an undo that is sent twice. One that takes back what is not there any
// more does no harm, and nor does a PUT.
func (c *checker) noteUndo(s *section, d *stepDef) {
	if d.undo == nil || d.undoKeyValidFor == 0 {
		return
	}
	n := s.n.get("undo")
	switch d.undo.method {
	case http.MethodPut:
	case http.MethodDelete:
		if !c.speaksOf(n, http.StatusNotFound) {
			c.warnf(n.get("method"), s.path("undo.method"), "is DELETE, and outcomes does not say what 404 "+
				"means: when the answer of an undo is lost it is sent again, finds nothing any more, and is "+
				"stuck; once its URL is tried, write outcomes: {done: [2xx, 404, 410]}")
		}
	default:
		if s.n.get("undo_key_valid_for") == nil && !d.undoWhenAbsent {
			c.warnf(s.key("undo"), s.path("undo"), "is sent again, for a day and under the same key, when "+
				"its answer is lost: a callee that does not honour the key here does it twice, such as a "+
				"refund; write undo_key_valid_for, as long as it promises, or 0s where it knows no keys: "+
				"then a person finds out")
		}
	}
}

// noteAwait is about signals that do not come. limit is the deadline of the run, as far as
// it ends the step; 0 is none.
func (c *checker) noteAwait(s *section, d *stepDef, limit time.Duration) {
	if d.await == nil {
		return
	}
	key, field := s.key("await"), s.path("await")
	switch {
	case d.await.limit == 0 && limit == 0:
		c.warnf(key, field, "has no for, and so no end: a run whose signal is lost waits for ever, and "+
			"nobody hears of it; write for, such as 30m: what has not come by then is looked up, or the "+
			"run is held")
	case d.await.limit == 0 && d.check != nil:
		c.warnf(key, field, "has no for, and so no end but the deadline of the run: what came without a "+
			"signal is looked up only then, and undone; write a for that is shorter than the deadline")
	case limit > 0 && d.await.limit >= limit:
		c.warnf(s.n.get("await").get("for"), s.path("await.for"), "is not shorter than the deadline of the "+
			"run: at the deadline the step is undone, whatever comes until then; write a longer deadline, "+
			"or a shorter for")
	}
	if d.call != nil && !d.call.tells {
		c.warnf(key, field, "waits for a signal that its callee cannot send, as the call has no "+
			"${callback_url}; put it into the call, or, where a program of yours hears of the end and sends "+
			"the signal by name (POST /v1/runs/RUN/signals/%s), put ${run.id} there, so that it knows RUN",
			d.name)
	}
}

// noteNotFound is about a refusal that a mistake in a path can bring about. It is told
// once, where the first of the calls is.
func (c *checker) noteNotFound(items []*node, d *Document) {
	var names []string
	var at *node
	field := ""
	for i, def := range d.defs {
		if def.call == nil || def.call.outcomes.Of(http.StatusNotFound) != httpstep.Refused ||
			says(items[i].get("call"), "refused", http.StatusNotFound) {
			continue
		}
		if names = append(names, def.name); at == nil {
			at, field = items[i].get("call").get("url"), fmt.Sprintf("steps[%d].call.url", i)
		}
	}
	if at != nil {
		c.warnf(at, field, "answers 404 when it is mistyped or misplaced, which refuses the step (%s): runs "+
			"are undone as if the callee had said no; try it first, or write outcomes: {unknown: [404]}",
			strings.Join(names, ", "))
	}
}

// speaksOf reports that the outcomes of a call have a status in one of their lists.
func (c *checker) speaksOf(call *node, status int) bool {
	n := call.get("outcomes")
	if n == nil {
		return false
	}
	s := c.view(n, "", outcomeKeys)
	return slices.ContainsFunc(outcomeKeys, func(key string) bool {
		set := s.statuses(key)
		return set != nil && set.Has(status)
	})
}

// says reports that the outcomes of a call have a status in a list by its number, and not
// just in a range: somebody has thought of it.
func says(call *node, key string, status int) bool {
	n := call.get("outcomes")
	if n == nil || n.get(key) == nil {
		return false
	}
	n = n.get(key)
	return slices.ContainsFunc(append(slices.Clip(n.items), n), func(item *node) bool {
		for part := range strings.SplitSeq(item.text, ",") {
			if strings.TrimSpace(part) == strconv.Itoa(status) {
				return true
			}
		}
		return false
	})
}
