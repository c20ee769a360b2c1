package api

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"onced/api/auth"
	"onced/api/problem"
	"onced/kv/claim"
)

// Bounds of a page.
const (
	defaultPage = 50
	maxPage     = 200
	// maxLooks bounds how many pages of the store are looked through for one of
	// ours: a page may be short, and its next leads on.
	maxLooks = 8
)

// listing selects claims.
type listing struct {
	prefix    string // of scopes
	principal string
	operation string
	state     string
	open      bool
}

// claimPage is the answer of GET /v1/claims.
type claimPage struct {
	Claims     []*claimView `json:"claims"`
	Next       string       `json:"next,omitempty"`
	NextCursor string       `json:"next_cursor,omitempty"`
}

// listClaims answers GET /v1/claims.
func (s *Server) listClaims(c echo.Context) error {
	l, err := listingOf(c, caller(c))
	if err != nil {
		return err
	}
	limit, err := intParam(c, "limit", 1, maxPage)
	if err != nil {
		return err
	}
	if limit == 0 {
		limit = defaultPage
	}
	position, err := openCursor(c.QueryParam("cursor"), l.sum())
	if err != nil {
		return err
	}
	out := claimPage{Claims: []*claimView{}}
	next, err := s.fill(c.Request().Context(), l, claim.Query{ScopePrefix: l.prefix, Position: position,
		Limit: limit}, &out)
	if err != nil {
		return err
	}
	if next != "" {
		out.NextCursor = sealCursor(next, l.sum())
		out.Next = nextURL(c, out.NextCursor)
	}
	return s.json(c, http.StatusOK, out)
}

// fill takes claims into out until it is full or enough was looked at, and
// returns where to go on.
func (s *Server) fill(ctx context.Context, l listing, q claim.Query, out *claimPage) (string, error) {
	list, want := s.deps.Book.List, q.Limit
	if l.open {
		list = s.deps.Book.ListOpen
	}
	for range maxLooks {
		q.Limit = want - len(out.Claims)
		page, err := list(ctx, q)
		if err != nil {
			return "", err
		}
		for _, got := range page.Claims {
			if l.takes(got) {
				v := viewClaim(got.ID, got.Record, false)
				v.Damaged = got.Err != nil
				out.Claims = append(out.Claims, v)
			}
		}
		q.Position = page.Next
		if q.Position == "" || len(out.Claims) >= want {
			break
		}
	}
	return q.Position, nil
}

// listingOf reads the filters. Who sees only its own claims needs to name no
// principal, and may name none but itself.
func listingOf(c echo.Context, who auth.Identity) (listing, error) {
	l := listing{principal: c.QueryParam("principal"), operation: c.QueryParam("operation"),
		state: c.QueryParam("state")}
	bad := func(param, detail string) (listing, error) {
		return l, invalidField(param, detail)
	}
	switch l.state {
	case "open", claim.Pending.String(), claim.Unknown.String():
		l.open = true
	case "", claim.Done.String(), claim.Refused.String():
	default:
		return bad("state", "use open, pending, unknown, done or refused")
	}
	if l.operation != "" {
		if err := checkOperation(l.operation); err != nil {
			return l, err
		}
	}
	if len(l.principal) > auth.MaxName {
		return bad("principal", "no principal has so long a name")
	}
	if !who.Can(auth.ClaimsRead) {
		if l.principal != "" && l.principal != who.Principal {
			return bad("principal", "this token sees the claims of its own principal only")
		}
		l.principal = who.Principal
	}
	if l.principal != "" {
		l.prefix = claim.ScopePrefix(l.principal) + l.operation
	}
	return l, nil
}

func (l *listing) takes(c claim.Claim) bool {
	if l.operation != "" {
		if _, op, ok := partsOf(c.ID.Scope); !ok || op != l.operation {
			return false
		}
	}
	switch l.state {
	case "":
		return true
	case "open":
		return c.Err != nil || c.Record.State.Open()
	}
	return c.Err == nil && c.Record.State.String() == l.state
}

// sum stands for the filters in a cursor.
func (l *listing) sum() string {
	sum := claim.FingerprintOf([]byte("claims"), []byte(l.prefix), []byte(l.operation), []byte(l.state))
	return hex.EncodeToString(sum[:8])
}

// cursor is the inside of the opaque text.
type cursor struct {
	Filter   string `json:"f"`
	Position string `json:"p"`
}

func sealCursor(position, filter string) string {
	b, _ := json.Marshal(cursor{filter, position}) // two texts cannot fail
	return base64.RawURLEncoding.EncodeToString(b)
}

// openCursor refuses the cursor of another listing, which would skip in silence.
func openCursor(text, filter string) (string, error) {
	if text == "" {
		return "", nil
	}
	var c cursor
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(b, &c) != nil || c.Filter != filter || c.Position == "" {
		return "", problem.New(problem.InvalidCursor, "").At("cursor")
	}
	return c.Position, nil
}

// nextURL is the request's own path with the cursor of the next page, and stands
// in Link too. It names no host: whatever Host said, it is not echoed.
func nextURL(c echo.Context, cursor string) string {
	q := url.Values{}
	for name, values := range c.QueryParams() {
		q[name] = slices.Clone(values)
	}
	q.Set("cursor", cursor)
	next := c.Request().URL.Path + "?" + q.Encode()
	c.Response().Header().Set("Link", "<"+strings.ReplaceAll(next, ">", "%3E")+`>; rel="next"`)
	return next
}
