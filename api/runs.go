package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"onced/api/auth"
	"onced/api/problem"
	"onced/kv/claim"
	"onced/saga"
	"onced/saga/idemhttp"
	"onced/saga/machine"
)

// awayRetry is when a word for a run is to be sent again whose definition cannot be used.
const awayRetry = time.Minute

// MaxRunWait is the longest that a request may wait for the end of a run.
const MaxRunWait = 60 * time.Second

const runsPath = "/v1/runs/"

// startRequest is the body of POST /v1/runs.
type startRequest struct {
	Definition string          `json:"definition"`
	Version    string          `json:"version"`
	Principal  string          `json:"principal"`
	Key        string          `json:"key"`
	Input      json.RawMessage `json:"input"`
	Labels     json.RawMessage `json:"labels"`
	Round      uint64          `json:"round"`
}

// startRun answers POST /v1/runs.
func (s *Server) startRun(c echo.Context) error {
	var in startRequest
	if err := s.readJSON(c, &in); err != nil {
		return err
	}
	who := caller(c)
	if in.Version != "" && !who.Can(auth.RunsOperate) {
		return problem.New(problem.Forbidden, "the role "+string(who.Role)+" lacks the permission "+
			string(auth.RunsOperate)+", which naming a version takes: an old one may be there for its runs "+
			"only; leave the version out").At("version")
	}
	principal, err := in.account(who)
	if err != nil {
		return err
	}
	req, err := in.request(c.Request().Header, principal)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	st, err := s.start(ctx, req)
	if err != nil {
		return err
	}
	wish := preferred(c.Request().Header)
	v, err := s.runAfter(c, st.Run, wish)
	if errors.Is(err, saga.ErrNoRun) && st.Joined { // it is no longer kept
		v, err = s.sagas.Engine.FindKey(ctx, saga.RunKey{Principal: req.Principal,
			Definition: req.Definition, Key: req.Key})
	}
	if err != nil {
		return err
	}
	h, status := c.Response().Header(), http.StatusCreated
	h.Set("Location", runsPath+st.Run)
	if st.Joined {
		if status = http.StatusOK; st.Status.Terminal() {
			h.Set(replayedHeader, "true")
		}
	}
	return s.showRun(c, status, v, wish)
}

// account is whose run it is. A key belongs to an account: who has other work than that
// of a shop has to say for which one this is.
func (in *startRequest) account(who auth.Identity) (string, error) {
	switch {
	case who.Can(auth.RunsFor) && in.Principal == "":
		return "", problem.New(problem.Forbidden, "the role "+string(who.Role)+" starts no run without the "+
			"account that it is for: keys belong to an account, so an order that the shop has paid would be "+
			"paid again under another; name the account in principal, or use its own token").At("principal")
	case who.Can(auth.RunsFor):
		return in.Principal, auth.CheckPrincipal(in.Principal)
	case in.Principal != "" && in.Principal != who.Principal:
		return "", problem.New(problem.Forbidden, "the role "+string(who.Role)+" lacks the permission "+
			string(auth.RunsFor)+": it starts runs of its own account only; leave principal out").
			At("principal")
	}
	return who.Principal, nil
}

// request turns the body and the header into a start for principal.
func (in *startRequest) request(h http.Header, principal string) (saga.StartRequest, error) {
	req := saga.StartRequest{Definition: in.Definition, Version: in.Version, Principal: principal,
		Round: in.Round}
	if in.Definition == "" {
		return req, invalidField("definition", "name the definition to run")
	}
	var err error
	if req.Key, err = in.key(h); err != nil {
		return req, err
	}
	if req.Input, err = givenJSON("input", in.Input); err != nil {
		return req, err
	}
	req.Labels, err = readLabels(in.Labels)
	return req, err
}

// key is that of the body or of the header.
func (in *startRequest) key(h http.Header) (string, error) {
	given := h.Values("Idempotency-Key")
	key := in.Key
	if len(given) > 0 {
		parsed, err := idemhttp.ParseKey(given[0])
		switch {
		case len(given) > 1:
			return "", problem.New(problem.KeyInvalid,
				"the header is there more than once").At("Idempotency-Key")
		case err != nil:
			return "", problem.New(problem.KeyInvalid, "the header Idempotency-Key "+err.Error()).
				At("Idempotency-Key")
		case key != "" && key != parsed:
			return "", invalidField("key", "it differs from the header Idempotency-Key; give one of them")
		}
		key = parsed
	}
	if key == "" {
		return "", problem.New(problem.KeyMissing,
			"give the business key, for example the order's id, as key "+
				"or in the header Idempotency-Key").At("key")
	}
	if err := (claim.ID{Scope: "-", Key: key}).Validate(); err != nil {
		return "", err
	}
	return key, nil
}

// givenJSON is a value of a request in its shortest form; null and nothing are nil.
// Members of one name in one object are refused: readers differ in which they take. So
// is what is no UTF-8 or nested too deep.
func givenJSON(param string, raw json.RawMessage) ([]byte, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if !utf8.Valid(raw) {
		return nil, problem.New(problem.InvalidJSON, "it is not UTF-8").At(param)
	}
	member, twice, deepest, spaced := doubled(raw)
	switch {
	case deepest > maxNested:
		return nil, invalidField(param, fmt.Sprintf("it is nested deeper than %d", maxNested))
	case twice:
		return nil, invalidField(param, "the member "+cutText(member)+
			" is given more than once in one object")
	case !spaced:
		return raw, nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, problem.New(problem.InvalidJSON, "").At(param)
	}
	return b.Bytes(), nil
}

func readLabels(raw json.RawMessage) (map[string]string, error) {
	given, err := givenJSON("labels", raw)
	if err != nil || given == nil {
		return nil, err
	}
	var out map[string]string
	if json.Unmarshal(given, &out) != nil {
		return nil, invalidField("labels", "it is an object of texts")
	}
	return out, nil
}

// start starts or joins a run. A start that is repeated after its definition has
// changed still gets its run: what is wrong with its input by the definition of now is
// told only when there is no run to join.
func (s *Server) start(ctx context.Context, req saga.StartRequest) (saga.Started, error) {
	prepared, wrong := req, error(nil)
	if s.sagas.Rules != nil {
		wrong = s.sagas.Rules.Prepare(ctx, &prepared)
	}
	if wrong == nil {
		st, err := s.sagas.Engine.StartRun(ctx, prepared)
		if _, input := errors.AsType[*saga.InputError](err); !input {
			return st, err
		}
		wrong = err
	}
	req.Join = true
	st, err := s.sagas.Engine.StartRun(ctx, req)
	if errors.Is(err, saga.ErrNoRun) || errors.Is(err, saga.ErrConfig) {
		return st, wrong
	}
	return st, err
}

// runAfter returns the run, when the request wishes so after its end, or after it has
// come to need a person.
func (s *Server) runAfter(c echo.Context, id string, wish preference) (*saga.RunView, error) {
	ctx := c.Request().Context()
	if wish.wait == 0 {
		return s.sagas.Engine.Get(ctx, id)
	}
	c.Response().Header().Set("Preference-Applied", "wait="+strconv.Itoa(int(wish.wait/time.Second)))
	ctx, cancel := context.WithTimeout(ctx, wish.wait)
	defer cancel()
	if s.sagas.Going != nil {
		defer context.AfterFunc(s.sagas.Going, cancel)()
	}
	v, err := s.sagas.Engine.Wait(ctx, id)
	switch {
	case v == nil:
		return nil, err
	case ctx.Err() == nil: // the error says how it ended
		return v, nil
	}
	// It goes on, and may have come further meanwhile. The time of the request may be
	// over too; what is known is answered all the same.
	if now, err := s.sagas.Engine.Get(context.WithoutCancel(ctx), id); err == nil {
		return now, nil
	}
	return v, nil
}

// preference is what a request wishes of the answer with a run.
type preference struct {
	wait    time.Duration // for the end of the run; 0 is not at all
	minimal bool          // to see only what names the run and says how it stands
}

// maxRunID is longer than every id of a run, in bytes.
const maxRunID = 64

// preferred reads the header Prefer, RFC 7240, of which "wait" and "return" are known;
// the first of each counts. What cannot be honoured is ignored, as that says; a wait of
// more than MaxRunWait is that.
func preferred(h http.Header) (wish preference) {
	waits, returns := false, false
	for _, value := range h["Prefer"] {
		for part := range strings.SplitSeq(value, ",") {
			part, _, _ = strings.Cut(part, ";")
			name, text, _ := strings.Cut(part, "=")
			name, text = strings.TrimSpace(name), strings.Trim(strings.TrimSpace(text), `"`)
			switch {
			case !waits && strings.EqualFold(name, "wait"):
				waits = true
				if n, err := strconv.ParseUint(text, 10, 31); err == nil || errors.Is(err, strconv.ErrRange) {
					wish.wait = min(seconds(int64(n)), MaxRunWait)
				}
			case !returns && strings.EqualFold(name, "return"):
				returns, wish.minimal = true, strings.EqualFold(text, "minimal")
			}
		}
	}
	return wish
}

// getRun answers GET /v1/runs/{id}.
func (s *Server) getRun(c echo.Context) error {
	v, err := s.visibleRun(c)
	if err != nil {
		return err
	}
	wish := preferred(c.Request().Header)
	if wish.wait > 0 {
		if v, err = s.runAfter(c, v.Run, wish); err != nil {
			return err
		}
	}
	tag := runETag(v)
	if matchesAny(c.Request().Header.Values("If-None-Match"), tag) {
		c.Response().Header().Set("ETag", tag)
		return c.NoContent(http.StatusNotModified)
	}
	return s.showRun(c, http.StatusOK, v, wish)
}

// showRun answers with a run, or, if that is the wish, with as little of it as says how
// it stands.
func (s *Server) showRun(c echo.Context, status int, v *saga.RunView, wish preference) error {
	h := c.Response().Header()
	if tag := runETag(v); tag != "" {
		h.Set("ETag", tag)
	}
	o, content := jsonOut{b: make([]byte, 0, roomForRun(v))}, seesRunContent(caller(c), v)
	if wish.minimal {
		applied := "return=minimal"
		if wish.wait > 0 {
			applied = h.Get("Preference-Applied") + ", " + applied
		}
		h.Set("Preference-Applied", applied)
		appendMinimalRun(&o, v, content)
	} else {
		appendRun(&o, v, runShow{content: content})
	}
	if o.err != nil {
		return fmt.Errorf("api: encode a run: %w", o.err)
	}
	return c.Blob(status, echo.MIMEApplicationJSON, o.bytes())
}

// roomForRun is what most answers with a run need, in bytes.
func roomForRun(v *saga.RunView) int {
	const run, step, entry = 512, 256, 96
	return run + step*len(v.State.Steps) + entry*len(v.History) + len(v.Input)
}

// runETag is the revision, and how many corrections and contradictions an ended run has.
// A run that is no longer kept has none.
func runETag(v *saga.RunView) string {
	late := len(v.Corrections) + len(v.Contradictions)
	switch {
	case v.Revision == 0:
		return ""
	case late > 0:
		return `"` + strconv.FormatUint(v.Revision, 10) + "." + strconv.Itoa(late) + `"`
	}
	return versionETag(v.Revision)
}

// runRevision reads If-Match of an act on a run.
func runRevision(h http.Header) (uint64, error) {
	tag, err := ifMatch(h)
	if err != nil {
		return 0, err
	}
	number, _, _ := strings.Cut(tag, ".")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || n == 0 {
		return 0, stale()
	}
	return n, nil
}

// visibleRun reads the run of the path; one that the caller may not see does not
// exist.
func (s *Server) visibleRun(c echo.Context) (*saga.RunView, error) {
	id := c.Param("id")
	if len(id) > maxRunID {
		return nil, saga.ErrNoRun
	}
	v, err := s.sagas.Engine.Get(c.Request().Context(), id)
	if err != nil {
		return nil, err
	}
	if !seesRun(caller(c), v) {
		return nil, saga.ErrNoRun
	}
	return v, nil
}

func ownsRun(who auth.Identity, v *saga.RunView) bool {
	return who.Can(auth.RunsOwn) && v.Principal != "" && v.Principal == who.Principal
}

func seesRun(who auth.Identity, v *saga.RunView) bool {
	return who.Can(auth.RunsRead) || ownsRun(who, v)
}

func seesRunContent(who auth.Identity, v *saga.RunView) bool {
	return who.Can(auth.RunsContent) || ownsRun(who, v)
}

// sagaProblem translates the errors of sagas; nil is another error.
func sagaProblem(err error) *problem.Problem {
	var input *saga.InputError
	var config *saga.ConfigError
	var state *machine.Error
	var faulty *DefinitionError
	switch {
	case errors.As(err, &input):
		return problem.New(problem.InvalidField, input.Field+" "+input.Problem).At(input.Field)
	case errors.As(err, &config) && config.Field == "definition":
		return problem.New(problem.InvalidField, "there is no such definition or version; "+
			"GET /v1/definitions lists those that there are").At("definition")
	case errors.As(err, &state):
		return problem.New(problem.WrongState, "the run is "+state.Status.String()+": "+state.Problem)
	case errors.As(err, &faulty):
		return faulty.problem()
	case errors.Is(err, saga.ErrMismatch):
		return problem.New(problem.Mismatch,
			"the input is not that of the first start with this key").At("input")
	case errors.Is(err, saga.ErrNoRun):
		return problem.New(problem.NotFound, "there is no run of this id, or it is no longer kept")
	case errors.Is(err, saga.ErrVersion):
		return problem.New(problem.Stale, "").At("If-Match")
	case errors.Is(err, ErrDefinitionAway):
		return problem.New(problem.Unavailable, strings.TrimPrefix(err.Error(), "api: ")+
			"; send it again later").After(awayRetry)
	case errors.Is(err, ErrNoDefinition):
		return problem.New(problem.NotFound, "there is no definition of this name, or no such version")
	case errors.Is(err, ErrDefinitionTaken):
		return problem.New(problem.WrongState, strings.TrimPrefix(err.Error(), "api: ")).At("name")
	}
	return nil
}
