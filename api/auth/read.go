package auth

import (
	"context"
	"errors"

	"onced/kv"
)

// Get returns a token by its id, or [ErrNotFound].
func (s *Service) Get(ctx context.Context, id string) (Token, error) {
	var out Token
	err := s.store.View(ctx, func(rd kv.Reader) error {
		r, ok, err := byID(rd, id)
		if err != nil {
			return err
		}
		if !ok {
			return ErrNotFound
		}
		out = r.token()
		return nil
	})
	return out, err
}

// DefaultPage and MaxPage are how many tokens a page of [Service.List] has when
// none are asked for, and at most.
const DefaultPage, MaxPage = 50, 200

// List returns tokens in the order of their making, the dead ones too, from
// after the token with the id after ("" is the beginning), at most limit (0 means
// DefaultPage). next is the id to go on after, "" at the end.
func (s *Service) List(
	ctx context.Context, after string, limit int,
) (tokens []Token, next string, err error) {
	if limit <= 0 {
		limit = DefaultPage
	}
	limit = min(limit, MaxPage)
	if len(after) > MaxName {
		return nil, "", &FieldError{Field: "after", Problem: "is not an id", Remedy: "use the next of a page"}
	}
	rg := kv.Range{Limit: limit + 1}
	if after != "" {
		rg.From = append(idKey(after), 0)
	}
	err = s.store.View(ctx, func(rd kv.Reader) error {
		var got []Token
		for e, err := range idTable.Scan(rd, rg) {
			if err != nil {
				return err
			}
			r, ok, err := tokenTable.Get(rd, sumKey(e.Value.Sum))
			if err != nil {
				return err
			}
			if !ok {
				return errors.Join(kv.ErrCorrupt, errors.New("auth: an id leads to no token"))
			}
			got = append(got, r.token())
		}
		tokens, next = got, ""
		if len(got) > limit {
			tokens, next = got[:limit], got[limit-1].ID
		}
		return nil
	})
	return tokens, next, err
}
