package saga

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"onced/kv"
	"onced/kv/claim"
	"onced/saga/machine"
)

// Call describes the call that a function of a step makes. The typed functions of
// [Definition.Step] get it by [CallOf]; in their place Step takes functions that get
// it directly, for steps whose types are not known to the program:
//
//	action func(ctx context.Context, c *saga.Call) ([]byte, error)
//	undo   func(ctx context.Context, c *saga.Call) error
//
// with [CheckCall] in the place of [Check]. The bytes are JSON and must not be changed.
type Call struct {
	// Run, Definition, Version, Key and Round name the run; Step is the step.
	Run, Definition, Version, Key string
	Round                         uint64
	Step                          string
	// Principal is whose run it is; empty for those of the program itself.
	Principal string
	// Kind is action, undo or check; Try counts its sends from 1.
	Kind machine.Kind
	Try  int
	// DownstreamKey is the key to send, ActionKey the key of the step's action: what
	// an undo or a look-up is about.
	DownstreamKey, ActionKey string
	// LastSend is when the action was sent last, in a look-up.
	LastSend time.Time
	// Input is the run's, Out what the step's own action gave, in an undo.
	Input, Out []byte

	reason string
	state  *machine.State
	cache  *runCache // nil: the call is alone
}

// runCache keeps what the functions of a run make of its input. The calls of a run that
// one process makes share it; it is gone with the process.
type runCache struct {
	mu   sync.Mutex
	made any
	done bool
}

// Cached returns what build returns, which returns at most once while this process works
// on the run: what a definition makes of the input for each call is made for the first
// one only. So build must depend on the run's input alone, and a run has one. What it
// made is only read afterwards: a call that overstays its time may still read it while
// the next one does.
func (c *Call) Cached(build func() any) any {
	if c.cache == nil {
		return build()
	}
	c.cache.mu.Lock()
	defer c.cache.mu.Unlock()
	if !c.cache.done {
		c.cache.made = build() // may panic: then nothing is made, and the next call makes it
		c.cache.done = true
	}
	return c.cache.made
}

// Output returns what the step gave, or nil; ok is false when it is not done.
func (c *Call) Output(step string) (output []byte, ok bool) {
	i := c.state.Find(step)
	if i < 0 {
		return nil, false
	}
	st := &c.state.Steps[i]
	return st.Output, st.Output != nil || st.Status == machine.Done
}

// Signal returns what came with the signal of the step, or nil.
func (c *Call) Signal(step string) []byte {
	if i := c.state.Find(step); i >= 0 {
		return c.state.Steps[i].SignalData
	}
	return nil
}

// callKey is the key of a call. Nothing that changes within a round is part of it: it is
// made of what keyOfKind and keyOfStep return, the round, and the number of an undo.
func callKey(kind, step kv.Key, c *Call, undoNo int) string {
	scope := append(append(make(kv.Key, 0, 256), kind...), step...)
	scope = append(append(scope, kv.Key{}.Uint(c.Round)...), kv.Key{}.Uint(uint64(undoNo))...)
	return claim.DownstreamKey(string(scope), c.Key)
}

// keyOfKind is the part of a key that says what the call does, and for whom.
func keyOfKind(k machine.Kind, principal string) kv.Key {
	kind := "saga action"
	if k == machine.Undo {
		kind = "saga undo"
	}
	if principal != "" {
		kind = string(kv.Key{}.String(kind + " of").String(principal))
	}
	return kv.Key{}.String(kind)
}

// keyOfStep is the part of a key that says which step it is for.
func keyOfStep(definition, step string) kv.Key { return kv.Key{}.String(definition).String(step) }

type callContext struct{}

// CallOf returns the call that a function of a step makes, or nil outside of one.
func CallOf(ctx context.Context) *Call {
	c, _ := ctx.Value(callContext{}).(*Call)
	return c
}

// Output returns what an earlier step of the same run gave, inside a function of a
// step. It is an error when the step is not there, is not done, or gave another type.
func Output[T any](ctx context.Context, step string) (v T, err error) {
	c := CallOf(ctx)
	if c == nil {
		return v, errors.New("saga: Output is called outside of a step")
	}
	raw, ok := c.Output(step)
	if !ok {
		return v, fmt.Errorf("saga: step %q of %s has no output", step, c.Definition)
	}
	return v, decodeInto(raw, &v)
}

// SignalData returns what came with the signal of a step of the same run.
func SignalData[T any](ctx context.Context, step string) (v T, err error) {
	c := CallOf(ctx)
	if c == nil {
		return v, errors.New("saga: SignalData is called outside of a step")
	}
	return v, decodeInto(c.Signal(step), &v)
}

// decodeInto reads JSON; nothing at all is the zero value.
func decodeInto(raw []byte, into any) error {
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("saga: stored JSON does not fit %T: %w", into, err)
	}
	return nil
}

type (
	actFunc   func(context.Context, *Call) ([]byte, error)
	undoFunc  func(context.Context, *Call) error
	checkFunc func(context.Context, *Call) ([]byte, bool, error)
)

var (
	contextType = reflect.TypeFor[context.Context]()
	errorType   = reflect.TypeFor[error]()
	boolType    = reflect.TypeFor[bool]()
	doubtType   = reflect.TypeFor[Doubt]()
)

// take makes the untyped functions of what the user gave.
func (s *stepDef) take(action, undo, check any) error {
	var in, out reflect.Type
	switch f := action.(type) {
	case nil:
	case func(context.Context, *Call) ([]byte, error):
		s.act = f
	default:
		v, ok := shaped(action, 2, contextType, nil)
		if !ok || v.Type().Out(1) != errorType {
			return fmt.Errorf("has the action %T; it is a func(context.Context, I) (O, error)", action)
		}
		in, out = v.Type().In(1), v.Type().Out(0)
		s.in = in
		s.act = typedAction(v)
	}
	switch f := undo.(type) {
	case nil:
	case func(context.Context, *Call) error:
		s.undo = f
	default:
		v, ok := shaped(undo, 1, contextType, in, out)
		if !ok || v.Type().Out(0) != errorType {
			return fmt.Errorf("has the undo %T; with its action it is a func(context.Context, %s, %s) error",
				undo, typeName(in, "I"), typeName(out, "O"))
		}
		s.in = v.Type().In(1)
		in = s.in
		s.undo = typedUndo(v)
	}
	return s.takeCheck(check, in, out)
}

func (s *stepDef) takeCheck(check any, in, out reflect.Type) error {
	switch f := check.(type) {
	case nil:
	case func(context.Context, *Call) ([]byte, bool, error):
		s.check = f
	default:
		v, ok := shaped(check, 3, contextType, in, doubtType)
		if !ok || v.Type().Out(1) != boolType || v.Type().Out(2) != errorType || out != nil &&
			v.Type().Out(0) != out {
			return fmt.Errorf("has the Check %T; with its action it is a "+
				"func(context.Context, %s, saga.Doubt) (%s, bool, error)", check, typeName(in, "I"),
				typeName(out, "O"))
		}
		s.in = v.Type().In(1)
		s.check = typedCheck(v)
	}
	return nil
}

// shaped checks that f is a function with that many results and those parameters;
// nil is any type.
func shaped(f any, results int, params ...reflect.Type) (reflect.Value, bool) {
	v := reflect.ValueOf(f)
	if v.Kind() != reflect.Func || v.IsNil() {
		return v, false
	}
	t := v.Type()
	if t.NumIn() != len(params) || t.NumOut() != results || t.IsVariadic() {
		return v, false
	}
	for i, p := range params {
		if p != nil && t.In(i) != p {
			return v, false
		}
	}
	return v, true
}

func typeName(t reflect.Type, unknown string) string {
	if t == nil {
		return unknown
	}
	return t.String()
}

// decoded makes a fresh value of t from JSON.
func decoded(t reflect.Type, raw []byte) (reflect.Value, error) {
	p := reflect.New(t)
	err := decodeInto(raw, p.Interface())
	return p.Elem(), err
}

// asError is the error in a result.
func asError(v reflect.Value) error {
	err, _ := reflect.TypeAssert[error](v)
	return err
}

// unreadable is the error of a function that could not be called, for what it is to
// get does not fit it.
type unreadable struct {
	what string
	err  error
}

// Error says what does not fit, and what to do.
func (u *unreadable) Error() string {
	return u.what + " does not fit the step: " + u.err.Error() + "; correct the program, then retry"
}

func typedAction(f reflect.Value) actFunc {
	return func(ctx context.Context, c *Call) ([]byte, error) {
		in, err := decoded(f.Type().In(1), c.Input)
		if err != nil {
			return nil, &unreadable{"the input", err}
		}
		out := f.Call([]reflect.Value{reflect.ValueOf(ctx), in})
		if err := asError(out[1]); err != nil {
			return nil, err
		}
		return encodeOutput(out[0])
	}
}

func typedUndo(f reflect.Value) undoFunc {
	return func(ctx context.Context, c *Call) error {
		in, err := decoded(f.Type().In(1), c.Input)
		if err != nil {
			return &unreadable{"the input", err}
		}
		out, err := decoded(f.Type().In(2), c.Out)
		if err != nil {
			return &unreadable{"the output", err}
		}
		return asError(f.Call([]reflect.Value{reflect.ValueOf(ctx), in, out})[0])
	}
}

func typedCheck(f reflect.Value) checkFunc {
	return func(ctx context.Context, c *Call) ([]byte, bool, error) {
		in, err := decoded(f.Type().In(1), c.Input)
		if err != nil {
			return nil, false, &unreadable{"the input", err}
		}
		doubt := Doubt{Operation: c.Definition + "/" + c.Step, Key: c.Key, DownstreamKey: c.ActionKey,
			Since: c.LastSend, Try: c.Try, Reason: c.reason}
		out := f.Call([]reflect.Value{reflect.ValueOf(ctx), in, reflect.ValueOf(doubt)})
		err = asError(out[2])
		if m := markOf(err); m != nil && m.begun && !out[0].IsZero() {
			raw, _ := encodeOutput(out[0]) // it has begun also when its output is lost
			return raw, false, err
		}
		if err != nil || !out[1].Bool() {
			return nil, false, err
		}
		raw, err := encodeOutput(out[0])
		return raw, true, err
	}
}

// unencodable is the error of an output that cannot be stored although the effect
// has happened.
type unencodable struct{ err error }

// Error says what became of the output.
func (u *unencodable) Error() string { return "it happened; its output was not kept: " + u.err.Error() }

func encodeOutput(v reflect.Value) ([]byte, error) {
	raw, err := json.Marshal(v.Interface())
	if err != nil {
		return nil, &unencodable{err}
	}
	if bytes.Equal(raw, []byte("null")) {
		return nil, nil // the zero value comes back from nothing
	}
	return raw, nil
}
