package saga

import (
	"context"
	"encoding/json"
	"fmt"

	"onced/kv/claim"
)

// Operation is an effect that happens once per key. It is made by [NewOperation]
// or [NewOnce] and is safe for concurrent use. Make one per operation and process
// and keep it: it remembers outcomes that could not be stored yet. Whoever has to
// make another one in its place gives both the same [Unsaved], by [Remember].
type Operation[A, R any] struct {
	claims *claim.Book
	name   string
	scope  func(principal, name string) string
	fn     func(context.Context, A) (R, error)
	set    settings

	key         func(A) string
	principal   func(A) string
	fingerprint func(A) []byte
	intent      func(A) []byte
	check       func(context.Context, A, Doubt) (R, bool, error)
	oldResult   func(string, []byte) (R, error)

	encodeResult func(R) ([]byte, error)
	decodeResult func([]byte) (R, error)

	unsaved *Unsaved
}

// Result is the answer of [Operation.Do].
type Result[R any] struct {
	// Value is the result of the effect. It is what JSON holds of it, for the
	// first caller too, so that every caller gets the same.
	Value R
	// Replayed is true when the answer, or the refusal, had been stored before.
	Replayed bool
	// LookedUp is true when a look-up found the answer, or the refusal, now.
	LookedUp bool
	// ID names the claim, for claim.Book.Get and claim.Book.Resolve.
	ID claim.ID
	// DownstreamKey is the key that the callee gets, the same on every try.
	DownstreamKey string
}

// Idempotent returns fn as a function that may be called any number of times,
// from any goroutine and after any crash, and has its effect once per key:
//
//	charge := saga.Idempotent(claims, "charge", pay, saga.Key(func(o Order) string { return o.ID }))
//	receipt, err := charge(ctx, order)
//
// operation is a stable name: it is stored, and renaming it forgets every key.
// The errors are those of [Operation.Do]. A wrong description is answered by
// every call with a [ConfigError], before anything is done; [NewOperation]
// reports it at once.
func Idempotent[A, R any](
	claims *claim.Book, operation string, fn func(context.Context, A) (R, error), opts ...Option,
) func(context.Context, A) (R, error) {
	o, err := NewOperation(claims, operation, fn, opts...)
	return o.orError(err)
}

// NewOperation describes an operation; see [Idempotent]. Its only error is a
// [ConfigError].
func NewOperation[A, R any](
	claims *claim.Book, operation string, fn func(context.Context, A) (R, error), opts ...Option,
) (*Operation[A, R], error) {
	o := &Operation[A, R]{claims: claims, name: operation, scope: claim.ScopeOf, fn: fn}
	return o.configured(opts)
}

// Once returns handle as a function that may get one event any number of times
// and has its effect once: the first delivery runs, redeliveries get the stored
// result. [Key] is the event's id, and is required; it shares nothing with the
// keys of operations. source is the sender; [Principal] is the endpoint.
//
// The window is the retention of claims: a redelivery after it runs again, so it
// must be longer than the sender redelivers. Unless [Fingerprint] is given, the
// content of a redelivery is not compared: senders change envelopes.
//
// A handler that fails without a mark leaves the event unknown, as everywhere
// here: redeliveries then get [UnknownError] unless [Check] or [Repeatable] can
// settle it. A handler that changes only rows of the store has no such doubt
// with [OnceTx]; prefer that.
func Once[E, R any](
	claims *claim.Book, source string, handle func(context.Context, E) (R, error), opts ...Option,
) func(context.Context, E) (R, error) {
	o, err := NewOnce(claims, source, handle, opts...)
	return o.orError(err)
}

// NewOnce describes a handler of events; see [Once]. Its only error is a
// [ConfigError].
func NewOnce[E, R any](
	claims *claim.Book, source string, handle func(context.Context, E) (R, error), opts ...Option,
) (*Operation[E, R], error) {
	o := &Operation[E, R]{claims: claims, name: source, fn: handle,
		scope:       func(endpoint, source string) string { return claim.EventScopeOf(source, endpoint) },
		fingerprint: func(E) []byte { return nil }}
	return o.configured(opts)
}

// orError answers every call with err if there is one.
func (o *Operation[A, R]) orError(err error) func(context.Context, A) (R, error) {
	return func(ctx context.Context, arg A) (R, error) {
		if err != nil {
			var none R
			return none, err
		}
		res, err := o.Do(ctx, arg)
		return res.Value, err
	}
}

// configured applies the options and checks everything that can be checked
// before the first call.
func (o *Operation[A, R]) configured(opts []Option) (*Operation[A, R], error) {
	o.set = defaultSettings()
	for _, opt := range opts {
		if opt.apply != nil {
			opt.apply(&o.set)
		}
	}
	if o.set.scope != nil {
		o.scope = o.set.scope
	}
	if o.unsaved = o.set.unsaved; o.unsaved == nil {
		o.unsaved = &Unsaved{}
	}
	if field, problem := o.problem(); problem != "" {
		return nil, &ConfigError{Operation: o.name, Field: field, Problem: problem}
	}
	return o, nil
}

func (o *Operation[A, R]) problem() (field, problem string) {
	switch {
	case o.claims == nil:
		return "claims", "is nil: use claim.New"
	case o.name == "":
		return "name", "is empty: give a stable name"
	case o.fn == nil:
		return "fn", "is nil"
	}
	if field, problem := o.set.problem(); problem != "" {
		return field, problem
	}
	if field, problem := o.takeFuncs(); problem != "" {
		return field, problem
	}
	if problem := resultProblem[R](); problem != "" && o.encodeResult == nil {
		return "result", problem
	}
	if o.fingerprint == nil {
		if problem := argProblem[A](); problem != "" {
			return "arguments", problem + "; or say with Fingerprint what must not change under one key"
		}
	}
	return "", ""
}

// takeFuncs takes the functions out of the settings, if they have our types.
func (o *Operation[A, R]) takeFuncs() (field, problem string) {
	for _, f := range []struct {
		field string
		take  func() (string, bool)
	}{
		{"Key", func() (string, bool) { return typed(o.set.key, &o.key) }},
		{"Principal", func() (string, bool) { return typed(o.set.principal, &o.principal) }},
		{"Fingerprint", func() (string, bool) { return typed(o.set.fingerprint, &o.fingerprint) }},
		{"Intent", func() (string, bool) { return typed(o.set.intent, &o.intent) }},
		{"Check", func() (string, bool) { return typed(o.set.check, &o.check) }},
		{"OldResult", func() (string, bool) { return typed(o.set.oldResult, &o.oldResult) }},
		{"Codec", func() (string, bool) { return typed(o.set.encodeResult, &o.encodeResult) }},
		{"Codec", func() (string, bool) { return typed(o.set.decodeResult, &o.decodeResult) }},
	} {
		if problem, ok := f.take(); !ok {
			return f.field, problem
		}
	}
	return "", ""
}

// ID returns the claim of a call with arg, for claim.Book.Get and
// claim.Book.Resolve.
func (o *Operation[A, R]) ID(arg A) claim.ID {
	principal := ""
	if o.principal != nil {
		principal = o.principal(arg)
	}
	return claim.ID{Scope: o.scope(principal, o.name), Key: o.key(arg)}
}

// DownstreamKey returns the key that a call with arg sends to the callee. Inside
// the function, [DownstreamKey] takes it from the context.
func (o *Operation[A, R]) DownstreamKey(arg A) string {
	id := o.ID(arg)
	return claim.DownstreamKey(id.Scope, id.Key)
}

// ResultOf returns the result to record when a person resolves a claim of this
// operation as done with the value v. See [RefusalOf] for a refusal.
func (o *Operation[A, R]) ResultOf(v R) (claim.Result, error) {
	data, err := o.encode(v)
	if err != nil {
		return claim.Result{}, fmt.Errorf("saga: operation %q: result: %w", o.name, err)
	}
	return claim.Result{Type: o.set.resultType, Data: data}, nil
}

// RefusalOf returns the result to record when a person resolves a claim as
// refused.
func RefusalOf(r RefusedError) (claim.Result, error) {
	data, err := encode(&r)
	if err != nil {
		return claim.Result{}, fmt.Errorf("saga: refusal: %w", err)
	}
	return claim.Result{Type: typeRefusal, Data: data}, nil
}

// Do runs the operation once per key and answers every call the same. The
// function runs on the caller's goroutine, with a context that has the caller's
// values and [Timeout], but not the caller's end: an effect that has begun is
// finished and stored although its caller has gone, so Do may return later than
// ctx ends. While it waits for another call, the end of ctx ends it.
//
// The errors are [RefusedError], [NotDoneError], [InFlightError],
// [MismatchError], [UnknownError] and [ResultError]; the package comment says
// what each means. Every other error comes from before the function was run: of
// the store, claim.ErrInvalid for a key, or the end of ctx. This call then had no
// effect. Result.ID and Result.DownstreamKey are set beside errors too.
//
// When Do returns nil or a RefusedError, that answer is durable. A panic of the
// function becomes an UnknownError with a [PanicError]; runtime.Goexit goes on
// after the outcome is recorded as unknown. Do must not be called inside a
// transaction: kv.ErrNested.
func (o *Operation[A, R]) Do(ctx context.Context, arg A) (Result[R], error) {
	c, err := o.newCall(arg)
	if err != nil {
		return Result[R]{}, err
	}
	if err := c.saveLeftOver(ctx); err != nil {
		return c.res, err
	}
	d, err := c.begin(ctx)
	if err != nil {
		return c.res, fmt.Errorf("saga: %s %q: claim the key: %w", o.name, c.req.ID.Key, err)
	}
	return c.act(ctx, d)
}

// call is one call of Do. res is its answer in the making.
type call[A, R any] struct {
	*Operation[A, R]
	arg A
	req claim.Request
	res Result[R]

	// settled is true when the callee, which honours keys, had come to the outcome
	// of this one before the last send: what it answers to that is the outcome.
	settled bool
	earlier string // traceparent of the call that began what this one settles
}

func (o *Operation[A, R]) newCall(arg A) (*call[A, R], error) {
	id := o.ID(arg)
	fingerprint, err := o.fingerprintOf(arg)
	if err != nil {
		return nil, &claim.InvalidError{Field: "arguments of " + o.name,
			Problem: "have no JSON: " + err.Error(), Remedy: "use the option Fingerprint"}
	}
	return &call[A, R]{Operation: o, arg: arg,
		req: claim.Request{ID: id, Fingerprint: fingerprint, Owner: claim.LocalOwner()},
		res: Result[R]{ID: id, DownstreamKey: claim.DownstreamKey(id.Scope, id.Key)}}, nil
}

// prepare completes the request of a call that may come to run the function.
func (c *call[A, R]) prepare(ctx context.Context) (err error) {
	if c.req.Token, err = c.claims.NewToken(); err != nil {
		return err
	}
	if c.intent != nil {
		c.req.Intent = c.intent(c.arg)
	} else {
		c.req.Intent = []byte(`{"downstream_key":"` + c.res.DownstreamKey + `"}`)
	}
	c.noteTrace(ctx)
	return nil
}

func (o *Operation[A, R]) fingerprintOf(arg A) ([32]byte, error) {
	if o.fingerprint != nil {
		return claim.FingerprintOf([]byte("bytes"), o.fingerprint(arg)), nil
	}
	data, err := json.Marshal(arg)
	if err != nil {
		return [32]byte{}, err
	}
	return claim.FingerprintOf([]byte("json"), data), nil
}

type downstreamKey struct{}

// DownstreamKey returns the key to send to the callee, inside the function of an
// operation: 35 characters, derived from principal, operation and key alone, so
// it is the same on every try and after every crash. Send it where the callee
// takes an idempotency key. Outside it is empty; see [Operation.DownstreamKey].
func DownstreamKey(ctx context.Context) string {
	key, _ := ctx.Value(downstreamKey{}).(string)
	return key
}
