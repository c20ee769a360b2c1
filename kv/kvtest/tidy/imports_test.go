package tidy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// libraryDirs are what others import; the rest is the onced program.
var libraryDirs = []string{"kv", "saga", "watcher"}

// layers says which of our packages a package may import. The first line that
// matches counts, "x/..." means x and all below. Tests may import what their
// package may, and everything in kv (not in web, which imports nothing).
var layers = []struct {
	from string
	may  []string
}{
	{"onced", []string{"onced/api/cli"}},
	{"onced/web/...", nil},

	{"onced/api/cli/...", []string{"onced/api/...", "onced/saga/...", "onced/watcher/...", "onced/kv/..."}},
	{"onced/api/app/...",
		[]string{"onced/api/...", "onced/web", "onced/saga/...", "onced/watcher/...", "onced/kv/..."}},
	{"onced/api/...", []string{"onced/api/...", "onced/saga/...", "onced/watcher/...", "onced/kv/..."}},

	{"onced/saga/...", []string{"onced/saga/...", "onced/kv/..."}},
	{"onced/watcher/...", []string{"onced/watcher/...", "onced/kv/..."}},

	{"onced/kv", nil},
	{"onced/kv/money/...", nil},
	{"onced/kv/group/...", []string{"onced/kv"}},
	{"onced/kv/memkv/...", []string{"onced/kv", "onced/kv/group", "onced/kv/memkv/..."}},
	{"onced/kv/boltkv/...",
		[]string{"onced/kv", "onced/kv/group", "onced/kv/migrate", "onced/kv/boltkv/..."}},
	{"onced/kv/faultkv/...", []string{"onced/kv", "onced/kv/group", "onced/kv/faultkv/..."}},
	{"onced/kv/...", []string{"onced/kv/..."}},
}

// engines are opened by whoever composes a program; the protocols over kv work
// on any of them and know none.
var engines = []string{"onced/kv/boltkv", "onced/kv/memkv", "onced/kv/faultkv", "onced/kv/group"}

// pickEngines may import engines outside tests, as programs and packages that
// exist for tests may.
var pickEngines = []string{
	"onced/api/app/...", // the composition root
	"onced/api/cli/...", // backup and verify open the file themselves
	"onced/api/demo/...",
	"onced/kv/backup/...", // copies a file of a certain engine
	"onced/kv/boltkv/...", "onced/kv/memkv/...", "onced/kv/faultkv/...",
}

// thirdParty says where a module of others may be imported. Modules that are
// not listed may be imported anywhere.
var thirdParty = []struct {
	module string
	may    []string
	why    string
}{
	{"github.com/labstack/echo", []string{"onced/api/..."}, "Echo's types stay in api"},
	{"github.com/prometheus", []string{"onced/api/metrics/..."}, "Prometheus stays in api/metrics"},
	{"go.opentelemetry.io", []string{"onced/api/trace/..."}, "OpenTelemetry stays in api/trace"},
	{"google.golang.org/grpc", nil, "no gRPC: it makes the program larger by half"},
	{"github.com/shopspring/decimal", []string{"onced/kv/money/..."},
		"kv/money has the only codec of amounts: decimal's own loses what was written"},
	{"go.etcd.io/bbolt", []string{"onced/kv/boltkv/..."}, "only the engine knows the engine"},
	{"github.com/stretchr/testify", nil, "tests use testing alone"},
}

// forbiddenImports are packages of the standard library that must not be used
// outside tests and packages that exist for tests.
var forbiddenImports = []struct {
	pkg  string
	may  []string // packages that may
	libs bool     // only library packages must not
	why  string
}{
	{"testing", nil, false, "production code does not carry the testing package"},
	{"net/http/httptest", nil, false, "production code does not carry test servers"},
	{"math/rand", nil, false, "randomness is injected: Config.Rand, by default crypto/rand.Reader"},
	{"math/rand/v2", nil, false, "randomness is injected: Config.Rand, by default crypto/rand.Reader"},
	{"log", nil, true, "libraries log to the slog.Logger of their Config only"},
	{"expvar", nil, false, "a global registry"},
}

// heavy must not be among what a library package pulls in, directly or not.
var heavy = []string{"net/http", "github.com/labstack/echo", "github.com/prometheus", "go.opentelemetry.io",
	"testing"}

// mayPullIn lists the library packages for which something heavy is the point.
var mayPullIn = []struct{ pkg, heavy, why string }{
	{"onced/saga/definition", "net/http", "makes steps that are HTTP calls"},
	{"onced/saga/egress", "net/http", "the guarded outbound HTTP client"},
	{"onced/saga/httpstep", "net/http", "steps that are HTTP calls"},
	{"onced/saga/idemhttp", "net/http", "middleware for net/http services"},
	{"onced/watcher/bitcoin", "net/http", "talks JSON-RPC to a node"},
	{"onced/watcher/evm", "net/http", "talks JSON-RPC to a node"},
}

// within matches an import path with "x" or "x/...".
func within(pkg, pattern string) bool {
	root, below := strings.CutSuffix(pattern, "/...")
	return pkg == root || below && strings.HasPrefix(pkg, root+"/")
}

func withinAny(pkg string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return within(pkg, p) })
}

// ofModule matches an import path with a module or a part of its path.
func ofModule(pkg, module string) bool { return pkg == module || strings.HasPrefix(pkg, module+"/") }

// isTestSupport tells whether a package exists for tests: it or one above it
// is named so, as kvtest and watchertest are.
func isTestSupport(pkg string) bool {
	return slices.ContainsFunc(strings.Split(pkg, "/"), func(part string) bool {
		return len(part) > len("test") && strings.HasSuffix(part, "test")
	})
}

func inLibrary(pkg string) bool {
	return slices.ContainsFunc(libraryDirs, func(dir string) bool {
		return within(pkg, modulePath+"/"+dir+"/...")
	})
}

// eachImport reports for every import for which complain says something.
func eachImport(complain func(s *source, imported string) string) func(*module) []violation {
	return func(m *module) (out []violation) {
		for _, s := range m.goFiles() {
			for _, spec := range s.ast.Imports {
				imported, _ := strconv.Unquote(spec.Path.Value)
				if text := complain(s, imported); text != "" {
					out = append(out, m.at(s, spec.Pos(), imported, text))
				}
			}
		}
		return out
	}
}

func layerComplaint(s *source, imported string) string {
	from := s.pkg()
	if !ofModule(imported, modulePath) || imported == from {
		return ""
	}
	for _, l := range layers {
		if !within(from, l.from) {
			continue
		}
		may := l.may
		switch {
		case s.test && !within(from, "onced/web/..."):
			may = append([]string{"onced/kv/..."}, may...)
		case s.main() && inLibrary(from): // an example or a measuring program
			may = []string{"onced/kv/...", "onced/saga/...", "onced/watcher/..."}
		case isTestSupport(from):
			may = append([]string{"onced/kv/..."}, may...)
		}
		if withinAny(imported, may) {
			return ""
		}
		return fmt.Sprintf("%s must not import %s; it may import %q", from, imported, may)
	}
	return fmt.Sprintf("%s has no line in the table of layers", from)
}

func engineComplaint(s *source, imported string) string {
	if !slices.Contains(engines, imported) || s.support() || s.main() || withinAny(s.pkg(), pickEngines) {
		return ""
	}
	return fmt.Sprintf("%s must not know the engine %s: take a kv.Store", s.pkg(), imported)
}

func supportComplaint(s *source, imported string) string {
	if !ofModule(imported, modulePath) || !isTestSupport(imported) || s.support() {
		return ""
	}
	return fmt.Sprintf("%s is for tests; %s is not a test", imported, s.path)
}

func thirdPartyComplaint(s *source, imported string) string {
	for _, t := range thirdParty {
		// echo/v4 and echo-jwt are both Echo's; prometheus holds many modules.
		if strings.HasPrefix(imported, t.module) && !withinAny(s.pkg(), t.may) {
			return fmt.Sprintf("%s only in %q: %s", imported, t.may, t.why)
		}
	}
	return ""
}

func stdComplaint(s *source, imported string) string {
	for _, f := range forbiddenImports {
		if imported != f.pkg || s.support() || withinAny(s.pkg(), f.may) {
			continue
		}
		if f.libs && (s.main() || !inLibrary(s.pkg())) {
			continue
		}
		return fmt.Sprintf("%s: %s", imported, f.why)
	}
	return ""
}

// checkDeps looks at all that the library packages pull in.
func checkDeps(m *module) (out []violation) {
	for pkg, deps := range m.deps {
		for _, h := range heavy {
			found := slices.IndexFunc(deps, func(d string) bool {
				return d == h || h != "net/http" && h != "testing" && strings.HasPrefix(d, h)
			})
			if found < 0 || h == "testing" && isTestSupport(pkg) || pullsInByDesign(pkg, h) {
				continue
			}
			out = append(out, violation{file: strings.TrimPrefix(pkg, modulePath+"/"), name: h,
				text: fmt.Sprintf("%s pulls in %s; its users did not ask for it", pkg, deps[found])})
		}
	}
	return out
}

func pullsInByDesign(pkg, what string) bool {
	for _, m := range mayPullIn {
		if ofModule(pkg, m.pkg) && m.heavy == what {
			return true
		}
	}
	return false
}
