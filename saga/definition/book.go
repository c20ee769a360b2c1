package definition

import (
	"context"
	"errors"
	"fmt"
	"time"

	"onced/kv"
	"onced/kv/invariant"
	"onced/saga"
)

// ErrNotFound means that there is no definition of that name, or no such version.
var ErrNotFound = errors.New("definition: there is no such definition or version")

// ErrConflict is the class of [ConflictError].
var ErrConflict = errors.New("definition: conflicts with what is stored")

// ConflictError means that a document cannot be stored beside what is there.
type ConflictError struct {
	// Name and Version are those of the document; Version may be empty.
	Name, Version string
	// Problem says why, and what to do.
	Problem string
}

// Error names the definition and the problem.
func (e *ConflictError) Error() string {
	if e.Version == "" {
		return fmt.Sprintf("definition %q %s", e.Name, e.Problem)
	}
	return fmt.Sprintf("definition %q version %q %s", e.Name, e.Version, e.Problem)
}

// Is reports that target is [ErrConflict].
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// Stored is a document as the store keeps it.
type Stored struct {
	Name, Version string
	Origin        Origin
	CreatedAt     time.Time
	// Latest says that new runs use this version.
	Latest bool
	Title  string
	Steps  []StepInfo
	Source []byte
	// Digest stands for the content, see [Document.Digest].
	Digest string
}

// BookConfig are the settings of a [Book].
type BookConfig struct {
	// Engine gets every version registered. Required.
	Engine *saga.Engine
	// Deps are what the calls need.
	Deps Deps
	// Secrets returns the names of the secrets there are, to check documents that are
	// put; nil means that they are not known.
	Secrets func() []string
}

// Book keeps documents by name and version, and registers them with an engine. Make
// one per store and process. It is safe for concurrent use.
type Book struct {
	store kv.Store
	cfg   BookConfig
}

// NewBook returns a book over the store. Call Load before the engine serves.
func NewBook(s kv.Store, cfg BookConfig) (*Book, error) { return nil, errSoon }

// Failed is a stored version that cannot be used by this program.
type Failed struct {
	Name, Version string
	Err           error
}

// LoadReport says what [Book.Load] found.
type LoadReport struct {
	// Names and Versions count what is registered now.
	Names, Versions int
	// Failed are versions that are not; their runs are held.
	Failed []Failed
}

// Load registers all stored versions with the engine, of each name the one that new
// runs use last. Runs of a version that cannot be read are held, and reported here;
// the error is the store's. Call it before Engine.Serve.
func (b *Book) Load(ctx context.Context) (LoadReport, error) { return LoadReport{}, errSoon }

// Put stores a document and registers it; new runs use it from then on. The document
// that new runs use already, from the same origin, is not stored again: created is
// false then and stored is what there is. Otherwise it is a new version, numbered after
// the ones before, or named by the document itself.
//
// Its errors are [Problems], a [ConflictError] and those of the store. A conflict is
// other content, or another origin, under a version that is there; and a document from
// the API under a name that a file has given since the start. When the commit is in
// doubt (kv.ErrCommitUnknown) call it again.
func (b *Book) Put(ctx context.Context, src []byte, from Origin) (stored Stored, created bool, err error) {
	return Stored{}, false, errSoon
}

// Check is [Book.Put] without storing: it returns what Put would, Version empty when a
// number would be given. created says that it would be a new version.
func (b *Book) Check(ctx context.Context, src []byte, from Origin) (stored Stored, created bool, err error) {
	return Stored{}, false, errSoon
}

// PutFile is [Book.Put] from a file, whose name the problems carry.
func (b *Book) PutFile(ctx context.Context, file string, src []byte) (stored Stored, created bool, err error) {
	return Stored{}, false, errSoon
}

// Get returns a version, or the latest when version is empty. The error is
// [ErrNotFound] or the store's.
func (b *Book) Get(ctx context.Context, name, version string) (Stored, error) {
	return Stored{}, errSoon
}

// List returns the latest version of each name in the order of names, at most limit (0
// means 100, at most 500), beginning after the given name. Source is left out.
func (b *Book) List(ctx context.Context, after string, limit int) ([]Stored, error) {
	return nil, errSoon
}

// Versions returns versions of a name, the newest first, at most limit (0 means 100, at
// most 500), of those before the given position; before 0 begins at the newest. next is
// the position to go on from, 0 at the end. Source is left out. The error is
// [ErrNotFound] or the store's.
func (b *Book) Versions(ctx context.Context, name string, before uint64, limit int) (
	versions []Stored, next uint64, err error,
) {
	return nil, 0, errSoon
}

// Document returns a version as it is registered, the latest when version is empty; nil
// when it is not.
func (b *Book) Document(name, version string) *Document { return nil }

// Prepare checks the input of a start against the document that it would use, adds the
// labels and fixes the version. A definition that is not the book's is left alone. Its
// error is a [saga.InputError].
func (b *Book) Prepare(req *saga.StartRequest) error { return errSoon }

// ReadSignal is [Document.ReadSignal] for a run's definition and version; ok is false
// when that is not the book's.
func (b *Book) ReadSignal(name, version, step string, body []byte) (s saga.Signal, clear, ok bool, err error) {
	return saga.Signal{}, false, false, errSoon
}

// Rules returns what is true of the definitions of a store at every commit.
func Rules() []invariant.Rule { return nil }
