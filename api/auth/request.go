package auth

import (
	"context"
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
	values := h.Values("Authorization")
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

type identityKey struct{}

// WithIdentity returns a context that carries who the request comes from.
func WithIdentity(ctx context.Context, i Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, i)
}

// FromContext returns who the request comes from; ok is false when that is not
// known.
func FromContext(ctx context.Context) (i Identity, ok bool) {
	i, ok = ctx.Value(identityKey{}).(Identity)
	return i, ok
}
