package proxy

import (
	"errors"
	"net/url"
	"strings"
)

// maxPath is the longest path in bytes.
const maxPath = 8 << 10

// literal are the characters, besides letters and digits, that mean the same
// escaped and not: those that literal segments of routes may hold.
const literal = "-._~:@!$&'()+,;="

// plainPath returns the path of a request for the choice of a route: the bytes of
// the request line with every escape undone that does not need to be there. It
// refuses what two readers could read differently.
func plainPath(u *url.URL) (string, error) {
	raw := u.EscapedPath()
	switch {
	case u.Opaque != "" || !strings.HasPrefix(raw, "/"):
		return "", errors.New("the path does not begin with a slash")
	case len(raw) > maxPath:
		return "", errors.New("the path is longer than 8 KiB")
	case u.RawPath != "" && u.RawPath != raw:
		return "", errors.New("the path holds a character that has to be escaped")
	}
	for view, depth := raw, 0; ; depth++ {
		if why := dangerous(view); why != "" {
			return "", errors.New("the path holds " + why)
		}
		next, err := url.PathUnescape(view)
		if err != nil || next == view {
			break
		}
		if depth == 3 {
			return "", errors.New("the path is escaped many times over")
		}
		view = next
	}
	//nolint:nilerr // what is no escape stands for itself
	return undoEscapes(raw), nil
}

// dangerous says what in a path different readers read differently.
func dangerous(path string) string {
	for _, c := range []byte(path) {
		if c < ' ' || c == 0x7f {
			return "a control character"
		}
		if c == '\\' {
			return "a backslash"
		}
	}
	if strings.Contains(path, "//") {
		return "a doubled slash"
	}
	for segment := range strings.SplitSeq(path, "/") {
		name, _, params := strings.Cut(segment, ";")
		switch {
		case name == "." || name == "..":
			return "a dot segment"
		case params && name == "":
			return "parameters of nothing"
		}
	}
	return ""
}

// undoEscapes decodes what is plain without its escape.
func undoEscapes(raw string) string {
	if !strings.Contains(raw, "%") {
		return raw
	}
	var b strings.Builder
	for i := 0; i < len(raw); i++ {
		if raw[i] == '%' && i+2 < len(raw) {
			c := unhex(raw[i+1])<<4 | unhex(raw[i+2])
			if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
				strings.IndexByte(literal, c) >= 0 {
				b.WriteByte(c)
				i += 2
				continue
			}
		}
		b.WriteByte(raw[i])
	}
	return b.String()
}

func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return c - 'A' + 10 // url.Parse has refused the rest
}

// aliases are the paths that a lenient upstream may take this one for.
func aliases(path string) []string {
	bare := path
	if strings.Contains(bare, ";") {
		segments := strings.Split(bare, "/")
		for i, s := range segments {
			segments[i], _, _ = strings.Cut(s, ";")
		}
		bare = strings.Join(segments, "/")
	}
	var out []string
	if bare != path {
		out = append(out, bare)
	}
	if short := strings.TrimSuffix(bare, "/"); short != bare && short != "" {
		out = append(out, short)
	}
	return out
}
