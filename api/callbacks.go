package api

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"onced/api/auth"
	"onced/api/problem"
	"onced/kv"
	"onced/kv/claim"
	"onced/saga"
	"onced/saga/machine"
)

var callbackRow = kv.Key{}.String("callback")

// CallbackKey returns the store's key for [NewCallbacks], and makes one when there
// is none yet: with it callback URLs survive a restart. random makes it.
func CallbackKey(ctx context.Context, store kv.Store, random io.Reader) ([]byte, error) {
	return storedKey(ctx, store, random, callbackRow)
}

// Callbacks makes the URLs under which callees report what became of a step, and
// opens their tokens. A token is derived from the run, the step and the round: every
// try of a call sends the same one, also after a restart. Nobody can make one
// without the key. It can do one thing, and that only as long as the run is kept.
// It is safe for concurrent use.
type Callbacks struct {
	key  []byte
	base string
}

// NewCallbacks returns the Callbacks for a key of [CallbackKey] and the URL under
// which callees reach this server, for example "https://pay.example.org". It fails
// on a key or a URL that is none.
func NewCallbacks(key []byte, publicURL string) (*Callbacks, error) {
	if len(key) != cursorKeySize {
		return nil, fmt.Errorf("api: the key of callbacks has %d bytes; use one of CallbackKey", len(key))
	}
	u, err := url.Parse(publicURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil ||
		u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("api: the public URL must be like https://pay.example.org, " +
			"without user, query and fragment")
	}
	return &Callbacks{key: key, base: strings.TrimSuffix(publicURL, "/")}, nil
}

// callbackPath is where callbacks arrive.
const callbackPath = "/v1/callbacks/"

// URL returns the callback URL of a step of a run. It is a secret that can be used
// for that step only: give it to the callee, and keep it out of logs.
func (c *Callbacks) URL(run, step string, round uint64) string {
	return c.base + callbackPath + c.token(callback{run, step, round})
}

// callback is what a token stands for.
type callback struct {
	run, step string
	round     uint64
}

func (c *Callbacks) token(b callback) string {
	name := kv.Key{}.String(b.run).String(b.step).Uint(b.round)
	return idEncoding.EncodeToString(append(c.sum(name), name...))
}

func (c *Callbacks) sum(name []byte) []byte {
	h := hmac.New(sha256.New, c.key)
	h.Write([]byte("onced callback 1\x00"))
	h.Write(name)
	return h.Sum(nil)
}

// maxCallbackToken bounds a token: a name of a step has 64 bytes, an id 30.
const maxCallbackToken = 512

// open returns what a token stands for. Every token that is none costs the same as
// one that is, and is told apart from it at the end only.
func (c *Callbacks) open(token string) (callback, bool) {
	raw, err := idEncoding.DecodeString(token[:min(len(token), maxCallbackToken)])
	whole := err == nil && len(token) <= maxCallbackToken && len(raw) > sha256.Size
	if !whole {
		raw = make([]byte, sha256.Size+48)
	}
	given, name := raw[:sha256.Size], raw[sha256.Size:]
	if same := hmac.Equal(given, c.sum(name)); !same || !whole {
		return callback{}, false
	}
	d := kv.DecodeKey(name)
	b := callback{run: d.String(), step: d.String(), round: d.Uint()}
	return b, d.End() == nil
}

// signalAnswer is the answer of signals and callbacks. It holds nothing of the run.
type signalAnswer struct {
	Outcome string `json:"outcome"` // accepted, repeated, contradicts or ignored
}

// The outcomes of signals and callbacks.
const (
	signalAccepted = "accepted" // it counts
	signalRepeated = "repeated" // the same was known
	signalIgnored  = "ignored"  // it says neither done nor refused
	// It denies the end of the run, which stays as it is; a person has to look at it.
	signalContradicts = "contradicts"
)

// signal answers POST /v1/runs/{id}/signals/{step}.
func (s *Server) signal(c echo.Context) error {
	v, err := s.visibleRun(c)
	if err != nil {
		return err
	}
	who := caller(c)
	owner := ownsRun(who, v)
	if !owner && !who.Can(auth.RunsOperate) {
		return problem.New(problem.Forbidden, "the run belongs to another principal")
	}
	raw, err := s.jsonBody(c)
	if err != nil {
		return err
	}
	r, err := readSignal(raw)
	if err != nil {
		return err
	}
	sig := saga.Signal{Step: c.Param("step")}
	if awaits, known := s.sagas.Engine.Awaits(v, sig.Step); known && !awaits && !who.Can(auth.RunsOperate) {
		return aboutRun(c, problem.New(problem.WrongState, "the step "+cutText(sig.Step)+" has no await: "+
			"its reply and its look-up say what became of it; where nobody knows, an operator says so with "+
			"mark_done or mark_not_done"))
	}
	if !owner {
		sig.Actor = who.Name
	}
	if err := s.checkResult(c, v, sig.Step, r); err != nil {
		return aboutRun(c, err)
	}
	outcome, err := s.pass(c, v, sig, r)
	if err != nil {
		return aboutRun(c, err)
	}
	status := http.StatusOK
	if outcome == signalAccepted {
		status = http.StatusAccepted
	}
	return s.json(c, status, signalAnswer{Outcome: outcome})
}

// callback answers POST /v1/callbacks/{token}. Nothing of the body is read before the
// token is known to be ours.
func (s *Server) callback(c echo.Context) error {
	none := problem.New(problem.NotFound, "there is no such callback, or its run is no longer kept")
	at, ok := s.sagas.Callbacks.open(c.Param("token"))
	if !ok {
		return none
	}
	ctx := c.Request().Context()
	v, err := s.sagas.Engine.Get(ctx, at.run)
	if errors.Is(err, saga.ErrNoRun) || err == nil && (v.Round != at.round || v.State.Find(at.step) < 0) {
		return none
	}
	if err != nil {
		return err
	}
	raw, err := s.callbackBody(c)
	if err != nil {
		return err
	}
	r, known := Reading{}, false
	if s.sagas.Rules != nil {
		if r, known, err = s.sagas.Rules.ReadCallback(ctx, v, at.step, raw); err != nil {
			return s.unread(ctx, at, err)
		}
	}
	if !known {
		if r, err = readSignal(raw); err != nil {
			return err
		}
	}
	outcome := signalIgnored
	if r.Outcome != "" {
		if outcome, err = s.pass(c, v, saga.Signal{Step: at.step}, r); err != nil {
			return err
		}
	}
	return s.json(c, http.StatusOK, signalAnswer{Outcome: outcome})
}

// unread notes in the run's history that a callback could not be read: its sender may
// not send it again, and nobody would know why the run waits.
func (s *Server) unread(ctx context.Context, at callback, err error) error {
	if in, ok := errors.AsType[*saga.InputError](err); ok {
		text := "a callback could not be read: " + in.Field + " " + in.Problem
		if e := s.sagas.Engine.Remark(ctx, at.run, at.step, text); e != nil {
			s.log.WarnContext(ctx, "a callback that could not be read is not in the history of its run",
				"run", at.run, "step", at.step, "error", e)
		}
	}
	return err
}

// checkResult makes sure that the word "done" of who is not the callee brings what the
// steps behind read of it.
func (s *Server) checkResult(c echo.Context, v *saga.RunView, step string, r Reading) error {
	if s.sagas.Rules == nil || r.Outcome != "done" {
		return nil
	}
	return s.sagas.Rules.CheckResult(c.Request().Context(), v, step, r.Data)
}

// errNoOutcome refuses an empty callback: that something has arrived says neither that
// it was done nor that it was refused.
func errNoOutcome() error {
	return problem.New(problem.InvalidJSON, `the body is empty; it says what became of the step, `+
		`for example {"outcome": "done"}`)
}

// callbackBody is the JSON of a callback. Its content type is not looked at: callees
// send JSON under many.
func (s *Server) callbackBody(c echo.Context) ([]byte, error) {
	r := c.Request()
	if len(r.Header.Values("Content-Encoding")) > 0 {
		return nil, problem.New(problem.UnsupportedMediaType,
			"an encoded body is not read").At("Content-Encoding")
	}
	if r.ContentLength == 0 {
		return nil, errNoOutcome()
	}
	raw, err := s.readBody(c)
	if err != nil {
		return nil, err
	}
	switch raw = bytes.TrimSpace(raw); {
	case len(raw) == 0:
		return nil, errNoOutcome()
	case !utf8.Valid(raw) || !json.Valid(raw):
		return nil, problem.New(problem.InvalidJSON, "the body of a callback is one JSON value")
	}
	return raw, nil
}

// readSignal reads what a signal says.
func readSignal(raw []byte) (Reading, error) {
	var in struct {
		Outcome string          `json:"outcome"`
		Data    json.RawMessage `json:"data"`
		Reason  string          `json:"reason"`
		At      string          `json:"at"`
	}
	if err := decodeStrict(raw, &in); err != nil {
		return Reading{}, err
	}
	if in.Outcome != "done" && in.Outcome != "refused" {
		return Reading{}, invalidField("outcome", "use done or refused")
	}
	at, err := instantOf("at", in.At)
	if err != nil {
		return Reading{}, err
	}
	data, err := givenJSON("data", in.Data)
	return Reading{Outcome: in.Outcome, Data: data, Reason: cleanText(in.Reason, claim.MaxReason),
		At: at}, err
}

// pass gives the engine sig, of which the step is set, with what r says, for the run v.
// That it is known already is said by what v was before; the engine decides by itself.
func (s *Server) pass(
	c echo.Context, v *saga.RunView, sig saga.Signal, r Reading,
) (outcome string, err error) {
	sig.Run, sig.Refused = v.Run, r.Outcome == "refused"
	sig.Data, sig.At, sig.Reason = r.Data, r.At, cleanText(r.Reason, claim.MaxReason)
	if err := s.sagas.Engine.Signal(c.Request().Context(), sig); err != nil {
		var in *saga.InputError
		if errors.As(err, &in) && in.Field == "run" { // nothing is wrong with the signal
			return "", fmt.Errorf("%w: it %s", ErrDefinitionAway, in.Problem)
		}
		return "", err
	}
	said := machine.OutcomeDone
	if sig.Refused {
		said = machine.OutcomeRefused
	}
	i := v.State.Find(sig.Step)
	if again := i >= 0 && v.State.Steps[i].Signal == said; again || v.State.Status.Terminal() {
		now, err := s.sagas.Engine.Get(c.Request().Context(), v.Run)
		if err != nil {
			return "", err
		}
		if x, ok := now.Contradictions[sig.Step]; ok && x.Is(said, sig.Data) {
			return signalContradicts, nil
		}
	}
	if i >= 0 && v.State.Steps[i].Signal == said || !sig.Refused && v.Corrections[sig.Step] != "" {
		return signalRepeated, nil
	}
	return signalAccepted, nil
}
