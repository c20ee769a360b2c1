package saga

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"

	"onced/kv/claim"
)

// Types of stored results, besides the names given by users.
const (
	typeJSON        = "application/json"
	typeRefusal     = "application/vnd.onced.refusal+json"
	typeUnencodable = "application/vnd.onced.unencodable"
)

// encode is json.Marshal; a panic of a codec of the caller's is an error too.
func encode(v any) ([]byte, error) {
	return caught(func() ([]byte, error) { return json.Marshal(v) })
}

// encoded is the result to store for v. If it cannot be encoded, that is what is
// stored: the effect has happened all the same.
func (o *Operation[A, R]) encoded(v R) claim.Result {
	res, err := o.ResultOf(v)
	if err != nil {
		return claim.Result{Type: typeUnencodable, Data: []byte("JSON cannot hold the result")}
	}
	return res
}

func encodedRefusal(r *RefusedError) claim.Result {
	if r.Answer.Type != "" {
		return r.Answer
	}
	res, err := RefusalOf(*r)
	if err != nil { // the detail is not JSON
		res, _ = RefusalOf(RefusedError{Code: r.Code, Message: r.Message})
	}
	return res
}

// firstAnswer is answer for the call that learned of v itself.
func (c *call[A, R]) firstAnswer(r claim.Record, v R) (Result[R], error) {
	res, err := c.answer(r)
	if lost, ok := err.(*ResultError); ok { //nolint:errorlint // answer makes it
		lost.Value = v
	}
	return res, err
}

// answer is what everybody is told about a terminal claim.
func (c *call[A, R]) answer(r claim.Record) (Result[R], error) {
	if r.State == claim.Refused {
		return c.res, refusedFrom(r)
	}
	lost := &ResultError{Operation: c.name, Key: c.req.ID.Key}
	switch {
	case r.Omitted:
		lost.Reason = fmt.Sprintf("it has %d bytes, more than the claims' MaxResult", r.ResultSize)
		return c.res, lost
	case r.Result.Type == typeUnencodable:
		lost.Reason = string(r.Result.Data)
		return c.res, lost
	}
	v, err := caught(func() (R, error) { return c.decode(r.Result) })
	if err != nil {
		lost.Reason, lost.Err = "it cannot be read", err
		return c.res, lost
	}
	c.res.Value = v
	return c.res, nil
}

func (o *Operation[A, R]) decode(res claim.Result) (v R, err error) {
	switch {
	case res.Type != o.set.resultType && o.oldResult != nil:
		return o.oldResult(res.Type, res.Data)
	case res.Type != o.set.resultType && res.Type != typeJSON && res.Type != "":
		return v, fmt.Errorf("it was stored as %q, the operation reads %q; read it with OldResult",
			res.Type, o.set.resultType)
	case o.decodeResult != nil && res.Type == o.set.resultType:
		return o.decodeResult(res.Data)
	case len(res.Data) == 0:
		return v, fmt.Errorf("it is empty")
	}
	if err := json.Unmarshal(res.Data, &v); err != nil {
		var none R // not what was read before the error
		return none, err
	}
	return v, nil
}

// refusedFrom reads a refusal. One that a person recorded may be plain text.
func refusedFrom(r claim.Record) *RefusedError {
	out := &RefusedError{}
	if json.Unmarshal(r.Result.Data, out) != nil {
		out = &RefusedError{Message: string(r.Result.Data)}
	}
	if r.Result.Type != typeRefusal {
		out.Answer = r.Result
	}
	if out.Message == "" {
		out.Message = "the effect did not happen and will not"
	}
	return out
}

// resultProblem says why JSON would lose results of type R, or "".
func resultProblem[R any]() string {
	return (&shape{decode: true, seen: map[reflect.Type]bool{}}).problem(reflect.TypeFor[R]())
}

// argProblem says why the JSON of arguments of type A would not tell them apart.
func argProblem[A any]() string {
	return (&shape{seen: map[reflect.Type]bool{}}).problem(reflect.TypeFor[A]())
}

// shape looks for what JSON cannot hold, in a type. What only a value shows, such
// as a NaN or a cycle, it cannot see.
type shape struct {
	decode bool // it must also be read back
	seen   map[reflect.Type]bool
}

func (s *shape) problem(t reflect.Type) string {
	if s.seen[t] {
		return ""
	}
	s.seen[t] = true
	if implements[json.Marshaler](t) || implements[encoding.TextMarshaler](t) {
		if s.decode && !implements[json.Unmarshaler](t) && !implements[encoding.TextUnmarshaler](t) {
			return fmt.Sprintf("holds a %v, which writes itself as JSON and cannot read itself", t)
		}
		return ""
	}
	switch t.Kind() {
	case reflect.Func, reflect.Chan, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return fmt.Sprintf("holds a %v, which JSON cannot hold", t)
	case reflect.Interface:
		if s.decode && t.NumMethod() > 0 {
			return fmt.Sprintf("holds a %v, which cannot be read back from JSON", t)
		}
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return s.problem(t.Elem())
	case reflect.Map:
		if p := s.mapKey(t.Key()); p != "" {
			return p
		}
		return s.problem(t.Elem())
	case reflect.Struct:
		return s.fields(t)
	default: // numbers and text
	}
	return ""
}

func (s *shape) mapKey(t reflect.Type) string {
	switch k := t.Kind(); {
	case k == reflect.String, k >= reflect.Int && k <= reflect.Uintptr:
		return ""
	case implements[encoding.TextMarshaler](t):
		return s.problem(t)
	}
	return fmt.Sprintf("holds a map with keys of %v, which JSON cannot hold", t)
}

func (s *shape) fields(t reflect.Type) string {
	kept := 0
	for f := range t.Fields() {
		if !f.IsExported() && !f.Anonymous || f.Tag.Get("json") == "-" {
			continue
		}
		kept++
		if p := s.problem(f.Type); p != "" {
			return p
		}
	}
	if t.NumField() > 0 && kept == 0 {
		return fmt.Sprintf("holds a %v, none of whose fields is exported: JSON would lose it", t)
	}
	return ""
}

func implements[I any](t reflect.Type) bool {
	i := reflect.TypeFor[I]()
	return t.Implements(i) || reflect.PointerTo(t).Implements(i)
}
