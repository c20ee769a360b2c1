package auth

import (
	"context"
	"crypto/subtle"

	"onced/kv"
)

// Names of the tokens that are there before anybody could make one.
const (
	firstName    = "first-admin"
	providedName = "configured-admin"
)

// Bootstrap makes the first token, an admin, when the store has never had one,
// and passes its secret to show, which presents it to whoever started the
// process. Only when show has returned nil is the first token settled: after a
// crash, or a failure, before that, the next Bootstrap replaces it by another. It
// reports whether show was called. Call it at every start, before serving.
func (s *Service) Bootstrap(ctx context.Context, show func(secret string) error) (bool, error) {
	secret, r, err := s.fresh(Spec{Name: firstName, Role: Admin, Principal: firstName})
	if err != nil {
		return false, err
	}
	t, err := s.act(ctx, func(w kv.Writer) (Token, error) { return s.bootstrapTx(w, r) })
	s.cache.clear()
	if err != nil || t.ID == "" {
		return false, err
	}
	if err := show(secret); err != nil {
		return true, err
	}
	return true, s.store.Update(ctx, func(w kv.Writer) error {
		return metaTable.Put(w, metaKey, metaRow{ID: t.ID, Shown: true})
	})
}

// bootstrapTx returns the zero Token when there is nothing to do.
func (s *Service) bootstrapTx(w kv.Writer, r row) (Token, error) {
	meta, ok, err := metaTable.Get(w, metaKey)
	if err != nil || meta.Shown {
		return Token{}, err
	}
	if ok { // made, and nobody is known to have seen it
		unseen, found, err := byID(w, meta.ID)
		if err != nil {
			return Token{}, err
		}
		if found {
			if err := remove(w, unseen); err != nil {
				return Token{}, err
			}
		}
	}
	for _, err := range idTable.Scan(w, kv.Range{Limit: 1}) { // made by hand before the first start
		if err != nil {
			return Token{}, err
		}
		return Token{}, metaTable.Put(w, metaKey, metaRow{Shown: true})
	}
	t, err := s.createTx(w, r, Spec{Actor: "bootstrap"})
	if err != nil {
		return Token{}, err
	}
	return t, metaTable.Put(w, metaKey, metaRow{ID: t.ID})
}

// Provide makes a token of the admin role out of a secret that whoever runs the
// process chose, MinSecret to MaxSecret characters of ASCII without spaces, and
// settles the first token. Again with the same secret it changes nothing; with
// another, the token of the earlier secret is revoked. A secret whose token was
// revoked, or is no admin's, is refused: choose another. Call it at the start in place of
// [Service.Bootstrap].
func (s *Service) Provide(ctx context.Context, secret string) (Token, error) {
	if !plausible(secret) {
		return Token{}, &FieldError{Field: "admin token", Problem: "is too short, too long or not plain text",
			Remedy: "use 32 to 512 characters of ASCII without spaces, at random"}
	}
	_, r, err := s.fresh(Spec{Name: providedName, Role: Admin, Principal: providedName})
	if err != nil {
		return Token{}, err
	}
	key := sumOf(secret)
	r.Sum = key[:]
	defer s.cache.clear()
	return s.act(ctx, func(w kv.Writer) (Token, error) { return s.provideTx(w, r) })
}

func (s *Service) provideTx(w kv.Writer, r row) (Token, error) {
	if err := metaTable.Put(w, metaKey, metaRow{Shown: true}); err != nil {
		return Token{}, err
	}
	old, ok, err := tokenTable.Get(w, sumKey(r.Sum))
	if err != nil {
		return Token{}, err
	}
	if ok && subtle.ConstantTimeCompare(old.Sum, r.Sum) == 1 {
		if !old.token().Live(w.Now()) || old.Role != Admin {
			return Token{}, &FieldError{Field: "admin token",
				Problem: "is that of a token without this power",
				Remedy:  "choose another secret"}
		}
		return old.token(), nil
	}
	named, ok, err := nameTable.Get(w, nameKey(providedName))
	if err != nil {
		return Token{}, err
	}
	if ok {
		rev := Revocation{ID: named.ID, Actor: "configuration", Reason: "another secret is configured"}
		if _, err := s.revokeTx(w, rev); err != nil {
			return Token{}, err
		}
	}
	return s.createTx(w, r, Spec{Actor: "configuration"})
}
