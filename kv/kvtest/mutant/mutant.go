// Package mutant checks that tests notice the mistakes that matter: it makes a
// mistake in the source on purpose (a mutant), runs the test that should
// notice, and complains when the test passes.
//
// A package lists its mutants in testdata/mutants.json, see [Mutant]. A mutant
// is applied through the Go tool's overlay, so that no file changes: a crash
// leaves nothing behind but a folder of temporary files.
//
// It guarantees that a listed mutant compiles, that its tests exist and pass
// without it, and that they fail with it; a test that hangs until its limit has
// noticed too, and is named in [Stats]. The limit is three times what the tests
// took without the mutant, and 10 seconds at least. It does not say that other
// mistakes would be noticed. The caller lists the mistakes worth a mutant, with
// the reason of each.
package mutant

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"onced/kv"
)

// ListName is where a package keeps its list of mutants.
const ListName = "testdata/mutants.json"

// Mutant is one mistake. All fields but New must be set.
type Mutant struct {
	Name    string `json:"name"`    // says the mistake, for example "skip-fencing"
	File    string `json:"file"`    // the source, relative to the module
	Old     string `json:"old"`     // stands exactly once in the file
	New     string `json:"new"`     // takes its place; "" removes it
	Package string `json:"package"` // the package that holds the tests, for example "./kv/claim"
	Test    string `json:"test"`    // the tests that must notice, as for go test -run
	Why     string `json:"why"`     // what a user would lose by the mistake
}

// Runner runs mutants of one module. It is safe for concurrent use.
type Runner struct {
	root    string        // the module
	work    string        // holds overlays and test programs
	timeout time.Duration // of one run of the tests, at most
	clock   kv.Clock

	mu    sync.Mutex
	bins  map[string]func() (string, error)        // package → its tests as they are
	sound map[string]func() (time.Duration, error) // package and test → what they take so
	stats Stats
}

// Stats say what a Runner has done.
type Stats struct {
	Noticed int      // mutants that a test noticed
	Hung    []string // those of them noticed by a test that hung: worth a look, for each costs its limit
}

// NewRunner makes a runner for the module at root. Temporary files go to work,
// which the caller removes. No run of tests takes longer than timeout.
func NewRunner(root, work string, timeout time.Duration) *Runner {
	return &Runner{root: root, work: work, timeout: timeout, clock: kv.SystemClock(),
		bins: map[string]func() (string, error){}, sound: map[string]func() (time.Duration, error){}}
}

// Stats returns what was done so far.
func (r *Runner) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Stats{Noticed: r.stats.Noticed, Hung: slices.Clone(r.stats.Hung)}
}

// The limit of a mutant's tests is hangFactor times what they take without it,
// and leastLimit at least: on a busy machine a quick test may take seconds, and
// must not be taken for one that hangs.
const (
	hangFactor = 3
	leastLimit = 10 * time.Second
)

// SurvivedError says that no test noticed a mutant.
type SurvivedError struct {
	Mutant Mutant
	Output string // of the tests that passed
}

// Error names the mutant, and what its survival means.
func (e *SurvivedError) Error() string {
	m := e.Mutant
	return fmt.Sprintf("mutant %q survived: %s in %s passes although in %s\n%s\nis replaced by\n%s\n(%s)",
		m.Name, m.Test, m.Package, m.File, m.Old, m.New, m.Why)
}

// Load reads all lists of the module, each with the name of its file.
func Load(root string) (map[string][]Mutant, error) {
	lists := map[string][]Mutant{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // a temporary file that went away meanwhile
		case err != nil:
			return err
		case d.IsDir() && name != root && (strings.HasPrefix(d.Name(), ".") || isModule(name)):
			return fs.SkipDir
		case !strings.HasSuffix(filepath.ToSlash(name), "/"+ListName):
			return nil
		}
		list, err := read(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		rel, err := filepath.Rel(root, name)
		lists[filepath.ToSlash(rel)] = list
		return err
	})
	return lists, err
}

// isModule tells whether a folder is a module of its own, as in testdata.
func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

func read(name string) ([]Mutant, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var list []Mutant
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&list); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errors.New("an empty list")
	}
	seen := map[string]bool{}
	for i, m := range list {
		if slices.Contains([]string{m.Name, m.File, m.Old, m.Package, m.Test, m.Why}, "") {
			return nil, fmt.Errorf("mutant %d (%q): all but new must be set", i, m.Name)
		}
		if m.Old == m.New {
			return nil, fmt.Errorf("mutant %q changes nothing", m.Name)
		}
		if seen[m.Name] {
			return nil, fmt.Errorf("mutant %q is listed twice", m.Name)
		}
		seen[m.Name] = true
	}
	return list, nil
}

// Run returns nil when the mutant's tests notice it, a [SurvivedError] when
// they do not, and another error when the mutant itself is wrong: it does not
// apply or compile, or its tests do not exist or fail without it.
func (r *Runner) Run(ctx context.Context, m Mutant) error {
	took, err := r.soundOnce(ctx, m)()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(r.work, "mutant-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	overlay, err := r.overlay(dir, m)
	if err != nil {
		return err
	}
	bin := filepath.Join(dir, "mutant.test")
	if err := r.build(ctx, m.Package, bin, "-overlay", overlay); err != nil {
		return fmt.Errorf("mutant %q does not compile: %w", m.Name, err)
	}
	limit := min(max(hangFactor*took, leastLimit), r.timeout)
	out, err := r.run(ctx, m, bin, "-test.failfast", "-test.timeout", limit.String())
	var exit *exec.ExitError
	switch {
	case err == nil:
		return &SurvivedError{Mutant: m, Output: out}
	case errors.As(err, &exit) && exit.Exited() && ctx.Err() == nil:
		r.noticed(m, out)
		return nil // ended by a signal would say nothing of the tests
	}
	return fmt.Errorf("mutant %q: %w\n%s", m.Name, err, out)
}

func (r *Runner) noticed(m Mutant, out string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Noticed++
	if strings.Contains(out, "panic: test timed out") {
		r.stats.Hung = append(r.stats.Hung, m.Name)
	}
}

// soundOnce returns the check of the tests without a mutant; it runs once for
// all mutants that share the tests.
func (r *Runner) soundOnce(ctx context.Context, m Mutant) func() (time.Duration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := m.Package + "\x00" + m.Test
	if r.sound[key] == nil {
		r.sound[key] = sync.OnceValues(func() (time.Duration, error) { return r.checkSound(ctx, m) })
	}
	return r.sound[key]
}

// buildOnce returns the tests of a package without a mutant.
func (r *Runner) buildOnce(ctx context.Context, pkg string) func() (bin string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bins[pkg] == nil {
		r.bins[pkg] = sync.OnceValues(func() (string, error) {
			dir, err := os.MkdirTemp(r.work, "sound-")
			if err != nil {
				return "", err
			}
			bin := filepath.Join(dir, "sound.test")
			if err := r.build(ctx, pkg, bin); err != nil {
				return "", fmt.Errorf("%s does not compile without a mutant: %w", pkg, err)
			}
			return bin, nil
		})
	}
	return r.bins[pkg]
}

// checkSound makes sure that the tests exist and pass as they are, and returns
// how long they take.
func (r *Runner) checkSound(ctx context.Context, m Mutant) (time.Duration, error) {
	bin, err := r.buildOnce(ctx, m.Package)()
	if err != nil {
		return 0, err
	}
	start := r.clock.Now()
	out, err := r.run(ctx, m, bin, "-test.v", "-test.timeout", r.timeout.String())
	took := r.clock.Now().Sub(start)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s in %s fails without a mutant: %w\n%s", m.Test, m.Package, err, out)
	case !strings.Contains(out, "--- PASS"):
		return 0, fmt.Errorf("%s in %s ran no test:\n%s", m.Test, m.Package, out)
	case strings.Contains(out, "--- SKIP"):
		return 0, fmt.Errorf("%s in %s skips a test:\n%s", m.Test, m.Package, out)
	}
	return took, nil
}

// overlay writes the changed source, and the file that tells the Go tool to
// take it.
func (r *Runner) overlay(dir string, m Mutant) (string, error) {
	source := filepath.Join(r.root, filepath.FromSlash(m.File))
	text, err := os.ReadFile(source)
	if err != nil {
		return "", fmt.Errorf("mutant %q: %w", m.Name, err)
	}
	if n := bytes.Count(text, []byte(m.Old)); n != 1 {
		return "", fmt.Errorf("mutant %q does not apply: %q stands %d times in %s, not once",
			m.Name, m.Old, n, m.File)
	}
	changed := filepath.Join(dir, filepath.Base(source))
	text = bytes.Replace(text, []byte(m.Old), []byte(m.New), 1)
	if err := os.WriteFile(changed, text, 0o600); err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {source: changed}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, list, 0o600)
}

func (r *Runner) build(ctx context.Context, pkg, bin string, flags ...string) error {
	args := append([]string{"test", "-vet=off", "-c", "-o", bin}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Dir = r.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	if _, err := os.Stat(bin); err != nil {
		return fmt.Errorf("%s has no tests: %w", pkg, err)
	}
	return nil
}

// run runs the tests in the folder of their package, as go test does.
func (r *Runner) run(ctx context.Context, m Mutant, bin string, flags ...string) (string, error) {
	args := append([]string{"-test.run", m.Test, "-test.count=1"}, flags...)
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Dir = filepath.Join(r.root, filepath.FromSlash(m.Package))
	out, err := cmd.CombinedOutput()
	return string(out), err
}
