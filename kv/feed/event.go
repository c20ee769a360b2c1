package feed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"onced/kv"
)

// Limits of an event, all in bytes. Errors that report one print it.
const (
	// MaxID is the longest id.
	MaxID = 512
	// MaxName is the longest source, type or subject.
	MaxName = 512
	// MaxData is the largest data.
	MaxData = 256 << 10
)

// Event is a CloudEvents 1.0 event in JSON, with its number in the log.
type Event struct {
	// ID is derived from the fact and required; see [DerivedID].
	ID string
	// Source is a URI reference; empty takes the feed's.
	Source string
	// Type is dotted, for example "deposit.confirmed"; required.
	Type string
	// Subject names what the event is about; it may be empty.
	Subject string
	// Time is when the fact happened, from 1970 to 48 hours after the transaction's
	// instant; zero takes that.
	Time time.Time
	// Data is one JSON value, or nil.
	Data json.RawMessage
	// Seq is the number in the log, set by the feed.
	Seq uint64

	frozen []byte
}

// envelope is the JSON form. The order of its fields is the order in the text.
type envelope struct {
	SpecVersion string          `json:"specversion"`
	ID          string          `json:"id"`
	Source      string          `json:"source"`
	Type        string          `json:"type"`
	Subject     string          `json:"subject,omitempty"`
	Time        time.Time       `json:"time"`
	Data        json.RawMessage `json:"data,omitempty"`
	Seq         uint64          `json:"seq"`
}

// MarshalJSON returns, for an event read from a feed, the bytes made when it was
// appended; change no field of such an event. For any other it encodes the fields.
// Note that [json.Marshal] puts <, > and & of these bytes in other words, which mean
// the same: where the bytes count, as under a signature, take [Event.JSON], or an
// encoder with SetEscapeHTML(false).
func (e Event) MarshalJSON() ([]byte, error) {
	if e.frozen != nil {
		return bytes.Clone(e.frozen), nil
	}
	if len(e.Data) > 0 {
		var data bytes.Buffer
		if err := json.Compact(&data, e.Data); err != nil {
			return nil, err
		}
		e.Data = data.Bytes()
	}
	return e.encode(make([]byte, 0, e.size()))
}

// size is about what encode appends.
func (e *Event) size() int {
	return 128 + len(e.ID) + len(e.Source) + len(e.Type) + len(e.Subject) + len(e.Data)
}

// encode appends the JSON form, which is that of an envelope. The data stays as it was
// given, and is one value without spaces already.
func (e *Event) encode(b []byte) (_ []byte, err error) {
	b = appendText(append(b, `{"specversion":"1.0","id":`...), e.ID)
	b = appendText(append(b, `,"source":`...), e.Source)
	b = appendText(append(b, `,"type":`...), e.Type)
	if e.Subject != "" {
		b = appendText(append(b, `,"subject":`...), e.Subject)
	}
	if b, err = e.Time.UTC().AppendText(append(b, `,"time":"`...)); err != nil {
		return nil, err
	}
	b = append(b, '"')
	if len(e.Data) > 0 {
		b = append(append(b, `,"data":`...), e.Data...)
	}
	b = strconv.AppendUint(append(b, `,"seq":`...), e.Seq, 10)
	return append(b, '}'), nil
}

// appendText appends a JSON string. Nearly all are such that nothing is to be escaped.
func appendText(b []byte, s string) []byte {
	if printable(s) && strings.IndexByte(s, '"') < 0 && strings.IndexByte(s, '\\') < 0 {
		return append(append(append(b, '"'), s...), '"')
	}
	var other bytes.Buffer
	enc := json.NewEncoder(&other)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) //nolint:errchkjson // a string has a form, and a buffer has room
	return append(b, bytes.TrimSuffix(other.Bytes(), []byte("\n"))...)
}

// printable reports that s is printable ASCII.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// UnmarshalJSON reads an event. Unknown attributes are ignored, as CloudEvents
// asks of consumers. The bytes are kept and are what MarshalJSON returns.
func (e *Event) UnmarshalJSON(b []byte) error {
	var w envelope
	if err := json.Unmarshal(b, &w); err != nil {
		return fmt.Errorf("feed: event: %w", err)
	}
	if w.SpecVersion != "1.0" {
		return fmt.Errorf("feed: event: specversion is %.20q; only \"1.0\" can be read", w.SpecVersion)
	}
	if w.ID == "" || w.Type == "" || w.Source == "" {
		return errors.New("feed: event: id, source and type must be present and not empty")
	}
	*e = Event{ID: w.ID, Source: w.Source, Type: w.Type, Subject: w.Subject, Time: w.Time.UTC(),
		Data: w.Data, Seq: w.Seq, frozen: bytes.Clone(b)}
	return nil
}

// JSON returns the bytes of an event read from a feed: what every reader gets
// and what a push signs. They must not be changed.
func (e Event) JSON() []byte { return e.frozen }

// DerivedID joins the parts of a fact to an id: for example
// DerivedID("dep", chain, tx, "0", "1", "confirmed"). It is injective: inside a
// part, the separator, the percent sign, spaces and bytes outside printable
// ASCII are percent-encoded.
func DerivedID(parts ...string) string {
	size := len(parts)
	for _, p := range parts {
		size += len(p)
	}
	var b strings.Builder
	b.Grow(size)
	for i, p := range parts {
		if i > 0 {
			b.WriteByte(':')
		}
		for _, c := range []byte(p) {
			if c <= ' ' || c >= 0x7f || c == ':' || c == '%' {
				fmt.Fprintf(&b, "%%%02X", c)
				continue
			}
			b.WriteByte(c)
		}
	}
	return b.String()
}

// check refuses what would make the log unreadable or ambiguous for consumers, but for
// what checkSource and checkedData do.
func (e Event) check() error {
	for _, f := range []struct {
		field, value string
		max          int
		required     bool
	}{
		{"id", e.ID, MaxID, true},
		{"source", e.Source, MaxName, true},
		{"type", e.Type, MaxName, true},
		{"subject", e.Subject, MaxName, false},
	} {
		if err := checkName(f.field, f.value, f.max); err != nil {
			return err
		}
		if f.required && f.value == "" {
			return fmt.Errorf("feed: event %s is empty; it is required", f.field)
		}
	}
	if y := e.Time.UTC().Year(); y < 1970 || y > 9999 {
		return fmt.Errorf("feed: event time has the year %d; it must be from 1970 to 9999", y)
	}
	return nil
}

func checkSource(source string) error {
	if _, err := url.Parse(source); err != nil {
		return errors.New("feed: event source is not a URI reference; " +
			"use for example \"/shop\" or \"https://…\"")
	}
	return nil
}

// maxAhead is how much later than its entry an event may be: a block may be hours
// ahead of us, never days.
const maxAhead = 48 * time.Hour

func (e Event) checkAhead(appended time.Time) error {
	if !e.Time.After(appended.Add(maxAhead)) {
		return nil
	}
	return fmt.Errorf("feed: event time is %s and more than %.0f hours after %s, when it was appended; "+
		"give the time at which the fact happened", e.Time.UTC().Format(time.RFC3339), maxAhead.Hours(),
		appended.UTC().Format(time.RFC3339))
}

func checkName(field, v string, limit int) error {
	if len(v) > limit {
		return &kv.LimitError{What: "event " + field, Got: int64(len(v)), Limit: int64(limit), Unit: "bytes",
			Remedy: "shorten it; an id may hold a digest of what it stands for"}
	}
	if !printable(v) && (!utf8.ValidString(v) || strings.ContainsFunc(v, unicode.IsControl)) {
		return fmt.Errorf("feed: event %s has control characters or is not UTF-8; encode such bytes", field)
	}
	return nil
}

// checkedData returns the data in the form in which it is read back.
func checkedData(data []byte) ([]byte, error) {
	switch {
	case data == nil:
		return nil, nil
	case len(data) > MaxData:
		return nil, &kv.LimitError{What: "event data", Got: int64(len(data)), Limit: MaxData, Unit: "bytes",
			Remedy: "report less, and let the consumer fetch the rest"}
	case !utf8.Valid(data):
		return nil, errors.New("feed: event data is not UTF-8; encode binary data as base64 in a JSON string")
	}
	var b bytes.Buffer
	b.Grow(len(data))
	if err := json.Compact(&b, data); err != nil {
		return nil, errors.New("feed: event data is not one JSON value; pass the output of json.Marshal")
	}
	return b.Bytes(), nil
}
