package kv

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
)

// Table is a typed view of one table: rows of T under tuple keys. A value is
// stored as a version byte, the length of its JSON, the JSON, and then,
// for tables with a blob, the blob's bytes as they are; for tables with a codec as
// the version byte and what the codec makes. Decoding is strict:
// unknown fields, trailing data and newer versions are errors. A string field
// must be UTF-8, or JSON replaces what is not; any bytes fit a []byte field and
// the blob. The zero Table is not usable; a Table is immutable and safe for concurrent use.
type Table[T any] struct {
	id      TableID
	version byte
	blob    func(*T) *[]byte
	upgrade func(version byte, old []byte) ([]byte, error)
	codec   *Codec[T]
}

// Codec is a form of rows in place of JSON, for rows that are read and written with
// every request; package wire has the parts.
type Codec[T any] struct {
	// Append appends v's form to dst and returns the whole. It keeps nothing of
	// dst or v.
	Append func(dst []byte, v *T) []byte
	// Read reads what Append wrote into v, whose bytes may be those of body.
	// Everything else is an error; it never panics.
	Read func(body []byte, v *T) error
}

// TableOptions are the rare settings of [NewTable].
type TableOptions[T any] struct {
	// Blob returns the field whose bytes are kept beside the JSON, unchanged and
	// without the growth of base64; tag that field `json:"-"`. A nil and an
	// empty blob are the same.
	Blob func(*T) *[]byte
	// Upgrade turns the JSON of an older version into the current one's. It is
	// called on reading; the row keeps its version until it is written again.
	Upgrade func(version byte, old []byte) ([]byte, error)
	// Codec replaces JSON, and goes with neither of the others: rows of an older
	// version are then an error.
	Codec *Codec[T]
}

// NewTable describes the table id whose rows are written as version (1 to 255).
func NewTable[T any](id TableID, version byte, opts ...TableOptions[T]) Table[T] {
	t := Table[T]{id: id, version: version}
	for _, o := range opts {
		t.blob, t.upgrade, t.codec = o.Blob, o.Upgrade, o.Codec
	}
	return t
}

// ID returns the table's name.
func (t Table[T]) ID() TableID { return t.id }

// Get reads one row; ok is false when it is absent.
func (t Table[T]) Get(r Reader, key Key) (v T, ok bool, err error) {
	row, err := t.Load(r, key)
	if row == nil {
		return v, false, err
	}
	return *row, true, nil
}

// Load is [Table.Get] for large rows, which are not passed on by value; it returns nil
// when the row is absent.
func (t Table[T]) Load(r Reader, key Key) (*T, error) {
	raw, err := r.Get(t.id, key)
	if err != nil || raw == nil {
		return nil, err
	}
	v := new(T)
	if err := t.decode(key, raw, v); err != nil {
		return nil, err
	}
	return v, nil
}

// Put writes one row.
func (t Table[T]) Put(w Writer, key Key, v T) error {
	raw, err := t.Encode(v)
	if err != nil {
		return err
	}
	// A writer that can keep raw need not copy it.
	if o, ok := w.(interface {
		PutOwned(t TableID, key, value []byte) error
	}); ok {
		return o.PutOwned(t.id, key, raw)
	}
	return w.Put(t.id, key, raw)
}

// Delete removes one row; an absent one is no error.
func (t Table[T]) Delete(w Writer, key Key) error { return w.Delete(t.id, key) }

// Row is a decoded row of a scan.
type Row[T any] struct {
	Key   Key
	Value T
}

// Scan yields the decoded rows of r. An error ends the sequence.
func (t Table[T]) Scan(rd Reader, r Range) iter.Seq2[Row[T], error] {
	return t.rows(rd.Scan(t.id, r))
}

// Decode turns raw entries of this table, for example of [Pages], into rows.
func (t Table[T]) Decode(entries iter.Seq2[Entry, error]) iter.Seq2[Row[T], error] {
	return t.rows(entries)
}

func (t Table[T]) rows(entries iter.Seq2[Entry, error]) iter.Seq2[Row[T], error] {
	return func(yield func(Row[T], error) bool) {
		for e, err := range entries {
			row := Row[T]{Key: e.Key}
			if err == nil {
				err = t.decode(e.Key, e.Value, &row.Value)
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// usualRow is the room for a row with a codec, in bytes, before it has to grow.
const usualRow = 256

// Encode returns the bytes that Put would store for v.
func (t Table[T]) Encode(v T) ([]byte, error) {
	if t.codec != nil {
		return t.codec.Append(append(make([]byte, 0, usualRow), t.version), &v), nil
	}
	var blob []byte
	if t.blob != nil {
		blob = *t.blob(&v)
	}
	e := jsonEncoders.Get().(*jsonEncoder) //nolint:errcheck,forcetypeassert // there is nothing else in it
	defer e.release()
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("kv: encode row of %s: %w", t.id, err)
	}
	body := bytes.TrimSuffix(e.text.Bytes(), []byte{'\n'})
	out := make([]byte, 0, 1+binary.MaxVarintLen32+len(body)+len(blob))
	out = binary.AppendUvarint(append(out, t.version), uint64(len(body)))
	return append(append(out, body...), blob...), nil
}

// jsonEncoder encodes as json.Marshal does, into room that is used again.
type jsonEncoder struct {
	*json.Encoder

	text bytes.Buffer
}

func (e *jsonEncoder) release() {
	if e.text.Cap() <= maxJSONRoom {
		e.text.Reset()
		jsonEncoders.Put(e)
	}
}

// maxJSONRoom is how much room an encoder keeps, in bytes.
const maxJSONRoom = 64 << 10

var jsonEncoders = sync.Pool{New: func() any {
	e := &jsonEncoder{}
	e.Encoder = json.NewEncoder(&e.text)
	return e
}}

func (t Table[T]) decode(key, raw []byte, v *T) error {
	if err := t.parse(raw, v); err != nil {
		*v = *new(T) // not what was read before the error
		return fmt.Errorf("kv: row %x of %s: %w", key, t.id, err)
	}
	return nil
}

func (t Table[T]) parse(raw []byte, v *T) (err error) {
	if len(raw) < 2 {
		return fmt.Errorf("%w: %d bytes are no row", ErrCorrupt, len(raw))
	}
	version := raw[0]
	if version == 0 {
		return fmt.Errorf("%w: row version 0", ErrCorrupt)
	}
	if version > t.version {
		return fmt.Errorf("%w (row version %d, known up to %d)", ErrNewer, version, t.version)
	}
	if t.codec != nil {
		return t.readCodec(version, raw[1:], v)
	}
	n, used := binary.Uvarint(raw[1:])
	rest := raw[1+max(used, 0):]
	if used <= 0 || n > uint64(len(rest)) {
		return fmt.Errorf("%w: the length of the JSON does not fit", ErrCorrupt)
	}
	body, blob := rest[:n], rest[n:]
	if version < t.version {
		if t.upgrade == nil {
			return fmt.Errorf("%w: no way to read row version %d", ErrCorrupt, version)
		}
		if body, err = t.upgrade(version, body); err != nil {
			return err
		}
	}
	if err := strictJSON(body, v); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if t.blob != nil {
		*t.blob(v) = blob[:len(blob):len(blob)] //nolint:modernize // on purpose
	} else if len(blob) > 0 {
		return fmt.Errorf("%w: %d bytes follow the JSON", ErrCorrupt, len(blob))
	}
	return nil
}

func (t Table[T]) readCodec(version byte, body []byte, v *T) error {
	if version < t.version {
		return fmt.Errorf("%w: no way to read row version %d", ErrCorrupt, version)
	}
	if err := t.codec.Read(body, v); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return nil
}

// strictJSON decodes exactly one JSON value without unknown fields.
func strictJSON(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if len(bytes.TrimLeft(b[d.InputOffset():], " \t\r\n")) > 0 {
		return errors.New("data follows the JSON value")
	}
	return nil
}
