package auth

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"onced/kv"
	"onced/kv/feed"
)

// eventType is what the types of the notifications begin with; "created",
// "rotated" or "revoked" follows.
const eventType = "operator.token."

// audit is the data of a notification. It has no field for a secret or a sum.
type audit struct {
	TokenID   string     `json:"token_id"`
	Name      string     `json:"name"`
	Role      Role       `json:"role"`
	Principal string     `json:"principal"`
	Actor     string     `json:"actor"`
	Reason    string     `json:"reason,omitempty"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	Replaces  string     `json:"replaces,omitempty"`
	OldEndsAt *time.Time `json:"old_ends_at,omitempty"`
	OldEnds   int64      `json:"-"`
}

func (s *Service) audit(w kv.Writer, what string, t Token, a audit) error {
	a.TokenID, a.Name, a.Role, a.Principal = t.ID, t.Name, t.Role, t.Principal
	a.ExpiresAt, a.OldEndsAt = instant(t.ExpiresAt), instant(fromNano(a.OldEnds))
	data, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("auth: audit: %w", err)
	}
	_, err = s.feed.Append(w, feed.Event{ID: feed.DerivedID("token", t.ID, what), Type: eventType + what,
		Subject: t.ID, Data: data})
	if err != nil {
		return fmt.Errorf("auth: audit: %w", err)
	}
	return nil
}

func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Millisecond)
	return &t
}

func (s *Spec) check() error {
	if err := checkName("name", s.Name); err != nil {
		return err
	}
	if err := checkName("principal", s.Principal); err != nil {
		return err
	}
	if !s.Role.Valid() {
		return &FieldError{Field: "role", Problem: fmt.Sprintf("is %.40q", string(s.Role)),
			Remedy: "use metrics, client, viewer, operator or admin"}
	}
	if err := checkLife(s.ExpiresIn); err != nil {
		return err
	}
	return checkAct(s.Actor, "")
}

func (r *Rotation) check() error {
	if r.Overlap < 0 || r.Overlap > MaxOverlap {
		return &FieldError{Field: "overlap", Problem: fmt.Sprintf("is %v", r.Overlap),
			Remedy: fmt.Sprintf("use 0 to %v", MaxOverlap)}
	}
	if err := checkLife(r.ExpiresIn); err != nil {
		return err
	}
	return checkAct(r.Actor, "")
}

func checkLife(d time.Duration) error {
	if d < 0 || d > MaxLife {
		return &FieldError{Field: "expires_in", Problem: fmt.Sprintf("is %v", d),
			Remedy: fmt.Sprintf("use 0 for no end, or at most %v", MaxLife)}
	}
	return nil
}

// CheckPrincipal says what is wrong with the name of an account, as a [FieldError]. It
// does not say whether there is a token of it.
func CheckPrincipal(name string) error { return checkName("principal", name) }

// checkName: names stand in logs, scopes and audits, so they are plain.
func checkName(field, s string) error {
	if s == "" || len(s) > MaxName {
		return &FieldError{Field: field, Problem: fmt.Sprintf("is %d bytes long", len(s)),
			Remedy: fmt.Sprintf("use 1 to %d bytes", MaxName)}
	}
	for _, c := range s {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && !strings.ContainsRune("._:@-", c) {
			return &FieldError{Field: field, Problem: fmt.Sprintf("has the character %q", c),
				Remedy: "use letters, digits and ._:@-"}
		}
	}
	return nil
}

func checkAct(actor, reason string) error {
	if actor == "" || len(actor) > MaxName || !plain(actor) {
		return &FieldError{Field: "actor", Problem: "is empty, too long or not plain text",
			Remedy: fmt.Sprintf("name who acts, in 1 to %d bytes", MaxName)}
	}
	if len(reason) > MaxReason || !plain(reason) {
		return &FieldError{Field: "reason", Problem: "is too long or not plain text",
			Remedy: fmt.Sprintf("use at most %d bytes of text", MaxReason)}
	}
	return nil
}

func plain(s string) bool { return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl) }
