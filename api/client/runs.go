package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// StartRun asks for a run of a definition.
type StartRun struct {
	// Definition is its name; Version is one of its versions, which takes the role
	// admin, or empty for the latest.
	Definition string `json:"definition"`
	Version    string `json:"version,omitempty"`
	// Principal is the account that the run is for. A token of the role admin must name
	// it, since keys belong to an account; another may name its own, or none.
	Principal string `json:"principal,omitempty"`
	// Key is the business key, for example an order's id. The same start with the same
	// key is answered with the same run.
	Key string `json:"key"`
	// Input is any JSON, or nil.
	Input json.RawMessage `json:"input,omitempty"`
	// Labels are for finding the run.
	Labels map[string]string `json:"labels,omitempty"`
	// Round says which run of the key is meant, from 1; 0 does not say. Say it where the
	// start may be sent again after a lost answer: without it, a run that was undone in
	// the meantime makes room for a new one.
	Round uint64 `json:"round,omitempty"`
	// Wait is how long to wait for the end of the run, in whole seconds up to a minute;
	// the HTTP client's own time-out must be longer.
	Wait time.Duration `json:"-"`
}

// Run is a run as the server shows it. State is running, completed, compensating,
// compensated, held, stuck or closed. Fields that the caller's role may not see are
// empty.
type Run struct {
	ID          string       `json:"id"`                    // names it in the API
	Definition  string       `json:"definition"`            // what it is a run of
	Version     string       `json:"version,omitempty"`     // of the definition
	Principal   string       `json:"principal,omitempty"`   // whose it is
	Key         string       `json:"key"`                   // the business key
	Round       uint64       `json:"round"`                 // counts new beginnings of the key
	State       string       `json:"state"`                 // how far it has come
	Revision    uint64       `json:"revision,omitempty"`    // rises with every change
	Expired     bool         `json:"expired,omitempty"`     // only what is known of its key is left
	Parent      string       `json:"parent,omitempty"`      // the run that it repeats or corrects
	Link        string       `json:"link,omitempty"`        // rerun or correction
	Corrections []Correction `json:"corrections,omitempty"` // runs that undo what became known late
	// Contradictions are words that deny what is known of the run, also in lists.
	Contradictions []Contradiction   `json:"contradictions,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`      // for finding it
	CreatedAt      time.Time         `json:"created_at,omitzero"`   // when it began
	UpdatedAt      time.Time         `json:"updated_at,omitzero"`   // when it last changed
	EndedAt        time.Time         `json:"ended_at,omitzero"`     // when it ended
	DeadlineAt     time.Time         `json:"deadline_at,omitzero"`  // when it is undone
	Undoing        bool              `json:"undoing,omitempty"`     // it is being undone
	Cause          string            `json:"cause,omitempty"`       // why it is undone
	FailedStep     string            `json:"failed_step,omitempty"` // where it failed
	Hold           string            `json:"hold,omitempty"`        // why it waits for a person
	HoldStep       string            `json:"hold_step,omitempty"`   // at which step
	Reason         string            `json:"reason,omitempty"`      // cause or hold for people
	Next           *NextCall         `json:"next,omitempty"`        // the call it wants next
	WakesAt        time.Time         `json:"wakes_at,omitzero"`     // when time changes it, without a call
	Steps          []Step            `json:"steps,omitempty"`       // in their order
	Input          json.RawMessage   `json:"input,omitempty"`       // what it was started with
	History        []HistoryEntry    `json:"history,omitempty"`     // what happened; not in lists
	Dropped        int               `json:"history_dropped,omitempty"`

	// ETag is the answer's, for [Act]; lists do not set it.
	ETag string `json:"-"`
	// Joined is true when the answer of a start is a run that there was before.
	Joined bool `json:"-"`
}

// Ended reports that the run has come to its end and never changes.
func (r *Run) Ended() bool {
	return r.State == "completed" || r.State == "compensated" || r.State == "closed"
}

// NeedsPerson reports that the run waits for an operator.
func (r *Run) NeedsPerson() bool { return r.State == "held" || r.State == "stuck" }

// Contradiction is a word that denies what is known of a run.
type Contradiction struct {
	Step    string          `json:"step"`           // which it is about
	Outcome string          `json:"outcome"`        // done or refused
	At      time.Time       `json:"at"`             // when it came first
	Data    json.RawMessage `json:"data,omitempty"` // what came with it; not in lists
}

// Correction is a run that undoes a step of another.
type Correction struct {
	Step string `json:"step"` // of the run that had ended
	Run  string `json:"run"`  // the id of the correction
}

// NextCall is the call that a run wants next.
type NextCall struct {
	Step string    `json:"step"`          // of which step
	Call string    `json:"call"`          // action, undo or check
	Try  int       `json:"try,omitempty"` // from 1
	At   time.Time `json:"at,omitzero"`   // when
}

// Step is a step of a run. State is pending, ready, started, waiting, unknown, done,
// refused or skipped.
type Step struct {
	Name        string          `json:"name"`                   // unique within the definition
	State       string          `json:"state"`                  // of its action
	Undo        string          `json:"undo,omitempty"`         // due, started, done, stuck or skipped
	UndoNumber  int             `json:"undo_number,omitempty"`  // in the key of the undo
	InDoubt     bool            `json:"in_doubt,omitempty"`     // a send may have happened
	TimedOut    bool            `json:"timed_out,omitempty"`    // its signal did not come in time
	Sends       int             `json:"sends"`                  // of the action
	Tries       int             `json:"tries"`                  // since a person began to count anew
	Looks       int             `json:"looks,omitempty"`        // look-ups that told nothing, in a row
	UndoSends   int             `json:"undo_sends,omitempty"`   // of the undo
	UndoTries   int             `json:"undo_tries,omitempty"`   // since a person began to count anew
	FirstSendAt time.Time       `json:"first_send_at,omitzero"` // of the sends in doubt
	LastSendAt  time.Time       `json:"last_send_at,omitzero"`  // no send came after
	UndoneAt    time.Time       `json:"undone_at,omitzero"`     // when it was undone
	NextAt      time.Time       `json:"next_at,omitzero"`       // when it goes on
	Code        string          `json:"code,omitempty"`         // of a refusal
	Error       string          `json:"error,omitempty"`        // the last failure
	Output      json.RawMessage `json:"output,omitempty"`       // what it gave
	Signal      *StepSignal     `json:"signal,omitempty"`       // the first word by signal
}

// StepSignal is what a signal said of a step.
type StepSignal struct {
	Outcome string          `json:"outcome"`        // done or refused
	Data    json.RawMessage `json:"data,omitempty"` // what came with it
}

// HistoryEntry is one line of a run's history.
type HistoryEntry struct {
	At   time.Time `json:"at"`             // when
	What string    `json:"what"`           // sent, done, refused, undone and so on
	Step string    `json:"step,omitempty"` // about which step
	Text string    `json:"text,omitempty"` // the last reply, a reason
}

const runsPath = "/v1/runs"

func runPath(id, more string) string { return runsPath + "/" + url.PathEscape(id) + more }

// StartRun starts a run, or joins the one that the key has. That the key was used
// with another input (idempotency_mismatch) is a problem. It may be repeated with the
// same key after any error.
func (c *Client) StartRun(ctx context.Context, req StartRun) (*Run, error) {
	return c.run(ctx, call{method: http.MethodPost, path: runsPath, body: req, wait: req.Wait})
}

func (c *Client) run(ctx context.Context, k call) (*Run, error) {
	var out Run
	a, err := c.send(ctx, k, &out)
	if err != nil {
		return nil, err
	}
	out.ETag = a.etag
	out.Joined = k.path == runsPath && a.status == http.StatusOK
	return &out, nil
}

// GetRun reads a run. With wait it first waits, up to a minute in whole seconds, until
// the run has ended or needs a person.
func (c *Client) GetRun(ctx context.Context, id string, wait time.Duration) (*Run, error) {
	return c.run(ctx, call{method: http.MethodGet, path: runPath(id, ""), wait: wait})
}

// RunFilter selects runs. The zero value selects all. State is one or several with
// commas between; "open" is all that have not ended.
type RunFilter struct {
	State      string    `json:"state,omitempty"`      // as above
	Definition string    `json:"definition,omitempty"` // exactly
	Principal  string    `json:"principal,omitempty"`  // exactly
	Key        string    `json:"key,omitempty"`        // exactly
	Label      string    `json:"label,omitempty"`      // name:value
	Since      time.Time `json:"since,omitzero"`       // begun then or later
	Until      time.Time `json:"until,omitzero"`       // begun before

	// Contradicted selects the runs of which a word denies what is known; in lists only.
	Contradicted bool `json:"-"`

	Limit  int    `json:"-"` // 0 is the server's default
	Cursor string `json:"-"` // NextCursor of the page before
}

func (f RunFilter) query() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{"state": f.State, "definition": f.Definition,
		"principal": f.Principal, "key": f.Key, "label": f.Label, "cursor": f.Cursor} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for name, at := range map[string]time.Time{"since": f.Since, "until": f.Until} {
		if !at.IsZero() {
			q.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	if f.Contradicted {
		q.Set("contradicted", "true")
	}
	if f.Limit > 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	return q
}

// RunPage is a page of a listing. It may be short while NextCursor is not empty.
type RunPage struct {
	// Runs are the newest first, without inputs, outputs and histories.
	Runs       []Run  `json:"runs"`
	NextCursor string `json:"next_cursor,omitempty"` // empty at the end
}

// ListRuns lists runs, the newest first.
func (c *Client) ListRuns(ctx context.Context, f RunFilter) (RunPage, error) {
	var out RunPage
	_, err := c.do(ctx, call{method: http.MethodGet, path: runsPath, query: f.query()}, &out)
	return out, err
}

// Signal says what became of a step.
type Signal struct {
	// Outcome is "done" or "refused".
	Outcome string `json:"outcome"`
	// Data is any JSON, or nil. It must have what the definition's await.output names
	// when the outcome is done.
	Data json.RawMessage `json:"data,omitempty"`
	// Reason says why it was refused, for people.
	Reason string `json:"reason,omitempty"`
	// At is when it happened, if that is known.
	At time.Time `json:"at,omitzero"`
}

// The answers of SignalRun.
const (
	SignalAccepted    = "accepted"    // it counts
	SignalRepeated    = "repeated"    // the same was known
	SignalContradicts = "contradicts" // it denies the end of the run, which stays as it is
)

// SignalRun reports what became of a step. A client's token may do so for steps that
// have an await; for another one the problem is wrong_state. The outcome is one of the
// answers above. It may be repeated after any error.
func (c *Client) SignalRun(ctx context.Context, id, step string, s Signal) (outcome string, err error) {
	var out struct {
		Outcome string `json:"outcome"`
	}
	_, err = c.do(ctx, call{method: http.MethodPost, body: s,
		path: runPath(id, "/signals/"+url.PathEscape(step))}, &out)
	return out.Outcome, err
}

// Act is an operator's act on a run.
type Act struct {
	// ETag is that of the run that was looked at.
	ETag string `json:"-"`
	// Step is required for mark_done, mark_not_done and skip, and for these only.
	Step string `json:"step,omitempty"`
	// Reason is required, for the audit.
	Reason string `json:"reason"`
	// Output is what a step that is marked as done gave: JSON with what the definition
	// names as its output, or nil when that is nothing.
	Output json.RawMessage `json:"output,omitempty"`
	// Wait is as for a start, of a rerun only.
	Wait time.Duration `json:"-"`
}

// ActOnRun carries out a verb on a run: retry, cancel, mark_done, mark_not_done, skip,
// close or rerun. It returns the run after it, of a rerun the new one. When the run has
// changed since it was read, the problem is stale; when its state does not allow it,
// wrong_state.
func (c *Client) ActOnRun(ctx context.Context, id, verb string, a Act) (*Run, error) {
	return c.run(ctx, call{method: http.MethodPost, body: a, ifMatch: a.ETag, wait: a.Wait,
		path: runPath(id, "/"+url.PathEscape(verb))})
}

// BulkAct is an operator's act on many runs.
type BulkAct struct {
	// Verb is one of those of [Client.ActOnRun] but rerun; Step and Reason are as there.
	Verb   string `json:"verb"`
	Step   string `json:"step,omitempty"`
	Reason string `json:"reason"`
	// Filter selects the runs; it must select some, or All be true: then it is every run
	// of all definitions and accounts. Runs that have ended are never selected.
	Filter RunFilter `json:"filter"`
	All    bool      `json:"all,omitempty"`
	// DryRun changes nothing, and says what would be done.
	DryRun bool `json:"dry_run,omitempty"`
	// Limit is the most runs; 0 is the server's default.
	Limit int `json:"limit,omitempty"`
	// Cursor is the NextCursor of the answer before.
	Cursor string `json:"cursor,omitempty"`
}

// BulkAnswer says what was done.
type BulkAnswer struct {
	Verb       string        `json:"verb"`                  // as asked
	DryRun     bool          `json:"dry_run"`               // nothing was changed
	Acted      []string      `json:"acted"`                 // the runs that were, or would be, acted on
	Refused    []BulkRefusal `json:"refused"`               // those that do not allow it
	Runs       []BulkRun     `json:"runs"`                  // which they are, both
	More       bool          `json:"more"`                  // there may be more than the limit
	NextCursor string        `json:"next_cursor,omitempty"` // goes on
	Stopped    string        `json:"stopped,omitempty"`     // it broke off; the code of the problem
}

// BulkRefusal is a run that does not allow the act.
type BulkRefusal struct {
	Run    string `json:"run"`    // its id
	Reason string `json:"reason"` // why not
}

// BulkRun names a run that was selected.
type BulkRun struct {
	Run        string `json:"run"`                 // its id
	Definition string `json:"definition"`          // what it is a run of
	Principal  string `json:"principal,omitempty"` // whose it is
	Key        string `json:"key"`                 // the business key
	State      string `json:"state"`               // after the act
}

// ActOnRuns carries out a verb on all runs that are selected, each for itself.
func (c *Client) ActOnRuns(ctx context.Context, b BulkAct) (BulkAnswer, error) {
	var out BulkAnswer
	_, err := c.do(ctx, call{method: http.MethodPost, path: runsPath + "/bulk", body: b}, &out)
	return out, err
}
