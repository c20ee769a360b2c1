package api

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"onced/saga"
	"onced/saga/machine"
)

// verbRequest is the body of an operator's act.
type verbRequest struct {
	Step   string          `json:"step"`
	Reason string          `json:"reason"`
	Output json.RawMessage `json:"output"`
}

// verbs are the acts of operators on one run, by their names in paths.
var verbs = []machine.Verb{machine.Retry, machine.Cancel, machine.MarkDone, machine.MarkNotDone, machine.Skip,
	machine.Close}

// needsStep reports whether a verb is about a step that is to be named.
func needsStep(v machine.Verb) bool {
	return v == machine.MarkDone || v == machine.MarkNotDone || v == machine.Skip
}

// act reads an act on the run of the path.
func (s *Server) act(c echo.Context, verb machine.Verb) (saga.Act, error) {
	rev, err := runRevision(c.Request().Header)
	if err != nil {
		return saga.Act{}, err
	}
	var in verbRequest
	if err := s.readJSON(c, &in); err != nil {
		return saga.Act{}, err
	}
	a := saga.Act{Verb: verb, Step: in.Step, Actor: caller(c).Name, Reason: in.Reason, Revision: rev}
	if a.Output, err = givenJSON("output", in.Output); err != nil {
		return a, err
	}
	if a.Output != nil && verb != machine.MarkDone {
		return a, invalidField("output", "only a step that is marked as done has one")
	}
	return a, checkAct(a.Verb, a.Step, a.Reason)
}

func checkAct(verb machine.Verb, step, reason string) error {
	switch {
	case needsStep(verb) && step == "":
		return invalidField("step", "name the step that this is about")
	case !needsStep(verb) && step != "":
		return invalidField("step", "this is about the run, and takes no step")
	}
	return checkReason(reason)
}

// operate answers the verbs of operators.
func (s *Server) operate(verb machine.Verb) echo.HandlerFunc {
	return func(c echo.Context) error {
		a, err := s.act(c, verb)
		if err != nil {
			return aboutRun(c, err)
		}
		if verb == machine.MarkDone {
			v, err := s.sagas.Engine.Get(c.Request().Context(), c.Param("id"))
			if err == nil {
				err = s.checkMarked(c, v, a)
			}
			if err != nil {
				return aboutRun(c, err)
			}
		}
		v, err := s.sagas.Engine.Operate(c.Request().Context(), c.Param("id"), a)
		if err != nil {
			return aboutRun(c, err)
		}
		return s.showRun(c, http.StatusOK, v, preference{})
	}
}

// checkMarked makes sure that a step which a person marks as done has the output that
// the steps behind read. It need not when its undo is what is marked. That the run has
// changed since v is found by its revision.
func (s *Server) checkMarked(c echo.Context, v *saga.RunView, a saga.Act) error {
	i := v.State.Find(a.Step)
	if a.Revision != 0 && v.Revision != a.Revision || i < 0 || v.State.Steps[i].Undo != machine.UndoNone {
		return nil // the engine says what there is to say
	}
	err := s.checkResult(c, v, a.Step, Reading{Outcome: "done", Data: a.Output})
	if in, ok := errors.AsType[*saga.InputError](err); ok { // it has another name here
		return &saga.InputError{Field: "output" + strings.TrimPrefix(in.Field, "data"), Problem: in.Problem}
	}
	return err
}

// rerun answers POST /v1/runs/{id}/rerun.
func (s *Server) rerun(c echo.Context) error {
	a, err := s.act(c, 0)
	if err != nil {
		return aboutRun(c, err)
	}
	st, err := s.sagas.Engine.Rerun(c.Request().Context(), c.Param("id"), a)
	if err != nil {
		return aboutRun(c, err)
	}
	wish := preferred(c.Request().Header)
	v, err := s.runAfter(c, st.Run, wish)
	if err != nil {
		return err
	}
	c.Response().Header().Set("Location", runsPath+st.Run)
	return s.showRun(c, http.StatusCreated, v, wish)
}

// aboutRun names the run in a problem that it causes.
func aboutRun(c echo.Context, err error) error {
	p := sagaProblem(err)
	if p == nil {
		return err
	}
	return p.About(runsPath + cutText(c.Param("id")))
}

// bulkRequest is the body of POST /v1/runs/bulk.
type bulkRequest struct {
	Verb   string          `json:"verb"`
	Filter json.RawMessage `json:"filter"`
	All    bool            `json:"all"`
	Step   string          `json:"step"`
	Reason string          `json:"reason"`
	DryRun bool            `json:"dry_run"`
	Limit  int64           `json:"limit"`
	Cursor string          `json:"cursor"`
}

// bulkAnswer is the answer of POST /v1/runs/bulk.
type bulkAnswer struct {
	Verb       string        `json:"verb"`
	DryRun     bool          `json:"dry_run"`
	Acted      []string      `json:"acted"`
	Refused    []bulkRefusal `json:"refused"`
	Runs       []bulkRun     `json:"runs"`
	More       bool          `json:"more"`
	NextCursor string        `json:"next_cursor,omitempty"`
	Stopped    string        `json:"stopped,omitempty"`
}

type bulkRefusal struct {
	Run    string `json:"run"`
	Reason string `json:"reason"`
}

// bulkRun names a run that was selected, as people know it.
type bulkRun struct {
	Run        string `json:"run"`
	Definition string `json:"definition"`
	Principal  string `json:"principal,omitempty"`
	Key        string `json:"key"`
	State      string `json:"state"`
}

// Bounds of a bulk act.
const (
	defaultBulk = 1000
	maxBulk     = 10_000
)

// bulk answers POST /v1/runs/bulk.
func (s *Server) bulk(c echo.Context) error {
	var in bulkRequest
	if err := s.readJSON(c, &in); err != nil {
		return err
	}
	i := slices.IndexFunc(verbs, func(v machine.Verb) bool { return v.String() == in.Verb })
	if i < 0 {
		return invalidField("verb", "use retry, cancel, mark_done, mark_not_done, skip or close")
	}
	if err := checkAct(verbs[i], in.Step, in.Reason); err != nil {
		return err
	}
	if in.Limit < 0 || in.Limit > maxBulk {
		return outOfRange("limit", 1, maxBulk)
	}
	b, sum, err := in.selection(c)
	if err != nil {
		return err
	}
	if b.Cursor, err = s.cursors.open(in.Cursor, sum); err != nil {
		return err
	}
	res, err := s.operateAll(c, b, saga.Act{Verb: verbs[i], Step: in.Step, Actor: caller(c).Name,
		Reason: in.Reason})
	if err != nil && len(res.Acted)+len(res.Refused) == 0 {
		return err
	}
	out := bulkAnswer{Verb: in.Verb, DryRun: in.DryRun, Acted: append([]string{}, res.Acted...),
		Refused: []bulkRefusal{}, More: res.More}
	for _, run := range slices.Sorted(maps.Keys(res.Refused)) {
		out.Refused = append(out.Refused, bulkRefusal{Run: run, Reason: res.Refused[run]})
	}
	out.Runs = s.named(c, &out)
	if err != nil { // what was done is told, and that it broke off
		out.Stopped = string(problemOf(err).Code)
	}
	if res.Next != "" {
		if out.NextCursor, err = s.cursors.seal(res.Next, sum); err != nil {
			return err
		}
	}
	return s.json(c, http.StatusOK, out)
}

// named says of the runs of an answer which they are. What cannot be read now is left
// out: what was done is told all the same.
func (s *Server) named(c echo.Context, a *bulkAnswer) []bulkRun {
	out := make([]bulkRun, 0, len(a.Acted)+len(a.Refused))
	add := func(id string) {
		if v, err := s.sagas.Engine.Get(c.Request().Context(), id); err == nil {
			out = append(out, bulkRun{Run: id, Definition: v.Definition, Principal: v.Principal, Key: v.Key,
				State: v.State.Status.String()})
		}
	}
	for _, id := range a.Acted {
		add(id)
	}
	for _, r := range a.Refused {
		add(r.Run)
	}
	return out
}

// operateAll carries out an act on what is selected. A step that is marked as done
// brings no output here: runs whose definition wants one are refused, so each is looked
// at first, and acted on only as it was then.
func (s *Server) operateAll(c echo.Context, b saga.Bulk, a saga.Act) (saga.BulkResult, error) {
	ctx, e, dry := c.Request().Context(), s.sagas.Engine, b.DryRun
	if a.Verb != machine.MarkDone || s.sagas.Rules == nil {
		return e.OperateAll(ctx, b, a)
	}
	b.DryRun = true
	all, err := e.OperateAll(ctx, b, a)
	res := saga.BulkResult{Refused: all.Refused, More: all.More, Next: all.Next}
	for _, id := range all.Acted {
		v, failed := e.Get(ctx, id)
		if failed == nil {
			failed = s.checkMarked(c, v, a)
		}
		if failed == nil && !dry {
			one := a
			one.Revision = v.Revision
			_, failed = e.Operate(ctx, id, one)
		}
		var state *machine.Error
		var input *saga.InputError
		switch {
		case failed == nil:
			res.Acted = append(res.Acted, id)
		case errors.As(failed, &state):
			res.Refused[id] = state.Problem
		case errors.As(failed, &input):
			res.Refused[id] = input.Field + " " + input.Problem
		case errors.Is(failed, saga.ErrVersion):
			res.Refused[id] = "it has changed meanwhile"
		case errors.Is(failed, saga.ErrNoRun):
		default:
			res.More = true
			return res, failed
		}
	}
	return res, err
}

// selection reads the filter, and what stands for it in a cursor. Whoever means every run
// that has not ended says so: a forgotten filter would act on all orders of all shops.
func (in *bulkRequest) selection(c echo.Context) (saga.Bulk, string, error) {
	var f runFilter
	if len(in.Filter) > 0 && string(in.Filter) != "null" {
		if err := decodeStrict(in.Filter, &f); err != nil {
			return saga.Bulk{}, "", err
		}
	}
	narrow := f.narrows()
	if !narrow && !in.All {
		return saga.Bulk{}, "", invalidField("filter", `say which runs, for example {"state": "stuck"} or `+
			`{"definition": "checkout"}; "all": true is every run that has not ended, of all definitions `+
			`and accounts`)
	}
	if narrow && in.All {
		return saga.Bulk{}, "", invalidField("all", "the filter selects some runs; give one of the two")
	}
	q, err := f.query(caller(c))
	if err != nil {
		return saga.Bulk{}, "", err
	}
	limit := int(in.Limit)
	if limit == 0 {
		limit = defaultBulk
	}
	return saga.Bulk{Definition: q.Definition, Statuses: q.Statuses, Principal: q.Principal, Key: q.Key,
			Label: q.Label, Value: q.Value, From: q.From, To: q.To, Limit: limit, DryRun: in.DryRun}, "bulk" +
			f.sum(q.Principal), nil
}
