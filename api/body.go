package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"onced/api/problem"
)

// body notes whether a body was read to its end, for then the connection can
// be used again.
type body struct {
	io.ReadCloser
	limit int64
	ended bool
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || errors.Is(err, io.EOF)
	return n, err
}

// lingerTime is how long the rest of a body that nobody reads may take.
const lingerTime = 2 * time.Second

// abandonBody ends the connection after the answer, because the request's body
// has not been read. The server itself reads on for a while, so that the answer
// is not lost to a client that is still sending, and would wait for ever.
func (s *Server) abandonBody(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	s.readBy(w, min(lingerTime, s.deps.BodyTime))
}

// readBy lets reading from the connection fail after d; 0 takes that away. A
// writer without a connection, as in tests, has no such limit.
func (s *Server) readBy(w http.ResponseWriter, d time.Duration) {
	var at time.Time
	if d > 0 {
		at = s.wall.Now().Add(d)
	}
	_ = http.NewResponseController(w).SetReadDeadline(at)
}

// readJSON reads the one JSON object of a request into dst, a pointer to a
// struct. Its errors are problems.
func (s *Server) readJSON(c echo.Context, dst any) error {
	raw, err := s.jsonBody(c)
	if err != nil {
		return err
	}
	return decodeStrict(raw, dst)
}

// jsonBody reads a body that says it is JSON.
func (s *Server) jsonBody(c echo.Context) ([]byte, error) {
	if err := checkContentType(c.Request()); err != nil {
		return nil, err
	}
	return s.readBody(c)
}

// checkContentType wants exactly one Content-Type, of JSON in UTF-8, and no
// encoding.
func checkContentType(r *http.Request) error {
	given := r.Header["Content-Type"]
	if len(given) != 1 || !isJSON(given[0]) {
		return problem.New(problem.UnsupportedMediaType, "").At("Content-Type")
	}
	if len(r.Header["Content-Encoding"]) > 0 {
		return problem.New(problem.UnsupportedMediaType, "an encoded body is not read").At("Content-Encoding")
	}
	return nil
}

// isJSON accepts the media type of JSON in UTF-8.
func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil || media != "application/json" {
		return false
	}
	for name, value := range params {
		if name != "charset" || !strings.EqualFold(value, "utf-8") {
			return false
		}
	}
	return true
}

// readBody reads within the limits of size and time. After a whole body there is
// no limit: the server goes on reading to notice that the client has gone.
func (s *Server) readBody(c echo.Context) ([]byte, error) {
	r := c.Request()
	b, _ := r.Body.(*body)
	if b == nil {
		return nil, problem.New(problem.InvalidJSON, "there is no body")
	}
	if r.ContentLength > b.limit {
		return nil, tooLarge(b.limit)
	}
	s.readBy(c.Response(), s.deps.BodyTime)
	raw, err := b.all(r.ContentLength)
	if err == nil {
		s.readBy(c.Response(), 0)
		return raw, nil
	}
	var netErr net.Error
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, tooLarge(b.limit)
	}
	if errors.As(err, &netErr) && netErr.Timeout() {
		return nil, problem.New(problem.RequestTimeout,
			fmt.Sprintf("the body must arrive within %v", s.deps.BodyTime))
	}
	return nil, problem.New(problem.BadRequest, "the body could not be read to its end")
}

// smallBody is up to what size a body is believed to have the length that it says.
const smallBody = 64 << 10

// all reads the whole body. For a large one memory is taken as it arrives.
func (b *body) all(length int64) ([]byte, error) {
	if length <= 0 || length > smallBody {
		return io.ReadAll(b)
	}
	var buf bytes.Buffer
	buf.Grow(int(length) + bytes.MinRead)
	_, err := buf.ReadFrom(b)
	return buf.Bytes(), err
}

func tooLarge(limit int64) error {
	return problem.New(problem.TooLarge, fmt.Sprintf("the limit is %d bytes", limit))
}

// decodeStrict decodes one JSON object whose members are those of dst, each at
// most once and spelled exactly. The usual decoder takes "KEY" for "key", the
// last of two equal members, and a replacement character for what is no text:
// all three would let one request be read as another.
func decodeStrict(raw []byte, dst any) error {
	if !utf8.Valid(raw) {
		return problem.New(problem.InvalidJSON, "the body is not UTF-8")
	}
	if hasLoneSurrogate(raw) {
		return problem.New(problem.InvalidJSON, `an escape \u names half a character`)
	}
	err, known := json.Unmarshal(raw, dst), membersOf(dst)
	var wrong error
	if _, broken := errors.AsType[*json.SyntaxError](err); broken {
		wrong = checkBroken(raw, known)
	} else {
		wrong = checkMembers(raw, known)
	}
	if wrong != nil {
		return wrong
	}
	if typ, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		member := typ.Field[strings.LastIndexByte(typ.Field, '.')+1:]
		return invalidField(member,
			fmt.Sprintf("it is %s and must be %s", given(typ.Value), jsonName(typ.Type)))
	}
	if err != nil {
		return notOneObject()
	}
	return nil
}

// checkBroken is checkMembers for what is no JSON: what is wrong first is told.
func checkBroken(raw []byte, known []string) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return notOneObject()
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return notOneObject()
		}
		if !slices.Contains(known, name) {
			return unknownMember(name)
		}
		if seen[name] {
			return doubledMember(name)
		}
		seen[name] = true
		var skip json.RawMessage
		if err := d.Decode(&skip); err != nil {
			return notOneObject()
		}
	}
	if _, err := d.Token(); err != nil {
		return notOneObject()
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return problem.New(problem.InvalidJSON, "data follows the JSON object")
	}
	return nil
}

// hasLoneSurrogate finds escapes of half a character. A backslash stands only
// inside the texts of JSON.
func hasLoneSurrogate(raw []byte) bool {
	for i := max(bytes.IndexByte(raw, '\\'), 0); i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		r, ok := escaped(raw, i-1)
		if !ok || !utf16.IsSurrogate(r) {
			continue
		}
		second, ok := escaped(raw, i+5)
		if !ok || utf16.DecodeRune(r, second) == utf8.RuneError {
			return true
		}
		i += 10
	}
	return false
}

// escaped reads the escape \uXXXX at i.
func escaped(raw []byte, i int) (rune, bool) {
	if i+6 > len(raw) || raw[i] != '\\' || raw[i+1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range raw[i+2 : i+6] {
		n := strings.IndexByte("0123456789abcdef", c|0x20)
		if n < 0 {
			return 0, false
		}
		r = r<<4 | rune(n)
	}
	return r, true
}

// given names what the decoder found: a kind of value, or "number" with its digits.
func given(value string) string {
	if digits, ok := strings.CutPrefix(value, "number "); ok {
		return "the number " + cutText(digits)
	}
	if value == "object" || value == "array" {
		return "an " + value
	}
	return "a " + value
}

func jsonName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	case reflect.Int64, reflect.Int:
		return "a whole number"
	case reflect.Uint64:
		return "a whole number from 0"
	case reflect.Slice:
		return "an array"
	default:
		return "an object"
	}
}

// cutText bounds a name that a stranger chose before it is answered.
func cutText(s string) string {
	const most = 64
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "\ufffd")
}

func parseQuery(raw string) (url.Values, error) {
	q, err := url.ParseQuery(raw)
	if err != nil {
		return nil, problem.New(problem.BadRequest, "the query is not well-formed")
	}
	return q, nil
}

// json answers with v. Texts are not escaped for HTML: the type says JSON.
func (s *Server) json(c echo.Context, status int, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("api: encode an answer: %w", err)
	}
	return c.Blob(status, echo.MIMEApplicationJSON, b.Bytes())
}
