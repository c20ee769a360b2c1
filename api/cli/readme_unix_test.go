//go:build unix

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"onced/kv/kvtest/system"
)

// The tour of the README is run as it stands there. What is done is said by
// comments in front of the listings:
//
//	<!-- tour: terminal N -->         type the listing of sh into a shell; a listing of
//	                                  text behind it is what it prints
//	<!-- tour: terminal N, stays -->  the same, and its last command goes on
//	<!-- tour: file NAME -->          save the listing
//	<!-- tour: log TEXT -->           wait until the service in terminal 2 says so
//
// In what is printed, … stands for any text in a line, and a line of it for any
// lines. What differs from a reader's terminal: ports and the folder of the demo
// are free ones, "onced_…" is pasted, and the folder is not that of the clone.
const readme = "../../README.md"

// tourStep is a marked part of the README.
type tourStep struct {
	line int
	what string // behind "tour: "
	text string // the listing
	want string // the listing of text behind it
}

var (
	tourMark = regexp.MustCompile(`^<!-- tour: (.*) -->$`)
	fence    = regexp.MustCompile("^```([a-z]*)$")
)

// readTour takes the steps out of a text. Every listing of sh in the section
// "A tour", and every comment of a tour, has to be one.
func readTour(t *testing.T, text string) []tourStep {
	t.Helper()
	var steps []tourStep
	var mark *tourStep // waits for its listing
	var open *string   // takes in the lines of a listing
	last := -1         // the line in which the last listing of a step ended
	section := ""
	for i, line := range strings.Split(text, "\n") {
		f := fence.FindStringSubmatch(line)
		switch {
		case open != nil && line == "```":
			open, last = nil, i
		case open != nil:
			*open += line + "\n"
		case strings.HasPrefix(line, "## "):
			section = line
		case tourMark.MatchString(line):
			steps = append(steps, tourStep{line: i + 1, what: tourMark.FindStringSubmatch(line)[1]})
			if mark = &steps[len(steps)-1]; strings.HasPrefix(mark.what, "log ") {
				mark = nil
			}
		case f != nil && mark != nil:
			open, mark = &mark.text, nil
		case f != nil && f[1] == "text" && len(steps) > 0 && last == i-1:
			open = &steps[len(steps)-1].want
		case f != nil && f[1] == "sh" && section == "## A tour":
			t.Errorf("line %d: a listing that nobody runs", i+1)
			open = new(string)
		case f != nil:
			open = new(string)
		}
	}
	if mark != nil || open != nil {
		t.Fatal("a mark or a listing has no end")
	}
	return steps
}

// pattern is the expression for what is printed.
func pattern(want string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRight(want, "\n")) {
		switch line = strings.TrimRight(line, "\n"); line {
		case "…":
			b.WriteString(`(?:.*\n)*?`)
		default:
			b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*?") + `\n`)
		}
	}
	return b.String()
}

// screen is what a terminal shows.
type screen struct {
	mu   sync.Mutex
	more *sync.Cond
	text bytes.Buffer
}

func newScreen() *screen {
	s := &screen{}
	s.more = sync.NewCond(&s.mu)
	return s
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.more.Broadcast()
	return s.text.Write(p)
}

// await returns what is shown once ready is content with it, or when ctx ends.
func (s *screen) await(ctx context.Context, ready func(string) bool) (string, bool) {
	defer context.AfterFunc(ctx, s.more.Broadcast)()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch text := s.text.String(); {
		case ready(text):
			return text, true
		case ctx.Err() != nil:
			return text, false
		}
		s.more.Wait()
	}
}

// tour is a reader with some terminals.
type tour struct {
	t         *testing.T
	dir       string
	terminals map[string]*terminal
	// real are the addresses that stand for those of the README, and the token.
	real map[string]string
	// said counts the steps "log TEXT" by their text.
	said map[string]int
	pid  string // of the service
}

// terminal is a shell.
type terminal struct {
	in     io.Writer
	screen *screen
	seen   int // bytes of the screen that belong to steps before
}

// shell makes the commands of the README work elsewhere: in another folder than
// the clone, and on free ports.
const shell = `
go() {
  local what=$1 package=$2
  shift 2
  case $what$package in
    build.) command go build -C "$ROOT" -o "$PWD/onced" . ;;
    run.)   command go run -C "$ROOT" . "$@" --port 0 --data "$PWD/demo-data-$BASHPID" ;;
    *)      command go run -C "$ROOT" "$package" "$@" -listen 127.0.0.1:0 ;;
  esac
}
pkill() { # only ours, but only if the pattern finds it
  [ "$1" = "-HUP" ] && command pgrep "${@:2}" | grep -qx "$SERVICE" && kill -HUP "$SERVICE"
}
`

func (r *tour) terminal(name string) *terminal {
	if term := r.terminals[name]; term != nil {
		return term
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), "bash")
	cmd.Dir = r.dir
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "ONCED_") && !strings.HasPrefix(pair, "PORT=") {
			cmd.Env = append(cmd.Env, pair)
		}
	}
	cmd.Env = append(cmd.Env, "ROOT="+root, "ONCED_LISTEN=127.0.0.1:0", "ONCED_STORE_MIN_FREE=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that all of it can be ended
	term := &terminal{screen: newScreen()}
	cmd.Stdout, cmd.Stderr = term.screen, term.screen
	if term.in, err = cmd.StdinPipe(); err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		slow := time.AfterFunc(time.Minute, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		defer slow.Stop()
		if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			r.t.Errorf("terminal %s: %v", name, err)
		}
	})
	_, _ = io.WriteString(term.in, shell)
	r.terminals[name] = term
	return term
}

// typeIn runs commands and returns what they print, and their exit status. With
// stays, the last command goes on.
func (r *tour) typeIn(term *terminal, commands string, stays bool) (printed, status string) {
	last := ""
	if stays {
		lines := strings.Split(strings.TrimSpace(commands), "\n")
		commands = strings.Join(lines[:len(lines)-1], "\n")
		last = lines[len(lines)-1] + " </dev/null & PID=$!\n"
	}
	const mark = "=== end of step"
	_, _ = fmt.Fprintf(term.in, "eval \"$(cat <<'END'\n%s\nEND\n)\" </dev/null\nSTATUS=$?\n%s"+
		"echo; echo \"%s $STATUS $PID ===\"\n", r.toReal(commands), r.toReal(last), mark)
	ended := regexp.MustCompile(`\n` + mark + ` (\d+) (\d*) ===\n`)
	text := r.await(term, func(s string) bool { return ended.MatchString(s) })
	at := ended.FindStringSubmatchIndex(text)
	if stays {
		r.pid = text[at[4]:at[5]]
	}
	term.seen += at[1]
	return text[:at[0]], text[at[2]:at[3]]
}

// await waits for something on a screen, and returns what is new there.
func (r *tour) await(term *terminal, ready func(string) bool) string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 3*time.Minute)
	defer cancel()
	text, ok := term.screen.await(ctx, func(s string) bool { return ready(s[term.seen:]) })
	if !ok {
		r.t.Fatalf("this is not what the README promises:\n%s", text[term.seen:])
	}
	return text[term.seen:]
}

func (r *tour) toReal(s string) string {
	for documented, actual := range r.real {
		s = strings.ReplaceAll(s, documented, actual)
	}
	return s
}

// shown is output as the README would have it.
func (r *tour) shown(s string) string {
	for documented, actual := range r.real {
		s = strings.ReplaceAll(s, actual, documented)
	}
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.TrimRight(line, " \r\n") + "\n")
	}
	return strings.TrimLeft(strings.TrimRight(b.String(), "\n")+"\n", "\n")
}

// learn notes the addresses, and the token, that a terminal shows.
func (r *tour) learn(name, text string) {
	documented := map[string]string{"0": "http://localhost:3000", "1": "http://127.0.0.1:9000",
		"2": "http://127.0.0.1:8080"}[name]
	if url := regexp.MustCompile(`http://[a-z0-9.]+:\d+`).FindString(text); url != "" && documented != "" {
		r.real[documented] = url
	}
	if token := regexp.MustCompile(`onced_[a-z2-7]{52}`).FindString(text); token != "" {
		r.real["onced_…"] = token
	}
}

func (r *tour) step(s tourStep) {
	kind, rest, _ := strings.Cut(s.what, " ")
	switch kind {
	case "file":
		path := filepath.Join(r.dir, rest)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			r.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(r.toReal(s.text)), 0o600); err != nil {
			r.t.Fatal(err)
		}
	case "log":
		r.said[rest]++ // once more than before
		r.await(r.terminal("2"), func(text string) bool { return strings.Count(text, rest) >= r.said[rest] })
	case "terminal":
		name, stays := strings.CutSuffix(rest, ", stays")
		if term := r.terminal(name); stays {
			r.leave(name, term, s)
		} else {
			r.run(term, s)
		}
	default:
		r.t.Errorf("line %d: %q is not known", s.line, s.what)
	}
}

// run runs a step to its end.
func (r *tour) run(term *terminal, s tourStep) {
	printed, status := r.typeIn(term, s.text, false)
	if status != "0" {
		r.t.Errorf("line %d: ended with %s", s.line, status)
	}
	got := r.shown(printed)
	if !regexp.MustCompile(`^` + pattern(s.want) + `$`).MatchString(got) {
		r.t.Errorf("line %d:\n%s\nprints\n%s\nand not\n%s", s.line, s.text, got, s.want)
	}
}

// leave runs a step whose last command goes on, until it has said what it should.
func (r *tour) leave(name string, term *terminal, s tourStep) {
	_, status := r.typeIn(term, s.text, true)
	if status != "0" {
		r.t.Errorf("line %d: ended with %s", s.line, status)
	}
	whole := regexp.MustCompile(`^` + pattern(s.want))
	text := r.await(term, func(text string) bool {
		r.learn(name, text)
		return whole.MatchString(r.shown(text))
	})
	term.seen += len(text)
	if name == "2" { // from now on commands find it
		_, _ = fmt.Fprintf(r.terminal("3").in, "export ONCED_LISTEN=%s\nSERVICE=%s\n",
			strings.TrimPrefix(r.real["http://127.0.0.1:8080"], "http://"), r.pid)
	}
}

// TestReadme does what the README tells the reader to do.
func TestReadme(t *testing.T) {
	system.Need(t, "bash", "curl", "pgrep")
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	steps := readTour(t, string(text))
	if len(steps) < 20 {
		t.Errorf("the README has %d steps", len(steps))
	}
	r := &tour{t: t, dir: t.TempDir(), terminals: map[string]*terminal{}, real: map[string]string{},
		said: map[string]int{}}
	for _, s := range steps {
		r.step(s)
	}
	// What the text says between the listings: each order reached the gateway once.
	charged := regexp.MustCompile(`charged \S+ for order (\d+)`)
	var orders []string
	r.terminals["1"].screen.mu.Lock()
	defer r.terminals["1"].screen.mu.Unlock()
	for _, found := range charged.FindAllStringSubmatch(r.terminals["1"].screen.text.String(), -1) {
		orders = append(orders, found[1])
	}
	if got := strings.Join(orders, " "); got != "1001 1002 1003 2001 2003 2004" {
		t.Errorf("the gateway charged the orders %s", got)
	}
}

// TestReadmeGo compiles the Go of the README, in a package that is nowhere else.
func TestReadmeGo(t *testing.T) {
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	listings := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(listings) == 0 {
		t.Fatal("the README has no Go")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range listings {
		dir := t.TempDir()
		overlay := map[string]map[string]string{"Replace": {}}
		for name, source := range map[string]string{"readme.go": "package shop\n\n" + l[1],
			"rest.go": "package shop\n\nimport (\n\"context\"\n\n\"onced/saga\"\n)\n" +
				"type Order struct{ ID string }\ntype Receipt struct{}\n" +
				"func pay(context.Context, Order) (_ Receipt, err error) { return }\n" +
				"func lookUp(context.Context, Order, saga.Doubt) (r Receipt, b bool, err error) { return }\n",
		} {
			overlay["Replace"][filepath.Join(root, "readme_shop", name)] = filepath.Join(dir, name)
			if err := os.WriteFile(filepath.Join(dir, name), []byte(source), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		file, err := json.Marshal(overlay)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "overlay.json"), file, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		build := exec.CommandContext(t.Context(), "go", "build", "-overlay",
			filepath.Join(dir, "overlay.json"), "./readme_shop")
		build.Dir = root
		if out, err := build.CombinedOutput(); err != nil {
			t.Errorf("listing %d: %v\n%s", i+1, err, out)
		}
	}
}

// TestLinks follows the links of the documents, to files and to headings.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
	for _, name := range []string{readme, "../GUIDE.md", "../../CHANGELOG.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			path, heading := found[1], found[2]
			if strings.HasPrefix(path, "https://") {
				continue
			}
			file := name
			if path != "" {
				file = filepath.Join(filepath.Dir(name), path)
			}
			target, err := os.ReadFile(file)
			if err != nil || heading != "" && !headings(string(target))[heading] {
				t.Errorf("%s: the link %s#%s leads nowhere (%v)", name, path, heading, err)
			}
		}
	}
}

// headings are the anchors of a document.
func headings(text string) map[string]bool {
	found := map[string]bool{}
	for _, h := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		name := regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(h[1]), "")
		found[strings.ReplaceAll(name, " ", "-")] = true
	}
	return found
}

// TestGuideConfigurations checks the configurations in the guide.
func TestGuideConfigurations(t *testing.T) {
	text, err := os.ReadFile("../GUIDE.md")
	if err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "gateway")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	listings := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(listings) == 0 {
		t.Fatal("the guide has no configuration")
	}
	for _, l := range listings {
		if strings.HasPrefix(l[1], "name: ") {
			continue // a definition of a saga, see TestGuideDefinition
		}
		file := filepath.Join(t.TempDir(), "onced.yaml")
		l[1] = strings.ReplaceAll(l[1], "/run/secrets/gateway", secret)
		if strings.HasPrefix(l[1], "    ") { // a part of a route
			l[1] = "routes:\n  - path: /charges\n    upstream: https://gateway.example\n" + l[1]
		}
		if err := os.WriteFile(file, []byte(l[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := run(t, "config", "check", "--config", file); got.code != 0 {
			t.Errorf("%s\n%s", l[1], got.errors)
		}
	}
}

// TestReadmePattern is about what the test of the README lets pass.
func TestReadmePattern(t *testing.T) {
	for _, c := range []struct {
		want, got string
		ok        bool
	}{
		{"", "", true},
		{"", "a\n", false},
		{"a\nb\n", "a\nb\n", true},
		{"a\nb\n", "a\nc\n", false},
		{"a\nb\n", "a\n", false},
		{"a\n", "a\nb\n", false},
		{"a…c\n", "abbc\n", true},
		{"a…c\n", "ab\nc\n", false},
		{"a\n…\nc\n", "a\nc\n", true},
		{"a\n…\nc\n", "a\nb\n\nb\nc\n", true},
		{"a\n…\nc\n", "a\nb\n", false},
		{"a.c\n", "abc\n", false},
	} {
		if ok := regexp.MustCompile(`^` + pattern(c.want) + `$`).MatchString(c.got); ok != c.ok {
			t.Errorf("%q for %q: %v", c.got, c.want, ok)
		}
	}
}
