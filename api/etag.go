package api

import (
	"net/http"
	"strconv"
	"strings"
	"unicode"

	"onced/api/problem"
	"onced/kv/claim"
)

// claimETag is the version and the state. The state belongs to it: a lease that
// runs out makes a pending claim unknown without a write.
func claimETag(r claim.Record) string {
	return `"` + strconv.FormatUint(r.Version, 10) + "." + r.State.String() + `"`
}

// versionETag is the ETag of things whose version says all.
func versionETag(v uint64) string { return `"` + strconv.FormatUint(v, 10) + `"` }

// matchesAny is the weak comparison of If-None-Match.
func matchesAny(headers []string, tag string) bool {
	for _, h := range headers {
		for part := range strings.SplitSeq(h, ",") {
			part = strings.TrimSpace(part)
			if part == "*" || strings.TrimPrefix(part, "W/") == tag {
				return true
			}
		}
	}
	return false
}

// ifMatch returns the inside of the one strong tag of If-Match. An asterisk is
// no version that anybody has looked at.
func ifMatch(h http.Header) (string, error) {
	given := h.Values("If-Match")
	if len(given) == 0 || len(given) == 1 && strings.TrimSpace(given[0]) == "*" {
		return "", problem.New(problem.PreconditionRequired, "").At("If-Match")
	}
	inner := ""
	if len(given) == 1 {
		inner = strings.TrimSpace(given[0])
	}
	if len(inner) > 2 && inner[0] == '"' && inner[len(inner)-1] == '"' {
		inner = inner[1 : len(inner)-1]
		if !strings.ContainsAny(inner, `",`) {
			return inner, nil
		}
	}
	return "", problem.New(problem.Stale, "it must be one strong ETag, as it was received").At("If-Match")
}

func stale() error { return problem.New(problem.Stale, "").At("If-Match") }

// claimVersion reads If-Match of an act on an unknown claim. Who looked at
// another state has not seen what is to be decided.
func claimVersion(h http.Header) (uint64, error) {
	tag, err := ifMatch(h)
	if err != nil {
		return 0, err
	}
	number, state, _ := strings.Cut(tag, ".")
	v, err := strconv.ParseUint(number, 10, 64)
	if err != nil || state != claim.Unknown.String() {
		return 0, stale()
	}
	return v, nil
}

// plainVersion reads If-Match of a [versionETag].
func plainVersion(h http.Header) (uint64, error) {
	tag, err := ifMatch(h)
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseUint(tag, 10, 64)
	if err != nil || v == 0 {
		return 0, stale()
	}
	return v, nil
}

// checkReason wants a text for people, why an operator acts.
func checkReason(s string) error {
	switch {
	case strings.TrimSpace(s) == "":
		return invalidField("reason", "say why, for whoever reads the audit")
	case len(s) > claim.MaxReason:
		return invalidField("reason", "the limit is "+strconv.Itoa(claim.MaxReason)+" bytes")
	case strings.ContainsFunc(s, unicode.IsControl):
		return invalidField("reason", "it holds a control character")
	}
	return nil
}

// cleanText makes text of at most limit bytes, without control characters. It is
// for what comes along with an outcome, which is not refused for it.
func cleanText(s string, limit int) string {
	s = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, s)
	return strings.ToValidUTF8(s[:min(len(s), limit)], "")
}
