package api

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
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
	prefixes  []string // of scopes, one after the other; one that is "" is all
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
	at, err := s.cursors.open(c.QueryParam("cursor"), l.sum())
	if err != nil {
		return err
	}
	out := claimPage{Claims: []*claimView{}}
	next, err := s.fill(c.Request().Context(), l, page{from: at, limit: limit}, &out)
	if err != nil {
		return err
	}
	if next != "" {
		if out.NextCursor, err = s.cursors.seal(next, l.sum()); err != nil {
			return err
		}
		out.Next = nextURL(c, out.NextCursor)
	}
	return s.json(c, http.StatusOK, out)
}

// page is a part of a listing.
type page struct {
	from  string // position, or "" for the beginning
	limit int
}

// place of a listing: which of its prefixes, and the position in that.
func (l *listing) place(from string) (prefix int, position string, err error) {
	if from == "" {
		return 0, "", nil
	}
	number, position, ok := strings.Cut(from, ":")
	prefix, err = strconv.Atoi(number)
	if err != nil || !ok || prefix < 0 || prefix >= len(l.prefixes) {
		return 0, "", problem.New(problem.InvalidCursor, "").At("cursor")
	}
	return prefix, position, nil
}

// fill takes claims into out until it is full or enough was looked at, and
// returns where to go on.
func (s *Server) fill(ctx context.Context, l listing, p page, out *claimPage) (string, error) {
	prefix, position, err := l.place(p.from)
	if err != nil {
		return "", err
	}
	list := s.deps.Book.List
	if l.open {
		list = s.deps.Book.ListOpen
	}
	for range maxLooks {
		found, err := list(ctx, claim.Query{ScopePrefix: l.prefixes[prefix], Position: position,
			Limit: p.limit - len(out.Claims)})
		if err != nil {
			return "", err
		}
		for _, got := range found.Claims {
			if l.takes(got) {
				v := viewClaim(got.ID, got.Record, false)
				v.Damaged = got.Err != nil
				out.Claims = append(out.Claims, v)
			}
		}
		if position = found.Next; position == "" {
			prefix++
		}
		if prefix == len(l.prefixes) {
			return "", nil
		}
		if len(out.Claims) >= p.limit {
			break
		}
	}
	return strconv.Itoa(prefix) + ":" + position, nil
}

// listingOf reads the filters. Who sees only its own claims needs to name no
// principal, and may name none but itself.
func listingOf(c echo.Context, who auth.Identity) (listing, error) {
	l := listing{principal: c.QueryParam("principal"), operation: c.QueryParam("operation"),
		state: c.QueryParam("state"), prefixes: []string{""}}
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
		l.prefixes = prefixesOf(l.principal)
		for i := range l.prefixes {
			l.prefixes[i] += l.operation
		}
	}
	return l, nil
}

func (l *listing) takes(c claim.Claim) bool {
	if l.operation != "" && partsOf(c.ID.Scope).operation != l.operation {
		return false
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
	sum := claim.FingerprintOf([]byte("claims"), []byte(l.principal), []byte(l.operation), []byte(l.state))
	return string(sum[:])
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
