package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"onced/api/app"
	"onced/api/config"
	"onced/kv"
)

// buffer is a stream for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// result is what a command did.
type result struct {
	code        int
	out, errors string
}

// run runs a command in process. Variables come before the arguments.
func run(t *testing.T, words ...string) result {
	t.Helper()
	return runWith(t, Env{}, words...)
}

func runWith(t *testing.T, env Env, words ...string) result {
	t.Helper()
	for len(words) > 0 && regexp.MustCompile(`^[A-Z_]+=`).MatchString(words[0]) {
		env.Environ, words = append(env.Environ, words[0]), words[1:]
	}
	var out, errs buffer
	env.Args, env.Stdout, env.Stderr = words, &out, &errs
	env.Exit = func(code int) { t.Errorf("exit %d", code) }
	code := Main(t.Context(), env)
	return result{code, out.String(), errs.String()}
}

// serving is a service in process.
type serving struct {
	t     *testing.T
	url   string
	token string
	data  string
	file  string
	app   *app.App

	out, errs *buffer
	signals   chan os.Signal
	code      chan int
}

// startService runs "onced serve" in process, with the text as its file.
func startService(t *testing.T, text string) *serving {
	t.Helper()
	dir := t.TempDir()
	s := &serving{t: t, data: filepath.Join(dir, "data"), file: filepath.Join(dir, "onced.yaml"),
		out: new(buffer), errs: new(buffer), signals: make(chan os.Signal, 4), code: make(chan int, 1)}
	s.write(text)
	ready := make(chan *app.App, 1)
	env := Env{
		Args: []string{"serve", "--config", s.file, "--listen=127.0.0.1:0", "--data", s.data,
			"--store.min_free=0"},
		Stdout: s.out, Stderr: s.errs, Signals: s.signals, Serving: func(a *app.App) { ready <- a },
		Exit: func(code int) { t.Errorf("exit %d", code) },
	}
	go func() { s.code <- Main(context.WithoutCancel(t.Context()), env) }()
	select {
	case s.app = <-ready:
	case code := <-s.code:
		t.Fatalf("serve ended with %d: %s", code, s.errs)
	}
	s.url = "http://" + s.app.Addr("api").String()
	s.token = regexp.MustCompile(`onced_[a-z0-9]+`).FindString(await(t, s.out, "Keep it"))
	t.Cleanup(func() { s.stop() })
	return s
}

// await waits until a stream holds a text, and returns all of it.
func await(t *testing.T, b *buffer, text string) string {
	t.Helper()
	for !strings.Contains(b.String(), text) {
		if t.Context().Err() != nil {
			t.Fatalf("no %q in %s", text, b)
		}
		runtime.Gosched()
	}
	return b.String()
}

func (s *serving) write(text string) {
	s.t.Helper()
	if err := os.WriteFile(s.file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// stop ends the service and returns its exit code. It may be called again.
func (s *serving) stop() int {
	select {
	case s.signals <- syscall.SIGTERM:
	default:
	}
	code := <-s.code
	s.code <- code
	return code
}

// cli runs a command against the service as its admin.
func (s *serving) cli(words ...string) result {
	s.t.Helper()
	return run(s.t, append([]string{"ONCED_URL=" + s.url, "ONCED_TOKEN=" + s.token}, words...)...)
}

func TestUsageErrorsHaveThreeLines(t *testing.T) {
	for _, c := range []struct {
		words string
		want  string
	}{
		{"srve", "onced: onced has no command \"srve\"\n" +
			"  why: the commands are " + strings.Join(root().names(), ", ") + "\n  try: onced serve\n"},
		{"xyzzy", "onced: onced has no command \"xyzzy\"\n" +
			"  why: the commands are " + strings.Join(root().names(), ", ") + "\n  try: onced help\n"},
		{"config chek", "onced: onced config has no command \"chek\"\n" +
			"  why: the commands are init, check, show\n  try: onced config check\n"},
		{"config", "onced: onced config needs one more word\n" +
			"  why: it can be init, check, show\n  try: onced config init\n"},
		{"--listen=:1", "onced: onced does not know the flag --listen=:1\n" +
			"  why: flags stand after the command\n  try: onced serve --listen=:1\n"},
		{"serve --lisen=:1", "onced: onced serve does not know the flag --lisen\n" +
			"  why: the nearest flag is --listen\n  try: onced serve --listen\n"},
		{"serve now", "onced: onced serve takes no arguments\n  why: there are 1\n  try: onced serve\n"},
		{"completion", "onced: onced completion takes 1 argument(s)\n" +
			"  why: there are 0\n  try: onced completion bash|zsh|fish\n"},
		{"completion bsh", "onced: there is no completion for bsh\n" +
			"  why: there is one for bash, zsh and fish\n" +
			"  try: onced completion bash\n"},
		{"config show --output xml",
			"onced: the flag --output cannot be \"xml\"\n  why: allowed: table, json, ndjson\n" +
				"  try: onced config show --help\n"},
		{"config show --output",
			"onced: the flag --output needs a value\n  why: the command line ends after it\n" +
				"  try: onced config show --output=VALUE\n"},
		{"claim list", "onced: onced claim list needs a token\n" +
			"  why: neither ONCED_TOKEN nor --token-file is given\n" +
			"  try: ONCED_TOKEN=onced_… onced claim list\n"},
		{"claim list --token x", "onced: onced claim list does not know the flag --token\n" +
			"  why: arguments are seen by every process, so a secret is no flag\n" +
			"  try: onced claim list --token-file=FILE\n"},
		{"claim resolve cl_1 --reason=x", "onced: onced claim resolve needs a verdict\n" +
			"  why: --verdict is done, refused or free\n" +
			"  try: onced claim resolve ID --verdict=done --reason=TEXT\n"},
	} {
		if got := run(t, strings.Fields(c.words)...); got.code != ExitUsage || got.out != "" ||
			got.errors != c.want {
			t.Errorf("%s: %d %q\n%s want\n%s", c.words, got.code, got.out, got.errors, c.want)
		}
	}
}

func TestHelp(t *testing.T) {
	top := run(t)
	for _, words := range []string{"help", "--help", "-h"} {
		if got := run(t, words); got != top {
			t.Errorf("%s: %+v", words, got)
		}
	}
	for _, text := range []string{"serve", "completion", "3  the store is in use",
		"4  a check found problems"} {
		if !strings.Contains(top.out, text) {
			t.Errorf("no %q in the help", text)
		}
	}
	if top.code != 0 || top.errors != "" || strings.Contains(top.out, "__complete") {
		t.Errorf("%+v", top)
	}
	var walk func(c *command, path []string)
	walk = func(c *command, path []string) {
		for _, s := range c.sub {
			words := append(slices.Clone(path), s.name)
			got := run(t, append([]string{"help"}, words...)...)
			if direct := run(t, append(words, "--help")...); direct != got || got.code != 0 ||
				!strings.Contains(got.out, s.summary) {
				t.Errorf("help %q: %+v, %+v", words, got, direct)
			}
			walk(s, words)
		}
	}
	walk(root(), nil)
	if got := run(t, "help", "serve").out; !strings.Contains(got, "--http.max_body=VALUE") &&
		!strings.Contains(got, "--http.max_body") {
		t.Errorf("no settings in %s", got)
	}
}

func TestColourIsForPeople(t *testing.T) {
	red := "\x1b[31monced: "
	for _, c := range []struct {
		terminal bool
		env      []string
		want     bool
	}{{true, nil, true}, {false, nil, false}, {true, []string{"NO_COLOR=1"}, false},
		{true, []string{"TERM=dumb"}, false}} {
		got := runWith(t, Env{Terminal: c.terminal, Environ: c.env}, "nonsense")
		if strings.HasPrefix(got.errors, red) != c.want || strings.Contains(got.errors, "\x1b") != c.want {
			t.Errorf("%+v: %q", c, got.errors)
		}
	}
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0}, {errors.New("x"), 1}, {context.Canceled, 1}, {usage("a", "b", "c"), 2},
		{fmt.Errorf("x: %w", &config.Error{}), 2}, {fmt.Errorf("x: %w", kv.ErrLocked), 3},
		{fmt.Errorf("x: %w", kv.ErrNewer), 3},
		{kv.ErrForeign, 1}, {kv.ErrCorrupt, 1}, {&failure{what: "x", err: kv.ErrLocked}, 3},
		{&failure{code: ExitProblem}, 4},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}

func TestConfigCommands(t *testing.T) {
	file := filepath.Join(t.TempDir(), "onced.yaml")
	if got := run(t, "config", "init", file); got.code != 0 || got.out != "" {
		t.Fatalf("%+v", got)
	}
	text, err := os.ReadFile(file)
	if err != nil || string(text) != config.Sample() || run(t, "config", "init", "-").out != config.Sample() {
		t.Errorf("init wrote another file: %v", err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v %v", info.Mode(), err)
	}
	if got := run(t, "config", "init", file); got.code != ExitUsage ||
		!strings.Contains(got.errors, "it exists") {
		t.Errorf("a second init: %+v", got)
	}
	os.WriteFile(file, []byte("x: 1"), 0o600)
	if got := run(t, "config", "check", "--config", file); got.code != ExitUsage || got.out != "" ||
		!strings.Contains(got.errors, file+":1:1: x: is not a key") {
		t.Errorf("check: %+v", got)
	}
	if got := run(t, "config", "init", "--force", file); got.code != 0 {
		t.Errorf("--force: %+v", got)
	}
	if got := run(t, "ONCED_LISTEN=:8080", "config", "check", "--config="+file); got.code != 0 ||
		got.out != "the configuration is valid ("+file+", 0 routes)\n" ||
		!strings.Contains(got.errors, "warning: ONCED_LISTEN: listen") {
		t.Errorf("check: %+v", got)
	}
}

func TestConfigShow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "onced.yaml")
	os.WriteFile(file, []byte("routes:\n- path: /c\n  upstream: http://h\n"+
		"  headers: [{name: A, value: hush}]\n"), 0o600)
	words := []string{"ONCED_LOG_LEVEL=warn", "config", "show", "--config", file, "--http.max_body=2MiB"}
	table := run(t, words...)
	for _, want := range []string{`(?m)^log\.level +warn +ONCED_LOG_LEVEL$`,
		`(?m)^http\.max_body +2MiB +--http\.max_body$`,
		`(?m)^listen +127.0.0.1:8080 +default$`,
		`(?m)^routes\[0\]\.headers\[0\]\.value +\*\*\* +.*onced\.yaml:4:30$`} {
		if !regexp.MustCompile(want).MatchString(table.out) {
			t.Errorf("no %s in\n%s", want, table.out)
		}
	}
	var list []config.Setting
	got := run(t, append(words, "--output=json")...)
	if err := json.Unmarshal([]byte(got.out), &list); err != nil || len(list) < 20 ||
		list[0].Key != "listen" {
		t.Errorf("json: %v %+v", err, list)
	}
	lines := strings.Split(strings.TrimSpace(run(t, append(words, "--output", "ndjson")...).out), "\n")
	var one config.Setting
	if err := json.Unmarshal([]byte(lines[0]), &one); err != nil || len(lines) != len(list) ||
		one != list[0] {
		t.Errorf("ndjson: %v %+v", err, one)
	}
	if all := table.out + got.out + strings.Join(lines, ""); strings.Contains(all, "hush") {
		t.Errorf("a secret is shown: %s", all)
	}
}

func TestVersion(t *testing.T) {
	if got := run(t, "version"); got.code != 0 || !strings.HasPrefix(got.out, "onced ") ||
		!strings.Contains(got.out, runtime.Version()) {
		t.Errorf("%+v", got)
	}
	for _, words := range []string{"--version", "-version", "-v"} {
		if got := run(t, words); got != run(t, "version") {
			t.Errorf("%s: %+v", words, got)
		}
	}
	var b build
	if err := json.Unmarshal([]byte(run(t, "version", "--output=json").out), &b); err != nil ||
		b.Go != runtime.Version() || b.Version == "" {
		t.Errorf("%v %+v", err, b)
	}
}

func TestCompletionAnswers(t *testing.T) {
	for words, want := range map[string]string{
		"":                          strings.Join(root().names(), " ") + " help",
		"s":                         "serve saga",
		"saga mark":                 "mark-done mark-not-done",
		"saga bulk re":              "retry",
		"saga list --state st":      "stuck",
		"config ":                   "init check show help",
		"config s":                  "show",
		"completion ":               "bash zsh fish",
		"completion z":              "zsh",
		"serve --http.max_b":        "--http.max_body=",
		"healthcheck --l":           "--listen= --live --log.format= --log.level=",
		"config show --output ":     "table json ndjson",
		"config show --output nd":   "ndjson",
		"config show --output=":     "--output=table --output=json --output=ndjson",
		"config show --output=j":    "--output=json",
		"config show --output =":    "table json ndjson", // as bash takes it apart
		"claim list --output = n":   "ndjson",
		"claim list --state ":       "open pending unknown done refused all",
		"claim list --state u":      "unknown",
		"claim resolve --verdict=":  "--verdict=done --verdict=refused --verdict=free",
		"token create --role ":      "metrics client viewer operator admin",
		"token create --role=o":     "--role=operator",
		"token create --principal=": "",
		"serve ":                    "",
		"nonsense x":                "",
	} {
		parts := strings.Split(words, " ")
		got := run(t, append([]string{"__complete", "--"}, parts...)...)
		if text := strings.Join(strings.Fields(got.out), " "); text != want || got.code != 0 ||
			got.errors != "" {
			t.Errorf("%q: %q, want %q (%+v)", words, text, want, got)
		}
	}
}

// Flags are written as commands are, with hyphens. Those of the configuration are its keys.
func TestFlagsAreShownWithHyphens(t *testing.T) {
	n := 0
	var look func(c *command)
	look = func(c *command) {
		for _, s := range c.sub {
			look(s)
		}
		f := newFlags(c)
		f.VisitAll(func(fl *flag.Flag) {
			if n++; !slices.Contains(f.docs, fl.Name) && strings.Contains(fl.Name, "_") {
				t.Errorf("%s has the flag --%s", c.name, fl.Name)
			}
		})
		if found := regexp.MustCompile(`--[a-z]+_[a-z_]+`).FindString(c.help); found != "" {
			t.Errorf("the help of %s speaks of %s", c.name, found)
		}
	}
	look(root())
	if n < 50 {
		t.Errorf("there are only %d flags", n)
	}
	for _, spelling := range []string{"--token-file", "--token_file"} {
		run(t, "claim", "list", "--url=http://127.0.0.1:1", spelling, "/none").
			want(t, ExitUsage, "the token cannot be read")
	}
	for _, spelling := range []string{"--http.max_body", "--http.max-body"} {
		run(t, "config", "show", spelling+"=77777").want(t, ExitOK, "77777")
	}
}

func TestFlagsAndArgumentsInAnyOrder(t *testing.T) {
	cmd := &command{name: "x", flags: func(f *flags) { f.Bool("b", false, ""); f.String("s", "", "") }}
	for _, c := range []struct{ in, b, s, args string }{
		{"a --b --s=1 c", "true", "1", "a c"},
		{"-b -s 1 a c", "true", "1", "a c"},
		{"--s 1 -- --b a", "false", "1", "--b a"},
		{"--b=false - a", "false", "", "- a"},
		{"--s= a", "false", "", "a"},
		{"--s --b a", "false", "--b", "a"},
	} {
		call := &call{path: "onced x", flags: newFlags(cmd)}
		if err := call.parse(strings.Fields(c.in)); err != nil {
			t.Errorf("%s: %v", c.in, err)
		}
		if got := fmt.Sprint(call.text("b"), "|", call.text("s"), "|",
			strings.Join(call.args, " ")); got != c.b+"|"+c.s+"|"+c.args {
			t.Errorf("%s: %s", c.in, got)
		}
	}
}

func TestServeAndHealthcheck(t *testing.T) {
	s := startService(t, "")
	if got := run(t, "healthcheck", "--url", s.url); got.code != 0 || got.out != "ok\n" {
		t.Errorf("%+v", got)
	}
	if got := run(t, "ONCED_LISTEN="+strings.TrimPrefix(s.url, "http://"), "healthcheck",
		"--live"); got.code != 0 {
		t.Errorf("by the address: %+v", got)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("serve ended with %d: %s", code, s.errs)
	}
	if got := run(t, "healthcheck", "--url="+s.url); got.code != ExitFailure ||
		!strings.Contains(got.errors, "does not answer") {
		t.Errorf("after the end: %+v", got)
	}
}

func TestBaseURL(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:1": "http://127.0.0.1:1", ":1": "http://127.0.0.1:1", "0.0.0.0:1": "http://127.0.0.1:1",
		"[::]:1": "http://[::1]:1", "[::1]:1": "http://[::1]:1", "host:1": "http://host:1",
	} {
		if got := config.BaseURL(addr); got != want {
			t.Errorf("%s: %s", addr, got)
		}
	}
}

func TestServeErrors(t *testing.T) {
	s := startService(t, "")
	got := run(t, "serve", "--listen=127.0.0.1:0", "--data", s.data)
	if got.code != ExitStore || !strings.Contains(got.errors, fmt.Sprintf("process %d", os.Getpid())) ||
		!strings.Contains(got.errors, "try: stop the other process") {
		t.Errorf("a second one: %+v", got)
	}
	got = run(t, "serve", "--listen", strings.TrimPrefix(s.url, "http://"), "--data", t.TempDir())
	if got.code != ExitFailure || !strings.Contains(got.errors, "choose another with --listen") {
		t.Errorf("the same address: %+v", got)
	}
	got = run(t, "serve", "--listen=nowhere", "--http.max_body=x")
	if got.code != ExitUsage || strings.Count(got.errors, "why: ") != 2 {
		t.Errorf("bad flags: %+v", got)
	}
}

// TestAReloadThatHangsHoldsNobodyUp: its files may be on a disk that does not answer.
func TestAReloadThatHangsHoldsNobodyUp(t *testing.T) {
	dir, out, errs := t.TempDir(), new(buffer), new(buffer)
	ready, code, signals := make(chan *app.App, 1), make(chan int, 1), make(chan os.Signal, 2)
	entered, release := make(chan struct{}), make(chan struct{})
	env := Env{
		Args: []string{"serve", "--listen=127.0.0.1:0", "--data", filepath.Join(dir, "data"),
			"--store.min_free=0"},
		Stdout: out, Stderr: errs, Signals: signals, Serving: func(a *app.App) { ready <- a },
		Exit: func(code int) { t.Errorf("exit %d", code) },
		App: func(o *app.Options) {
			o.Load = func() (*config.Loaded, error) {
				close(entered)
				<-release
				return nil, errors.New("the disk is gone")
			}
		},
	}
	go func() { code <- Main(context.WithoutCancel(t.Context()), env) }()
	select {
	case <-ready:
	case code := <-code:
		t.Fatalf("serve ended with %d: %s", code, errs)
	}
	await(t, out, "Keep it")
	signals <- syscall.SIGHUP
	<-entered
	signals <- syscall.SIGTERM
	if got := <-code; got != 0 { // or the test hangs
		t.Errorf("code %d: %s", got, errs)
	}
	close(release)
}

func TestReloadOnHangUp(t *testing.T) {
	s := startService(t, "log: {level: info}\n")
	s.write("log: {level: debug}\nhttp: {max_body: 2MiB}\n")
	s.signals <- syscall.SIGHUP
	text := await(t, s.errs, "was reloaded")
	if !strings.Contains(text,
		`"restart needed: the change of this key is not in force","key":"http.max_body"`) ||
		s.app.Config().Log.Level != "debug" {
		t.Errorf("%s", text)
	}
	s.write("log: {level: error}\nlisen: x\n")
	s.signals <- syscall.SIGHUP
	text = await(t, s.errs, "was not reloaded")
	if !strings.Contains(text, "lisen: is not a key; did you mean listen?") ||
		s.app.Config().Log.Level != "debug" {
		t.Errorf("%s", text)
	}
	if got := run(t, "healthcheck", "--url", s.url); got.code != 0 {
		t.Errorf("after a bad file: %+v", got)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("code %d", code)
	}
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	exit := make(chan int, 1)
	s := &signals{cancel: func() {}, exit: func(code int) { exit <- code }, hup: make(chan struct{}, 1)}
	s.take(syscall.SIGTERM)
	select {
	case <-exit:
		t.Fatal("the first did")
	default:
	}
	s.take(os.Interrupt)
	if code := <-exit; code != ExitFailure {
		t.Errorf("code %d", code)
	}
	// Without a command that reloads, a hang-up is an end like others.
	ended := false
	s = &signals{cancel: func() { ended = true }, hup: make(chan struct{}, 1)}
	if s.take(syscall.SIGHUP); !ended {
		t.Error("a hang-up was ignored")
	}
}

func TestNothingRunsAfterMain(t *testing.T) {
	s := startService(t, "")
	s.cli("claim", "list")
	s.stop()
	buf := make([]byte, 1<<20)
	for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(g, "onced/") && !strings.Contains(g, "testing.") &&
			!strings.Contains(g, "startService.func") {
			t.Errorf("still running:\n%s", g)
		}
	}
}

func TestTyped(t *testing.T) {
	for program, want := range map[string]string{
		"": "onced", "onced": "onced", "./onced": "./onced", "/usr/bin/onced": "/usr/bin/onced",
		"/tmp/go-build1234/b001/exe/onced": "go run .", "/home/a b/onced": "onced",
		"/home/user/.cache/go-build/ab/cd-d/onced": "go run .",
	} {
		if got := typed(program); got != want {
			t.Errorf("%q: %q, want %q", program, got, want)
		}
	}
}

// Whoever starts in the wrong folder, or misnames the file, is told that nothing
// is guarded, and which file may have been meant.
func TestNoRoutesIsSaid(t *testing.T) {
	t.Chdir(t.TempDir())
	const said = "routes: has no entry"
	got := run(t, "config", "check")
	if got.code != 0 || !strings.Contains(got.errors, "warning: default: "+said) ||
		!strings.Contains(got.errors, "there is no onced.yaml in this folder") {
		t.Errorf("without a file: %+v", got)
	}
	os.WriteFile("onced.yml", []byte("routes: [{path: /a, upstream: 'http://h'}]\n"), 0o600)
	if got := run(t, "config", "check"); !strings.Contains(got.errors, "is onced.yml your file?") {
		t.Errorf("with onced.yml: %+v", got)
	}
	if got := run(t, "config", "check", "--config=onced.yml"); strings.Contains(got.errors, said) {
		t.Errorf("with its name: %+v", got)
	}
	await(t, startService(t, "").errs, said)
	s := startService(t, "routes: []\n")
	s.stop()
	if strings.Contains(s.errs.String(), said) {
		t.Errorf("none are wanted: %s", s.errs)
	}
}
