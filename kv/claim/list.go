package claim

import (
	"context"
	"encoding/base64"
	"strings"
	"time"

	"onced/kv"
)

// Claim is a claim as it is at one instant, for reading.
type Claim struct {
	ID ID
	// Record is the effective record: a pending claim whose owner is dead or
	// silent beyond its lease is shown as unknown. It has no sum of a token; in listings
	// it has no intent and no result's data either.
	Record Record
	// Age is how long a claim that is still open has been so.
	Age time.Duration
	// Err says, in listings, why the row could not be read; the record is then
	// empty, and so is the ID when the damage is in the row's key.
	Err error
}

func (b *Book) claim(id ID, r Record, now time.Time) Claim {
	r = b.machine.Effective(r, now)
	r.TokenSum = [32]byte{}
	c := Claim{ID: id, Record: r}
	if r.State.Open() {
		c.Age = max(0, now.Sub(r.openSince()))
	}
	return c
}

// Bounds of one page of a listing.
const (
	// DefaultPage is how many claims a page has when none is asked for.
	DefaultPage = 50
	// MaxPage is the most claims of a page.
	MaxPage = 500

	maxPageRows  = 1000    // rows looked at for one page
	maxPageBytes = 4 << 20 // bytes of records read for one page
)

// Query selects a page of a listing.
type Query struct {
	// ScopePrefix selects scopes that begin with it; empty selects all. See
	// [ScopePrefix].
	ScopePrefix string
	// Position is where to go on: the Next of the page before, or empty.
	Position string
	// Limit is the most claims wanted; 0 means DefaultPage, more than MaxPage
	// means MaxPage.
	Limit int
}

// Page is one page of a listing. It may be short, even empty, while Next is not.
type Page struct {
	Claims []Claim
	// Next is the position of the next page; empty at the end.
	Next string
}

// ListOpen lists the claims that wait for their outcome, pending and unknown,
// the oldest first. Claims that change between two pages may come twice or not
// at all; each is true in itself.
func (b *Book) ListOpen(ctx context.Context, q Query) (Page, error) {
	return b.list(ctx, openTable, kv.Range{}, q)
}

// List lists all claims by scope and key.
func (b *Book) List(ctx context.Context, q Query) (Page, error) {
	r := kv.Range{}
	if q.ScopePrefix != "" {
		p := kv.Key{}.String(q.ScopePrefix)
		r = kv.Prefix(p[:len(p)-1]) // without the end of the text
	}
	return b.list(ctx, recordTable.ID(), r, q)
}

func (b *Book) list(ctx context.Context, t kv.TableID, r kv.Range, q Query) (Page, error) {
	limit := q.Limit
	if limit <= 0 {
		limit = DefaultPage
	}
	limit = min(limit, MaxPage)
	if q.Position != "" {
		at, err := base64.RawURLEncoding.DecodeString(q.Position)
		if err != nil || len(at) == 0 || len(at) >= kv.MaxKeySize || string(at) < string(r.From) {
			return Page{}, invalid("position", "is not one of this listing",
				"use the next of a page, or begin anew")
		}
		r.From = append(at, 0)
	}
	r.Limit = maxPageRows
	var out Page
	err := b.store.View(ctx, func(rd kv.Reader) error {
		p, err := b.page(rd, t, r, pageQuery{q.ScopePrefix, limit})
		if err == nil {
			out = p
		}
		return err
	})
	return out, err
}

type pageQuery struct {
	scopePrefix string
	limit       int
}

func (b *Book) page(rd kv.Reader, t kv.TableID, r kv.Range, q pageQuery) (Page, error) {
	var p Page
	var last []byte
	rows, size := 0, 0
	full := func() bool { return rows == maxPageRows || size >= maxPageBytes || len(p.Claims) == q.limit }
	for e, err := range rd.Scan(t, r) {
		if err != nil {
			return Page{}, err
		}
		c, ok, err := b.listed(rd, t, e)
		if err != nil {
			return Page{}, err
		}
		rows, last = rows+1, e.Key
		size += len(e.Key) + len(e.Value) + len(c.Record.Intent)
		if ok && strings.HasPrefix(c.ID.Scope, q.scopePrefix) {
			c.Record = c.Record.public()
			p.Claims = append(p.Claims, c)
		}
		if full() {
			break
		}
	}
	if full() {
		p.Next = base64.RawURLEncoding.EncodeToString(last)
	}
	return p, nil
}

// listed returns the claim of a row of the records or of the open index.
func (b *Book) listed(rd kv.Reader, t kv.TableID, e kv.Entry) (Claim, bool, error) {
	var id ID
	var err error
	if t == openTable {
		_, id, err = decodeIndexKey(e.Key)
	} else {
		id, err = decodeRecordKey(e.Key)
	}
	if err != nil { // one damaged row must not hide the others
		return Claim{Err: err}, true, nil //nolint:nilerr // the claim carries it
	}
	c, ok, err := b.GetTx(rd, id)
	if isDamage(err) {
		return Claim{ID: id, Err: err}, true, nil
	}
	return c, ok, err
}
