package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"onced/api/problem"
	"onced/kv/claim"
	"onced/saga/idemhttp"
)

// typeJSON is the content type of results that are given as JSON.
const typeJSON = "application/json"

// resultBody are the members of a request that carry a result.
type resultBody struct {
	Result      json.RawMessage `json:"result"`
	ResultB64   *string         `json:"result_b64"`
	ContentType *string         `json:"content_type"`
}

// given reports whether there is any result.
func (in *resultBody) given() bool {
	return in.Result != nil || in.ResultB64 != nil || in.ContentType != nil
}

// result reads the result: JSON, or bytes in base64 with their type, or nothing.
func (in *resultBody) result() (claim.Result, error) {
	bad := func(param, detail string) (claim.Result, error) {
		return claim.Result{}, invalidField(param, detail)
	}
	switch {
	case in.Result != nil && in.ResultB64 != nil:
		return bad("result_b64", "give result or result_b64, not both")
	case in.Result != nil && in.ContentType != nil && *in.ContentType != typeJSON:
		return bad("content_type", "result is JSON; give other types in result_b64")
	case in.Result != nil:
		return claim.Result{Type: typeJSON, Data: in.Result}, nil
	}
	var res claim.Result
	if in.ContentType != nil { // an outcome is not refused for its type
		res.Type = cleanText(*in.ContentType, claim.MaxResultType)
	}
	if in.ResultB64 != nil {
		b, err := base64.StdEncoding.Strict().DecodeString(*in.ResultB64)
		if err != nil {
			return bad("result_b64", "it is not standard base64 with padding")
		}
		res.Data = b
	}
	return res, nil
}

// verb is the common course of what an owner does with its claim. The claims of
// the proxy's routes, and all others that were not made here, have their owners
// inside this process: a token sees those of its principal and changes none.
func (s *Server) verb(
	c echo.Context, in any, act func(context.Context, claim.ID) (claim.Decision, error),
) error {
	id, err := s.visible(c)
	if err != nil {
		return err
	}
	switch {
	case !ownsClaim(caller(c), id):
		return problem.New(problem.Forbidden, "the claim belongs to another principal")
	case partsOf(id.Scope).kind != kindOperation:
		return problem.New(problem.Forbidden, "the claim was not made by POST /v1/claims: onced itself owns "+
			"it, and an operator can resolve it").About(claimPath(id))
	}
	if err := s.readJSON(c, in); err != nil {
		return err
	}
	d, err := act(c.Request().Context(), id)
	if err != nil {
		return s.about(err, id)
	}
	return s.decided(c, id, d)
}

// about names the claim in a problem that it causes.
func (s *Server) about(err error, id claim.ID) error {
	p := problemOf(err)
	if p.Code == problem.Internal {
		return err // with its cause, for the log
	}
	named := *p
	return named.About(claimPath(id))
}

// decided answers a decision. What was freed is answered the same the second
// time, so its old record is not shown.
func (s *Server) decided(c echo.Context, id claim.ID, d claim.Decision) error {
	out := claimAnswer{Outcome: d.Kind.String()}
	if d.RetryAfter > 0 {
		out.RetryAfterS = int((d.RetryAfter + time.Second - 1) / time.Second)
	}
	if d.Kind != claim.Freed {
		out.Claim = viewClaim(id, d.Record, false)
		c.Response().Header().Set("ETag", claimETag(d.Record))
	}
	return s.json(c, http.StatusOK, out)
}

func (s *Server) heartbeat(c echo.Context) error {
	var in struct {
		Token  string `json:"token"`
		LeaseS int64  `json:"lease_s"`
	}
	return s.verb(c, &in, func(ctx context.Context, id claim.ID) (claim.Decision, error) {
		l, err := lease(in.LeaseS)
		if err != nil {
			return claim.Decision{}, err
		}
		return s.deps.Book.Heartbeat(ctx, claim.Ref{ID: id, Token: in.Token}, l)
	})
}

func (s *Server) done(c echo.Context) error { return s.finish(c, s.deps.Book.Done) }

func (s *Server) refused(c echo.Context) error { return s.finish(c, s.deps.Book.Refused) }

func (s *Server) finish(
	c echo.Context, f func(context.Context, claim.Ref, claim.Result) (claim.Decision, error),
) error {
	var in struct {
		resultBody

		Token string `json:"token"`
	}
	return s.verb(c, &in, func(ctx context.Context, id claim.ID) (claim.Decision, error) {
		res, err := in.result()
		if err != nil {
			return claim.Decision{}, err
		}
		return f(ctx, claim.Ref{ID: id, Token: in.Token}, res)
	})
}

func (s *Server) release(c echo.Context) error {
	var in struct {
		Token string `json:"token"`
	}
	return s.verb(c, &in, func(ctx context.Context, id claim.ID) (claim.Decision, error) {
		return s.deps.Book.Release(ctx, claim.Ref{ID: id, Token: in.Token})
	})
}

func (s *Server) unknown(c echo.Context) error {
	var in struct {
		Token  string `json:"token"`
		Reason string `json:"reason"`
	}
	return s.verb(c, &in, func(ctx context.Context, id claim.ID) (claim.Decision, error) {
		return s.deps.Book.Unknown(ctx, claim.Ref{ID: id, Token: in.Token}, cleanText(in.Reason,
			claim.MaxReason))
	})
}

// answers are the words for what a look-up at the callee said.
var answers = map[string]claim.Answer{"none": claim.NoAnswer, "done": claim.FoundDone,
	"refused": claim.FoundRefused, "nothing": claim.FoundNothing}

func (s *Server) lookedUp(c echo.Context) error {
	var in struct {
		resultBody

		Token         string  `json:"token"`
		Answer        string  `json:"answer"`
		SettlesAfterS int64   `json:"settles_after_s"`
		Reason        string  `json:"reason"`
		AskedAt       *string `json:"asked_at"`
	}
	return s.verb(c, &in, func(ctx context.Context, id claim.ID) (claim.Decision, error) {
		a, ok := answers[in.Answer]
		if !ok {
			return claim.Decision{}, invalidField("answer", "use done, refused, nothing or none")
		}
		const most = int64(claim.DefaultRetention / time.Second)
		if a == claim.FoundNothing && (in.SettlesAfterS < 1 || in.SettlesAfterS > most) {
			return claim.Decision{}, outOfRange("settles_after_s", 1, most)
		}
		asked, err := s.askedAt(ctx, id, in.AskedAt)
		if err != nil {
			return claim.Decision{}, err
		}
		res, err := in.result()
		if err != nil {
			return claim.Decision{}, err
		}
		return s.deps.Book.LookedUp(ctx, claim.Ref{ID: id, Token: in.Token}, claim.Finding{Answer: a,
			Result: res, SettlesAfter: seconds(in.SettlesAfterS), AskedAt: asked,
			Reason: cleanText(in.Reason, claim.MaxReason)})
	})
}

// askedAt reads when a look-up began; nil is the zero time. One before the claim is
// that of another look-up, and one in the future of another clock.
func (s *Server) askedAt(ctx context.Context, id claim.ID, text *string) (time.Time, error) {
	if text == nil {
		return time.Time{}, nil
	}
	bad := func(detail string) (time.Time, error) { return time.Time{}, invalidField("asked_at", detail) }
	at, err := time.Parse(time.RFC3339, *text)
	if err != nil {
		return bad("it is not an instant as in RFC 3339, for example 2026-01-31T12:00:00.000Z")
	}
	if at.After(s.deps.Clock.Now()) {
		return bad("it is in the future; the clock of onced counts: leave it out, or take updated_at as " +
			"the claim had it when you took it over")
	}
	cl, ok, err := s.deps.Book.Get(ctx, id)
	if err != nil {
		return time.Time{}, err
	}
	// What was answered has milliseconds.
	if ok && at.Before(cl.Record.CreatedAt.Truncate(time.Millisecond)) {
		return bad("it is before the claim was made, at " + instant(cl.Record.CreatedAt))
	}
	return at, nil
}

func (s *Server) repeat(c echo.Context) error {
	var in struct {
		Token        string `json:"token"`
		KeyValidForS int64  `json:"key_valid_for_s"`
	}
	return s.verb(c, &in, func(ctx context.Context, id claim.ID) (claim.Decision, error) {
		const most = int64(claim.DefaultRetention / time.Second)
		if in.KeyValidForS < 1 || in.KeyValidForS > most {
			return claim.Decision{}, outOfRange("key_valid_for_s", 1, most)
		}
		return s.deps.Book.Repeat(ctx, claim.Ref{ID: id, Token: in.Token}, seconds(in.KeyValidForS))
	})
}

var verdicts = map[string]claim.Verdict{"done": claim.VerdictDone, "refused": claim.VerdictRefused,
	"free": claim.VerdictFree}

// resolve answers POST /v1/claims/{id}/resolve, an operator's act.
func (s *Server) resolve(c echo.Context) error {
	id, err := s.visible(c)
	if err != nil {
		return err
	}
	version, err := claimVersion(c.Request().Header)
	if err != nil {
		return s.about(err, id)
	}
	var in struct {
		resultBody

		Verdict string `json:"verdict"`
		Reason  string `json:"reason"`
		Status  *int   `json:"status"`
	}
	if err := s.readJSON(c, &in); err != nil {
		return err
	}
	v, ok := verdicts[in.Verdict]
	if !ok {
		return invalidField("verdict", "use done, refused or free")
	}
	if err := checkReason(in.Reason); err != nil {
		return err
	}
	if v == claim.VerdictFree && (in.given() || in.Status != nil) {
		return invalidField("result", "a key that is freed has no result")
	}
	res, err := in.result()
	if err == nil && in.Status != nil {
		res, err = asResponse(id, *in.Status, res)
	}
	if err != nil {
		return err
	}
	d, err := s.deps.Book.Resolve(c.Request().Context(), claim.Resolution{ID: id, Version: version,
		Verdict: v, Result: res, Actor: caller(c).Name, Reason: in.Reason})
	if err != nil {
		return s.about(err, id)
	}
	return s.decided(c, id, d)
}

// asResponse turns a result into the response that a route replays.
func asResponse(id claim.ID, status int, res claim.Result) (claim.Result, error) {
	switch {
	case partsOf(id.Scope).kind != kindRoute:
		return res, invalidField("status", "only the claims of routes are replayed with a status")
	case status < 200 || status > 599:
		return res, outOfRange("status", 200, 599)
	case len(res.Data) > 0 && (status == http.StatusNoContent || status == http.StatusResetContent ||
		status == http.StatusNotModified):
		return res, invalidField("status", "an answer with this status has no body; leave the result out")
	}
	r := &idemhttp.Response{Status: status, Body: res.Data}
	if res.Type != "" {
		r.Header = http.Header{"Content-Type": {res.Type}}
	}
	return idemhttp.ResultOf(r)
}
