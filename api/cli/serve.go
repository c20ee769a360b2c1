package cli

import (
	"context"
	"log/slog"
	"runtime"
	"time"

	"onced/api/app"
	"onced/api/config"
	"onced/api/jsonlog"
)

// loadConfig reads the configuration; its error tells all problems.
func (c *call) loadConfig() (*config.Loaded, error) {
	loaded, err := config.Load(c.flags.source(c.env))
	if err != nil {
		return nil, &failure{what: "the configuration is not valid; nothing was done", why: err.Error(),
			try: "correct it, then: onced config check", code: ExitUsage, err: err}
	}
	return loaded, nil
}

// loadPlace reads the configuration for where the service and its data are. It
// needs none of the service's secrets.
func (c *call) loadPlace(remedy string) (*config.Config, error) {
	src := c.flags.source(c.env)
	src.NoSecrets = true
	loaded, err := config.Load(src)
	if err != nil {
		return nil, &failure{what: "the configuration does not tell where onced is", why: err.Error(),
			try: remedy, code: ExitUsage, err: err}
	}
	return loaded.Config, nil
}

// newLogger makes the log of log.level and log.format.
func newLogger(env Env, c *config.Config) (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	level.Set(app.LevelOf(c.Log.Level))
	if c.Log.Format == "text" || c.Log.Format == "auto" && env.Terminal {
		return slog.New(slog.NewTextHandler(env.Stderr, &slog.HandlerOptions{Level: level})), level
	}
	return slog.New(jsonlog.New(env.Stderr, level)), level
}

func serve(ctx context.Context, c *call) error {
	hup := c.signals.onReload()
	loaded, err := c.loadConfig()
	if err != nil {
		return err
	}
	o := app.Options{Loaded: loaded, Load: c.loadConfig, Version: versionOf().Version, Notice: c.env.Stdout}
	o.Logger, o.Level = newLogger(c.env, loaded.Config)
	if c.env.App != nil {
		c.env.App(&o)
	}
	a, err := app.New(ctx, o)
	if err != nil {
		return &failure{what: "onced could not start", why: err.Error(), try: remedy(err),
			code: exitCode(err), err: err}
	}
	if c.env.Serving != nil {
		c.env.Serving(a)
	}
	reloaded := make(chan struct{})
	reloading, stop := context.WithCancel(ctx)
	go func() {
		defer close(reloaded)
		reloadOn(reloading, hup, a, o.Logger)
	}()
	weight := heapWeight()
	err = a.Run(ctx)
	runtime.KeepAlive(weight)
	stop()
	select {
	case <-reloaded:
	case <-time.After(reloadPatience): // its files may be on a disk that does not answer
		o.Logger.Warn("a reload was still under way; it has no effect")
	}
	if err != nil {
		return &failure{what: "onced stopped with an error", why: err.Error(), try: remedy(err),
			code: exitCode(err), err: err}
	}
	return nil
}

// reloadPatience is how long the end of the process waits for a reload that is under
// way. The drain does not: the reload has its own goroutine.
const reloadPatience = time.Second

// heapWeight is memory that nobody touches, so that it costs address space and
// nothing else. The collector sets out when the heap has doubled; the store keeps
// its rows out of the heap, which has but a few MiB, and would be collected many
// times a second under load, at a fifth of the time of all requests. With the
// weight it has room for as much garbage again, whatever the rest is.
func heapWeight() []byte { return make([]byte, 32<<20) }

// reloadOn reloads for each request until ctx ends.
func reloadOn(ctx context.Context, requests <-chan struct{}, a *app.App, log *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-requests:
		}
		done, err := a.Reload()
		for _, w := range done.Warnings {
			log.Warn(w.String())
		}
		for _, key := range done.Restart {
			log.Warn("restart needed: the change of this key is not in force", "key", key)
		}
		if err != nil {
			log.Error("the configuration was not reloaded; the old one stays in force", "err", err)
			continue
		}
		log.Info("the configuration was reloaded", "routes", len(a.Config().Routes))
	}
}
