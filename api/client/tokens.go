package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Token is what the server shows of a token: everything but the secret.
type Token struct {
	ID         string    `json:"id"`                    // names it in the API
	Name       string    `json:"name"`                  // for people and audits
	Role       string    `json:"role"`                  // metrics, client, viewer, operator or admin
	Principal  string    `json:"principal"`             // whose claims it works on
	CreatedAt  time.Time `json:"created_at"`            // when it was made
	ExpiresAt  time.Time `json:"expires_at,omitzero"`   // zero is never
	RevokedAt  time.Time `json:"revoked_at,omitzero"`   // zero is not
	LastUsedAt time.Time `json:"last_used_at,omitzero"` // to the hour; zero is never
	ReplacedBy string    `json:"replaced_by,omitempty"` // the token of its rotation
	Live       bool      `json:"live"`                  // whether it is accepted now
	Version    uint64    `json:"version"`               // rises with every change
}

// ETag is the token's, for [Client.RotateToken].
func (t Token) ETag() string { return `"` + strconv.FormatUint(t.Version, 10) + `"` }

// NewToken is a token just made.
type NewToken struct {
	Secret string `json:"secret"` // shown this once
	Token  Token  `json:"token"`  // everything else
}

// TokenSpec describes a token to be made.
type TokenSpec struct {
	Name       string `json:"name"`                   // for people and audits
	Role       string `json:"role"`                   // metrics, client, viewer, operator or admin
	Principal  string `json:"principal,omitempty"`    // empty means Name
	ExpiresInS int64  `json:"expires_in_s,omitempty"` // 0 is never
}

const tokensPath = "/v1/tokens"

func tokenPath(id string) string { return tokensPath + "/" + url.PathEscape(id) }

// CreateToken makes a token. When its answer is lost, a token may exist whose
// secret nobody has seen: the name is then taken; revoke it and begin anew.
func (c *Client) CreateToken(ctx context.Context, spec TokenSpec) (NewToken, error) {
	var out NewToken
	_, err := c.do(ctx, call{method: http.MethodPost, path: tokensPath, body: spec}, &out)
	return out, err
}

// TokenPage is a page of the listing of tokens.
type TokenPage struct {
	Tokens     []Token `json:"tokens"`                // in the order of their making
	NextCursor string  `json:"next_cursor,omitempty"` // empty at the end
}

// ListTokens lists tokens, the dead ones too. limit 0 is the server's default;
// cursor is the NextCursor of the page before, or empty.
func (c *Client) ListTokens(ctx context.Context, limit int, cursor string) (TokenPage, error) {
	q := url.Values{}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	var out TokenPage
	_, err := c.do(ctx, call{method: http.MethodGet, path: tokensPath, query: q}, &out)
	return out, err
}

// GetToken reads a token by its id.
func (c *Client) GetToken(ctx context.Context, id string) (Token, error) {
	var out Token
	_, err := c.do(ctx, call{method: http.MethodGet, path: tokenPath(id)}, &out)
	return out, err
}

// TokenRotation describes the replacement of a token.
type TokenRotation struct {
	ETag       string // that of the token that was looked at
	OverlapS   int64  // how long the old token stays valid
	ExpiresInS int64  // the life of the new one; 0 is without an end
}

// RotateToken makes a new token of the same name, role and principal. When its
// answer is lost, the repeated call is stale: the token's ReplacedBy names the one
// whose secret nobody has seen.
func (c *Client) RotateToken(ctx context.Context, id string, r TokenRotation) (NewToken, error) {
	var out NewToken
	_, err := c.do(ctx, call{method: http.MethodPost, path: tokenPath(id) + "/rotate", ifMatch: r.ETag,
		body: map[string]any{"overlap_s": r.OverlapS, "expires_in_s": r.ExpiresInS}}, &out)
	return out, err
}

// RevokeToken ends a token at once. It can be repeated.
func (c *Client) RevokeToken(ctx context.Context, id, reason string) (Token, error) {
	var out Token
	_, err := c.do(ctx, call{method: http.MethodPost, path: tokenPath(id) + "/revoke",
		body: map[string]any{"reason": reason}}, &out)
	return out, err
}
