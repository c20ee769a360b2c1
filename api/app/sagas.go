package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"onced/api"
	"onced/api/config"
	"onced/kv/feed"
	"onced/kv/timer"
	"onced/saga"
	"onced/saga/definition"
	"onced/saga/egress"
	"onced/saga/httpstep"
)

// sagas runs definitions: the engine, what wakes its runs, and the documents.
type sagas struct {
	engine    *saga.Engine
	timers    *timer.Runner
	book      *definition.Book
	client    *egress.Client
	calls     *httpstep.Caller
	callbacks *api.Callbacks
	secrets   atomic.Pointer[config.Secrets] // that calls get
	names     atomic.Pointer[[]string]       // of the secrets that documents may use
	files     atomic.Pointer[[]string]       // the definitions that the files have
	stopped   atomic.Pointer[string]         // why runs are not woken any more
}

// newSagas makes the engine over the store of a, knowing every definition that the
// store has and those of the files. Nothing runs yet.
func newSagas(ctx context.Context, a *App, log *feed.Feed, files []definitionFile) (*sagas, error) {
	o, c := a.o, a.o.Loaded.Config
	s := &sagas{timers: timer.New(a.store, timer.Config{Clock: o.Clock, Logger: o.Logger, Rand: o.Rand})}
	s.setSecrets(c.Secrets)
	cfg := saga.Config{Timers: s.timers, Feed: log, Clock: o.Clock, Rand: o.Rand, Logger: o.Logger,
		Observer: a.metrics, Calls: c.Sagas.MaxCalls, PerDefinition: c.Sagas.MaxCallsPerDefinition,
		PerHost: c.Sagas.MaxCallsPerHost, Retention: c.Sagas.Retention,
		Restored: c.Sagas.Restored.Time, Drain: max(c.HTTP.DrainTimeout, time.Nanosecond)}
	if a.tracer != nil {
		cfg.Tracer = a.tracer
	}
	var err error
	if s.engine, err = saga.NewEngine(a.store, cfg); err != nil {
		return nil, err
	}
	a.metrics.WatchSagas(s.engine)
	if err := s.newCalls(a); err != nil {
		return nil, err
	}
	s.book, err = definition.NewBook(a.store, definition.BookConfig{Engine: s.engine, Deps: s.deps(),
		Secrets: func() []string { return *s.names.Load() }, CheckURL: s.client.Check, Told: told(log)})
	if err != nil {
		return nil, err
	}
	if err := s.load(ctx, a); err != nil {
		return nil, err
	}
	if err := s.put(ctx, a, files); err != nil {
		return nil, err
	}
	s.survey(ctx, a)
	return s, nil
}

func (s *sagas) setSecrets(secrets config.Secrets) {
	names := append([]string{}, secrets.Names()...)
	s.secrets.Store(&secrets)
	s.names.Store(&names)
}

// reload takes over the definitions and secrets of a configuration, or, with an
// error, nothing.
func (s *sagas) reload(a *App, l *config.Loaded) error {
	files, err := readDefinitions(l)
	if err != nil {
		return err
	}
	// Calls that begin before the end of this find the secrets of both: the definitions
	// of now want the old ones, those that are put the new ones.
	before, beforeNames := s.secrets.Load(), s.names.Load()
	both := maps.Clone(l.Config.Secrets)
	if both == nil {
		both = config.Secrets{}
	}
	maps.Copy(both, *before)
	names := append([]string{}, l.Config.Secrets.Names()...)
	s.secrets.Store(&both)
	s.names.Store(&names)
	if err = s.put(a.work, a, files); err != nil {
		s.secrets.Store(before)
		s.names.Store(beforeNames)
		return err
	}
	s.setSecrets(l.Config.Secrets)
	s.survey(a.work, a)
	return nil
}

// maxSurveyed bounds how many definitions are looked at.
const maxSurveyed = 500

// survey names the definitions to the metrics, and tells of those that want a secret
// which is not there: their calls are not made. Those of files were refused before;
// these came by the API. It tells of callbacks that may reach nobody, too.
func (s *sagas) survey(ctx context.Context, a *App) {
	all, err := s.book.List(ctx, "", maxSurveyed)
	if err != nil {
		a.o.Logger.WarnContext(ctx, "the definitions could not be compared with the secrets", "err", err)
		return
	}
	for _, one := range all {
		a.metrics.NamedDefinitions([]string{one.Name})
		doc := s.book.Document(one.Name, one.Version)
		if doc == nil {
			continue
		}
		if one.Origin == definition.FromFile && !slices.Contains(*s.files.Load(), one.Name) {
			a.o.Logger.InfoContext(ctx, "no file has a definition any more; its last version stays in "+
				"use, and new runs of it can be started", "definition", one.Name, "version", one.Version)
		}
		if doc.UsesCallback() && a.o.Loaded.Config.PublicURL == "" {
			a.o.Logger.WarnContext(ctx, "a definition gives out callback URLs, and public_url is not set: "+
				"they name the address that this process listens at", "definition", one.Name,
				"remedy", "set public_url to a URL that callees reach, and keep it")
		}
		for _, r := range doc.Remarks() {
			a.o.Logger.WarnContext(ctx, "a definition says what is seldom meant", "definition", one.Name,
				"version", one.Version, "line", r.Line, "field", r.Field, "remark", r.Message)
		}
		for _, name := range doc.Secrets() {
			if _, ok := (*s.secrets.Load())[name]; !ok {
				a.o.Logger.ErrorContext(ctx,
					"a definition uses a secret that the configuration does not have; "+
						"its calls are not made", "definition", one.Name, "secret", name,
					"remedy", "add it under secrets and reload")
			}
		}
	}
}

// newCalls makes what sends the calls of steps.
func (s *sagas) newCalls(a *App) (err error) {
	c := a.o.Loaded.Config.Sagas
	out := egress.Config{Allow: c.AllowHosts}
	files := egress.TLSFiles{CA: c.TLS.CAFile, Cert: c.TLS.CertFile, Key: c.TLS.KeyFile}
	if err := files.Load(&out); err != nil {
		return fmt.Errorf("app: sagas.tls: %w", err)
	}
	if s.client, err = egress.New(out); err != nil {
		return fmt.Errorf("app: sagas.allow_hosts: %w", err)
	}
	s.calls, err = httpstep.New(httpstep.Config{Client: s.client, Clock: a.o.Clock,
		Traceparent: a.tracer.Traceparent, Logger: a.o.Logger, UserAgent: "onced/" + a.o.Version,
		Alarm: func(context.Context, httpstep.Alarm) { a.metrics.CredentialsRefused() }})
	return err
}

// open makes the URLs of callbacks, once the address is known. It comes before any
// call.
func (s *sagas) open(ctx context.Context, a *App) error {
	key, err := api.CallbackKey(ctx, a.store, a.o.Rand)
	if err != nil {
		return err
	}
	s.callbacks, err = api.NewCallbacks(key, a.o.Loaded.Config.Base(a.Addr("api").String()))
	return err
}

// deps are what calls of definitions need.
func (s *sagas) deps() definition.Deps {
	return definition.Deps{Caller: s.calls, Secret: s.secret,
		CallbackURL: func(use definition.CallbackUse) (string, error) {
			return s.callbacks.URL(use.Run, use.Step, use.Round), nil
		}}
}

// secret is the value of a secret of now.
func (s *sagas) secret(_ context.Context, use definition.SecretUse) (string, error) {
	text, ok := (*s.secrets.Load())[use.Name]
	if !ok {
		return "", fmt.Errorf("the configuration has no secret %q; add it under secrets and reload", use.Name)
	}
	return text.Reveal(), nil
}

// load makes every definition of the store known, before any run goes on.
func (s *sagas) load(ctx context.Context, a *App) error {
	report, err := s.book.Load(ctx)
	if err != nil {
		return err
	}
	for _, f := range report.Failed {
		a.o.Logger.ErrorContext(ctx, "a stored definition cannot be used; its runs are held",
			"definition", f.Name, "version", f.Version, "err", f.Err)
	}
	return nil
}

// put stores the definitions of all files together, those whose content is new as new
// versions.
func (s *sagas) put(ctx context.Context, a *App, files []definitionFile) error {
	sources := make([]definition.Source, len(files))
	for i, f := range files {
		sources[i] = definition.Source{File: f.name, Text: f.doc.Source()}
	}
	puts, err := s.book.PutAll(ctx, sources)
	if err != nil {
		if at, ok := errors.AsType[*definition.SourceError](err); ok {
			return definitionError(at.File, at.Err)
		}
		return fmt.Errorf("app: the definitions of the files: %w", err)
	}
	names := make([]string, len(puts))
	for i, p := range puts {
		names[i] = p.Stored.Name
		if p.Created {
			a.o.Logger.InfoContext(ctx, "a definition has a new version; runs keep theirs", "definition",
				p.Stored.Name, "version", p.Stored.Version, "file", files[i].name)
		}
	}
	s.files.Store(&names)
	a.metrics.NamedDefinitions(names)
	return nil
}

// definitionError turns what a file is refused for into problems of it.
func definitionError(file string, err error) error {
	if problems, ok := errors.AsType[definition.Problems](err); ok {
		e := &config.Error{}
		for _, p := range problems {
			e.Problems = append(e.Problems, config.Problem{Origin: inFile(file, p.Line, p.Column),
				Key:  p.Field,
				Text: p.Message})
		}
		return e
	}
	if errors.Is(err, definition.ErrConflict) {
		return &config.Error{Problems: []config.Problem{{Origin: inFile(file, 0, 0), Text: err.Error()}}}
	}
	return fmt.Errorf("app: the definition in %s: %w", file, err)
}

// wake fires the timers of runs until ctx ends. When the store takes no more writes
// no run goes on; the rest of the process does, and readiness says why.
func (s *sagas) wake(ctx context.Context) error {
	if err := s.timers.Run(ctx); err != nil && ctx.Err() == nil { // it is logged
		why := "runs are not woken any more: " + err.Error()
		s.stopped.Store(&why)
	}
	<-ctx.Done()
	return nil
}

// reason says why runs do not go on, empty when they do.
func (s *sagas) reason() string {
	if why := s.stopped.Load(); why != nil {
		return *why
	}
	return ""
}

// serveSagas works on runs until the time to drain begins. Then no call begins, and
// those under way have that time to end.
func (a *App) serveSagas(ctx context.Context) error {
	defer a.sagasEnd()
	ctx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	watching.Go(func() {
		select {
		case <-a.draining:
			stop()
		case <-ctx.Done():
		}
	})
	return a.parts.sagas.engine.Serve(ctx)
}
