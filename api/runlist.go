package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"onced/api/auth"
	"onced/kv/claim"
	"onced/saga"
	"onced/saga/machine"
)

// runFilter are the filters of a list, and of a bulk act, by the same names.
type runFilter struct {
	State      string `json:"state"`
	Definition string `json:"definition"`
	Principal  string `json:"principal"`
	Key        string `json:"key"`
	Label      string `json:"label"`
	Since      string `json:"since"`
	Until      string `json:"until"`
}

// listRuns answers GET /v1/runs.
func (s *Server) listRuns(c echo.Context) error {
	f := runFilter{State: c.QueryParam("state"), Definition: c.QueryParam("definition"),
		Principal: c.QueryParam("principal"), Key: c.QueryParam("key"), Label: c.QueryParam("label"),
		Since: c.QueryParam("since"), Until: c.QueryParam("until")}
	q, err := f.query(caller(c))
	if err != nil {
		return err
	}
	if q.Contradicted, err = boolParam(c, "contradicted"); err != nil {
		return err
	}
	limit, err := intParam(c, "limit", 1, maxPage)
	if err != nil {
		return err
	}
	if limit == 0 {
		limit = defaultPage
	}
	filters := f.sum(q.Principal) + strconv.FormatBool(q.Contradicted)
	if q.Cursor, err = s.cursors.open(c.QueryParam("cursor"), filters); err != nil {
		return err
	}
	o := jsonOut{}
	o.open('{')
	o.name("runs")
	o.open('[')
	who := caller(c)
	next, err := s.fillRuns(c.Request().Context(), q, limit, func(v *saga.RunView) {
		appendRun(&o, v, runShow{content: seesRunContent(who, v), brief: true})
	})
	if err != nil {
		return err
	}
	o.end(']')
	if next != "" {
		cursor, err := s.cursors.seal(next, filters)
		if err != nil {
			return err
		}
		o.text("next", nextURL(c, cursor))
		o.text("next_cursor", cursor)
	}
	o.end('}')
	return c.Blob(http.StatusOK, echo.MIMEApplicationJSON, o.bytes())
}

// fillRuns gives runs to take until there are limit of them or enough was looked at,
// and returns where to go on.
func (s *Server) fillRuns(
	ctx context.Context, q saga.Query, limit int, take func(*saga.RunView),
) (string, error) {
	for range maxLooks {
		q.Limit = limit
		page, next, err := s.sagas.Engine.List(ctx, q)
		if err != nil {
			return "", err
		}
		for _, v := range page {
			take(v)
		}
		if q.Cursor = next; next == "" {
			return "", nil
		}
		if limit -= len(page); limit <= 0 {
			break
		}
	}
	return q.Cursor, nil
}

// query reads the filters. Who sees only its own runs needs to name no principal,
// and may name none but itself.
func (f *runFilter) query(who auth.Identity) (saga.Query, error) {
	q := saga.Query{Definition: f.Definition, Principal: f.Principal, Key: f.Key}
	var err error
	if q.Statuses, err = statusesOf(f.State); err != nil {
		return q, err
	}
	if f.Label != "" {
		name, value, ok := strings.Cut(f.Label, ":")
		if !ok || name == "" || value == "" {
			return q, invalidField("label",
				"give the name and the value with a colon between, as in shop:berlin")
		}
		q.Label, q.Value = name, value
	}
	if q.From, err = instantOf("since", f.Since); err != nil {
		return q, err
	}
	if q.To, err = instantOf("until", f.Until); err != nil {
		return q, err
	}
	for _, p := range []struct {
		name, value string
		limit       int
	}{{"definition", f.Definition, saga.MaxName}, {"key", f.Key, saga.MaxRunKey},
		{"label", q.Label, saga.MaxName}, {"label", q.Value, saga.MaxRunKey},
		{"principal", f.Principal, auth.MaxName}} {
		if len(p.value) > p.limit {
			return q, invalidField(p.name, "nothing has so long a name")
		}
	}
	if !who.Can(auth.RunsRead) {
		if q.Principal != "" && q.Principal != who.Principal {
			return q, invalidField("principal", "this token sees the runs of its own principal only")
		}
		q.Principal = who.Principal
	}
	return q, nil
}

// narrows reports that it may leave out runs that have not ended.
func (f runFilter) narrows() bool {
	open, _ := statusesOf("open")
	states, err := statusesOf(f.State)
	if err == nil && !slices.ContainsFunc(open, func(s machine.Status) bool {
		return !slices.Contains(states, s)
	}) {
		f.State = ""
	}
	return f != (runFilter{})
}

// runStates are the names of the states of runs.
var runStates = func() map[string]machine.Status {
	out := map[string]machine.Status{}
	for s := machine.Running; s <= machine.Closed; s++ {
		out[s.String()] = s
	}
	return out
}()

// statusesOf reads states with commas between; "open" is all that have not ended.
func statusesOf(text string) (out []machine.Status, err error) {
	if text == "" {
		return nil, nil
	}
	for name := range strings.SplitSeq(text, ",") {
		if name == "open" {
			out = append(out, machine.Running, machine.Compensating, machine.Held, machine.Stuck)
			continue
		}
		s, ok := runStates[name]
		if !ok {
			return nil, invalidField("state",
				"use open, running, completed, compensating, compensated, held, "+
					"stuck or closed, several with commas between")
		}
		out = append(out, s)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func instantOf(param, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.Year() < 1970 || t.Year() > 9999 {
		return t, invalidField(param, "give an instant as in RFC 3339, for example 2026-05-04T12:30:00Z")
	}
	return t, nil
}

// sum stands for the filters in a cursor.
func (f *runFilter) sum(principal string) string {
	sum := claim.FingerprintOf([]byte("runs"), []byte(principal), []byte(f.State), []byte(f.Definition),
		[]byte(f.Key), []byte(f.Label), []byte(f.Since), []byte(f.Until))
	return string(sum[:])
}
