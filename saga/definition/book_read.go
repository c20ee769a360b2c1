package definition

import (
	"context"

	"onced/kv"
	"onced/saga"
)

// Limits of lists.
const (
	defaultPage = 100
	maxPage     = 500
)

func page(limit int) int {
	if limit <= 0 {
		return defaultPage
	}
	return min(limit, maxPage)
}

// Get returns a version, or the latest when version is empty. The error is
// [ErrNotFound] or the store's.
func (b *Book) Get(ctx context.Context, name, version string) (Stored, error) {
	var s Stored
	err := b.store.View(ctx, func(rd kv.Reader) error {
		n, ok, err := nameTable.Get(rd, nameKey(name))
		if err != nil {
			return err
		}
		if !ok {
			return ErrNotFound
		}
		want := version
		if want == "" {
			want = n.Latest
		}
		found, err := b.get(rd, name, want, n.Latest)
		s = found
		return err
	})
	return s, err
}

func (b *Book) get(rd kv.Reader, name, version, latest string) (Stored, error) {
	row, ok, err := versionTable.Get(rd, versionKey(name, version))
	if err != nil {
		return Stored{}, err
	}
	if !ok {
		return Stored{}, ErrNotFound
	}
	s := Stored{Name: name, Version: version, Origin: row.Origin, CreatedAt: row.Created,
		Latest: version == latest, Title: row.Title, Source: row.Source, Digest: row.Digest}
	if d := b.Document(name, version); d != nil {
		s.Steps = d.steps
	}
	return s, nil
}

// List returns the latest version of each name in the order of names, at most limit (0
// means 100, at most 500), beginning after the given name. Source is left out.
func (b *Book) List(ctx context.Context, after string, limit int) ([]Stored, error) {
	var out []Stored
	err := b.store.View(ctx, func(rd kv.Reader) error {
		r := kv.Range{Limit: page(limit)}
		if after != "" {
			r.From = append(nameKey(after), 0)
		}
		var found []Stored
		for x, err := range nameTable.Scan(rd, r) {
			if err != nil {
				return err
			}
			name := kv.DecodeKey(x.Key).String()
			s, err := b.describe(rd, name, x.Value.Latest, x.Value.Latest)
			if err != nil {
				return err
			}
			found = append(found, s)
		}
		out = found
		return nil
	})
	return out, err
}

// Versions returns versions of a name, the newest first, at most limit (0 means 100, at
// most 500), of those before the given position; before 0 begins at the newest. next is
// the position to go on from, 0 at the end. Source is left out. The error is
// [ErrNotFound] or the store's.
func (b *Book) Versions(ctx context.Context, name string, before uint64, limit int) (
	versions []Stored, next uint64, err error,
) {
	err = b.store.View(ctx, func(rd kv.Reader) error {
		n, ok, err := nameTable.Get(rd, nameKey(name))
		if err != nil {
			return err
		}
		if !ok {
			return ErrNotFound
		}
		r := nameKey(name).Range()
		r.Reverse, r.Limit = true, page(limit)
		if before > 0 {
			r.To = orderKey(name, before)
		}
		var found []Stored
		last := uint64(0)
		for x, err := range orderTable.Scan(rd, r) {
			if err != nil {
				return err
			}
			s, err := b.describe(rd, name, x.Value.Version, n.Latest)
			if err != nil {
				return err
			}
			d := kv.DecodeKey(x.Key)
			_ = d.String()
			found, last = append(found, s), d.Uint()
		}
		if last == 1 || len(found) < r.Limit {
			last = 0
		}
		versions, next = found, last
		return nil
	})
	return versions, next, err
}

// Document returns a version as it is registered, the latest when version is empty; nil
// when it is not. It has no source: see [Book.Get].
func (b *Book) Document(name, version string) *Document {
	b.mu.RLock()
	defer b.mu.RUnlock()
	s := b.names[name]
	if s == nil {
		return nil
	}
	if version == "" {
		version = s.latest
	}
	if v := s.versions[version]; v != nil {
		return v.doc
	}
	return nil
}

// usable reports a version that is kept and cannot be used.
func (b *Book) usable(name, version string) error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if s := b.names[name]; s != nil && s.failed[version] != nil {
		return &UnusableError{Name: name, Version: version, Err: s.failed[version]}
	}
	return nil
}

// known describes a registered version without reading the store.
func (b *Book) known(name, version, latest string) (Stored, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	s := b.names[name]
	if s == nil || s.versions[version] == nil {
		return Stored{}, false
	}
	v := s.versions[version]
	return Stored{Name: name, Version: version, Origin: v.origin, CreatedAt: v.created,
		Latest: version == latest, Title: v.doc.Title(), Steps: v.doc.steps, Digest: v.doc.digest}, true
}

// describe is a version without its Source.
func (b *Book) describe(rd kv.Reader, name, version, latest string) (Stored, error) {
	if s, ok := b.known(name, version, latest); ok {
		return s, nil
	}
	s, err := b.get(rd, name, version, latest)
	s.Source = nil
	return s, err
}

// latest returns the version that new runs use, or empty.
func (b *Book) latest(name string) string {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if s := b.names[name]; s != nil {
		return s.latest
	}
	return ""
}

// Prepare checks the input of a start against the document that it would use, adds the
// labels and fixes the version. A definition that is not the book's is left alone. Its
// error is a [saga.InputError], or an [UnusableError].
//
// The engine checks the input of every start of a document too, and adds its labels,
// that of a rerun among them.
func (b *Book) Prepare(req *saga.StartRequest) error {
	version := req.Version
	if version == "" {
		version = b.latest(req.Definition)
	}
	d := b.Document(req.Definition, version)
	if d == nil || version == "" {
		return b.usable(req.Definition, version)
	}
	req.Version = version
	return d.Prepare(req)
}

// ReadSignal is [Document.ReadSignal] for a step of a run, with the secrets that the
// document names and the run's callback URLs taken out of the body. ok is false when the
// run's definition and version are not the book's.
func (b *Book) ReadSignal(ctx context.Context, run *saga.RunView, step string, body []byte) (
	s saga.Signal, decided, ok bool, err error,
) {
	d := b.Document(run.Definition, run.Version)
	if d == nil {
		return saga.Signal{}, false, false, nil
	}
	s, decided, err = d.ReadSignal(step, body,
		d.hidden(ctx, &b.cfg.Deps, CallbackUse{Run: run.Run, Step: step, Round: run.Round})...)
	return s, decided, true, err
}
