package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"onced/api"
	"onced/saga"
	"onced/saga/definition"
)

// api is what the API works with.
func (s *sagas) api(a *App) *api.Sagas {
	d := documents{book: s.book, app: a}
	return &api.Sagas{Engine: s.engine, Definitions: d, Rules: d, Callbacks: s.callbacks, Going: a.sagasRun}
}

// documents shows the book of definitions to the API, in its words.
type documents struct {
	book *definition.Book
	app  *App
}

// Put implements [api.Definitions].
func (d documents) Put(ctx context.Context, n api.NewDefinition) (api.Definition, bool, error) {
	var stored definition.Stored
	var isNew bool
	var err error
	if n.DryRun {
		stored, isNew, err = d.book.Check(ctx, n.Source, definition.FromAPI)
	} else {
		stored, isNew, err = d.book.PutBy(ctx, n.Actor, n.Source, definition.FromAPI)
	}
	if err != nil {
		return api.Definition{}, false, asAPI(err)
	}
	switch {
	case isNew && n.DryRun:
		stored.Version = "" // there is none yet
	case isNew:
		d.app.metrics.NamedDefinitions([]string{stored.Name})
		d.app.o.Logger.InfoContext(ctx, "a definition has a new version; runs keep theirs",
			"definition", stored.Name, "version", stored.Version, "actor", n.Actor)
	}
	out := d.shown(stored)
	if doc, _ := definition.Parse(n.Source, definition.Options{}); doc != nil {
		out.Notes = faults(doc.Remarks())
	}
	return out, isNew, nil
}

// Get implements [api.Definitions].
func (d documents) Get(ctx context.Context, name, version string) (api.Definition, error) {
	stored, err := d.book.Get(ctx, name, version)
	if err != nil {
		return api.Definition{}, asAPI(err)
	}
	return d.shown(stored), nil
}

// List implements [api.Definitions].
func (d documents) List(ctx context.Context, after string, limit int) ([]api.Definition, error) {
	all, err := d.book.List(ctx, after, limit)
	if err != nil {
		return nil, asAPI(err)
	}
	return d.shownAll(all), nil
}

// Versions implements [api.Definitions].
func (d documents) Versions(ctx context.Context, name string) ([]api.Definition, error) {
	var out []api.Definition
	for before := uint64(0); ; {
		page, next, err := d.book.Versions(ctx, name, before, 0)
		if err != nil {
			return nil, asAPI(err)
		}
		out = append(out, d.shownAll(page)...)
		if before = next; before == 0 {
			return out, nil
		}
	}
}

// Prepare implements [api.DefinitionRules]. The engine checks the starts of documents
// that it knows; what it cannot tell is that a version is kept and cannot be used.
func (d documents) Prepare(_ context.Context, req *saga.StartRequest) error {
	if d.book.Document(req.Definition, req.Version) != nil {
		return nil
	}
	return asAPI(d.book.Prepare(req))
}

// ReadCallback implements [api.DefinitionRules].
func (d documents) ReadCallback(
	ctx context.Context, run *saga.RunView, step string, body []byte,
) (r api.Reading, known bool, err error) {
	signal, isClear, known, err := d.book.ReadSignal(ctx, run, step, body)
	if err == nil && !known {
		// A document that is kept and cannot be read is not one that is not there.
		_, err := d.book.Get(ctx, run.Definition, run.Version)
		switch {
		case err == nil:
			return r, false, fmt.Errorf("%w: version %s of %s", api.ErrDefinitionAway, run.Version,
				run.Definition)
		case !errors.Is(err, definition.ErrNotFound):
			return r, false, err
		}
	}
	if err != nil || !known || !isClear {
		return api.Reading{}, known, err
	}
	r = api.Reading{Outcome: "done", Data: json.RawMessage(signal.Data), At: signal.At}
	if signal.Refused {
		r.Outcome = "refused"
	}
	return r, true, nil
}

// CheckResult implements [api.DefinitionRules].
func (d documents) CheckResult(_ context.Context, run *saga.RunView, step string, data []byte) error {
	return d.book.CheckResult(run.Definition, run.Version, step, data)
}

// asAPI turns an error of the book into one of the API.
func asAPI(err error) error {
	var problems definition.Problems
	var unusable *definition.UnusableError
	switch {
	case errors.As(err, &unusable): // before the problems in it: they are not the caller's
		return fmt.Errorf("%w: version %s of %s", api.ErrDefinitionAway, unusable.Version, unusable.Name)
	case errors.As(err, &problems):
		return &api.DefinitionError{Faults: faults(problems)}
	case errors.Is(err, definition.ErrNotFound):
		return api.ErrNoDefinition
	case errors.Is(err, definition.ErrConflict):
		return &taken{err}
	}
	return err
}

func faults(problems definition.Problems) (out []api.DefinitionFault) {
	for _, p := range problems {
		out = append(out, api.DefinitionFault{Line: p.Line, Column: p.Column, Field: p.Field,
			Message: p.Message})
	}
	return out
}

// taken is api.ErrDefinitionTaken with the reason of the book.
type taken struct{ error }

// Is implements the interface of errors.Is.
func (*taken) Is(target error) bool { return target == api.ErrDefinitionTaken }

func (d documents) shownAll(all []definition.Stored) []api.Definition {
	out := make([]api.Definition, len(all))
	for i, one := range all {
		out[i] = d.shown(one)
	}
	return out
}

func (d documents) shown(one definition.Stored) api.Definition {
	out := api.Definition{Name: one.Name, Version: one.Version, Origin: string(one.Origin),
		Latest: one.Latest, Title: one.Title, CreatedAt: one.CreatedAt, Source: string(one.Source)}
	if doc := d.book.Document(one.Name, one.Version); doc != nil {
		out.Input = doc.Input()
	}
	for _, s := range one.Steps {
		out.Steps = append(out.Steps, api.DefinitionStep{Name: s.Name, Method: s.Method, URL: s.URL,
			Awaits: s.Await, Undo: s.Undo, Check: s.Check, Pivot: s.Pivot, Irreversible: s.Irreversible,
			NothingToUndo: s.NothingToUndo})
	}
	return out
}
