package definition

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"onced/saga"
	"onced/saga/httpstep/redact"
)

// Limits of one evaluation.
const (
	maxWork = 100_000 // nodes that are looked at
	maxText = 1 << 20 // bytes of texts and lists that are made
)

// watched is how much is done between two looks at the time.
const watched = 512

var (
	errTime = errors.New("takes longer than there is time")
	errWork = errors.New("does too much; simplify it, or let the callee do it")
	errText = errors.New("makes too long a text")
)

// scope is what one rendering sees. It is for one goroutine.
type scope struct {
	ctx    context.Context // of the call; nil outside of one
	call   *saga.Call      // nil outside of a step
	input  json.RawMessage
	run    map[string]any // for labels, where there is no call
	reply  *replied
	signal any

	// def, target and deps are of the call: where its secrets and its callback come from.
	def    *callDef
	target *Target
	deps   *Deps

	shared  *runInput    // the input, when it was read
	decoded map[kept]any // what was read of it
	frames  []frame      // of the predicates around
	work    int
	text    int

	secrets  []string     // what must be taken out of a reply
	masked   *redact.Mask // takes out
	maskedOf int          // so many of them
}

// frame is the element that a predicate looks at.
type frame struct {
	item  any
	index int
}

// spend counts work.
func (s *scope) spend(n int) error {
	before := s.work
	if s.work += n; s.work > maxWork {
		return errWork
	}
	if s.ctx != nil && before/watched != s.work/watched && s.ctx.Err() != nil {
		return errTime
	}
	return nil
}

// grow counts bytes that are made.
func (s *scope) grow(n int) error {
	if s.text += n; s.text > maxText {
		return errText
	}
	return nil
}

// kept names what is kept of a step: its output, or what came with its signal.
type kept struct {
	step   string
	signal bool
}

// value decodes what is kept, once.
func (s *scope) value(k kept) (any, error) {
	if v, ok := s.decoded[k]; ok {
		return v, nil
	}
	v, err := decodeJSON(s.raw(k))
	if err != nil {
		return nil, err
	}
	if s.decoded == nil {
		s.decoded = map[kept]any{}
	}
	s.decoded[k] = v
	return v, nil
}

// raw is the JSON of what is kept. The output is what the step has come to, however it
// ended.
func (s *scope) raw(k kept) []byte {
	if k.signal {
		return s.call.Signal(k.step)
	}
	raw, ok := s.call.Settled(k.step)
	if !ok && k.step == s.call.Step {
		raw = s.call.Out
	}
	return raw
}

// written is the JSON of what is kept, if it is as it would be written, and was not read:
// then that is known, and it is not looked at again.
func (s *scope) written(k kept) []byte {
	if _, read := s.decoded[k]; read {
		return nil
	}
	if raw := s.raw(k); asWritten(raw) {
		return raw
	}
	return nil
}

func (s *scope) runField(name string) any {
	if s.call == nil {
		return s.run[name]
	}
	switch name {
	case "id":
		return s.call.Run
	case "key":
		return s.call.Key
	case "definition":
		return s.call.Definition
	case "version":
		return s.call.Version
	default:
		return json.Number(strconv.FormatUint(s.call.Round, 10))
	}
}

func (s *scope) secretValue(name string) (any, error) {
	v, err := s.secret(name)
	if err != nil {
		return nil, err
	}
	s.keep(v)
	return v, nil
}

// secret is the value of a secret now.
func (s *scope) secret(name string) (string, error) {
	if s.deps.Secret == nil {
		return "", &awayError{fmt.Errorf("cannot be read: secret %q is not configured", name)}
	}
	v, err := s.deps.Secret(s.ctx, SecretUse{Name: name, Definition: s.call.Definition, Step: s.call.Step,
		Origin: s.target.Origin, Host: s.def.url.host})
	if err != nil {
		return "", &awayError{fmt.Errorf("cannot be read: secret %q: %w", name, err)}
	}
	if v == "" {
		return "", &awayError{fmt.Errorf("cannot be read: secret %q is empty", name)}
	}
	return v, nil
}

// keep remembers a text that must not be found in what is stored.
func (s *scope) keep(v string) {
	if v = strings.TrimSpace(v); v != "" && !slices.Contains(s.secrets, v) {
		s.secrets = append(s.secrets, v)
	}
}

func (s *scope) callbackValue() (any, error) {
	if s.deps.CallbackURL == nil {
		return nil, &awayError{errors.New("cannot be made: this program has no callbacks")}
	}
	u, err := s.deps.CallbackURL(CallbackUse{Run: s.call.Run, Step: s.call.Step, Round: s.call.Round})
	if err != nil {
		return nil, &awayError{err}
	}
	s.keepURL(u)
	return u, nil
}

// minToken is the shortest last segment of a callback URL that is taken for its secret.
const minToken = 12
