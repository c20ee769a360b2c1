package mutant

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// atOnce bounds the mutants that are built at a time: each is a run of the
// compiler and the linker.
const atOnce = 2

// fewest is how many mutants there are at least. Whoever adds some may raise it;
// who takes some away lowers it with a reason.
const fewest = 440

// core are the mutants that every run of the tests makes: breaks of what onced is
// there for. The rest take a quarter of an hour, and run with ONCED_MUTANTS=all
// (make mutants); that each of them still fits its source is checked always.
var core = strings.Fields(`
	answer-before-commit view-ignores-durability undo-skipped-on-error
	leader-does-not-wait-for-the-group-before rows-in-doubt-are-read acknowledged-though-the-clock-broke
	commit-error-ignored no-sync no-epoch-increment foreign-bbolt-file-accepted
	skip-fencing save-without-owner-check free-on-unknown refusal-after-doubt-accepted lapsed-lease-is-free
	takeover-without-doubt absence-accepted-before-settling sweep-of-open-claims retention-overflows
	head-not-written entry-of-cursor-not-compared no-wake-up timer-fires-twice marks-count-from-one
	zero-byte-not-escaped unknown-fields-accepted clock-goes-backwards kept-is-lost json-numbers-taken
	saga-unknown-as-not-done saga-save-before-the-effect saga-absence-too-early saga-refusal-after-doubt
	machine-undo-out-of-order machine-undo-of-a-refused-step machine-unknown-undone-unresolved
	saga-outcome-before-the-call saga-call-before-its-intent saga-key-from-the-try
	server-error-is-a-refusal mismatch-shown-as-in-flight guarded-get
	retry-by-the-transport client-cuts-off-the-upstream routes-share-scopes-with-the-api
	owners-verbs-on-routes no-permission-is-asked claims-of-others-are-seen
	the-secret-is-stored revoked-token-from-the-cache
	snapshot-kept-from-group-to-group claim-row-with-a-tail-accepted saga-a-closed-run-calls-again
	guard-off-at-dial follow-redirects unknown-after-send-is-free refusals-too-wide
	definition-unclear-reply-as-not-done definition-secret-is-kept definition-api-is-trusted
	runs-of-others-are-seen callback-tokens-are-not-checked`)

// TestMutants runs the mutants that packages of this module list: the core, or
// all of them.
func TestMutants(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	lists, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	listed := 0
	for _, list := range lists {
		listed += len(list)
	}
	if listed < fewest {
		t.Errorf("%d mutants are listed; there were %d", listed, fewest)
	}
	r := NewRunner(root, t.TempDir(), time.Minute)
	start := time.Now()
	t.Cleanup(func() { // after all of them
		s := r.Stats()
		t.Logf("%d mutants listed, %d noticed in %s; noticed by a test that hung: %d %q",
			listed, s.Noticed, time.Since(start).Round(time.Second), len(s.Hung), s.Hung)
	})
	all := os.Getenv("ONCED_MUTANTS") == "all"
	missing := slices.Clone(core)
	slots := make(chan struct{}, atOnce)
	for file, list := range lists {
		for _, m := range list {
			missing = slices.DeleteFunc(missing, func(name string) bool { return name == m.Name })
			if _, err := r.overlay(t.TempDir(), m); err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			if !all && !slices.Contains(core, m.Name) {
				continue
			}
			t.Run(strings.TrimSuffix(file, "/"+ListName)+"/"+m.Name, func(t *testing.T) {
				t.Parallel()
				slots <- struct{}{}
				defer func() { <-slots }()
				if err := r.Run(t.Context(), m); err != nil {
					t.Error(err)
				}
			})
		}
	}
	if len(missing) > 0 {
		t.Errorf("of the core, no package lists %q", missing)
	}
}

// TestRunner runs the mutants of a small module, of which it is known what
// becomes of each.
func TestRunner(t *testing.T) {
	r := NewRunner(abs(t, "testdata/module"), t.TempDir(), 2*time.Second)
	base := Mutant{
		Name: "m", File: "sum/sum.go", Old: "a + b", New: "a - b", Package: "./sum", Test: "^TestSum$",
	}
	for _, c := range []struct {
		name   string
		change func(*Mutant)
		want   string // "" for a mutant that is noticed
	}{
		{"noticed", func(*Mutant) {}, ""},
		{"noticed by a panic", func(m *Mutant) { m.New = "[]int{}[a]" }, ""},
		{"noticed as a hang", func(m *Mutant) { m.New = "hang(a)" }, ""},
		{"noticed from another package", func(m *Mutant) { m.Package, m.Test = "./user", "." }, ""},
		{"survives", func(m *Mutant) { m.New = "b + a" }, "survived"},
		{"does not compile", func(m *Mutant) { m.New = "a +" }, "does not compile"},
		{"stands twice", func(m *Mutant) { m.Old = "int" }, "not once"},
		{"stands nowhere", func(m *Mutant) { m.Old = "a * b" }, "stands 0 times"},
		{"no such file", func(m *Mutant) { m.File = "sum/none.go" }, "no such file"},
		{"no such test", func(m *Mutant) { m.Test = "^TestNone$" }, "ran no test"},
		{"a test that fails anyway", func(m *Mutant) { m.Test = "^TestFails$" }, "fails without a mutant"},
		{"a test that is skipped", func(m *Mutant) { m.Test = "^Test(Sum|Skipped)$" }, "skips a test"},
		{"a package without tests", func(m *Mutant) { m.Package = "./none" }, "no tests"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := base
			c.change(&m)
			err := r.Run(t.Context(), m)
			if c.want == "" && err != nil {
				t.Errorf("got %v, want the mutant noticed", err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
			var survived *SurvivedError
			if got, want := errors.As(err, &survived), c.want == "survived"; got != want {
				t.Errorf("is a SurvivedError: %t, want %t", got, want)
			}
		})
	}
	if s := r.Stats(); s.Noticed != 4 || len(s.Hung) != 1 {
		t.Errorf("%+v, want 4 noticed, 1 of them by a hang", s)
	}
}

// A mutant that hangs costs a small multiple of what its tests take, not the
// limit of all tests.
func TestAHangIsCutShort(t *testing.T) {
	t.Parallel()
	r := NewRunner(abs(t, "testdata/module"), t.TempDir(), time.Hour)
	err := r.Run(t.Context(), Mutant{Name: "hang", File: "sum/sum.go", Old: "a + b", New: "hang(a)",
		Package: "./sum", Test: "^TestSum$"})
	if s := r.Stats(); err != nil || len(s.Hung) != 1 {
		t.Errorf("%v, %+v", err, s)
	}
}

func TestLoad(t *testing.T) {
	good := `{"name":"m","file":"f.go","old":"a","new":"","package":"./p","test":"T","why":"w"}`
	for _, c := range []struct{ list, want string }{
		{"[" + good + "]", ""},
		{"[]", "an empty list"},
		{"[" + good + "," + good + "]", "listed twice"},
		{"[" + strings.Replace(good, `"w"`, `""`, 1) + "]", "must be set"},
		{"[" + strings.Replace(good, `"new":""`, `"new":"a"`, 1) + "]", "changes nothing"},
		{"[" + strings.Replace(good, `"why"`, `"wyh"`, 1) + "]", "unknown field"},
	} {
		root := t.TempDir()
		write(t, filepath.Join(root, "kv/p", ListName), c.list)
		write(t, filepath.Join(root, "kv/q/testdata/m/go.mod"), "module m\n")
		write(t, filepath.Join(root, "kv/q/testdata/m", ListName), "of another module")
		lists, err := Load(root)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want an error with %q", c.list, err, c.want)
			}
			continue
		}
		if err != nil || len(lists) != 1 || len(lists["kv/p/"+ListName]) != 1 {
			t.Errorf("%s: %v, %v", c.list, lists, err)
		}
	}
}

func abs(t *testing.T, name string) string {
	t.Helper()
	p, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
