package config

import (
	"errors"
	"fmt"
	"strings"
)

// Pattern is the path of a route, taken apart. The zero Pattern matches nothing.
type Pattern struct {
	segments []string // a literal, or "" for {name}
	rest     bool     // ends in /*
	valid    bool
}

// ParsePattern reads a path: literal segments, {name} for any one segment that
// is not empty, and /* at the end for everything below, but not for the path
// above it.
func ParsePattern(path string) (Pattern, error) {
	body, ok := strings.CutPrefix(path, "/")
	if !ok {
		return Pattern{}, errors.New("does not begin with /")
	}
	p := Pattern{valid: true}
	parts := strings.Split(body, "/")
	if last := len(parts) - 1; parts[last] == "*" {
		p.rest, parts = true, parts[:last]
	}
	for i, part := range parts {
		switch {
		case part == "" && (len(parts) > 1 || p.rest):
			if i == len(parts)-1 && !p.rest {
				return Pattern{}, errors.New("ends with /")
			}
			return Pattern{}, errors.New("has an empty segment")
		case part == "":
			p.segments = append(p.segments, part)
			return Pattern{valid: true}, nil // "/" itself
		case part == "." || part == "..":
			return Pattern{}, errors.New("has a segment " + part)
		case strings.HasPrefix(part, "{"):
			name, ok := strings.CutSuffix(part[1:], "}")
			if !ok || !isName(name) {
				return Pattern{}, fmt.Errorf("has the segment %s; a parameter is {name}", part)
			}
			p.segments = append(p.segments, "")
		case !isLiteral(part):
			return Pattern{}, fmt.Errorf("has the segment %q; letters, digits and -._~ may stand in it", part)
		default:
			p.segments = append(p.segments, part)
		}
	}
	return p, nil
}

func isName(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_')
	}) < 0
}

// isLiteral allows what is never escaped in a path, so that there is one way to
// write it.
func isLiteral(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("-._~:@!$&'()+,;=", r))
	}) < 0
}

// Match reports whether the path, as it stands in the request line, without
// query, is one of the pattern's. Literals are compared byte by byte: a request
// that escapes a letter of one does not match.
func (p Pattern) Match(escapedPath string) bool {
	rest, ok := strings.CutPrefix(escapedPath, "/")
	if !p.valid || !ok {
		return false
	}
	if len(p.segments) == 0 {
		return p.rest || rest == ""
	}
	more := true
	for _, want := range p.segments {
		if !more {
			return false
		}
		var part string
		part, rest, more = strings.Cut(rest, "/")
		if want == "" && part == "" || want != "" && want != part {
			return false
		}
	}
	return more == p.rest
}

// Compare orders patterns so that of two that match a path the one that says
// more comes first: it is negative when p does, and 0 when both match the same
// paths.
func (p Pattern) Compare(q Pattern) int {
	for i := range min(len(p.segments), len(q.segments)) {
		a, b := p.segments[i], q.segments[i]
		switch {
		case (a == "") != (b == ""):
			if a != "" {
				return -1
			}
			return 1
		case a != b:
			return strings.Compare(a, b)
		}
	}
	if d := len(q.segments) - len(p.segments); d != 0 {
		return d
	}
	switch {
	case p.rest == q.rest:
		return 0
	case q.rest:
		return -1
	}
	return 1
}

// first is the literal with which every path of the pattern begins, or "" when
// there is none.
func (p Pattern) first() string {
	if len(p.segments) == 0 {
		return ""
	}
	return p.segments[0]
}
