package auth

import (
	"net/http"
	"net/netip"
	"strings"
)

// maxHeader is more than any token needs.
const maxHeader = len("Bearer ") + MaxSecret

// Bearer returns the token in the Authorization header. ok is false when there
// is not exactly one such header of the form "Bearer <token>"; given says
// whether there was any.
func Bearer(h http.Header) (secret string, ok, given bool) {
	values := h["Authorization"]
	if len(values) != 1 {
		return "", false, len(values) > 0
	}
	scheme, secret, found := strings.Cut(values[0], " ")
	if !found || !strings.EqualFold(scheme, "Bearer") || len(values[0]) > maxHeader || secret == "" {
		return "", false, true
	}
	return secret, true, true
}

// Identify authenticates a request by its Authorization header. A request
// without one is [ErrRefused] and no failure: nobody guessed.
func (s *Service) Identify(r *http.Request, from netip.Addr) (Identity, error) {
	secret, ok, given := Bearer(r.Header)
	if !given {
		return Identity{}, ErrRefused
	}
	if !ok {
		secret = "" // counted as any other wrong token
	}
	return s.Authenticate(r.Context(), secret, from)
}
