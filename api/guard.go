package api

import (
	"net/http"
	"net/url"
	"strings"

	"onced/api/problem"
)

// reserved are the first segments of the API's paths.
var reserved = map[string]bool{"v1": true, "livez": true, "readyz": true, "metrics": true,
	"problems": true, "openapi.yaml": true}

// guard is step 4: it gives the API's paths to the API, everything else to the
// fallback, and to nobody what could be taken for either.
func (s *Server) guard(w http.ResponseWriter, r *http.Request) {
	where, why := placeOf(r.URL)
	switch {
	case r.Method == http.MethodConnect:
		where, why = refusedPath, "CONNECT is not served"
	case where == otherPath && s.deps.Fallback != nil:
		exchangeOf(r.Context()).route = "proxy"
		s.deps.Fallback.ServeHTTP(w, r)
		return
	case where == apiPath:
		secure(w.Header(), r.URL.Path)
		s.router.ServeHTTP(w, r)
		return
	}
	if r.ContentLength != 0 {
		s.abandonBody(w)
	}
	if where == refusedPath {
		problem.Write(w, r, problem.New(problem.BadPath, why))
		return
	}
	problem.Write(w, r, problem.New(problem.NotFound, "no route has this path"))
}

// place is who may get a path.
type place int

const (
	refusedPath place = iota
	apiPath
	otherPath
)

// maxDecodings is how many layers of escapes are looked through.
const maxDecodings = 4

// placeOf decides about a path, and says why it is refused.
func placeOf(u *url.URL) (where place, why string) {
	raw := u.EscapedPath()
	if u.Opaque != "" || !strings.HasPrefix(raw, "/") {
		return refusedPath, "the path does not begin with a slash"
	}
	ours := false
	for view, i := raw, 0; ; i++ {
		if why := dangerous(view); why != "" {
			return refusedPath, why
		}
		ours = ours || resembles(view)
		next, err := url.PathUnescape(view)
		if err != nil || next == view {
			break
		}
		if i == maxDecodings {
			return refusedPath, "the path is escaped many times over"
		}
		view = next
	}
	switch {
	case !ours:
		return otherPath, ""
	case plainAPIPath(raw):
		return apiPath, ""
	}
	return refusedPath, "the path resembles one of the API and is not in its plain form"
}

// dangerous says what in a path different readers read differently.
func dangerous(path string) string {
	for _, c := range []byte(path) {
		if c < ' ' || c == 0x7f {
			return "the path holds a control character"
		}
		if c == '\\' {
			return "the path holds a backslash"
		}
	}
	for seg := range strings.SplitSeq(path, "/") {
		if seg, _, _ = strings.Cut(seg, ";"); seg == "." || seg == ".." {
			return "the path holds a dot segment"
		}
	}
	return ""
}

// resembles reports whether a lenient reader would take the first segment for
// one of ours.
func resembles(path string) bool {
	for seg := range strings.SplitSeq(path, "/") {
		seg, _, _ = strings.Cut(seg, ";")
		if seg = strings.ToLower(strings.Trim(seg, " .")); seg != "" {
			return reserved[seg]
		}
	}
	return false
}

// plainAPIPath accepts the one spelling of a path that the API answers to.
func plainAPIPath(raw string) bool {
	if strings.HasSuffix(raw, "/") || strings.Contains(raw, "//") {
		return false
	}
	for _, c := range []byte(raw) {
		plain := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !plain && !strings.ContainsRune("/._-", rune(c)) {
			return false
		}
	}
	first, _, _ := strings.Cut(raw[1:], "/")
	return reserved[first]
}
