package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// hidden stands for a secret wherever one would be shown.
const hidden = "***"

// Secret is a text that is never shown: every way of printing, logging or
// encoding it gives ***, or nothing when it is empty.
type Secret struct{ text string }

// NewSecret returns text as a secret.
func NewSecret(text string) Secret { return Secret{text: text} }

// Reveal returns the text itself, for the one place that sends or compares it.
func (s Secret) Reveal() string { return s.text }

// IsZero reports whether the secret is empty.
func (s Secret) IsZero() bool { return s.text == "" }

// String hides the text.
func (s Secret) String() string {
	if s.text == "" {
		return ""
	}
	return hidden
}

// Format hides the text from every verb, %#v and %x too.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, s.String()) }

// LogValue hides the text from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText hides the text from JSON and other encodings.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Bytes is a size. It is written 64MiB, 10MB or as a plain number of bytes.
type Bytes int64

// byteUnits from the longest name to the shortest, so that B comes last.
var byteUnits = []struct {
	name string
	size int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

func parseBytes(text string) (Bytes, error) {
	digits, unit := text, int64(1)
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(text, u.name); ok {
			digits, unit = strings.TrimSpace(rest), u.size
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || n > uint64((1<<63-1)/unit) {
		return 0, errors.New("is not a size")
	}
	return Bytes(int64(n) * unit), nil
}

// String returns the size in the largest binary unit that is exact.
func (b Bytes) String() string {
	for _, u := range []int{3, 2, 1, 0} {
		if size := byteUnits[u].size; b != 0 && int64(b)%size == 0 {
			return strconv.FormatInt(int64(b)/size, 10) + byteUnits[u].name
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// parseDuration reads Go's form, and d for days of 24 hours before it: 1d12h.
func parseDuration(text string) (time.Duration, error) {
	var days time.Duration
	rest := text
	if n, after, ok := strings.Cut(text, "d"); ok {
		count, err := strconv.ParseUint(n, 10, 32)
		if err != nil || count > 36_500 {
			return 0, errors.New("is not a duration")
		}
		if days = time.Duration(count) * 24 * time.Hour; after == "" {
			return days, nil
		}
		rest = after
	}
	d, err := time.ParseDuration(rest)
	if err != nil {
		if _, err := strconv.ParseFloat(text, 64); err == nil {
			return 0, errors.New("has no unit")
		}
		return 0, errors.New("is not a duration")
	}
	if days > 0 && (d < 0 || d > 24*time.Hour*36_500) {
		return 0, errors.New("is not a duration")
	}
	return days + d, nil
}

// formatDuration is Go's form without zeros at the end: 720h and not 720h0m0s.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Instant is a time with its zone. The zero Instant is empty.
type Instant struct{ time.Time }

// String is the form that is read, or empty.
func (i Instant) String() string {
	if i.IsZero() {
		return ""
	}
	return i.Format(time.RFC3339)
}

func parseInstant(text string) (Instant, error) {
	if text == "" {
		return Instant{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return Instant{}, errors.New("is not a time with its zone")
	}
	return Instant{t}, nil
}

// URL is an absolute http or https URL without user, query and fragment. The
// zero URL is empty.
type URL struct{ url.URL }

func parseURL(text string) (URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return URL{}, errors.New("is not an http or https URL")
	case u.User != nil:
		return URL{}, errors.New("holds a user; credentials go into headers")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return URL{}, errors.New("holds a query or a fragment")
	case u.Hostname() == "":
		return URL{}, errors.New("has no host")
	case u.Port() == "" && strings.HasSuffix(u.Host, ":"):
		return URL{}, errors.New("has an empty port")
	case u.Port() != "" && !isPort(u.Port()):
		return URL{}, errors.New("has a port that is none")
	case slices.Contains(strings.Split(u.Path, "/"), ".."):
		return URL{}, errors.New("holds .. in its path")
	}
	return URL{URL: *u}, nil
}

// userinfo matches what may be a user with a password in a text that was meant to
// be a URL, in however broken a form: everything before its last @.
var userinfo = regexp.MustCompile(`://\S*@`)

// withoutCredentials hides users and passwords in URLs.
func withoutCredentials(text string) string {
	return userinfo.ReplaceAllString(text, "://"+hidden+"@")
}

// shownURL returns what was given for a URL as a problem may show it: without a
// user, even where the scheme is missing, and without the values of a query.
func shownURL(text string) string {
	if before, _, ok := strings.Cut(text, "?"); ok {
		text = before + "?" + hidden
	}
	if i := strings.LastIndexByte(text, '@'); i >= 0 {
		scheme, _, ok := strings.Cut(text[:i], "://")
		if scheme += "://"; !ok {
			scheme = ""
		}
		text = scheme + hidden + text[i:]
	}
	return text
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// String returns the URL as text.
func (u URL) String() string { return u.URL.String() }
