package definition

import (
	"bytes"
	"sync"

	"onced/saga"
)

// runInput is the input of a run, as its calls use it: it is read and written at most once
// for all of them, and never changed. It is safe for concurrent use.
type runInput struct {
	raw []byte

	read  sync.Once
	value any
	err   error

	write sync.Once
	whole []byte
}

// decoded is its value.
func (in *runInput) decoded() (any, error) {
	in.read.Do(func() { in.value, in.err = decodeJSON(in.raw) })
	return in.value, in.err
}

// written is the value in JSON, as appendJSON writes it; nil when it is missing, cannot be
// read, or is too long.
func (in *runInput) written() []byte {
	in.write.Do(func() {
		if asWritten(in.raw) {
			in.whole = in.raw
			return
		}
		v, err := in.decoded()
		if err != nil || v == nil {
			return
		}
		if b := appendJSON(make([]byte, 0, len(in.raw)), v); len(b) <= maxRendered {
			in.whole = b
		}
	})
	return in.whole
}

// asWritten reports that raw is a value that is not null, in the bytes that appendJSON
// would write.
func asWritten(raw []byte) bool {
	written, err := checkJSON(raw)
	return written && err == nil && len(raw) <= maxRendered && !bytes.Equal(raw, null)
}

var null = []byte("null")

// theInput is the input of the run, which its calls share.
func (s *scope) theInput() *runInput {
	if s.shared == nil && s.call != nil {
		s.shared = sharedInput(s.call, s.input)
	}
	if s.shared == nil {
		s.shared = &runInput{raw: s.input}
	}
	return s.shared
}

func sharedInput(c *saga.Call, raw []byte) *runInput {
	in, _ := c.Cached(func() any { return &runInput{raw: raw} }).(*runInput)
	return in
}

func (s *scope) inputValue() (any, error) { return s.theInput().decoded() }
