package kv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Key is a tuple of parts in an encoding that keeps their order and is
// injective: two tuples are equal only when their parts are, and no id shadows
// another of which it is a prefix. It is built by appending:
//
//	kv.Key{}.String(scope).String(id).Uint(seq)
//
// and read back with [DecodeKey]. The zero value is the empty tuple, whose
// bytes are the prefix of every key. Appending never changes the key it starts
// from, so keys may be made from a common beginning.
type Key []byte

// Type bytes of the encoding. Their order is the order of parts of different
// types. They are part of the file format.
const (
	tagBytes  = 0x01
	tagString = 0x02
	tagUint   = 0x03
	tagInt    = 0x04
	tagTime   = 0x05

	// afterTags is above every type byte, and marks a zero byte inside a text.
	afterTags = 0xff
)

// Bytes appends a part of any bytes.
func (k Key) Bytes(b []byte) Key { return appendEscaped(k.grow(tagBytes, len(b)+1), b) }

// String appends a text part; any bytes are allowed.
func (k Key) String(s string) Key { return appendEscaped(k.grow(tagString, len(s)+1), s) }

// Uint appends an unsigned number.
func (k Key) Uint(n uint64) Key { return binary.BigEndian.AppendUint64(k.grow(tagUint, 8), n) }

// Int appends a signed number.
func (k Key) Int(n int64) Key {
	return binary.BigEndian.AppendUint64(k.grow(tagInt, 8), uint64(n)^(1<<63))
}

// Time appends an instant with the resolution of a nanosecond. The zero time
// and instants outside 1678 to 2262 are stored as the nearest bound.
func (k Key) Time(t time.Time) Key {
	return binary.BigEndian.AppendUint64(k.grow(tagTime, 8), uint64(UnixNano(t))^(1<<63))
}

// grow returns a copy of k and tag with room for n bytes more. A copy, because
// two keys that grow in one array from a common beginning would overwrite each
// other.
func (k Key) grow(tag byte, n int) Key {
	return append(append(make(Key, 0, len(k)+1+n), k...), tag)
}

// Range returns the range of k itself and all keys that extend it by further
// parts. It is narrower than [Prefix]: the bytes of a text are also a prefix of
// longer texts that go on with a zero byte.
func (k Key) Range() Range {
	return Range{From: k, To: append(k[:len(k):len(k)], afterTags)} //nolint:modernize // on purpose
}

var (
	minTime = time.Unix(0, -1<<63)
	maxTime = time.Unix(0, 1<<63-1)
)

// UnixNano is the form in which instants are stored: nanoseconds since 1970.
// Unlike the method of time.Time it never overflows: instants outside 1678 to
// 2262, such as "for ever" or the zero time, become the nearest bound.
func UnixNano(t time.Time) int64 {
	switch {
	case t.Before(minTime):
		return -1 << 63
	case t.After(maxTime):
		return 1<<63 - 1
	}
	return t.UnixNano()
}

// appendEscaped writes b so that a zero byte inside it (00 ff) sorts after the
// end of the part (00), which makes a shorter part sort before its extensions.
func appendEscaped[T string | []byte](k Key, b T) Key {
	start := len(k)
	k = append(k, b...)
	if bytes.IndexByte(k[start:], 0) >= 0 {
		k = k[:start]
		for i := range len(b) {
			k = append(k, b[i])
			if b[i] == 0 {
				k = append(k, afterTags)
			}
		}
	}
	return append(k, 0)
}

// KeyDecoder reads the parts of a key in order. The first error sticks and is
// returned by End.
type KeyDecoder struct {
	rest []byte
	err  error
}

var errKeyPart = errors.New("kv: the key does not have the expected parts")

// DecodeKey starts reading the parts of k.
func DecodeKey(k []byte) *KeyDecoder { return &KeyDecoder{rest: k} }

// Bytes reads a part written by Key.Bytes.
func (d *KeyDecoder) Bytes() []byte {
	text := d.escaped(tagBytes)
	if d.err != nil {
		return nil
	}
	return append(make([]byte, 0, len(text)), text...)
}

// String reads a part written by Key.String.
func (d *KeyDecoder) String() string { return string(d.escaped(tagString)) }

// Uint reads a part written by Key.Uint.
func (d *KeyDecoder) Uint() uint64 { return d.fixed(tagUint) }

// Int reads a part written by Key.Int.
func (d *KeyDecoder) Int() int64 {
	n := d.fixed(tagInt)
	if d.err != nil {
		return 0
	}
	return int64(n ^ 1<<63)
}

// Time reads a part written by Key.Time, in UTC.
func (d *KeyDecoder) Time() time.Time {
	n := int64(d.fixed(tagTime) ^ 1<<63)
	if d.err != nil {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// End returns the first error, or an error when parts are left over.
func (d *KeyDecoder) End() error {
	if d.err == nil && len(d.rest) > 0 {
		d.err = fmt.Errorf("%w: %d bytes are left over", errKeyPart, len(d.rest))
	}
	return d.err
}

func (d *KeyDecoder) tag(tag byte) bool {
	if d.err != nil {
		return false
	}
	if len(d.rest) == 0 || d.rest[0] != tag {
		d.err = fmt.Errorf("%w: want a part of type %#02x", errKeyPart, tag)
		return false
	}
	d.rest = d.rest[1:]
	return true
}

func (d *KeyDecoder) fixed(tag byte) uint64 {
	if !d.tag(tag) {
		return 0
	}
	if len(d.rest) < 8 {
		d.err = fmt.Errorf("%w: a number is cut short", errKeyPart)
		return 0
	}
	n := binary.BigEndian.Uint64(d.rest)
	d.rest = d.rest[8:]
	return n
}

// escaped reads a text, whose bytes may be those of the key.
func (d *KeyDecoder) escaped(tag byte) []byte {
	if !d.tag(tag) {
		return nil
	}
	var out []byte // what comes before the escaped zero bytes so far
	for {
		i := bytes.IndexByte(d.rest, 0)
		if i < 0 {
			d.err = fmt.Errorf("%w: a text has no end", errKeyPart)
			return nil
		}
		if i+1 == len(d.rest) || d.rest[i+1] != afterTags {
			text := d.rest[:i]
			d.rest = d.rest[i+1:]
			if out == nil {
				return text
			}
			return append(out, text...)
		}
		out = append(append(out, d.rest[:i]...), 0)
		d.rest = d.rest[i+2:]
	}
}
