package definition

import (
	"context"
	"fmt"
	"maps"

	"onced/kv"
)

// Change is what [BookConfig.Told] gets: new runs of a definition use another version.
type Change struct {
	// Stored is the version that they use now.
	Stored Stored
	// Previous is the version that they used before; empty when there was none.
	Previous string
	// Created says that the version is new; else it was there before.
	Created bool
	// Actor is who has put it, as [Book.PutBy] was told; File is the file that gave it.
	Actor, File string
}

// Source is a document of the operator's files.
type Source struct {
	// File is its name, for problems and for [Change].
	File string
	// Text is what is in it.
	Text []byte
}

// SourceError says which file [Book.PutAll] failed at.
type SourceError struct {
	// File is its name.
	File string
	// Err is one of those of [Book.Put].
	Err error
}

// Error is the cause with the name of the file before it.
func (e *SourceError) Error() string { return fmt.Sprintf("definition: %s: %v", e.File, e.Err) }

// Unwrap returns the cause.
func (e *SourceError) Unwrap() error { return e.Err }

// Put is a document that was put.
type Put struct {
	// Stored is the version that new runs use now.
	Stored Stored
	// Created says that it is new.
	Created bool
}

// PutBy is [Book.Put] by somebody whose name BookConfig.Told gets.
func (b *Book) PutBy(ctx context.Context, actor string, src []byte, from Origin) (
	stored Stored, created bool, err error,
) {
	d, err := b.parse("", src, from)
	if err != nil {
		return Stored{}, false, err
	}
	b.putting.Lock()
	defer b.putting.Unlock()
	if err := b.owned(d, from); err != nil {
		return Stored{}, false, err
	}
	var put Put
	err = b.store.Update(ctx, func(w kv.Writer) error {
		got, err := b.write(w, d, origin{from: from, actor: actor})
		put = got
		return err
	})
	if err != nil {
		return Stored{}, false, err
	}
	if err := b.register(d, put.Stored); err != nil {
		return Stored{}, false, err
	}
	if from == FromFile {
		b.mu.Lock()
		b.byFile[d.name] = true
		b.mu.Unlock()
	}
	return put.Stored, put.Created, nil
}

// PutAll is [Book.Put] of the documents of all files there are, together: with an
// error, which is a [SourceError] or the store's, none is stored. A name that no file
// gives any more keeps its versions and is free for the API. The results are in the
// order of the sources.
func (b *Book) PutAll(ctx context.Context, sources []Source) ([]Put, error) {
	docs := make([]*Document, len(sources))
	byFile := map[string]bool{}
	for i, src := range sources {
		d, err := b.parse(src.File, src.Text, FromFile)
		if err != nil {
			return nil, &SourceError{File: src.File, Err: err}
		}
		if byFile[d.name] {
			return nil, &SourceError{File: src.File, Err: &ConflictError{Name: d.name,
				Problem: "is in another file too; give each definition a name of its own"}}
		}
		docs[i], byFile[d.name] = d, true
	}
	b.putting.Lock()
	defer b.putting.Unlock()
	var all []Put
	err := b.store.Update(ctx, func(w kv.Writer) error {
		puts := make([]Put, len(docs))
		for i, d := range docs {
			put, err := b.write(w, d, origin{from: FromFile, file: sources[i].File})
			if err != nil {
				return &SourceError{File: sources[i].File, Err: err}
			}
			puts[i] = put
		}
		all = puts
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, d := range docs {
		if err := b.register(d, all[i].Stored); err != nil {
			return nil, &SourceError{File: sources[i].File, Err: err}
		}
	}
	b.mu.Lock()
	b.byFile = maps.Clone(byFile)
	b.mu.Unlock()
	return all, nil
}

// origin says where a put comes from.
type origin struct {
	from        Origin
	actor, file string
}

// write decides what the put means, does it, and tells of it.
func (b *Book) write(w kv.Writer, d *Document, o origin) (Put, error) {
	p, err := decide(w, d, o.from)
	if err != nil {
		return Put{}, err
	}
	previous := p.name.Latest
	if err := p.write(w, d.name); err != nil {
		return Put{}, err
	}
	put := Put{Stored: p.stored(d), Created: p.create}
	if b.cfg.Told == nil || !p.create && !p.move {
		return put, nil
	}
	return put, b.cfg.Told(w, Change{Stored: put.Stored, Previous: previous, Created: p.create,
		Actor: o.actor, File: o.file})
}
