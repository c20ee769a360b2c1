package definition

import (
	"context"

	"onced/saga"
)

// Origin says where a document comes from, and so what it may call.
type Origin string

// The origins. They are part of the file format.
const (
	// FromFile: the operator's file. Its hosts are trusted.
	FromFile Origin = "file"
	// FromAPI: posted. Its hosts must be public or on the allow-list.
	FromAPI Origin = "api"
)

// Target says which document and version is compiled, and from where.
type Target struct {
	// Version is the name of the version.
	Version string
	// Origin decides what the calls may reach.
	Origin Origin
}

// SecretUse says what a secret is wanted for.
type SecretUse struct {
	// Name is the secret's name.
	Name string
	// Definition, Step and Origin say who asks.
	Definition, Step string
	Origin           Origin
	// Host is where it will be sent, with the port where the URL has one.
	Host string
}

// CallbackUse says what a callback URL is wanted for.
type CallbackUse struct {
	// Run, Step and Round are what the token is derived from. The URL must be the same
	// on every try.
	Run, Step string
	Round     uint64
}

// Deps are what the calls of a compiled document need. Its functions are called for
// every call, concurrently.
type Deps struct {
	// Secret returns the value of a secret now. An error means that the call is not
	// made; its text is shown to operators and must hold no value. nil means that
	// there are no secrets.
	Secret func(ctx context.Context, use SecretUse) (string, error)
	// CallbackURL makes the callback URL of a step that awaits a signal; nil means
	// that there is none.
	CallbackURL func(use CallbackUse) (string, error)
}

// Compile makes the definition that an engine runs.
func (d *Document) Compile(t Target, deps Deps) (*saga.Definition, error) { return nil, errSoon }
