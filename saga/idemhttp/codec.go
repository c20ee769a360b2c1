package idemhttp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"onced/kv/claim"
)

// TypeResponse is the type of stored results that are responses.
const TypeResponse = "application/vnd.onced.http-response"

// MaxHead bounds what is stored of a response besides its body, in bytes.
const MaxHead = 256 << 10

// The stored form is the version, a byte of flags, the status in two bytes, the
// headers, the trailers, and then the body up to the end, or the size of an
// omitted one. A list of headers is the number of its lines, and for each the name
// and the value, with their lengths before them.
const (
	version     = 1
	flagOmitted = 1
	// maxLines bounds the lines of a list of headers.
	maxLines = 10_000
)

var errTruncated = errors.New("idemhttp: a stored response ends too early")

func itoa(n int) string { return strconv.Itoa(n) }

// ResultOf returns r as it is stored, for whoever resolves a claim by hand and
// wants to say the status: replays get exactly that. Without it, a result in a form
// of its own is replayed with 200 when the claim is done (204 without a body), and
// with 422 when it is refused.
func ResultOf(r *Response) (claim.Result, error) {
	data, err := encode(r.kept(claim.MaxMaxResult, nil))
	return claim.Result{Type: TypeResponse, Data: data}, err
}

// encode is the stored form of a response that was kept.
func encode(r *Response) ([]byte, error) {
	if r.Status < 200 || r.Status > 999 {
		return nil, fmt.Errorf("idemhttp: %d is not the status of a response", r.Status)
	}
	b := make([]byte, 0, 512+len(r.Body))
	flags := byte(0)
	if r.Omitted {
		flags |= flagOmitted
	}
	b = append(b, version, flags)
	b = binary.BigEndian.AppendUint16(b, uint16(r.Status))
	b = appendHeader(b, r.Header)
	b = appendHeader(b, r.Trailer)
	if len(b) > MaxHead {
		return nil, fmt.Errorf("idemhttp: the headers have %d bytes, the limit is %d", len(b), MaxHead)
	}
	if r.Omitted {
		return binary.AppendVarint(b, r.Size), nil
	}
	return append(b, r.Body...), nil
}

// appendHeader writes the lines in the order of their names, so that equal
// responses have equal bytes.
func appendHeader(b []byte, h http.Header) []byte {
	n := 0
	for _, values := range h {
		n += len(values)
	}
	b = binary.AppendUvarint(b, uint64(n))
	var few [16]string // most responses have fewer
	names := few[:0]
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, v := range h[name] {
			b = binary.AppendUvarint(b, uint64(len(name)))
			b = append(b, name...)
			b = binary.AppendUvarint(b, uint64(len(v)))
			b = append(b, v...)
		}
	}
	return b
}

// decode reads what encode wrote. It trusts nothing: a response that it returns
// can be sent.
func decode(data []byte) (*Response, error) {
	r := &Response{}
	if err := r.decode(data); err != nil {
		return nil, err
	}
	return r, nil
}

// decode is decode into an empty response, which is of no use after an error.
func (r *Response) decode(data []byte) error {
	if len(data) < 4 {
		return errTruncated
	}
	if data[0] != version || data[1]&^flagOmitted != 0 {
		return fmt.Errorf("idemhttp: a stored response of version %d, flags %d: "+
			"it needs a newer program", data[0], data[1])
	}
	r.Omitted, r.Status = data[1]&flagOmitted != 0, int(binary.BigEndian.Uint16(data[2:]))
	if r.Status < 200 || r.Status > 999 {
		return fmt.Errorf("idemhttp: a stored response has the status %d", r.Status)
	}
	d := decoder{rest: data[4:]}
	r.lines = d.lines()
	r.Trailer = headerOf(d.lines())
	if r.Omitted {
		size, n := binary.Varint(d.rest)
		if n <= 0 || n != len(d.rest) || size < -1 {
			d.fail(errTruncated)
		}
		r.Size, d.rest = size, nil
	}
	if len(d.rest) > 0 {
		r.Body = d.rest
	}
	return d.err
}

// decoder reads from rest; after an error it reads nothing more.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err, d.rest = err, nil
	}
}

func (d *decoder) count(limit int) int {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 || n > uint64(limit) {
		d.fail(errTruncated)
		return 0
	}
	d.rest = d.rest[size:]
	return int(n)
}

func (d *decoder) text() string { return string(d.bytes()) }

// name is text for names, most of which need no memory.
func (d *decoder) name() string {
	b := d.bytes()
	switch string(b) {
	case "Content-Type":
		return "Content-Type"
	case "Location":
		return "Location"
	}
	return string(b)
}

func (d *decoder) bytes() []byte {
	n := d.count(len(d.rest))
	if n > len(d.rest) {
		d.fail(errTruncated)
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

// line is one line of a header, with the value as a header has it.
type line struct {
	name  string
	value [1]string
}

// lines reads a header, in the order of the names. It has been checked.
func (d *decoder) lines() []line {
	n := d.count(maxLines)
	if n == 0 {
		return nil
	}
	out, sorted := make([]line, 0, min(n, 16)), true
	for range n {
		l := line{name: d.name(), value: [1]string{d.text()}}
		if d.err == nil && (!isToken(l.name) || !isValue(l.value[0]) ||
			textproto.CanonicalMIMEHeaderKey(l.name) != l.name) {
			d.fail(fmt.Errorf("idemhttp: a stored response has a header that HTTP does not allow"))
		}
		if d.err != nil {
			return nil
		}
		sorted = sorted && (len(out) == 0 || out[len(out)-1].name <= l.name)
		out = append(out, l)
	}
	if !sorted { // it was not written by encode
		slices.SortStableFunc(out, func(a, b line) int { return strings.Compare(a.name, b.name) })
	}
	return out
}

// eachHeader goes over the lines of one name together.
func eachHeader(lines []line) iter.Seq2[string, []string] {
	return func(yield func(string, []string) bool) {
		for i := 0; i < len(lines); {
			l := &lines[i]
			values := l.value[:]
			for i++; i < len(lines) && lines[i].name == l.name; i++ {
				values = append(values, lines[i].value[0])
			}
			if !yield(l.name, values) {
				return
			}
		}
	}
}

// headerOf is a header of lines; nil when there are none.
func headerOf(lines []line) http.Header {
	if len(lines) == 0 {
		return nil
	}
	return maps.Collect(eachHeader(lines))
}

// stored is a response as the operation has it: out of the store, where it is read
// by whoever sends it only, or on its way there.
type stored struct {
	resp *Response
	data []byte   // instead of resp
	read Response // of data
}

// encode is the form in which it is stored.
func (s *stored) encode() ([]byte, error) { return encode(s.resp) }

// storedFrom takes what was stored for whoever sends it.
func storedFrom(data []byte) (*stored, error) { return &stored{data: data}, nil }

// response reads the response.
func (s *stored) response() (*Response, error) {
	if s.resp != nil {
		return s.resp, nil
	}
	return &s.read, s.read.decode(s.data)
}

// foreignResult is a result that somebody recorded by hand in another form.
func foreignResult(typ string, data []byte) (*stored, error) {
	return &stored{resp: foreignResponse(typ, data)}, nil
}

func foreignResponse(typ string, data []byte) *Response {
	if len(data) == 0 {
		return &Response{Status: http.StatusNoContent}
	}
	if typ == "" || !isValue(typ) {
		typ = "application/octet-stream"
	}
	return &Response{Status: http.StatusOK, Header: http.Header{"Content-Type": {typ}}, Body: data}
}
