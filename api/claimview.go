package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"onced/api/auth"
	"onced/kv"
	"onced/kv/claim"
)

// claimView is a claim in JSON.
type claimView struct {
	ID            string          `json:"id"`
	Kind          string          `json:"kind,omitempty"` // absent when the row's key is damaged
	Scope         string          `json:"scope"`
	Principal     string          `json:"principal,omitempty"`
	Operation     string          `json:"operation,omitempty"`
	Key           string          `json:"key"`
	State         string          `json:"state"`
	Try           int             `json:"try"`
	Version       uint64          `json:"version"`
	Owner         *ownerView      `json:"owner,omitempty"`
	Doubt         bool            `json:"earlier_outcome_unknown"`
	CreatedAt     string          `json:"created_at,omitempty"`
	UpdatedAt     string          `json:"updated_at,omitempty"`
	FirstAt       string          `json:"first_at,omitempty"`
	UnknownSince  string          `json:"unknown_since,omitempty"`
	LastSend      string          `json:"last_send_before,omitempty"`
	Cause         string          `json:"cause,omitempty"`
	Reason        string          `json:"reason,omitempty"`
	ResolvedBy    string          `json:"resolved_by,omitempty"`
	ExpiresAt     string          `json:"expires_at,omitempty"`
	ResultSize    int64           `json:"result_size"`
	ContentType   string          `json:"content_type,omitempty"`
	ResultOmitted bool            `json:"result_omitted,omitempty"`
	ResultSHA256  string          `json:"result_sha256,omitempty"`
	Result        json.RawMessage `json:"result,omitempty"`
	ResultB64     *string         `json:"result_b64,omitempty"`
	Intent        json.RawMessage `json:"intent,omitempty"`
	IntentB64     *string         `json:"intent_b64,omitempty"`
	Fingerprint   string          `json:"fingerprint,omitempty"`
	Damaged       bool            `json:"damaged,omitempty"`
}

type ownerView struct {
	Kind        string `json:"kind"` // local or remote
	LeaseS      int64  `json:"lease_s,omitempty"`
	LeaseEndsAt string `json:"lease_ends_at,omitempty"`
}

// viewClaim shows a claim; content adds what the request and its answer held.
// The owner's token is never shown.
func viewClaim(id claim.ID, r claim.Record, content bool) *claimView {
	v := &claimView{ID: claimID(id), Scope: id.Scope, Key: id.Key, State: r.State.String(), Try: r.Try,
		Version: r.Version, Doubt: r.Doubt, CreatedAt: instant(r.CreatedAt), UpdatedAt: instant(r.UpdatedAt),
		FirstAt: instant(r.FirstAt), UnknownSince: instant(r.UnknownSince),
		LastSend: instant(r.LastSendBefore), Cause: string(r.Cause), Reason: r.Reason, ResolvedBy: r.Actor,
		ExpiresAt:  instant(r.ExpiresAt),
		ResultSize: r.ResultSize}
	if id.Scope != "" {
		at := partsOf(id.Scope)
		v.Kind, v.Principal, v.Operation = at.kind, at.principal, at.operation
	}
	if r.State == claim.Pending {
		v.Owner = viewOwner(r.Owner)
	}
	if !content {
		return v
	}
	v.Fingerprint = hex.EncodeToString(r.Fingerprint[:])
	v.ContentType = r.Result.Type
	v.Intent, v.IntentB64 = jsonOrB64(r.Intent, true)
	if r.Omitted {
		v.ResultOmitted, v.ResultSHA256 = true, hex.EncodeToString(r.ResultSum[:])
	} else if r.State.Terminal() {
		v.Result, v.ResultB64 = jsonOrB64(r.Result.Data, r.Result.Type == typeJSON)
	}
	return v
}

func viewOwner(o claim.Owner) *ownerView {
	if o.Local {
		return &ownerView{Kind: "local"}
	}
	return &ownerView{Kind: "remote", LeaseS: int64(o.Lease / time.Second), LeaseEndsAt: instant(o.Deadline)}
}

// jsonOrB64 shows bytes as JSON when they are and shall be that, else in base64.
func jsonOrB64(b []byte, isJSON bool) (json.RawMessage, *string) {
	switch {
	case len(b) == 0:
		return nil, nil
	case isJSON && json.Valid(b):
		return b, nil
	}
	text := base64.StdEncoding.EncodeToString(b)
	return nil, &text
}

// instant is RFC 3339 in UTC with milliseconds; the zero time is "".
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return string(appendInstant(nil, t))
}

func sha(b []byte) [32]byte { return sha256.Sum256(b) }

// claimIDPrefix marks the ids of claims. Behind it stand scope and key, so that
// an id can be made from them by nobody but us and needs no table.
const claimIDPrefix = "cl_"

var idEncoding = base64.RawURLEncoding.Strict()

func claimID(id claim.ID) string {
	return claimIDPrefix + idEncoding.EncodeToString(kv.Key{}.String(id.Scope).String(id.Key))
}

func claimPath(id claim.ID) string { return "/v1/claims/" + claimID(id) }

// parseClaimID accepts exactly what claimID makes.
func parseClaimID(s string) (claim.ID, bool) {
	text, ok := strings.CutPrefix(s, claimIDPrefix)
	if !ok || len(text) > 2*(claim.MaxScope+claim.MaxKey) {
		return claim.ID{}, false
	}
	b, err := idEncoding.DecodeString(text)
	if err != nil {
		return claim.ID{}, false
	}
	d := kv.DecodeKey(b)
	id := claim.ID{Scope: d.String(), Key: d.String()}
	if d.End() != nil || id.Validate() != nil || claimID(id) != s {
		return claim.ID{}, false
	}
	return id, true
}

// The kinds of claims.
const (
	kindOperation = "operation" // made by POST /v1/claims
	kindRoute     = "route"     // made by the proxy
	kindOther     = "other"     // of another part of onced
)

// scopeKinds are what the scopes of each kind begin with.
var scopeKinds = []struct{ prefix, kind string }{{"op/", kindOperation}, {"route/", kindRoute}}

var unescapeSegment = strings.NewReplacer("%2F", "/", "%25", "%")

// scopeParts are the parts of a scope.
type scopeParts struct {
	kind string
	// principal and operation, for a route its name, are empty for other kinds.
	principal, operation string
}

// partsOf takes a scope apart.
func partsOf(scope string) scopeParts {
	for _, k := range scopeKinds {
		rest, ok := strings.CutPrefix(scope, k.prefix)
		if !ok {
			continue
		}
		if principal, operation, ok := strings.Cut(rest, "/"); ok {
			return scopeParts{k.kind, unescapeSegment.Replace(principal), operation}
		}
	}
	return scopeParts{kind: kindOther}
}

// RouteOf returns the name of the route that a claim was made for; ok is false
// when it was not the proxy that made it.
func RouteOf(id claim.ID) (name string, ok bool) {
	at := partsOf(id.Scope)
	return at.operation, at.kind == kindRoute
}

// prefixesOf are what the scopes of a principal begin with, in the order of a
// listing: its operations, and its requests to routes.
func prefixesOf(principal string) []string {
	return []string{claim.ScopePrefix(principal), claim.RouteScopeOf(principal, "")}
}

// seesClaim reports whether a claim exists for the caller.
func seesClaim(who auth.Identity, id claim.ID) bool {
	return who.Can(auth.ClaimsRead) || ownsClaim(who, id)
}

// ownsClaim reports whether a claim is of the caller's principal.
func ownsClaim(who auth.Identity, id claim.ID) bool {
	return who.Can(auth.ClaimsOwn) && slices.ContainsFunc(prefixesOf(who.Principal), func(p string) bool {
		return strings.HasPrefix(id.Scope, p)
	})
}

// seesContent reports whether the caller may see intent and result.
func seesContent(who auth.Identity, id claim.ID) bool {
	return who.Can(auth.ClaimsContent) || ownsClaim(who, id)
}
