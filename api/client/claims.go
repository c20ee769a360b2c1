package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// ClaimRequest asks for a key.
type ClaimRequest struct {
	// Operation is the stable name of what is done, for example "charge".
	Operation string `json:"operation"`
	// Key is the idempotency key, 1 to 255 bytes.
	Key string `json:"key"`
	// Token is the owner's fresh, random, unguessable text of 16 to 128 bytes.
	// The same call with the same token gets the same answer.
	Token string `json:"token"`
	// Fingerprint is the SHA-256 of the request's raw bytes in hex. Give this or
	// Payload.
	Fingerprint string `json:"fingerprint,omitempty"`
	// Payload is the request itself, for the server to make the fingerprint.
	Payload *string `json:"payload,omitempty"`
	// LeaseS is how long the owner may be silent, in seconds; at least 1.
	LeaseS int64 `json:"lease_s"`
	// WaitS is how long to wait while another owner is at work, in seconds; at
	// most 10.
	WaitS int64 `json:"wait_s,omitempty"`
	// Intent describes what is about to be done; it may be nil.
	Intent json.RawMessage `json:"intent,omitempty"`
	// TakeOver says that the caller can find out what became of an unknown effect.
	TakeOver bool `json:"take_over,omitempty"`
}

// Answer is what the server decided about a claim.
type Answer struct {
	// Outcome is "acquired", "took_over" or "replay" of Claim; "finished",
	// "still_unknown", "freed", "extended", "cleared" or "may_resend" of the verbs.
	Outcome string `json:"outcome"`
	// DownstreamKey is what to send to the callee as its idempotency key.
	DownstreamKey string `json:"downstream_key,omitempty"`
	// EarlierOutcomeUnknown says that earlier tries may have had the effect.
	EarlierOutcomeUnknown bool `json:"earlier_outcome_unknown,omitempty"`
	// RetryAfterS says after how many seconds a look-up can be proof; 0 is no hint.
	RetryAfterS int `json:"retry_after_s,omitempty"`
	// Claim is the claim after the decision; nil when it was freed.
	Claim *Claim `json:"claim,omitempty"`
}

// Claim is a claim as the server shows it. Fields that the caller's role may not
// see are empty.
type Claim struct {
	ID                    string          `json:"id"`                  // names it in the API
	Kind                  string          `json:"kind,omitempty"`      // operation, route or other
	Scope                 string          `json:"scope"`               // principal and operation in one
	Principal             string          `json:"principal,omitempty"` // whose it is
	Operation             string          `json:"operation,omitempty"` // what is done; of a route, its name
	Key                   string          `json:"key"`                 // the idempotency key
	State                 string          `json:"state"`               // pending, done, refused or unknown
	Try                   int             `json:"try"`                 // counts the takeovers, from 1
	Version               uint64          `json:"version"`             // rises with every change
	Owner                 *Owner          `json:"owner,omitempty"`     // of a pending claim
	EarlierOutcomeUnknown bool            `json:"earlier_outcome_unknown"`
	CreatedAt             time.Time       `json:"created_at,omitzero"`       // when it came into being
	UpdatedAt             time.Time       `json:"updated_at,omitzero"`       // when it last changed
	FirstAt               time.Time       `json:"first_at,omitzero"`         // from when on a send may count
	UnknownSince          time.Time       `json:"unknown_since,omitzero"`    // when it became unknown
	LastSendBefore        time.Time       `json:"last_send_before,omitzero"` // bound of the last send
	Cause                 string          `json:"cause,omitempty"`           // why it is unknown
	Reason                string          `json:"reason,omitempty"`          // for people
	ResolvedBy            string          `json:"resolved_by,omitempty"`     // the person who decided
	ExpiresAt             time.Time       `json:"expires_at,omitzero"`       // end of retention
	ResultSize            int64           `json:"result_size"`               // in bytes
	ContentType           string          `json:"content_type,omitempty"`    // of the result
	ResultOmitted         bool            `json:"result_omitted,omitempty"`  // too large to be kept
	ResultSHA256          string          `json:"result_sha256,omitempty"`   // of an omitted result, in hex
	Result                json.RawMessage `json:"result,omitempty"`          // when it is JSON
	ResultB64             []byte          `json:"result_b64,omitempty"`      // when it is not
	Intent                json.RawMessage `json:"intent,omitempty"`          // when it is JSON
	IntentB64             []byte          `json:"intent_b64,omitempty"`      // when it is not
	Fingerprint           string          `json:"fingerprint,omitempty"`     // in hex
	Damaged               bool            `json:"damaged,omitempty"`         // its record cannot be read

	// ETag is the answer's, for [Client.Resolve]; only [Client.GetClaim] sets it.
	ETag string `json:"-"`
}

// Owner is who works on a pending claim.
type Owner struct {
	Kind        string    `json:"kind"`                   // local or remote
	LeaseS      int64     `json:"lease_s,omitempty"`      // of a remote owner
	LeaseEndsAt time.Time `json:"lease_ends_at,omitzero"` // of a remote owner
}

// ResultBytes returns the bytes of the stored result, of whatever type.
func (c *Claim) ResultBytes() []byte {
	if c.Result != nil {
		return c.Result
	}
	return c.ResultB64
}

// Result is an outcome to be stored: JSON, or bytes with their type, or nothing.
type Result struct {
	// JSON is a result that is JSON.
	JSON json.RawMessage
	// Bytes is any other result.
	Bytes []byte
	// ContentType is the type of Bytes.
	ContentType string
}

// members puts the result into the body of a request.
func (r Result) members(in map[string]any) map[string]any {
	if r.JSON != nil {
		in["result"] = r.JSON
		return in
	}
	if r.Bytes != nil {
		in["result_b64"] = r.Bytes
	}
	if r.ContentType != "" {
		in["content_type"] = r.ContentType
	}
	return in
}

const claimsPath = "/v1/claims"

// Claim asks for a key. That another owner is at work (in_flight), that the
// outcome is unknown (outcome_unknown) and that the key was used for another
// request (idempotency_mismatch) are problems.
func (c *Client) Claim(ctx context.Context, req ClaimRequest) (Answer, error) {
	var out Answer
	_, err := c.do(ctx, call{method: http.MethodPost, path: claimsPath, body: req}, &out)
	return out, err
}

// Ref names a claim and the token that holds it.
type Ref struct {
	ID    string // of the claim
	Token string // of its owner
}

func (c *Client) verb(ctx context.Context, ref Ref, verb string, in map[string]any) (Answer, error) {
	in["token"] = ref.Token
	var out Answer
	_, err := c.do(ctx, call{method: http.MethodPost, body: in,
		path: claimsPath + "/" + url.PathEscape(ref.ID) + "/" + verb}, &out)
	return out, err
}

// Heartbeat extends the lease to leaseS seconds from now.
func (c *Client) Heartbeat(ctx context.Context, ref Ref, leaseS int64) (Answer, error) {
	return c.verb(ctx, ref, "heartbeat", map[string]any{"lease_s": leaseS})
}

// Done reports that the effect happened.
func (c *Client) Done(ctx context.Context, ref Ref, res Result) (Answer, error) {
	return c.verb(ctx, ref, "done", res.members(map[string]any{}))
}

// Refused reports that the effect did not happen and will not.
func (c *Client) Refused(ctx context.Context, ref Ref, res Result) (Answer, error) {
	return c.verb(ctx, ref, "refused", res.members(map[string]any{}))
}

// Release reports that the effect did not happen, and frees the key.
func (c *Client) Release(ctx context.Context, ref Ref) (Answer, error) {
	return c.verb(ctx, ref, "release", map[string]any{})
}

// Unknown reports that the owner does not know whether the effect happened.
func (c *Client) Unknown(ctx context.Context, ref Ref, reason string) (Answer, error) {
	return c.verb(ctx, ref, "unknown", map[string]any{"reason": reason})
}

// Finding is the answer of a look-up at the callee.
type Finding struct {
	// Answer is "done", "refused", "nothing" (the callee knows of nothing) or
	// "none" (it did not answer).
	Answer string
	// Result is the outcome of done and refused.
	Result Result
	// SettlesAfterS is how many seconds after a send the callee is sure to show
	// it; required for "nothing".
	SettlesAfterS int64
	// AskedAt is when the look-up began, by the clock of onced, for "nothing": what
	// the callee did not show counts from then. Give it for a look-up that may take
	// long; Claim.UpdatedAt as the takeover answered it is always right. Zero means the
	// instant at which onced hears of it.
	AskedAt time.Time
	// Reason is a text for people.
	Reason string
}

// LookedUp reports the answer of a look-up.
func (c *Client) LookedUp(ctx context.Context, ref Ref, f Finding) (Answer, error) {
	in := f.Result.members(map[string]any{"answer": f.Answer})
	if f.SettlesAfterS != 0 {
		in["settles_after_s"] = f.SettlesAfterS
	}
	if !f.AskedAt.IsZero() {
		in["asked_at"] = f.AskedAt.UTC().Format(time.RFC3339Nano)
	}
	if f.Reason != "" {
		in["reason"] = f.Reason
	}
	return c.verb(ctx, ref, "looked_up", in)
}

// Repeat asks for leave to send the same downstream key once more, to a callee
// that remembers keys for validForS seconds.
func (c *Client) Repeat(ctx context.Context, ref Ref, validForS int64) (Answer, error) {
	return c.verb(ctx, ref, "repeat", map[string]any{"key_valid_for_s": validForS})
}

// GetClaim reads a claim. With wait it first waits, up to 10 s in whole seconds,
// until nobody is at work on it.
func (c *Client) GetClaim(ctx context.Context, id string, wait time.Duration) (*Claim, error) {
	k := call{method: http.MethodGet, path: claimsPath + "/" + url.PathEscape(id)}
	if wait > 0 {
		k.query = url.Values{"wait_s": {strconv.Itoa(int(wait / time.Second))}}
	}
	var out Claim
	etag, err := c.do(ctx, k, &out)
	if err != nil {
		return nil, err
	}
	out.ETag = etag
	return &out, nil
}

// ClaimFilter selects claims of a listing. The zero value selects all.
type ClaimFilter struct {
	State     string // open, pending, unknown, done or refused
	Operation string // exactly
	Principal string // exactly
	Limit     int    // 0 is the server's default
	Cursor    string // NextCursor of the page before
}

// ClaimPage is a page of a listing. It may be short while NextCursor is not empty.
type ClaimPage struct {
	Claims     []Claim `json:"claims"`                // without intents and results
	NextCursor string  `json:"next_cursor,omitempty"` // empty at the end
}

// ListClaims lists claims.
func (c *Client) ListClaims(ctx context.Context, f ClaimFilter) (ClaimPage, error) {
	q := url.Values{}
	for name, value := range map[string]string{"state": f.State, "operation": f.Operation,
		"principal": f.Principal, "cursor": f.Cursor} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if f.Limit > 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	var out ClaimPage
	_, err := c.do(ctx, call{method: http.MethodGet, path: claimsPath, query: q}, &out)
	return out, err
}

// Resolution is an operator's decision about an unknown claim.
type Resolution struct {
	// ETag is that of the claim that was looked at.
	ETag string
	// Verdict is "done", "refused" or "free".
	Verdict string
	// Reason is required, for the audit.
	Reason string
	// Result is what replays get, of done and refused.
	Result Result
	// Status is the HTTP status of the replay, for claims of routes only; 0 lets
	// the server choose.
	Status int
}

// Resolve decides about an unknown claim. When it has changed since it was read,
// the problem is stale.
func (c *Client) Resolve(ctx context.Context, id string, r Resolution) (Answer, error) {
	in := r.Result.members(map[string]any{"verdict": r.Verdict, "reason": r.Reason})
	if r.Status != 0 {
		in["status"] = r.Status
	}
	var out Answer
	_, err := c.do(ctx, call{method: http.MethodPost, body: in, ifMatch: r.ETag,
		path: claimsPath + "/" + url.PathEscape(id) + "/resolve"}, &out)
	return out, err
}
