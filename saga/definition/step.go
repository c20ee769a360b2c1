package definition

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"onced/saga"
	"onced/saga/httpstep"
)

// stepDef is one step of a document.
type stepDef struct {
	name   string
	call   *callDef
	output *valueTemplate
	undo   *callDef
	check  *checkDef
	await  *awaitDef
	reads  *parts // what others read of the output

	keyValidFor, settlesAfter, undoKeyValidFor   time.Duration
	pivot, irreversible, nothing, undoWhenAbsent bool
	attempts, undoAttempts                       int
	first, most                                  time.Duration
}

// checkDef is the look-up of a step.
type checkDef struct {
	call                  *callDef
	done, refused, absent *expression
	output                *valueTemplate
	same                  bool // what it gives can stand for the output of the step
}

// awaitDef says how a signal is waited for and read.
type awaitDef struct {
	limit         time.Duration
	done, refused *expression
	output        *valueTemplate
	at            *expression
}

const longest = 10 * 365 * 24 * time.Hour

var (
	nameForm    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)
	versionForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
)

var stepKeys = []string{"name", "call", "output", "undo", "check", "await", "repeatable", "settles_after",
	"undo_key_valid_for", "pivot", "irreversible", "nothing_to_undo", "undo_when_absent", "retry"}

// step reads one step; nil when it cannot be told apart.
func (c *checker) step(n *node, i int) *stepDef {
	field := fmt.Sprintf("steps[%d]", i)
	s := c.section(n, field, stepKeys...)
	if s == nil {
		return nil
	}
	d := &stepDef{name: c.steps[i].name, reads: c.steps[i].reads}
	e := &env{input: c.input, steps: c.steps, own: d.name, key: true, run: true, secrets: c.secrets,
		used: c.used}
	c.settings(s, d)
	c.await(s, d, i)
	c.action(s, d, e)
	c.check(s, d, e)
	c.settle(d, i)
	c.warnOfOutputs(s, d)
	c.undo(s, d, e, c.ownOutput(d, i))
	c.whole(s, d, i == len(c.steps)-1)
	for _, call := range d.calls() {
		if call.timeout != d.timeout() {
			call.limit = call.timeout
		}
	}
	return d
}

// calls are those of the step.
func (d *stepDef) calls() (calls []*callDef) {
	if d.call != nil {
		calls = append(calls, d.call)
	}
	if d.undo != nil {
		calls = append(calls, d.undo)
	}
	if d.check != nil {
		calls = append(calls, d.check.call)
	}
	return calls
}

// timeout is the time limit of the step: the longest of its calls.
func (d *stepDef) timeout() (longest time.Duration) {
	for _, call := range d.calls() {
		longest = max(longest, call.timeout)
	}
	return longest
}

func (c *checker) settings(s *section, d *stepDef) {
	d.pivot, d.irreversible, d.nothing = s.flag("pivot"), s.flag("irreversible"), s.flag("nothing_to_undo")
	if v := s.get("undo_when_absent"); v != nil {
		if d.undoWhenAbsent = v.text == "safe"; !d.undoWhenAbsent {
			c.atf(v, s.path("undo_when_absent"), "must be safe, or be left out")
		}
	}
	d.settlesAfter = s.duration("settles_after", time.Millisecond, 30*24*time.Hour)
	d.undoKeyValidFor = saga.DefaultUndoKeyValidFor
	if s.n.get("undo_key_valid_for") != nil {
		d.undoKeyValidFor = s.duration("undo_key_valid_for", 0, longest)
	}
	if v := s.get("repeatable"); v != nil {
		switch {
		case v.kind == boolNode && v.text == "true":
			d.keyValidFor = 24 * time.Hour
		case v.kind == boolNode:
		default:
			d.keyValidFor = c.duration(v, s.path("repeatable"), time.Second, longest)
		}
	}
	if n := s.get("retry"); n != nil {
		c.retry(n, s.path("retry"), d)
	}
}

func (c *checker) retry(n *node, field string, d *stepDef) {
	s := c.section(n, field, "attempts", "undo_attempts", "first", "most")
	if s == nil {
		return
	}
	d.attempts, d.undoAttempts = s.integer("attempts", 1, 1000), s.integer("undo_attempts", 1, 1000)
	d.first, d.most = s.duration("first", time.Millisecond, 24*time.Hour), s.duration("most",
		time.Millisecond,
		24*time.Hour)
	first, most := d.first, d.most
	if first == 0 {
		first = saga.DefaultBackoff
	}
	if most == 0 {
		most = saga.DefaultMaxBackoff
	}
	if most < first {
		c.atf(n, field, "has a most of %s below its first of %s", most, first)
	}
}

// action reads the call of a step and what is kept of its reply.
func (c *checker) action(s *section, d *stepDef, e *env) {
	out := s.n.get("output")
	n := s.get("call")
	if n == nil {
		if s.n.get("await") == nil && s.lacks("call") && s.lacks("await") {
			c.atf(s.n, s.path("call"), "is missing; a step has a call, or an await without one")
		}
		if out != nil {
			c.atf(s.key("output"), s.path("output"), "stands without a call; what comes with the signal is "+
				"read by await.output")
		}
		return
	}
	keys := append([]string{"key_header", "outcomes", "refused_if", "retry_if", "unfinished_if"}, callKeys...)
	cs := c.section(n, s.path("call"), keys...)
	if cs == nil {
		return
	}
	ce := *e
	ce.callback = s.n.get("await") != nil
	var notifies, named bool
	ce.notifies, ce.named = &notifies, &named
	d.call = c.call(cs, &ce, actionMethods)
	c.notifies = c.notifies || notifies
	d.call.tells = notifies || named
	outcomes := httpstep.DefaultOutcomes()
	if ce.callback {
		outcomes = httpstep.AwaitOutcomes()
	}
	c.effect(cs, d.call, &ce, outcomes)
	d.call.keyValidFor = d.keyValidFor
	// Where nothing can settle an outcome, none is risked on an old connection.
	d.call.fresh = d.keyValidFor == 0 && !d.undoWhenAbsent && s.n.get("check") == nil
	if out != nil {
		d.output = c.value(out, s.path("output"), replyEnv(e))
	}
}

func (c *checker) undo(s *section, d *stepDef, e *env, own *typ) {
	n := s.get("undo")
	if n == nil {
		return
	}
	keys := append([]string{"key_header", "outcomes", "refused_if", "retry_if", "unfinished_if"}, callKeys...)
	us := c.section(n, s.path("undo"), keys...)
	if us == nil {
		return
	}
	ue := *e
	ue.output = own
	d.undo = c.call(us, &ue, actionMethods)
	c.effect(us, d.undo, &ue, httpstep.DefaultOutcomes())
	// An undo in doubt is sent again with the same key, unless its callee knows none.
	d.undo.keyValidFor = d.undoKeyValidFor
	d.undo.fresh = d.undoKeyValidFor == 0
}

func (c *checker) check(s *section, d *stepDef, e *env) {
	n := s.get("check")
	if n == nil {
		return
	}
	keys := append([]string{"done", "refused", "absent", "output"}, callKeys...)
	cs := c.section(n, s.path("check"), keys...)
	if cs == nil {
		return
	}
	d.check = &checkDef{call: c.call(cs, e, checkMethods)}
	d.check.call.isCheck = true
	if cs.n.get("timeout") == nil {
		d.check.call.timeout = checkTimeout
	}
	read := replyEnv(e)
	d.check.done, d.check.refused = cs.condition("done", read), cs.condition("refused", read)
	d.check.absent = cs.condition("absent", read)
	if cs.lacks("done") {
		c.atf(cs.n, cs.path("done"), "is missing; say how a reply shows that it happened, such as "+
			"\"${reply.status == 200}\"")
	}
	out := cs.n.get("output")
	if out != nil {
		d.check.output = c.value(out, cs.path("output"), read)
	}
	d.check.same = c.sameOutput(cs, d, out)
}

// sameOutput makes sure that what a look-up finds can stand for what the step gives
// otherwise.
func (c *checker) sameOutput(cs *section, d *stepDef, out *node) bool {
	main, key := d.mainOutput()
	switch {
	case main == nil:
		return true
	case out == nil && cs.lacks("output"):
		c.atf(cs.n, cs.path("output"), "is missing; the step has %s, so say how it is read from the reply "+
			"of the look-up", key)
		return false
	case d.check.output == nil:
		return false
	}
	same := true
	for _, name := range sortedKeys(main.typ.fields) {
		if f := d.check.output.typ.fields; f != nil && f[name] == nil {
			c.atf(out, cs.path("output"), "has no %s, which %s of the step has%s", name, key,
				didYouMean(name, sortedKeys(f)))
			same = false
		}
	}
	return same
}

// await reads how the signal of a step is waited for.
func (c *checker) await(s *section, d *stepDef, i int) {
	n := s.get("await")
	if n == nil {
		return
	}
	as := c.section(n, s.path("await"), "for", "done", "refused", "output", "at")
	if as == nil {
		return
	}
	d.await = &awaitDef{limit: as.duration("for", time.Millisecond, longest)}
	read := &env{signal: true, used: c.used,
		noSecrets: "has no place where a signal is read; secrets stand in headers, query and body of " +
			"calls only"}
	d.await.done, d.await.refused = as.condition("done", read), as.condition("refused", read)
	if as.lacks("done") && (as.n.get("refused") != nil || as.n.get("output") != nil) {
		c.atf(as.n, as.path("done"), "is missing; say how a signal shows that it happened, or leave "+
			"refused and "+
			"output out too")
	}
	if out := as.n.get("output"); out != nil {
		if d.await.output = c.value(out, as.path("output"), read); d.await.output != nil {
			c.steps[i].came = d.await.output.typ
		}
	}
	if at := as.get("at"); at != nil {
		if t := c.value(at, as.path("at"), read); t != nil {
			if d.await.at = t.x; t.x == nil {
				c.atf(at, as.path("at"), "is not wholly one ${…}; write where the time stands: "+
					"\"${signal.body.time}\"")
			}
		}
	}
}

// whole checks what the parts of a step mean together.
func (c *checker) whole(s *section, d *stepDef, last bool) {
	said := []string{}
	for _, k := range []string{"pivot", "irreversible", "nothing_to_undo"} {
		if v := s.n.get(k); v != nil && v.text == "true" {
			said = append(said, k)
		}
	}
	hasUndo := s.n.get("undo") != nil
	switch {
	case len(said) > 1:
		c.atf(s.key(said[1]), s.path(said[1]), "stands beside %s; a step is one of %s", said[0],
			strings.Join(said, ", "))
	case hasUndo && len(said) > 0:
		c.atf(s.key("undo"), s.path("undo"), "stands beside %s, which says that it is not undone; leave "+
			"one of "+
			"them out", said[0])
	case d.undoWhenAbsent && !hasUndo:
		c.atf(s.key("undo_when_absent"), s.path("undo_when_absent"), "stands without an undo")
	case s.lacks("undo") && len(said) == 0 && !last && s.n.get("call") != nil:
		c.atf(s.n, s.path("undo"), "is missing: give the step an undo, or say what it means that there is "+
			"none "+
			"with pivot: true, irreversible: true or nothing_to_undo: true")
	}
	if s.n.get("call") != nil {
		return
	}
	for _, k := range []string{"check", "repeatable", "settles_after"} {
		if s.n.get(k) != nil {
			c.atf(s.key(k), s.path(k), "stands in a step without a call")
		}
	}
	d.nothing = d.nothing || !hasUndo && len(said) == 0
}
