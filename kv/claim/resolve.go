package claim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"onced/kv"
	"onced/kv/feed"
)

// EventResolved is the type of the notification that audits a resolution.
const EventResolved = "operator.claim.resolved"

// ErrNoFeed means that the Book has no feed to audit an operator's act in.
var ErrNoFeed = errors.New("claim: the book has no feed, and an operator's act needs one; set Config.Feed")

// Resolve carries out a person's decision about an unknown claim; see
// [Machine.Resolve] for its errors. The notification [EventResolved], with
// actor and reason, commits in the same transaction. It is safe to call again after
// kv.ErrCommitUnknown or a lost answer: the same decision by the same person is
// answered the same, without a write. That a key was freed is known from the
// notification; when the feed keeps it no longer the answer is [ErrStale].
func (b *Book) Resolve(ctx context.Context, v Resolution) (Decision, error) {
	return b.update(ctx, func(w kv.Writer) (Decision, error) { return b.ResolveTx(w, v) })
}

// ResolveTx is [Book.Resolve] in the caller's transaction.
func (b *Book) ResolveTx(w kv.Writer, v Resolution) (Decision, error) {
	if err := v.validate(); err != nil {
		return Decision{}, err
	}
	if b.feed == nil {
		return Decision{}, ErrNoFeed
	}
	changed := false
	d, err := b.step(w, v.ID, "resolve", func(r *Record, now time.Time) (Step, error) {
		s, err := b.machine.Resolve(r, now, v)
		changed = s.Write != Keep
		return s, err
	})
	if errors.Is(err, ErrStale) && v.Verdict == VerdictFree {
		return b.freedBefore(w, v, err)
	}
	d.Record.TokenSum, d.Record.Intent = [32]byte{}, nil
	if err != nil || !changed {
		return d, err
	}
	ev, err := resolvedEvent(v, d.Record)
	if err != nil {
		return Decision{}, err
	}
	if _, _, err := b.feed.AppendOnce(w, ev); err != nil {
		return Decision{}, fmt.Errorf("claim: audit a resolution: %w", err)
	}
	return d, nil
}

// freedBefore answers for a key that is not as the person saw it: as the first
// time, if this very decision has freed it, else with the error stale.
func (b *Book) freedBefore(w kv.Writer, v Resolution, stale error) (Decision, error) {
	ev, ok, err := feed.Find(w, resolvedID(v))
	if isDamage(err) || err == nil && !ok {
		return Decision{}, stale
	}
	if err != nil {
		return Decision{}, err
	}
	var was resolved
	if json.Unmarshal(ev.Data, &was) != nil || was.Verdict != v.Verdict.String() || was.Actor != v.Actor {
		return Decision{}, stale
	}
	s := keep(Decision{Kind: Freed})
	b.afterCommit(w, v.ID, "resolve", s)
	return s.Decision, nil
}

// resolved is the data of the notification. It has no token, intent or result.
type resolved struct {
	Scope        string    `json:"scope"`
	Key          string    `json:"key"`
	Verdict      string    `json:"verdict"`
	Actor        string    `json:"actor"`
	Reason       string    `json:"reason"`
	Version      uint64    `json:"version"` // the one the person saw
	Try          int       `json:"try"`
	FirstAt      time.Time `json:"first_at"`
	UnknownSince time.Time `json:"unknown_since"`
}

func resolvedEvent(v Resolution, r Record) (feed.Event, error) {
	data, err := json.Marshal(resolved{Scope: v.ID.Scope, Key: v.ID.Key, Verdict: v.Verdict.String(),
		Actor: v.Actor, Reason: v.Reason, Version: v.Version, Try: r.Try,
		FirstAt: r.FirstAt, UnknownSince: r.UnknownSince})
	if err != nil {
		return feed.Event{}, fmt.Errorf("claim: audit a resolution: %w", err)
	}
	return feed.Event{ID: resolvedID(v), Type: EventResolved, Subject: v.ID.Key, Data: data}, nil
}

// resolvedID names the decision. Scope and key may be too long for an id; their
// sum stands for them.
func resolvedID(v Resolution) string {
	sum := FingerprintOf([]byte(v.ID.Scope), []byte(v.ID.Key))
	name := lowerBase32.EncodeToString(sum[:20])
	return feed.DerivedID("claim", name, strconv.FormatUint(v.Version, 10), "resolved")
}
