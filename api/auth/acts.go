package auth

import (
	"context"
	"time"

	"onced/kv"
)

// Spec describes a token to be made.
type Spec struct {
	// Name is for people and audits: 1 to 128 of the characters letters, digits
	// and "._:@-". No live token may have it.
	Name string
	// Role is one of [Roles].
	Role Role
	// Principal is the account the token works for, in the characters of Name;
	// empty means Name.
	Principal string
	// ExpiresIn is its life; 0 is without an end.
	ExpiresIn time.Duration
	// Actor is who makes it: the name of a token, or for example "cli".
	Actor string
}

// Create makes a token and returns its secret, which is nowhere else. Errors: a
// [FieldError], [ErrNameTaken], [ErrTooMany], kv.ErrNoSpace, or one of the store;
// see the package about kv.ErrCommitUnknown.
func (s *Service) Create(ctx context.Context, spec Spec) (Token, string, error) {
	if spec.Principal == "" {
		spec.Principal = spec.Name
	}
	if err := spec.check(); err != nil {
		return Token{}, "", err
	}
	secret, r, err := s.fresh(spec)
	if err != nil {
		return Token{}, "", err
	}
	t, err := s.act(ctx, func(w kv.Writer) (Token, error) {
		return s.createTx(w, r, spec)
	})
	if err != nil {
		return Token{}, "", err
	}
	return t, secret, nil
}

// fresh makes a secret and the row for it, before any transaction.
func (s *Service) fresh(spec Spec) (string, row, error) {
	secret, err := newSecret(s.rand)
	if err != nil {
		return "", row{}, err
	}
	id, err := kv.NewID("tk", s.clock.Now(), s.rand)
	if err != nil {
		return "", row{}, err
	}
	key := sumOf(secret)
	return secret, row{ID: id, Sum: key[:], Name: spec.Name, Role: spec.Role, Principal: spec.Principal,
		Version: 1}, nil
}

func (s *Service) createTx(w kv.Writer, r row, spec Spec) (Token, error) {
	if err := kv.AdmitIntent(w); err != nil {
		return Token{}, err
	}
	named, ok, err := nameTable.Get(w, nameKey(r.Name))
	if err != nil {
		return Token{}, err
	}
	if ok {
		old, found, err := byID(w, named.ID)
		if err != nil {
			return Token{}, err
		}
		if found && old.token().Live(w.Now()) {
			return Token{}, ErrNameTaken
		}
	}
	if r, err = s.insert(w, r, spec.ExpiresIn); err != nil {
		return Token{}, err
	}
	t := r.token()
	return t, s.audit(w, "created", t, audit{Actor: spec.Actor})
}

// insert writes the rows of a new token.
func (s *Service) insert(w kv.Writer, r row, life time.Duration) (row, error) {
	if err := makeRoom(w); err != nil {
		return row{}, err
	}
	r.CreatedAt = toNano(w.Now())
	if life > 0 {
		r.ExpiresAt = toNano(w.Now().Add(life))
	}
	if err := tokenTable.Put(w, sumKey(r.Sum), r); err != nil {
		return row{}, err
	}
	if err := idTable.Put(w, idKey(r.ID), idRow{Sum: r.Sum}); err != nil {
		return row{}, err
	}
	return r, nameTable.Put(w, nameKey(r.Name), nameRow{ID: r.ID})
}

// makeRoom removes the oldest dead token when the store has the most it keeps.
func makeRoom(w kv.Writer) error {
	n := 0
	var ids []string
	for e, err := range idTable.Scan(w, kv.Range{}) {
		if err != nil {
			return err
		}
		id := kv.DecodeKey(e.Key).String()
		n, ids = n+1, append(ids, id)
	}
	if n < MaxTokens {
		return nil
	}
	for _, id := range ids {
		r, ok, err := byID(w, id)
		if err != nil {
			return err
		}
		if ok && !r.token().Live(w.Now()) {
			return remove(w, r)
		}
	}
	return ErrTooMany
}

func remove(w kv.Writer, r row) error {
	if err := tokenTable.Delete(w, sumKey(r.Sum)); err != nil {
		return err
	}
	if err := idTable.Delete(w, idKey(r.ID)); err != nil {
		return err
	}
	named, ok, err := nameTable.Get(w, nameKey(r.Name))
	if err != nil || !ok || named.ID != r.ID {
		return err
	}
	return nameTable.Delete(w, nameKey(r.Name))
}

// Rotation describes the replacement of a token.
type Rotation struct {
	// ID is the token to be replaced.
	ID string
	// Version is the one the caller looked at; 0 takes any. It keeps a call that
	// is repeated after a lost answer from making a second token.
	Version uint64
	// Overlap is how long the old token stays valid, at most MaxOverlap.
	Overlap time.Duration
	// ExpiresIn is the life of the new token; 0 is without an end.
	ExpiresIn time.Duration
	// Actor is who does it.
	Actor string
}

// Rotate makes a new token of the same name, role and principal, and ends the
// old one after the overlap, or earlier if it was to end earlier. Errors: as
// Create, [ErrNotFound], [ErrStale], [ErrNotLive].
func (s *Service) Rotate(ctx context.Context, rot Rotation) (Token, string, error) {
	if err := rot.check(); err != nil {
		return Token{}, "", err
	}
	secret, r, err := s.fresh(Spec{})
	if err != nil {
		return Token{}, "", err
	}
	t, err := s.change(ctx, rot.ID, func(w kv.Writer) (Token, error) { return s.rotateTx(w, rot, r) })
	if err != nil {
		return Token{}, "", err
	}
	return t, secret, nil
}

func (s *Service) rotateTx(w kv.Writer, rot Rotation, r row) (Token, error) {
	old, ok, err := byID(w, rot.ID)
	switch {
	case err != nil:
		return Token{}, err
	case !ok:
		return Token{}, ErrNotFound
	case rot.Version != 0 && rot.Version != old.Version:
		return Token{}, ErrStale
	case !old.token().Live(w.Now()):
		return Token{}, ErrNotLive
	}
	r.Name, r.Role, r.Principal = old.Name, old.Role, old.Principal
	if r, err = s.insert(w, r, rot.ExpiresIn); err != nil {
		return Token{}, err
	}
	end := toNano(w.Now().Add(rot.Overlap))
	if old.ExpiresAt == 0 || end < old.ExpiresAt {
		old.ExpiresAt = end
	}
	old.ReplacedBy = r.ID
	old.Version++
	if err := tokenTable.Put(w, sumKey(old.Sum), old); err != nil {
		return Token{}, err
	}
	t := r.token()
	return t, s.audit(w, "rotated", t, audit{Actor: rot.Actor, Replaces: old.ID, OldEnds: old.ExpiresAt})
}

// Revocation describes the end of a token.
type Revocation struct {
	ID     string // the token
	Actor  string // who ends it
	Reason string // why; may be empty
}

// Revoke ends a token at once. A token that is revoked already stays as it is,
// and is answered the same. Errors: a [FieldError], [ErrNotFound], or one of the
// store; after kv.ErrCommitUnknown call it again.
func (s *Service) Revoke(ctx context.Context, rev Revocation) (Token, error) {
	if err := checkAct(rev.Actor, rev.Reason); err != nil {
		return Token{}, err
	}
	return s.change(ctx, rev.ID, func(w kv.Writer) (Token, error) { return s.revokeTx(w, rev) })
}

func (s *Service) revokeTx(w kv.Writer, rev Revocation) (Token, error) {
	r, ok, err := byID(w, rev.ID)
	if err != nil {
		return Token{}, err
	}
	if !ok {
		return Token{}, ErrNotFound
	}
	if r.RevokedAt != 0 {
		return r.token(), nil
	}
	r.RevokedAt = toNano(w.Now())
	r.Version++
	if err := tokenTable.Put(w, sumKey(r.Sum), r); err != nil {
		return Token{}, err
	}
	t := r.token()
	return t, s.audit(w, "revoked", t, audit{Actor: rev.Actor, Reason: rev.Reason})
}

// change runs a change of the token with the id. Whatever came of it, also when
// that is not known, the token is looked up anew.
func (s *Service) change(
	ctx context.Context, id string, f func(kv.Writer) (Token, error),
) (Token, error) {
	t, err := s.act(ctx, f)
	s.cache.drop(id)
	return t, err
}

// act runs a change in a transaction.
func (s *Service) act(ctx context.Context, f func(kv.Writer) (Token, error)) (Token, error) {
	var out Token
	err := s.store.Update(ctx, func(w kv.Writer) error {
		t, err := f(w)
		if err != nil {
			return err
		}
		out = t
		return nil
	})
	if err != nil {
		return Token{}, err
	}
	return out, nil
}
