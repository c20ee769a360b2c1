package api

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"onced/api/problem"
	"onced/kv/claim"
)

// maxOperation is the longest name of an operation, in bytes.
const maxOperation = 128

// claimRequest is the body of POST /v1/claims.
type claimRequest struct {
	Operation   string          `json:"operation"`
	Key         string          `json:"key"`
	Token       string          `json:"token"`
	Fingerprint *string         `json:"fingerprint"`
	Payload     *string         `json:"payload"`
	LeaseS      int64           `json:"lease_s"`
	WaitS       int64           `json:"wait_s"`
	Intent      json.RawMessage `json:"intent"`
	TakeOver    bool            `json:"take_over"`
}

// claimAnswer is the answer of POST /v1/claims and of the verbs.
type claimAnswer struct {
	Outcome       string     `json:"outcome"`
	DownstreamKey string     `json:"downstream_key,omitempty"`
	EarlierDoubt  *bool      `json:"earlier_outcome_unknown,omitempty"`
	RetryAfterS   int        `json:"retry_after_s,omitempty"`
	Claim         *claimView `json:"claim,omitempty"`
}

// claim answers POST /v1/claims.
func (s *Server) claim(c echo.Context) error {
	var in claimRequest
	if err := s.readJSON(c, &in); err != nil {
		return err
	}
	req, err := in.request(caller(c).Principal)
	if err != nil {
		return err
	}
	if in.WaitS < 0 || in.WaitS > int64(MaxWait/time.Second) {
		return outOfRange("wait_s", 0, int64(MaxWait/time.Second))
	}
	d, err := s.deps.Book.BeginWait(c.Request().Context(), req, seconds(in.WaitS))
	if err != nil {
		return err
	}
	path := claimPath(req.ID)
	if p := problem.OfDecision(d, path); p != nil {
		return p
	}
	out := claimAnswer{Outcome: d.Kind.String(), DownstreamKey: claim.DownstreamKey(req.ID.Scope, req.ID.Key),
		Claim: viewClaim(req.ID, d.Record, true)}
	status := http.StatusOK
	switch d.Kind {
	case claim.Acquired, claim.TookOver:
		doubt := d.Record.Doubt
		out.EarlierDoubt = &doubt
		if d.Kind == claim.Acquired {
			status = http.StatusCreated
			c.Response().Header().Set("Location", path)
		}
	case claim.Replay:
		c.Response().Header().Set("Idempotency-Replayed", "true")
	default: // Begin decides nothing else that is an answer
	}
	c.Response().Header().Set("ETag", claimETag(d.Record))
	return s.json(c, status, out)
}

// request turns the body into a request of principal for a key.
func (in *claimRequest) request(principal string) (claim.Request, error) {
	if err := checkOperation(in.Operation); err != nil {
		return claim.Request{}, err
	}
	fp, err := in.fingerprint()
	if err != nil {
		return claim.Request{}, err
	}
	lease, err := lease(in.LeaseS)
	if err != nil {
		return claim.Request{}, err
	}
	req := claim.Request{ID: claim.ID{Scope: claim.ScopeOf(principal, in.Operation), Key: in.Key},
		Token: in.Token, Fingerprint: fp, Owner: claim.RemoteOwner(lease), TakeOver: in.TakeOver}
	if len(in.Intent) > 0 && string(in.Intent) != "null" {
		req.Intent = in.Intent
	}
	return req, nil
}

// fingerprint is the digest the caller made, or ours of the payload: both are
// SHA-256 of the raw bytes.
func (in *claimRequest) fingerprint() ([32]byte, error) {
	switch {
	case in.Fingerprint != nil && in.Payload != nil:
		return [32]byte{}, invalidField("payload", "give a fingerprint or a payload, not both")
	case in.Payload != nil:
		return sha([]byte(*in.Payload)), nil
	case in.Fingerprint == nil:
		return [32]byte{}, invalidField("fingerprint",
			"give the SHA-256 of the request's raw bytes in hex, or a payload to make it from")
	}
	b, err := hex.DecodeString(*in.Fingerprint)
	if err != nil || len(b) != 32 {
		return [32]byte{}, invalidField("fingerprint", "a SHA-256 has 64 hexadecimal digits")
	}
	return [32]byte(b), nil
}

func checkOperation(op string) error {
	if op == "" || len(op) > maxOperation {
		return invalidField("operation",
			fmt.Sprintf("it is %d bytes long; a name has 1 to %d", len(op), maxOperation))
	}
	for _, c := range []byte(op) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && !strings.ContainsRune("._:/-", rune(c)) {
			return invalidField("operation", "use a stable name of letters, digits and ._:/-")
		}
	}
	return nil
}

// lease has no default: what is forgotten must not become a lease.
func lease(n int64) (time.Duration, error) {
	const least, most = int64(claim.MinLease / time.Second), int64(claim.MaxLease / time.Second)
	if n < least || n > most {
		return 0, outOfRange("lease_s", least, most)
	}
	return seconds(n), nil
}

func outOfRange(param string, least, most int64) error {
	return invalidField(param, fmt.Sprintf("give a whole number from %d to %d", least, most))
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// getClaim answers GET /v1/claims/{id}.
func (s *Server) getClaim(c echo.Context) error {
	id, err := s.visible(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	wait, err := intParam(c, "wait_s", 0, int(MaxWait/time.Second))
	if err != nil {
		return err
	}
	got, ok, err := s.deps.Book.Wait(ctx, id, seconds(int64(wait)))
	if err != nil {
		return err
	}
	if !ok {
		return noClaim()
	}
	tag := claimETag(got.Record)
	c.Response().Header().Set("ETag", tag)
	if matchesAny(c.Request().Header.Values("If-None-Match"), tag) {
		return c.NoContent(http.StatusNotModified)
	}
	return s.json(c, http.StatusOK, viewClaim(id, got.Record, seesContent(caller(c), id)))
}

// noClaim is also the answer for a claim of another principal.
func noClaim() error {
	return problem.New(problem.NotFound, "there is no claim of this id")
}

// visible reads the claim's id from the path; one that the caller may not see
// does not exist.
func (s *Server) visible(c echo.Context) (claim.ID, error) {
	id, ok := parseClaimID(c.Param("id"))
	if !ok || !seesClaim(caller(c), id) {
		return claim.ID{}, noClaim()
	}
	return id, nil
}

// intParam reads a whole number from the query; 0 when it is absent.
func intParam(c echo.Context, name string, least, most int) (int, error) {
	text := c.QueryParam(name)
	if text == "" {
		return 0, nil
	}
	n := 0
	for _, d := range []byte(text) {
		if d < '0' || d > '9' || n > most {
			return 0, outOfRange(name, int64(least), int64(most))
		}
		n = n*10 + int(d-'0')
	}
	if n < least || n > most {
		return 0, outOfRange(name, int64(least), int64(most))
	}
	return n, nil
}
