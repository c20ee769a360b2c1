package httpstep

import (
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"onced/saga"
	"onced/saga/httpstep/redact"
)

// maxExcerpt bounds the piece of a reply's body in a text, in bytes.
const maxExcerpt = 300

// Reply is an answer that came whole.
type Reply struct {
	// Status is the status, Header the header of the answer.
	Status int
	Header http.Header
	// Body is the body, up to the limit; Truncated says that there was more.
	Body      []byte
	Truncated bool

	call *Caller
	req  *Request
	host string
}

// Err makes the error for a meaning that the caller has found in the reply: nil for
// done, else marked and with the text as that of [Caller.Do]. why says how it was
// found when the status is not what tells, for example "refused_if holds"; it may be
// empty.
func (r *Reply) Err(m Meaning, why string) error {
	if m == Done {
		return nil
	}
	after := r.RetryAfter()
	if most := r.req.MaxPause; most > 0 && (m == Unfinished || m == Unknown) {
		after = min(after, most)
	}
	e := &CallError{Method: r.req.Method, Host: r.host, Status: r.Status, Meaning: m, RetryAfter: after,
		Credentials: r.credentials()}
	e.text = r.text(why)
	switch m {
	case Refused:
		e.refusal = &saga.RefusedError{Code: "http_" + strconv.Itoa(r.Status), Message: e.text}
		return saga.Refused(e)
	case Retry:
		if e.Credentials {
			return saga.Blocked(after, e)
		}
		return saga.RetryAfter(after, e)
	case Unfinished:
		return saga.Unfinished(after, e)
	default:
		if after > 0 {
			return saga.Unfinished(after, e)
		}
		return e
	}
}

// RetryAfter is when the callee wants to be asked again: its header, between 0 and
// MaxRetryAfter; 0 when there is none that can be read.
func (r *Reply) RetryAfter() time.Duration { return r.call.retryAfter(r.Header) }

// credentials reports that the status complains of ours.
func (r *Reply) credentials() bool {
	return r.Status == http.StatusUnauthorized || r.Status == http.StatusProxyAuthRequired
}

// Excerpt is a piece of the body for people: bounded, in one line, without control
// characters, and without the secrets of the request.
func (r *Reply) Excerpt() string { return excerpt(r.Body, r.Truncated, newMask(r.req)) }

func (r *Reply) text(why string) string {
	m := newMask(r.req)
	var b strings.Builder
	b.WriteString(r.req.Method + " " + r.host + " answered " + strconv.Itoa(r.Status))
	if r.credentials() {
		b.WriteString(" (our credentials are not accepted)")
	}
	if why != "" {
		b.WriteString(" (" + m.Text(why, false, masked) + ")")
	}
	if piece := excerpt(r.Body, r.Truncated, m); piece != "" {
		b.WriteString(": " + piece)
	}
	return b.String()
}

// excerpt masks before it cuts, so that no half of a secret is left.
func excerpt(body []byte, truncated bool, m *redact.Mask) string {
	var b strings.Builder
	space := false
	for _, c := range m.Text(string(body), truncated, masked) {
		if c == utf8.RuneError || unicode.IsSpace(c) || !unicode.IsPrint(c) {
			space = b.Len() > 0
			continue
		}
		if b.Len()+utf8.RuneLen(c) > maxExcerpt {
			return b.String() + "…"
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(c)
	}
	if truncated {
		b.WriteString("…")
	}
	return b.String()
}
