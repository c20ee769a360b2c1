package api

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"onced/saga"
)

// Sagas is what the paths of definitions, runs and callbacks work with.
type Sagas struct {
	// Engine runs the sagas; required.
	Engine *saga.Engine
	// Definitions keeps the documents; nil means that there are none, and that none
	// can be posted.
	Definitions Definitions
	// Rules says what a document wants of a start and how it reads a callback; nil
	// means as for a definition without a document.
	Rules DefinitionRules
	// Callbacks makes and opens the tokens of callback URLs; nil makes one whose
	// tokens end with the Server.
	Callbacks *Callbacks
	// Going ends when no run goes on any more, and with it the wait of whoever waits for
	// one; nil is never.
	Going context.Context
}

// Definitions keeps the documents that sagas are defined by. It is safe for
// concurrent use.
type Definitions interface {
	// Put checks a document and keeps it, unless that is a dry run. The same content
	// again is the same version, and isNew is false. What is wrong with the document
	// is a [DefinitionError]; a name that cannot be taken is [ErrDefinitionTaken]. When
	// Put returns, runs of it can be started.
	Put(ctx context.Context, d NewDefinition) (def Definition, isNew bool, err error)
	// Get returns a version, "" is the latest; [ErrNoDefinition] when there is none.
	Get(ctx context.Context, name, version string) (Definition, error)
	// List returns the latest of each name, in the order of the names, from the first
	// name behind after; fewer than limit are the last ones.
	List(ctx context.Context, after string, limit int) ([]Definition, error)
	// Versions returns all versions of a name, the latest first; [ErrNoDefinition].
	Versions(ctx context.Context, name string) ([]Definition, error)
}

// DefinitionRules is what a document says about the beginning of a run and about
// callbacks. It is safe for concurrent use.
type DefinitionRules interface {
	// Prepare checks the input of a start against the document and adds the labels
	// that it gives, as far as the engine does not do that by itself for the definition.
	// What is wrong is a saga.InputError, of either. A definition that has no document
	// passes as it is.
	Prepare(ctx context.Context, req *saga.StartRequest) error
	// ReadCallback says what the body of a callback means for a step. known is false
	// when no document says so: then the body is read as that of a signal. A body
	// that cannot be read is a saga.InputError. [ErrDefinitionAway] means that there is
	// a document, which cannot be used now.
	ReadCallback(ctx context.Context, run *saga.RunView, step string, body []byte) (
		r Reading, known bool, err error)
	// CheckResult checks what a person gives as the result of a step, in place of the
	// callee: what the steps behind read of it must be there. What is missing is a
	// saga.InputError about "data".
	CheckResult(ctx context.Context, run *saga.RunView, step string, data []byte) error
}

// Reading is the meaning of a callback.
type Reading struct {
	// Outcome is "done", "refused", or "" when the callback says neither, as of a
	// payment that is still under way.
	Outcome string
	// Data is what is kept of it: JSON or nil.
	Data json.RawMessage
	// Reason says why it was refused, for people; it may be empty.
	Reason string
	// At is when it happened, if the callback says so.
	At time.Time
}

// NewDefinition is a document to be kept.
type NewDefinition struct {
	// Source is the document as it came, YAML or JSON.
	Source []byte
	// Actor is the name of the token, for the audit.
	Actor string
	// DryRun checks only.
	DryRun bool
}

// Definition is one version of a document.
type Definition struct {
	// Name and Version name it; Origin is "file" or "api".
	Name, Version, Origin string
	// Title is for people; it may be empty.
	Title string
	// CreatedAt is when it was first kept; zero in a dry run.
	CreatedAt time.Time
	// Latest says that new runs use this version.
	Latest bool
	// Input lists the declared fields of the input and their types; nil is not
	// declared.
	Input map[string]string
	// Steps are in their order.
	Steps []DefinitionStep
	// Source is the document as it came.
	Source string
	// Notes are what is no mistake, and seldom meant; only Put tells them.
	Notes []DefinitionFault
}

// DefinitionStep is a step in short.
type DefinitionStep struct {
	Name          string // unique within the definition
	Method        string // of its call; empty when it only waits
	URL           string // of its call, expressions as they are written
	Awaits        bool   // it is finished by a signal
	Undo          bool   // it can be undone
	Check         bool   // a look-up can tell what became of it
	Pivot         bool   // the point of no return
	Irreversible  bool   // it cannot be undone, and that matters
	NothingToUndo bool   // it cannot be undone, and need not be
}

// DefinitionError lists all that is wrong with a document.
type DefinitionError struct {
	Faults []DefinitionFault // at least one
}

// DefinitionFault is one thing that is wrong with a document, or to be noted.
type DefinitionFault struct {
	Line, Column int    // from 1; 0 is not known
	Field        string // the path of the field, for example steps[0].undo; it may be empty
	Message      string // what is wrong and the remedy
}

// Error is the first fault.
func (e *DefinitionError) Error() string {
	if len(e.Faults) == 0 {
		return "api: the definition is not valid"
	}
	return "api: " + e.Faults[0].Field + ": " + e.Faults[0].Message
}

var (
	// ErrNoDefinition means that there is no definition of this name, or no such version.
	ErrNoDefinition = errors.New("api: there is no such definition")
	// ErrDefinitionAway means that the definition of a run is kept, and cannot be used
	// by this process now. Whoever has word for the run sends it again later.
	ErrDefinitionAway = errors.New("api: the definition of the run cannot be used now")
	// ErrDefinitionTaken means that the name belongs to a definition of another origin.
	ErrDefinitionTaken = errors.New("api: the name belongs to a definition from a file")
)
