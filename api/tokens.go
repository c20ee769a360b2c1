package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"onced/api/auth"
)

// tokenView is a token in JSON, without its secret.
type tokenView struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Role       string `json:"role"`
	Principal  string `json:"principal"`
	CreatedAt  string `json:"created_at"`
	ExpiresAt  string `json:"expires_at,omitempty"`
	RevokedAt  string `json:"revoked_at,omitempty"`
	LastUsedAt string `json:"last_used_at,omitempty"`
	ReplacedBy string `json:"replaced_by,omitempty"`
	Live       bool   `json:"live"`
	Version    uint64 `json:"version"`
}

func (s *Server) viewToken(t auth.Token) *tokenView {
	return &tokenView{ID: t.ID, Name: t.Name, Role: string(t.Role), Principal: t.Principal,
		CreatedAt: instant(t.CreatedAt), ExpiresAt: instant(t.ExpiresAt), RevokedAt: instant(t.RevokedAt),
		LastUsedAt: instant(t.LastUsed), ReplacedBy: t.ReplacedBy, Live: t.Live(s.clock.Now()),
		Version: t.Version}
}

// newToken is the one answer that holds a secret.
type newToken struct {
	Secret string     `json:"secret"`
	Token  *tokenView `json:"token"`
}

func (s *Server) createToken(c echo.Context) error {
	var in struct {
		Name       string `json:"name"`
		Role       string `json:"role"`
		Principal  string `json:"principal"`
		ExpiresInS int64  `json:"expires_in_s"`
	}
	if err := s.readJSON(c, &in); err != nil {
		return err
	}
	if err := checkSeconds("expires_in_s", in.ExpiresInS, int64(auth.MaxLife.Seconds())); err != nil {
		return err
	}
	t, secret, err := s.deps.Auth.Create(c.Request().Context(), auth.Spec{Name: in.Name,
		Role: auth.Role(in.Role), Principal: in.Principal, ExpiresIn: seconds(in.ExpiresInS),
		Actor: caller(c).Name})
	if err != nil {
		return err
	}
	return s.made(c, t, secret)
}

func (s *Server) made(c echo.Context, t auth.Token, secret string) error {
	h := c.Response().Header()
	h.Set("Location", "/v1/tokens/"+t.ID)
	h.Set("ETag", versionETag(t.Version))
	return s.json(c, http.StatusCreated, newToken{Secret: secret, Token: s.viewToken(t)})
}

func checkSeconds(param string, n, most int64) error {
	if n < 0 || n > most {
		return outOfRange(param, 0, most)
	}
	return nil
}

// tokenPage is the answer of GET /v1/tokens.
type tokenPage struct {
	Tokens     []*tokenView `json:"tokens"`
	Next       string       `json:"next,omitempty"`
	NextCursor string       `json:"next_cursor,omitempty"`
}

// tokenFilter stands in the cursors of the one listing of tokens.
const tokenFilter = "tokens"

func (s *Server) listTokens(c echo.Context) error {
	limit, err := intParam(c, "limit", 1, maxPage)
	if err != nil {
		return err
	}
	after, err := s.cursors.open(c.QueryParam("cursor"), tokenFilter)
	if err != nil {
		return err
	}
	tokens, next, err := s.deps.Auth.List(c.Request().Context(), after, limit)
	if err != nil {
		return err
	}
	out := tokenPage{Tokens: []*tokenView{}}
	for _, t := range tokens {
		out.Tokens = append(out.Tokens, s.viewToken(t))
	}
	if next != "" {
		if out.NextCursor, err = s.cursors.seal(next, tokenFilter); err != nil {
			return err
		}
		out.Next = nextURL(c, out.NextCursor)
	}
	return s.json(c, http.StatusOK, out)
}

func (s *Server) getToken(c echo.Context) error {
	t, err := s.deps.Auth.Get(c.Request().Context(), c.Param("id"))
	if err != nil {
		return err
	}
	c.Response().Header().Set("ETag", versionETag(t.Version))
	// No 304: when the token was last used is shown, and is no part of the version.
	return s.json(c, http.StatusOK, s.viewToken(t))
}

func (s *Server) rotateToken(c echo.Context) error {
	version, err := plainVersion(c.Request().Header)
	if err != nil {
		return err
	}
	var in struct {
		OverlapS   int64 `json:"overlap_s"`
		ExpiresInS int64 `json:"expires_in_s"`
	}
	if err := s.readJSON(c, &in); err != nil {
		return err
	}
	if err := checkSeconds("overlap_s", in.OverlapS, int64(auth.MaxOverlap.Seconds())); err != nil {
		return err
	}
	if err := checkSeconds("expires_in_s", in.ExpiresInS, int64(auth.MaxLife.Seconds())); err != nil {
		return err
	}
	t, secret, err := s.deps.Auth.Rotate(c.Request().Context(), auth.Rotation{ID: c.Param("id"),
		Version: version, Overlap: seconds(in.OverlapS), ExpiresIn: seconds(in.ExpiresInS),
		Actor: caller(c).Name})
	if err != nil {
		return err
	}
	return s.made(c, t, secret)
}

// revokeToken needs no If-Match: it can be repeated, and it is for emergencies.
func (s *Server) revokeToken(c echo.Context) error {
	var in struct {
		Reason string `json:"reason"`
	}
	if err := s.readJSON(c, &in); err != nil {
		return err
	}
	t, err := s.deps.Auth.Revoke(c.Request().Context(), auth.Revocation{ID: c.Param("id"),
		Actor: caller(c).Name, Reason: in.Reason})
	if err != nil {
		return err
	}
	c.Response().Header().Set("ETag", versionETag(t.Version))
	return s.json(c, http.StatusOK, s.viewToken(t))
}
