package saga

// Codec says how a result becomes the bytes that are stored and comes back, in
// place of encoding/json: for results that are bytes already, which JSON would
// make a third larger. [ResultType] names the form, and is then required to be
// one of its own. decode gets what encode wrote, also of older versions of the
// program, and must not panic on anything else.
func Codec[R any](encode func(R) ([]byte, error), decode func([]byte) (R, error)) Option {
	return Option{func(s *settings) { s.encodeResult, s.decodeResult = encode, decode }}
}

// encode is the result's bytes. A panic of a codec is an error.
func (o *Operation[A, R]) encode(v R) ([]byte, error) {
	if o.encodeResult == nil {
		return encode(v)
	}
	return caught(func() ([]byte, error) { return o.encodeResult(v) })
}
