package app

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"onced/api/config"
)

// ErrNoReload means that the process was made without a way to read its
// configuration again.
var ErrNoReload = errors.New("app: this process cannot reload its configuration")

// Reloaded says what a reload did.
type Reloaded struct {
	// Restart are the keys whose change waits for a restart.
	Restart []string
	// Warnings are no errors but should be seen.
	Warnings []config.Problem
}

// Reload reads the configuration again and puts it in place, whole or, with an
// error, not at all. Requests under way end as they began, and runs of sagas go on
// with the version of their definition; only secrets are those of now.
func (a *App) Reload() (_ Reloaded, err error) {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	if a.o.Load == nil {
		return Reloaded{}, ErrNoReload
	}
	defer func() { a.metrics.ConfigRead(err == nil) }()
	next, err := a.o.Load()
	if err != nil {
		return Reloaded{}, fmt.Errorf("app: the configuration stays as it was: %w", err)
	}
	merged, restart, err := config.Merge(a.config.Load(), next.Config)
	if err != nil {
		return Reloaded{Restart: restart}, fmt.Errorf("app: the configuration stays as it was: %w", err)
	}
	proxy, err := a.parts.newProxy(a, merged)
	if err == nil {
		err = a.parts.sagas.reload(a, &config.Loaded{Config: merged, Origins: next.Origins})
	}
	if err != nil {
		return Reloaded{Restart: restart}, fmt.Errorf("app: the configuration stays as it was: %w", err)
	}
	// Whatever can fail comes before, and nothing after this line.
	a.metrics.NamedRoutes(routeNames(merged))
	a.parts.proxy.set(proxy)
	a.o.Level.Set(LevelOf(merged.Log.Level))
	a.config.Store(merged)
	a.warnOrphans(a.work, merged)
	return Reloaded{Restart: restart, Warnings: next.Warnings}, nil
}

// Config is what is in force now.
func (a *App) Config() *config.Config { return a.config.Load() }

// LevelOf returns the level of log.level.
func LevelOf(name string) slog.Level {
	var l slog.Level
	if err := l.UnmarshalText([]byte(strings.ToUpper(name))); err != nil {
		return slog.LevelInfo
	}
	return l
}
