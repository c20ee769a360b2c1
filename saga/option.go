package saga

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode"

	"onced/kv/claim"
)

// Defaults of the options.
const (
	// DefaultTimeout is how long one run of a function, or of a look-up, may take.
	DefaultTimeout = 30 * time.Second
	// DefaultWait is how long a call waits for another one under the same key.
	DefaultWait = 10 * time.Second
	// DefaultSettlesAfter is how long after a send a callee is trusted to show
	// it, when [SettlesAfter] does not say.
	DefaultSettlesAfter = 5 * time.Minute
)

// Option is a setting of an operation. Options that take a function of the
// arguments must take the operation's own types; another type is a
// [ConfigError].
type Option struct{ apply func(*settings) }

// settings is what options set. Functions are kept as any: an Option has no type
// parameters, so that users need not spell them.
type settings struct {
	key, principal, fingerprint, intent, check, oldResult any

	encodeResult, decodeResult any // of Codec

	scope func(principal, name string) string // nil is the operation's own

	settlesAfter, keyValidFor, timeout, wait time.Duration

	resultType string

	tracer Tracer

	unsaved *Unsaved // nil is one of its own

	step stepSettings // of a step of a saga
}

func defaultSettings() settings {
	return settings{settlesAfter: DefaultSettlesAfter, timeout: DefaultTimeout, wait: DefaultWait,
		resultType: typeJSON}
}

// Doubt describes an effect that may have happened, for [Check].
type Doubt struct {
	// Operation and Key name the claim.
	Operation, Key string
	// DownstreamKey is the key that was sent to the callee.
	DownstreamKey string
	// Since is when the outcome became unknown.
	Since time.Time
	// Try counts the callers that held the key, the present one included.
	Try int
	// Reason says why it is unknown, for people.
	Reason string
}

// Key says what makes two calls the same: an order's id, not the time or a
// random number. It is required. It must not be derived from what differs
// between two tries of one intent. It has 1 to 255 bytes of text; another key is
// refused with claim.ErrInvalid before anything is done.
func Key[A any](key func(A) string) Option {
	return Option{func(s *settings) { s.key = key }}
}

// Principal separates tenants: the same key of two principals is two effects.
// Without it there is one, "". For [Once] it is the endpoint.
func Principal[A any](principal func(A) string) Option {
	return Option{func(s *settings) { s.principal = principal }}
}

// Scope says how the principal and the operation's name make the scope of its
// keys; without it that is claim.ScopeOf. Operations with other scopes share no
// keys. See claim.RouteScopeOf.
func Scope(scope func(principal, name string) string) Option {
	return Option{func(s *settings) { s.scope = scope }}
}

// Fingerprint says which bytes of the arguments must not change under one key.
// Without it they are the arguments' encoding/json: the order of struct fields
// and map keys and spacing do not count, the values do; only inside a
// json.RawMessage the order of fields counts. A field added to the type later
// changes it for keys in use, unless it is tagged omitzero.
func Fingerprint[A any](fingerprint func(A) []byte) Option {
	return Option{func(s *settings) { s.fingerprint = fingerprint }}
}

// Intent describes what is about to be done, for whoever has to find out what
// became of it. It is stored and shown to operators: at most claim.MaxIntent
// bytes, and no secret. Without it only the downstream key is stored.
func Intent[A any](intent func(A) []byte) Option {
	return Option{func(s *settings) { s.intent = intent }}
}

// Check gives a way to find out what became of an effect: look asks the callee,
// and never sends the effect. It answers
//
//   - (result, true, nil): it happened, with this result;
//   - (_, false, nil): the callee does not know of it. That is proof only
//     [SettlesAfter] after the last send; then the function runs;
//   - (_, _, [Refused](err)): the callee refused it for good;
//   - (_, _, [Begun](err)): of a step with [AwaitSignal], where found means finished: it
//     has only begun, and its signal is still to come;
//   - any other error: nothing is known. [RetryAfter] gives a hint.
//
// It runs within [Timeout], and its context ends with the caller's.
func Check[A, R any](look func(ctx context.Context, arg A, d Doubt) (R, bool, error)) Option {
	return Option{func(s *settings) { s.check = look }}
}

// SettlesAfter is how long after a send the callee is sure to show it to a
// look-up, so that nothing comes of it that is not shown by then. The default is
// [DefaultSettlesAfter]; the right value is what the callee promises, with a margin for
// clocks. The undo of a step in doubt waits for it too, see [UndoWhenAbsent].
func SettlesAfter(d time.Duration) Option {
	return Option{func(s *settings) { s.settlesAfter = d }}
}

// Repeatable says that the callee honours the downstream key: the same key sent
// again within keyValidFor has one effect and gets the first answer. An unknown
// effect is then settled by running the function again. The time is counted from
// the first send; claim.DefaultKeyValidFor is the least that real callees
// promise. With [Check] too, the look-up comes first.
//
// A refusal of what was sent again is the outcome of the key only when the try
// before was [SettlesAfter] ago: until then that may still be under way. Sooner the
// effect stays unknown, and is sent once more when that time is over. It must be a
// refusal of the key's owner: what an access rule in front of it answers, without
// having looked for the key, is to be left unmarked.
func Repeatable(keyValidFor time.Duration) Option {
	return Option{func(s *settings) {
		s.keyValidFor = keyValidFor
		if keyValidFor == 0 {
			s.keyValidFor = -1 // not the same as leaving it out
		}
	}}
}

// Remember keeps outcomes that could not be stored in u, for an operation that may
// be replaced by another one of the same name while its claims are open: after a
// reload, for example. Without it they are forgotten with the operation; their keys
// then stay taken until the next start, and are unknown from then on.
func Remember(u *Unsaved) Option { return Option{func(s *settings) { s.unsaved = u }} }

// Timeout bounds one run of the function, and of a look-up, through its context.
// The function must heed it. The default is [DefaultTimeout].
func Timeout(d time.Duration) Option {
	return Option{func(s *settings) { s.timeout = d }}
}

// Wait is how long a call waits for another one under the same key before it
// answers [InFlightError]; 0 means not at all. The default is [DefaultWait].
func Wait(d time.Duration) Option {
	return Option{func(s *settings) { s.wait = d }}
}

// ResultType names the form of the stored result, at most claim.MaxResultType
// bytes; the default is "application/json". Fields may be added to a result type
// under the same name; give a new name when a field changes its meaning, and read
// the old form with [OldResult].
func ResultType(name string) Option {
	return Option{func(s *settings) { s.resultType = name }}
}

// OldResult reads results stored under another name than [ResultType] says.
func OldResult[R any](read func(name string, data []byte) (R, error)) Option {
	return Option{func(s *settings) { s.oldResult = read }}
}

// problem reports the first setting that is out of bounds.
func (s *settings) problem() (field, problem string) {
	const positive = "must be positive, it is %v"
	switch {
	case s.step != stepSettings{}:
		return "StepOptions", "are for steps of a Definition only"
	case s.key == nil:
		return "Key", "is missing: say what makes two calls the same"
	case s.timeout <= 0:
		return "Timeout", fmt.Sprintf(positive, s.timeout)
	case s.wait < 0:
		return "Wait", fmt.Sprintf("must not be negative, it is %v", s.wait)
	case s.settlesAfter <= 0:
		return "SettlesAfter", fmt.Sprintf(positive, s.settlesAfter)
	case s.keyValidFor < 0:
		return "Repeatable", "must name for how long the callee remembers keys"
	case s.resultType == "" || s.resultType == typeRefusal || s.resultType == typeUnencodable:
		return "ResultType", fmt.Sprintf("must not be %q", s.resultType)
	case len(s.resultType) > claim.MaxResultType:
		return "ResultType", fmt.Sprintf("has %d bytes, the limit is %d",
			len(s.resultType), claim.MaxResultType)
	case strings.ContainsFunc(s.resultType, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "ResultType", "must be printable text"
	}
	return "", ""
}

// typed gives a setting the operation's type; ok is false when it has another.
func typed[F any](v any, into *F) (problem string, ok bool) {
	if v == nil {
		return "", true
	}
	f, ok := v.(F)
	if !ok {
		return fmt.Sprintf("is a %T, the operation needs a %T", v, *into), false
	}
	if reflect.ValueOf(v).IsNil() {
		return "is nil", false
	}
	*into = f
	return "", true
}
