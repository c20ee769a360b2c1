package tidy

import (
	"path"
	"strings"
)

// sample is a small module for a rule's own test.
type sample struct {
	what  string
	bad   bool // the rule must find exactly one violation
	files map[string]string
	deps  map[string][]string
}

// in is a module of one file.
func in(file, text string) map[string]string { return map[string]string{file: text} }

// src is a module of one Go file, in the package of its folder.
func src(file, body string) map[string]string {
	return in(file, "package "+path.Base(path.Dir(file))+"\n\n"+body+"\n")
}

// imports is a module of one Go file that imports.
func imports(file, pkg string, paths ...string) map[string]string {
	return in(file, "package "+pkg+"\n\nimport (\n\t_ \""+strings.Join(paths, "\"\n\t_ \"")+"\"\n)\n")
}

func bad(what string, files map[string]string) sample {
	return sample{what: what, bad: true, files: files}
}

func good(what string, files map[string]string) sample {
	return sample{what: what, files: files}
}

// lines is a body of n statements.
func lines(n int) string { return strings.Repeat("\t_ = 0\n", n) }

// samples has, for each rule, sources on which it fires and near misses.
var samples = map[string][]sample{
	"layers": {
		bad("kv imports what is below it", imports("kv/a.go", "kv", "onced/kv/feed")),
		bad("kv knows sagas", imports("kv/inbox/a.go", "inbox", "onced/saga")),
		bad("kv knows sagas in a test", imports("kv/inbox/a_test.go", "inbox", "onced/saga")),
		bad("saga imports watcher", imports("saga/a.go", "saga", "onced/watcher")),
		bad("watcher imports part of saga", imports("watcher/bitcoin/a.go", "bitcoin", "onced/saga/egress")),
		bad("saga imports api", imports("saga/a.go", "saga", "onced/api/problem")),
		bad("web imports ours", imports("web/a.go", "web", "onced/kv/money")),
		bad("web imports ours in a test", imports("web/a_test.go", "web", "onced/kv/money")),
		bad("api imports web outside the composition root", imports("api/a.go", "api", "onced/web")),
		bad("main imports more than the command line", imports("main.go", "main", "onced/saga")),
		bad("money is a leaf", imports("kv/money/a.go", "money", "onced/kv")),
		bad("an engine imports a protocol", imports("kv/boltkv/a.go", "boltkv", "onced/kv/claim")),
		bad("a package without a place", imports("cmd/a.go", "cmd", "onced/kv")),
		bad("an example reaches up to api", imports("kv/example/a.go", "main", "onced/api/app")),
		good("down", imports("saga/a.go", "saga", "onced/kv", "onced/kv/claim", "fmt")),
		good("the composition root",
			imports("api/app/a.go", "app", "onced/web", "onced/kv/boltkv", "onced/saga")),
		good("tests of kv use an engine", imports("kv/a_test.go", "kv_test", "onced/kv", "onced/kv/memkv")),
		good("an example uses sagas", imports("kv/example/a.go", "main", "onced/saga", "onced/kv/boltkv")),
		good("a name that only begins like ours", imports("kv/a.go", "kv", "oncedog/saga")),
	},
	"engines": {
		bad("a protocol knows an engine", imports("kv/claim/a.go", "claim", "onced/kv/boltkv")),
		bad("a saga knows an engine", imports("saga/a.go", "saga", "onced/kv/memkv")),
		bad("an api package knows an engine", imports("api/inbox/a.go", "inbox", "onced/kv/group")),
		good("a test", imports("kv/claim/a_test.go", "claim", "onced/kv/memkv")),
		good("test support", imports("saga/sagatest/a.go", "sagatest", "onced/kv/memkv")),
		good("an example", imports("kv/example/a.go", "main", "onced/kv/boltkv")),
		good("the composition root", imports("api/app/a.go", "app", "onced/kv/boltkv")),
	},
	"test-support": {
		bad("production code", imports("kv/claim/a.go", "claim", "onced/kv/kvtest")),
		bad("below kvtest", imports("api/app/a.go", "app", "onced/kv/kvtest/system")),
		good("a test", imports("kv/claim/a_test.go", "claim", "onced/kv/kvtest")),
		good("other test support", imports("saga/sagatest/a.go", "sagatest", "onced/kv/kvtest")),
	},
	"third-party": {
		bad("Echo outside api", imports("web/a.go", "web", "github.com/labstack/echo/v4")),
		bad("Echo's middleware outside api", imports("saga/a.go", "saga", "github.com/labstack/echo-jwt/v4")),
		bad("Prometheus in api",
			imports("api/a.go", "api", "github.com/prometheus/client_golang/prometheus")),
		bad("OpenTelemetry in saga", imports("saga/a.go", "saga", "go.opentelemetry.io/otel/trace")),
		bad("gRPC anywhere", imports("api/trace/a.go", "trace", "google.golang.org/grpc/status")),
		good("OpenTelemetry in trace",
			imports("api/trace/a.go", "trace", "go.opentelemetry.io/proto/otlp/trace/v1")),
		bad("decimal outside money", imports("kv/feed/a.go", "feed", "github.com/shopspring/decimal")),
		bad("decimal in a test outside money",
			imports("kv/feed/a_test.go", "feed", "github.com/shopspring/decimal")),
		bad("bbolt outside its engine", imports("kv/backup/a.go", "backup", "go.etcd.io/bbolt")),
		bad("testify", imports("kv/a_test.go", "kv", "github.com/stretchr/testify/require")),
		good("Echo in api", imports("api/inbox/a.go", "inbox", "github.com/labstack/echo/v4/middleware")),
		good("Prometheus in metrics",
			imports("api/metrics/a.go", "metrics", "github.com/prometheus/client_golang")),
		good("decimal in money", imports("kv/money/a.go", "money", "github.com/shopspring/decimal")),
	},
	"std-imports": {
		bad("testing in production code", imports("kv/faultkv/a.go", "faultkv", "testing")),
		bad("math/rand in production code", imports("saga/a.go", "saga", "math/rand/v2")),
		bad("log in a library", imports("watcher/a.go", "watcher", "log")),
		bad("expvar anywhere", imports("api/metrics/a.go", "metrics", "expvar")),
		good("testing in a test", imports("kv/a_test.go", "kv", "testing", "math/rand")),
		good("testing in test support", imports("kv/kvtest/mutant/a.go", "mutant", "testing")),
		good("slog in a library, log in a program", map[string]string{
			"saga/a.go":       "package saga\n\nimport _ \"log/slog\"\n",
			"kv/example/b.go": "package main\n\nimport _ \"log\"\n",
		}),
	},
	"deps": {
		{what: "net/http by a detour", bad: true,
			deps: map[string][]string{"onced/saga": {"fmt", "net/http"}}},
		{what: "Prometheus by a detour", bad: true,
			deps: map[string][]string{"onced/kv": {"github.com/prometheus/client_golang/prometheus"}}},
		{what: "OpenTelemetry by a detour", bad: true,
			deps: map[string][]string{"onced/saga/idemhttp": {"net/http", "go.opentelemetry.io/otel"}}},
		{what: "Echo even where HTTP is allowed", bad: true,
			deps: map[string][]string{"onced/saga/egress": {"net/http", "github.com/labstack/echo/v4"}}},
		{what: "testing in production code", bad: true,
			deps: map[string][]string{"onced/kv/faultkv": {"testing"}}},
		{what: "where HTTP is the point", deps: map[string][]string{"onced/saga/httpstep": {"net/http"}}},
		{what: "a small part of HTTP",
			deps: map[string][]string{"onced/saga": {"net/http/internal"}}},
		{what: "test support", deps: map[string][]string{"onced/kv/kvtest": {"testing"}}},
	},
	"func-lines": {
		bad("71 lines", src("kv/a.go", "func f() {\n"+lines(69)+"}")),
		good("70 lines", src("kv/a.go", "// comment\nfunc f() {"+lines(68)+"}")),
	},
	"file-lines": {
		bad("501 lines", in("kv/a.go", "package kv\n"+strings.Repeat("\n", 500))),
		good("500 lines, and a test of more", map[string]string{
			"kv/a.go":      "package kv\n" + strings.Repeat("\n", 499),
			"kv/a_test.go": "package kv\n" + strings.Repeat("\n", 900),
		}),
	},
	"columns": {
		bad("111 columns", src("kv/a.go", "// "+strings.Repeat("x", 108)+"\n")),
		bad("a tab is four", src("kv/a.go", "var (\n\t_ = \""+strings.Repeat("x", 101)+"\"\n)\n")),
		good("110 columns, not bytes", src("kv/a.go", "// "+strings.Repeat("é", 107)+"\n")),
		good("a directive", src("kv/a.go", "//go:generate "+strings.Repeat("x", 108)+"\n")),
		good("data", src("kv/a.go", "var _ = `"+strings.Repeat("x", 200)+"\n`\n")),
	},
	"params": {
		bad("five", src("kv/a.go", "func f(a, b int, c, d, e string) {}")),
		bad("five in an interface", src("kv/a.go", "type i interface{ M(a, b, c, d, e int) }")),
		bad("five without names", src("kv/a.go", "type i interface{ M(int, int, int, int, int) }")),
		good("four after context and transaction",
			src("saga/a.go", "func f(ctx context.Context, w kv.Writer, a, b, c, d int) {}")),
		good("four after the transaction, in kv", src("kv/a.go", "func f(w Writer, a, b, c, d int) {}")),
		good("four after the test", src("kv/a_test.go", "func f(t *testing.T, a, b, c, d int) {}")),
	},
	"interface-methods": {
		bad("six", src("kv/a.go", "type I interface { A(); B(); C(); D(); E(); F() }")),
		good("five and a part", src("kv/a.go", "type I interface { J; A(); B(); C(); D(); E() }")),
		good("not exported", src("kv/a.go", "type i interface { A(); B(); C(); D(); E(); F() }")),
	},
	"file-size": {
		bad("too large", in("kv/a.txt", strings.Repeat("x", maxFileBytes+1))),
		bad("a binary", in("kv/tool", "\x7fELF\x00\x00")),
		bad("a picture in the wrong place", in("kv/logo.png", "PNG\x00")),
		good("test data", in("kv/testdata/old.db", strings.Repeat("\x00", maxFileBytes+1))),
		good("a picture of the page", in("web/assets/logo.png", "PNG\x00")),
	},
	"docs": {
		bad("a function", src("kv/a.go", "func F() {}")),
		bad("a method", src("kv/a.go", "// T is.\ntype T[K any] struct{}\n\nfunc (t *T[K]) M() {}")),
		bad("a type", src("kv/a.go", "type T struct{}")),
		bad("a method of an interface", src("kv/a.go", "// I is.\ntype I interface{ M() }")),
		bad("a constant", src("kv/a.go", "const C = 1")),
		bad("one of a group", src("kv/a.go", "// All.\nvar (\n\tA = 1 // is one\n\tB = 2\n)")),
		bad("only a directive", src("kv/a.go", "//go:noinline\nfunc F() {}")),
		good("all said", src("kv/a.go", "// F does.\nfunc F() {}\n\n// C is.\nconst C = 1\n\nfunc g() {}")),
		good("exported in name only", src("kv/a.go", "type t struct{}\n\nfunc (t) M() {}")),
		good("a test", src("kv/a_test.go", "func TestX() {}")),
	},
	"package-docs": {
		bad("none", in("kv/a.go", "package kv\n")),
		bad("only in a test",
			map[string]string{"kv/a.go": "package kv\n", "kv/a_test.go": "// Package kv is.\npackage kv\n"}),
		bad("two",
			map[string]string{
				"kv/a.go": "// Package kv is.\npackage kv\n", "kv/b.go": "// Package kv is.\npackage kv\n"}),
		good("one",
			map[string]string{"kv/a.go": "// Package kv is.\npackage kv\n", "kv/b.go": "package kv\n"}),
	},
	"titles": {
		bad("none", in("README.md", "text\n\n## part\n")),
		bad("two", in("README.md", "# one\n\n# two\n")),
		good("one, and a comment in a listing", in("README.md", "# one\n\n```sh\n# comment\nmake\n```\n")),
	},
	"clock": {
		bad("Now", src("kv/claim/a.go", "import \"time\"\n\nvar now = time.Now")),
		bad("Since under another name", src("saga/a.go", "import t \"time\"\n\nvar s = t.Since(x)")),
		bad("Until in a program",
			in("kv/example/a.go", "package main\n\nimport \"time\"\n\nvar s = time.Until(x)\n")),
		good("the clock", src("kv/clock.go", "import \"time\"\n\nvar now = time.Now")),
		good("a test", src("kv/a_test.go", "import \"time\"\n\nvar now = time.Now")),
		good("another Now", src("kv/a.go", "import \"time\"\n\nvar d time.Duration\n\nvar n = w.Now()")),
	},
	"sleep": {
		bad("production code", src("kv/a.go", "import \"time\"\n\nfunc f() { time.Sleep(1) }")),
		bad("a test", src("kv/a_test.go", "import \"time\"\n\nfunc f() { time.Sleep(1) }")),
		good("a bubble",
			src("kv/a_test.go", "import \"time\"\nimport _ \"testing/synctest\"\n\nvar f = time.Sleep")),
	},
	"random": {
		bad("Read", src("kv/a.go", "import \"crypto/rand\"\n\nfunc New() { rand.Read(nil) }")),
		bad("Reader outside a constructor",
			src("kv/a.go", "import \"crypto/rand\"\n\nfunc f() { use(rand.Reader) }")),
		bad("Reader as a global", src("kv/a.go", "import \"crypto/rand\"\n\nvar r = rand.Reader")),
		good("Reader in New",
			src("kv/a.go", "import \"crypto/rand\"\n\nfunc NewThing() { use(rand.Reader) }")),
		good("Reader as a default",
			src("kv/a.go", "import \"crypto/rand\"\n\nfunc (c Config) withDefaults() { use(rand.Reader) }")),
		good("a test", src("kv/a_test.go", "import \"crypto/rand\"\n\nfunc f() { rand.Read(nil) }")),
	},
	"init": {
		bad("init", src("kv/a.go", "func init() {}")),
		good("a method of the name", src("kv/a.go", "func (t T) init() {}")),
	},
	"money-floats": {
		bad("a float in money", src("kv/money/a.go", "func f(x float64) {}")),
		bad("a float literal in money", src("kv/money/a.go", "var x = 0.1")),
		bad("an amount elsewhere", src("api/a.go", "type t struct { AmountPaid *float64 }")),
		bad("a fee as a variable", src("saga/a.go", "var networkFee float32")),
		good("a ratio elsewhere", src("kv/group/a.go", "var fill float64 = 0.9")),
		good("a whole number in money", src("kv/money/a.go", "var places = 2")),
	},
	"error-receivers": {
		bad("a value", src("kv/a.go", "func (e E) Error() string { return \"\" }")),
		good("a pointer", src("kv/a.go", "func (e *E) Error() string { return \"\" }")),
		good("another Error", src("kv/a.go", "func (l L) Error(args ...any) {}")),
	},
	"skips": {
		bad("Skip", src("kv/a_test.go", "func TestA(t *testing.T) { t.Skip(\"later\") }")),
		bad("Skipf of a helper", src("kv/kvtest/a.go", "func f(tb testing.TB) { tb.Skipf(\"later\") }")),
		bad("Short", src("kv/a_test.go", "import \"testing\"\n\nvar s = testing.Short()")),
		bad("a build tag", in("kv/a_test.go", "//go:build slow\n\npackage kv\n")),
		good("another Skip", src("kv/a.go", "func f(d *Decoder) { d.Skip() }")),
		good("the explicit way", in(skipFile, "package system\n\nfunc Need(t testing.TB) { t.Skip() }\n")),
		good("a platform", in("kv/a_test.go", "//go:build linux && !race\n\npackage kv\n")),
	},
	"unfinished": {
		bad("in code", src("kv/a.go", "// TO"+"DO: later\n")),
		bad("in a script", in(".ci/run", "# FIX"+"ME\n")),
		good("a longer word", src("kv/a.go", "var TO"+"DOS int\n")),
		good("ISO 4217, no currency", src("kv/a.go", "var none = \"XXX\"")),
	},
	"workplace": {
		bad("a path", in("README.md", "cd /wo"+"rk/x\n")),
		good("another path", in("README.md", "cd /wo"+"rkspace\n")),
	},
	"registries": {
		bad("a host", in("Makefile", "GOPROXY=https://proxy.gol"+"ang.org\n")),
		good("go.sum", in("go.sum", "sum.gol"+"ang.org h1:\n")),
	},
	"top-level": {
		bad("a new folder", in("cmd/main.go", "package main\n")),
		bad("a new file", in("NOTES.md", "# notes\n")),
		good("the layout", map[string]string{"main.go": "package main\n", "kv/a.go": "package kv\n"}),
	},
}
