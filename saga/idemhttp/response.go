package idemhttp

import (
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// Response is a response, as it is stored or about to be.
type Response struct {
	// Status is 200 to 599.
	Status int
	// Header and Trailer are what the handler sent; what is stored of them says the
	// package comment.
	Header, Trailer http.Header
	// Body is the body, or its beginning when Rest is set.
	Body []byte

	// Rest is what follows Body of a response too large to hold: the first caller
	// gets it after the outcome is stored, nobody gets it later. Whoever sets it
	// has decided by the status alone. It is always closed.
	Rest io.ReadCloser
	// Omitted is true for a stored response whose body was not kept.
	Omitted bool
	// Size is the size of an omitted body in bytes, -1 when it is not known.
	Size int64

	lines []line // instead of Header, of one out of the store
}

// hopHeaders belong to a connection and not to a response. Trailer is made anew.
var hopHeaders = []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Proxy-Connection", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade"}

const (
	// ReplayedHeader marks a response that was stored before.
	ReplayedHeader = "Idempotency-Replayed"
	// OutcomeHeader has the value "unknown" on every answer to a request that may
	// have had its effect, whatever its status says. No other answer has it.
	OutcomeHeader = "Idempotency-Outcome"
)

// EndToEnd returns a copy of h without the headers of the connection, among them
// those that Connection lists, and without names and values that HTTP does not
// allow.
func EndToEnd(h http.Header) http.Header {
	out := make(http.Header, len(h))
	var listed map[string]bool
	for _, list := range h["Connection"] {
		if listed == nil {
			listed = map[string]bool{}
		}
		for name := range strings.SplitSeq(list, ",") {
			listed[textproto.CanonicalMIMEHeaderKey(strings.Trim(name, " \t"))] = true
		}
	}
	for name, values := range h {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		if slices.Contains(hopHeaders, canonical) || listed[canonical] || !isToken(name) {
			continue
		}
		if _, twice := out[canonical]; !twice && !slices.ContainsFunc(values, isNoValue) {
			out[canonical] = slices.Clip(values) // shared: whoever appends makes a copy
			continue
		}
		for _, v := range values {
			if isValue(v) {
				out[canonical] = append(out[canonical], v)
			}
		}
	}
	return out
}

// isToken accepts the names of headers.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		alnum := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-'
		if !alnum && strings.IndexByte("!#$%&'*+.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

func isNoValue(s string) bool { return !isValue(s) }

// isValue refuses what could end a header line.
func isValue(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// kept returns what is stored of r.
func (r *Response) kept(limit int, drop []string) *Response {
	out := &Response{Status: r.Status, Header: EndToEnd(r.Header), Body: r.Body}
	for _, name := range []string{"Date", "Content-Length", "Set-Cookie", ReplayedHeader,
		OutcomeHeader} {
		out.Header.Del(name)
	}
	for _, name := range drop {
		out.Header.Del(name)
	}
	if r.Trailer != nil {
		out.Trailer = EndToEnd(r.Trailer)
	}
	switch {
	case !r.mayHaveBody():
		out.Body = nil
	case r.Rest != nil:
		out.Body, out.Trailer, out.Omitted, out.Size = nil, nil, true, r.size()
	case len(r.Body) > limit:
		out.Body, out.Trailer, out.Omitted, out.Size = nil, nil, true, int64(len(r.Body))
	}
	return out
}

// mayHaveBody is false for the statuses that never have one.
func (r *Response) mayHaveBody() bool {
	switch r.Status {
	case http.StatusNoContent, http.StatusResetContent, http.StatusNotModified:
		return false
	}
	return r.Status >= 200
}

// size is the size of a body that was not held whole, as far as it was announced.
func (r *Response) size() int64 {
	n, err := strconv.ParseInt(r.Header.Get("Content-Length"), 10, 64)
	if err != nil || n < int64(len(r.Body)) {
		return -1
	}
	return n
}

func (r *Response) close() {
	if r != nil && r.Rest != nil {
		_ = r.Rest.Close() // nothing depends on it any more
	}
}

// sendHeader puts into h what is sent of the header, and returns its Content-Length.
func (r *Response) sendHeader(h http.Header) (length []string) {
	h["Content-Type"] = nil // net/http shall not guess
	for name, values := range eachHeader(r.lines) {
		if isSent(name) {
			h[name] = values
		}
	}
	from := r.Header
	if !isPlain(from) {
		from = EndToEnd(from)
	}
	for name, values := range from {
		if isSent(name) {
			h[name] = slices.Clip(values)
		}
	}
	return from["Content-Length"]
}

// isSent is false for headers of the connection, and for those that are ours to say.
func isSent(name string) bool {
	switch name {
	case "Content-Length", ReplayedHeader, OutcomeHeader:
		return false
	}
	return !slices.Contains(hopHeaders, name)
}

// isPlain reports that EndToEnd would only leave out hopHeaders.
func isPlain(h http.Header) bool {
	for name, values := range h {
		if name == "Connection" || !isToken(name) || textproto.CanonicalMIMEHeaderKey(name) != name ||
			slices.ContainsFunc(values, isNoValue) {
			return false
		}
	}
	return true
}

// send writes r, which others may send at the same time, unless it has a Rest: that is
// closed. A rest that breaks off cuts the connection, so that nobody takes the body for
// whole. size is where the value of Content-Length can be.
func (r *Response) send(w http.ResponseWriter, req *http.Request, size *[1]string) {
	defer r.close()
	h := w.Header()
	length := r.sendHeader(h)
	var trailer http.Header
	if len(r.Trailer) > 0 {
		trailer = EndToEnd(r.Trailer)
	}
	switch {
	case r.Status == http.StatusResetContent: // net/http would let it have a body
		h.Set("Content-Length", "0")
	case !r.mayHaveBody():
	case r.Rest != nil:
		if len(length) == 1 && len(trailer) == 0 {
			h["Content-Length"] = length
		}
	case len(trailer) == 0:
		size[0] = itoa(len(r.Body))
		h["Content-Length"] = size[:]
	}
	for name := range trailer {
		h.Add("Trailer", name)
	}
	w.WriteHeader(r.Status)
	if !r.mayHaveBody() || req.Method == http.MethodHead {
		return
	}
	_, err := w.Write(r.Body) //nolint:gosec // the answer as it was, with its content type
	if r.Rest != nil && err == nil {
		_, err = io.Copy(w, r.Rest)
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(h, trailer)
}
