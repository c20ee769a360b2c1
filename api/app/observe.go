package app

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"

	"onced/api/config"
	"onced/api/metrics"
	"onced/api/trace"
	kvgroup "onced/kv/group"
)

// newMetrics makes the metrics of the process.
func newMetrics(o Options) *metrics.Metrics {
	b := metrics.Build{Version: o.Version, GoVersion: runtime.Version(), Revision: "unknown"}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Revision = s.Value
			}
		}
	}
	m := metrics.New(metrics.Config{Build: b, Clock: o.Clock, Logger: o.Logger})
	m.NamedRoutes(routeNames(o.Loaded.Config))
	m.ConfigRead(true)
	return m
}

func routeNames(c *config.Config) []string {
	names := make([]string, 0, len(c.Routes))
	for i := range c.Routes {
		names = append(names, c.Routes[i].Name)
	}
	return names
}

// onCommit tells the metrics of a commit.
func (a *App) onCommit(c kvgroup.Commit) { a.metrics.CommitDone(metrics.Commit(c)) }

// watchStore lets the metrics look at the store.
func (a *App) watchStore() {
	path := a.store.Path()
	a.metrics.WatchStore(metrics.Store{
		Size: func() (uint64, error) {
			info, err := os.Stat(path)
			if err != nil {
				return 0, err
			}
			return uint64(info.Size()), nil
		},
		Free:    func() (uint64, error) { return freeSpace(filepath.Dir(path)) },
		Healthy: a.store.Healthy,
	})
}

// metricsServer is what answers at an address of the metrics' own.
func metricsServer(h http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", h)
	return mux
}

// newTracer makes the tracer that the environment asks for; nil is none.
func newTracer(o Options) (*trace.Tracer, error) {
	return trace.New(trace.Config{Version: o.Version, Logger: o.Logger})
}

// flush sends the last spans.
func (a *App) flush() {
	if err := a.tracer.Shutdown(context.Background()); err != nil {
		a.o.Logger.Warn("the last spans are lost", "err", err)
	}
}
