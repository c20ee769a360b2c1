package config

import (
	"time"

	"onced/saga/httpstep"
)

// Route sends requests on to an upstream, and those with a key once.
type Route struct {
	// Name is the stable name of the operation: keys of one principal are told
	// apart by it, so a new name forgets the old keys. Empty takes it from the
	// path: /v1/charges/{id} is v1-charges-id.
	Name string `key:"name"`
	// Path is what requests have to match: literal segments, {name} for any one
	// segment, and /* at the end for all below. Literal segments win over {name},
	// and that over *.
	Path string `key:"path"`
	// StripPrefix is taken off the path before it is sent on.
	StripPrefix string `key:"strip_prefix"`
	// Methods are those that need a key according to Key, never GET, HEAD and
	// OPTIONS, which no key can guard. Others says what becomes of these three: they
	// pass through without a key, or are refused. Every other method is refused, and
	// so is one that is spelled in other letters than Methods has it.
	Methods []string `default:"POST,PUT,PATCH,DELETE" key:"methods"`
	Others  string   `default:"pass"                  key:"others"  oneof:"pass refuse"`
	// Upstream is the base URL; the request's path is put after its own.
	Upstream URL `key:"upstream"`
	// Headers are set on every request that is sent on, over what the client sent.
	Headers []Header `key:"headers"`

	// Key says whether a request of Methods needs a key: required, optional
	// (without one it passes through unguarded), or ignore.
	Key string `default:"required" key:"key" oneof:"required optional ignore"`
	// KeyHeader is the header of the key that the client sends, UpstreamKeyHeader
	// that of the derived key that the upstream gets on each try.
	KeyHeader         string `default:"Idempotency-Key" key:"key_header"`
	UpstreamKeyHeader string `default:"Idempotency-Key" key:"upstream_key_header"`
	// Principal is whose keys they are: token for the client's token, which is
	// then required; any other value is a fixed name and needs no token.
	Principal string `default:"token" key:"principal"`

	// Timeout bounds a guarded call of the upstream from its connection to the last
	// byte of its answer; of a request that passes through, the time until its
	// answer begins. Keep it below http.drain_timeout: a stop of the program cuts
	// what takes longer, and leaves its outcome unknown.
	Timeout time.Duration `default:"20s" key:"timeout" max:"10m" min:"100ms"`
	// MaxBody bounds the request, 0 means http.max_body. MaxResponse bounds what is
	// kept of an answer's body: the status of a longer one decides as always, the
	// first caller gets it whole, and replays get its status without the body.
	MaxBody     Bytes `default:"0"    key:"max_body"     max:"12MiB" min:"0"`
	MaxResponse Bytes `default:"4MiB" key:"max_response" max:"12MiB" min:"1KiB"`
	// Wait is how long a second request with the same key waits for the first.
	Wait time.Duration `default:"10s" key:"wait" max:"5m" min:"0s"`

	Outcomes Outcomes `key:"outcomes"`

	// Repeatable says that the upstream honours the derived key: a request whose
	// outcome is unknown is sent again with it within KeyValidFor of the first.
	Repeatable  bool          `default:"false" key:"repeatable"`
	KeyValidFor time.Duration `default:"24h"   key:"key_valid_for" max:"8760h" min:"1s"`
	// SettlesAfter is how long after a send the upstream is sure to show it to
	// Check, and to have come to the outcome of its key: a refusal of a request that
	// was sent again counts only when the try before is so long ago.
	SettlesAfter time.Duration `default:"1m" key:"settles_after" max:"168h" min:"1ms"`
	// Check looks up what became of a request; nil means that there is none.
	Check *Check `key:"check"`
}

// Header is a header that onced sets. Exactly one of its values is given, in
// the file itself, in a file of its own or in a variable.
type Header struct {
	Name string `key:"name"`
	// Prefix stands before the value, for example "Bearer ".
	Prefix string `key:"prefix"`
	Value  Secret `key:"value"`
}

// Outcomes say what a status of the upstream means. A status that none of them
// has means that the outcome is unknown: by default 3xx, 408 and 5xx.
type Outcomes struct {
	// Done: the effect happened. The answer is stored and replayed.
	Done httpstep.Statuses `default:"2xx" key:"done"`
	// Refused: it did not happen and will not. The answer is stored and replayed.
	Refused httpstep.Statuses `default:"400,402-405,410,411,413-415,422,431,451" key:"refused"`
	// Retry: it did not happen and may be asked for again. The key is free again.
	// 401 and 407 in it mean that the upstream does not accept our credentials: the
	// client gets 502, and an error is logged.
	Retry httpstep.Statuses `default:"401,407,409,425,429" key:"retry"`
	// Unknown takes statuses out of the three others.
	Unknown httpstep.Statuses `key:"unknown"`
}

// Check is a look-up at the upstream. It must not cause the effect.
type Check struct {
	Method string `default:"GET" key:"method" oneof:"GET HEAD POST"`
	// Path is put after the upstream's own; {key} and {downstream_key} stand for
	// the keys, in whole or part of a segment, and never make a new one.
	Path string `key:"path"`
	// Query and Headers may hold {key} and {downstream_key} in their values.
	Query   map[string]string `key:"query"`
	Headers map[string]string `key:"headers"`
	// Timeout bounds the look-up.
	Timeout time.Duration `default:"10s" key:"timeout" max:"1m" min:"100ms"`
	// Done, Refused and Absent recognise the answer, in this order; one that none
	// of them does tells nothing. Of several entries that a field with * names, one
	// is enough for Done, and Refused and Absent need every one, and one at least.
	Done    Match `key:"done"`
	Refused Match `key:"refused"`
	Absent  Match `key:"absent"`
	// ReplyStatus is the status with which the body of a look-up that found the
	// effect is stored and replayed.
	ReplyStatus int `default:"200" key:"reply_status" max:"499" min:"200"`
	// ReplyField is the path of the part of the look-up's body that is stored and
	// replayed, its bytes as they came; empty is all of it. A * in it stands for the
	// first entry by which Done, or Refused, has recognised the answer.
	ReplyField string `key:"reply_field"`
}

// AnyEntry is the segment of a field's path that stands for every entry of a list.
const AnyEntry = "*"

// What Match.Is can be.
const (
	IsEmpty   = "empty"   // a list without entries
	IsMissing = "missing" // not there, or null
)

// Match recognises an answer by its status and, when Field is set, by a value
// in its JSON body. It matches nothing when Status is empty.
type Match struct {
	Status httpstep.Statuses `key:"status"`
	// Field is the path of the value: data.0.status, or data.*.status for that of
	// every entry of the list data.
	Field string `key:"field"`
	// Equals are the texts one of which the value has to be; empty means that it
	// has to be there and not null.
	Equals []string `key:"equals"`
	// Is is for Absent and takes the place of Equals: Field is [IsEmpty], without
	// Field the whole answer is, or Field is [IsMissing].
	Is string `key:"is" oneof:"empty missing"`
}

// Set reports whether m matches anything at all.
func (m Match) Set() bool { return !m.Status.Empty() }
