package definition

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"onced/kv"
	"onced/saga"
	"onced/saga/egress"
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

// ErrUnusable is the class of [UnusableError].
var ErrUnusable = errors.New("definition: is kept and cannot be used by this program")

// UnusableError means that a version is kept which this program cannot read: it is
// another program's, of a later version perhaps. Its runs are held; none begins.
type UnusableError struct {
	// Name and Version say which it is.
	Name, Version string
	// Err says why.
	Err error
}

// Error names the version, the cause and the remedy.
func (e *UnusableError) Error() string {
	return fmt.Sprintf("definition %q version %q is kept, and this program cannot use it: %v; run the "+
		"program that has stored it, or put a version that this one can read", e.Name, e.Version, e.Err)
}

// Is reports that target is [ErrUnusable].
func (e *UnusableError) Is(target error) bool { return target == ErrUnusable }

// Unwrap returns the cause.
func (e *UnusableError) Unwrap() error { return e.Err }

// Stored is a document as the store keeps it.
type Stored struct {
	// Name and Version say which it is, Origin where it comes from, CreatedAt when it
	// was stored.
	Name, Version string
	Origin        Origin
	CreatedAt     time.Time
	// Latest says that new runs use this version.
	Latest bool
	// Title is for people; Steps describes the steps, and is nil for a version that
	// this program cannot read. Source is the text.
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
	// Deps are what the calls need. Required.
	Deps Deps
	// Secrets returns the names of the secrets there are, to check documents that are
	// put; nil means that they are not known.
	Secrets func() []string
	// CheckURL says whether a URL of a document that is put may be called; use
	// [egress.Client.Check]. nil lets all be found out when they are called.
	CheckURL func(*url.URL, egress.Trust) error
	// Told is called within the transaction that stores a version, or makes new runs use
	// another one, and may write about it: an audit, for example. It may be called more
	// than once for one. nil tells nobody.
	Told func(w kv.Writer, c Change) error
}

// Book keeps documents by name and version, and registers them with an engine. Make
// one per store and process. It is safe for concurrent use.
type Book struct {
	store kv.Store
	cfg   BookConfig

	putting sync.Mutex // one put at a time: the last one stored is the last registered

	mu     sync.RWMutex
	names  map[string]*shelf
	byFile map[string]bool // names that files give
}

// shelf are the versions of a name. What is kept of one is never changed.
type shelf struct {
	latest   string // as the store has it, also when that cannot be used
	versions map[string]*volume
	failed   map[string]error // versions that cannot be used
}

// volume is a registered version: the document without its text, and what else is known
// of it.
type volume struct {
	doc     *Document
	origin  Origin
	created time.Time
}

// NewBook returns a book over the store. Call Load before the engine serves. It fails
// when the configuration is not complete.
func NewBook(s kv.Store, cfg BookConfig) (*Book, error) {
	if s == nil || cfg.Engine == nil || cfg.Deps.Caller == nil {
		return nil, errors.New("definition: NewBook needs a store, BookConfig.Engine and " +
			"BookConfig.Deps.Caller")
	}
	return &Book{store: s, cfg: cfg, names: map[string]*shelf{}, byFile: map[string]bool{}}, nil
}

// Failed is a stored version that cannot be used by this program.
type Failed struct {
	// Name and Version say which it is.
	Name, Version string
	// Err says why.
	Err error
}

// LoadReport says what [Book.Load] found.
type LoadReport struct {
	// Names and Versions count what is registered now.
	Names, Versions int
	// Failed are versions that are not; their runs are held.
	Failed []Failed
}

// Load registers all stored versions with the engine. Runs of a version that cannot be
// read are held, and reported here; where it is the one that new runs would use, none
// begins: an older version does not stand in for it. The error is the store's. Call it
// before Engine.Serve.
func (b *Book) Load(ctx context.Context) (LoadReport, error) {
	b.putting.Lock()
	defer b.putting.Unlock()
	var report LoadReport
	for x, err := range nameTable.Decode(kv.Pages(ctx, b.store, nameTable.ID(), kv.Range{}, 0)) {
		if err != nil {
			return report, err
		}
		name := kv.DecodeKey(x.Key).String()
		if err := b.loadName(ctx, name, x.Value.Latest, &report); err != nil {
			return report, err
		}
	}
	return report, nil
}

func (b *Book) loadName(ctx context.Context, name, latest string, report *LoadReport) error {
	b.use(name, latest)
	found := false
	pages := kv.Pages(ctx, b.store, versionTable.ID(), nameKey(name).Range(), 50)
	for x, err := range versionTable.Decode(pages) {
		if err != nil {
			return err
		}
		d := kv.DecodeKey(x.Key)
		s := Stored{Name: d.String(), Version: d.String(), Origin: x.Value.Origin, CreatedAt: x.Value.Created,
			Source: x.Value.Source}
		s.Latest = s.Version == latest
		if err := b.registerStored(s); err != nil {
			report.Failed = append(report.Failed, Failed{Name: name, Version: s.Version, Err: err})
			b.mu.Lock()
			b.names[name].failed[s.Version] = err
			b.mu.Unlock()
			continue
		}
		report.Versions++
		found = true
	}
	if found {
		report.Names++
	}
	return nil
}

// registerStored makes a stored version known again. Secrets and hosts are not checked:
// its runs go on, and say what is missing.
func (b *Book) registerStored(s Stored) error {
	d, problems := Parse(s.Source, Options{})
	if err := problems.Err(); err != nil {
		return err
	}
	return b.register(d, s)
}

// use says which version of a name new runs use.
func (b *Book) use(name, version string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.names[name]
	if s == nil {
		s = &shelf{versions: map[string]*volume{}, failed: map[string]error{}}
		b.names[name] = s
	}
	s.latest = version
}

// register makes a version known to the engine, and, when it is the latest, the one that
// new runs use.
func (b *Book) register(d *Document, s Stored) error {
	kept := *d
	kept.source = nil // the store has it
	def, err := kept.Compile(Target{Version: s.Version, Origin: s.Origin}, b.cfg.Deps)
	if err != nil {
		return err
	}
	if !s.Latest {
		def.Superseded()
	}
	if err := b.cfg.Engine.Register(def); err != nil {
		return err
	}
	if s.Latest {
		b.use(d.name, s.Version)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	shelf := b.names[d.name]
	shelf.versions[s.Version] = &volume{doc: &kept, origin: s.Origin, created: s.CreatedAt}
	delete(shelf.failed, s.Version)
	return nil
}

// Put stores a document and registers it; new runs use it from then on. The document
// that new runs use already, from the same origin, is not stored again: created is
// false then and stored is what there is. Otherwise it is a new version, numbered after
// the ones before, or named by the document itself. A version that is named and is
// there with the same content becomes the one that new runs use again.
//
// The same content from another origin is another version, for it has other rights.
// Runs that have begun keep to theirs.
//
// Its errors are [Problems], a [ConflictError] and those of the store. A conflict is
// other content, or another origin, under a version that is there; and a document from
// the API under a name that a file gives. When the commit is in doubt
// (kv.ErrCommitUnknown) call it again.
func (b *Book) Put(ctx context.Context, src []byte, from Origin) (stored Stored, created bool, err error) {
	return b.PutBy(ctx, "", src, from)
}

// Check is [Book.Put] without storing: it returns what Put would. created says that it
// would be a new version.
func (b *Book) Check(ctx context.Context, src []byte, from Origin) (stored Stored, created bool, err error) {
	d, err := b.parse("", src, from)
	if err != nil {
		return Stored{}, false, err
	}
	if err := b.owned(d, from); err != nil {
		return Stored{}, false, err
	}
	var p plan
	err = b.store.View(ctx, func(rd kv.Reader) error {
		next, err := decide(rd, d, from)
		p = next
		return err
	})
	if err != nil {
		return Stored{}, false, err
	}
	return p.stored(d), p.create, nil
}

func (b *Book) parse(file string, src []byte, from Origin) (*Document, error) {
	o := Options{File: file}
	if b.cfg.Secrets != nil {
		if o.Secrets = b.cfg.Secrets(); o.Secrets == nil {
			o.Secrets = []string{}
		}
	}
	d, problems := Parse(src, o)
	if len(problems) == 0 && b.cfg.CheckURL != nil {
		problems = d.CheckURLs(from, b.cfg.CheckURL)
	}
	return d, problems.Err()
}

// owned refuses to let the API change what the operator's files say.
func (b *Book) owned(d *Document, from Origin) error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if from != FromFile && b.byFile[d.name] {
		return &ConflictError{Name: d.name,
			Problem: "is given by a file of the configuration; change the file, or post it under another " +
				"name"}
	}
	return nil
}

// stored is what was decided, as it is shown.
func (p *plan) stored(d *Document) Stored {
	return Stored{Name: d.name, Version: p.version, Origin: p.row.Origin, CreatedAt: p.row.Created,
		Latest: true,
		Title:  p.row.Title, Steps: d.steps, Source: p.row.Source, Digest: p.row.Digest}
}
