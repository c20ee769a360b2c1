package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"onced/saga/definition"
)

// callee is a service that steps call: it keeps what it was asked, and answers with
// the next of its plan for the path, or 201.
type callee struct {
	*httptest.Server
	mu    sync.Mutex
	calls []string            // method and path, in order
	keys  map[string][]string // by path
	seen  []string            // all headers and bodies
	plan  map[string][]int    // by path; the last status stays
}

func newCallee(t *testing.T) *callee {
	t.Helper()
	c := &callee{keys: map[string][]string{}, plan: map[string][]int{}}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *callee) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	c.calls = append(c.calls, r.Method+" "+r.URL.Path)
	c.keys[r.URL.Path] = append(c.keys[r.URL.Path], r.Header.Get("Idempotency-Key"))
	c.seen = append(c.seen, fmt.Sprint(r.Header, string(body)))
	status := http.StatusCreated
	if p := c.plan[r.URL.Path]; len(p) > 0 {
		if status = p[0]; len(p) > 1 {
			c.plan[r.URL.Path] = p[1:]
		}
	}
	c.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"id":"x-1"}`)
}

func (c *callee) answers(path string, statuses ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plan[path] = statuses
}

func (c *callee) called() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.calls, ", ")
}

// checkout is a definition over the callee: two steps with undos, then one without.
func checkout(url string) string {
	return strings.ReplaceAll(`name: checkout
title: Checkout
input: {order: string}
steps:
- name: points
  call:
    url: URL/points
    headers: {Authorization: "Bearer ${secrets.shop}"}
    body: {order: "${input.order}"}
  undo: {url: "URL/points/back", body: {id: "${output.id}"}}
  repeatable: 24h
  settles_after: 10ms
  retry: {attempts: 3, first: 10ms, most: 20ms, undo_attempts: 2}
- name: charge
  call: {url: "URL/charges", body: {order: "${input.order}"}}
  undo: {url: "URL/refunds", body: {charge: "${output.id}"}}
  retry: {attempts: 2, first: 10ms, most: 20ms, undo_attempts: 2}
- name: order
  call: {url: "URL/orders", body: {order: "${input.order}"}}
  repeatable: 24h
  settles_after: 10ms
  retry: {attempts: 3, first: 10ms, most: 20ms}
`, "URL", url)
}

// sagaService is a service whose definitions are in a folder beside its file.
func sagaService(t *testing.T, c *callee) (s *serving, folder string) {
	t.Helper()
	folder = t.TempDir()
	writeFile(t, filepath.Join(folder, "checkout.yaml"), checkout(c.URL))
	return startService(t, "sagas: {definitions: ["+folder+"], allow_hosts: [127.0.0.1]}\n"+
		"secrets: {shop: {value: hush-hush}}\n"), folder
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// want checks code and parts of the streams.
func (r result) want(t *testing.T, code int, parts ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("the exit code is %d, want %d: %+v", r.code, code, r)
	}
	for _, p := range parts {
		if !strings.Contains(r.out+r.errors, p) {
			t.Errorf("no %q in\n%s%s", p, r.out, r.errors)
		}
	}
}

func TestSagaCheck(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	writeFile(t, good, checkout("http://127.0.0.1:1"))
	writeFile(t, bad, "name: bad\nsteps:\n- name: a\n  cal: {url: x}\n- name: b\n"+
		"  call: {url: \"http://h/${input.x\"}\n")
	run(t, "saga", "check", good).want(t, ExitOK, "checkout")
	got := run(t, "saga", "check", good, bad)
	got.want(t, ExitProblem, "1 of 2 definitions are not valid", bad+":4:3: steps[0].cal", "call",
		bad+":6:")
	var list struct {
		Files []checked `json:"files"`
	}
	got = run(t, "saga", "check", good, bad, "--output=json")
	if err := json.Unmarshal([]byte(got.out), &list); err != nil || got.code != ExitProblem ||
		len(list.Files) != 2 || !list.Files[0].Valid || list.Files[1].Valid ||
		len(list.Files[1].Problems) < 2 || list.Files[1].Problems[0].Line != 4 ||
		!slices.Equal(list.Files[0].Secrets, []string{"shop"}) || list.Files[0].Steps != 3 {
		t.Errorf("%v %+v", err, got)
	}
	run(t, "saga", "check", filepath.Join(dir, "none.yaml")).want(t, ExitUsage, "cannot be read")
	run(t, "saga", "check").want(t, ExitUsage, "takes 1 to")
	runWith(t, Env{Stdin: strings.NewReader(checkout("http://h"))}, "saga", "check", "-").want(t, ExitOK)

	conf := filepath.Join(dir, "onced.yaml")
	writeFile(t, conf, "secrets: {shp: {env: NOT_SET}}\n")
	run(t, "saga", "check", good, "--config", conf).want(t, ExitProblem, "shop", "shp")
	writeFile(t, conf, "secrets: {shop: {env: NOT_SET}}\n")
	run(t, "saga", "check", good, "--config", conf).want(t, ExitOK)

	// Callbacks go to the address that is listened at, when nothing else is said.
	back := filepath.Join(dir, "back.yaml")
	writeFile(t, back, "name: back\nsteps:\n- name: a\n  await: {}\n"+
		"  call: {url: \"http://h/\", body: \"${callback_url}\"}\n")
	for text, want := range map[string]string{
		"listen: 127.0.0.1:8700\n":              "warning: " + back + ": it gives out",
		"public_url: https://pay.example.org\n": ""} {
		writeFile(t, conf, text)
		got := run(t, "saga", "check", back, "--config", conf)
		if got.code != ExitOK || strings.Contains(got.errors, "warning") != (want != "") ||
			!strings.Contains(got.errors, want) {
			t.Errorf("%s: %+v", text, got)
		}
	}
	if got := run(t, "saga", "check", back); got.code != ExitOK || strings.Contains(got.errors, "warning") {
		t.Errorf("without a configuration: %+v", got)
	}
}

// A step of which a lost answer needs a person is noted, and a folder stands for its files.
func TestSagaCheckNotesAndTakesFolders(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "good.yaml")
	writeFile(t, file, checkout("http://127.0.0.1:1"))
	writeFile(t, filepath.Join(dir, "readme.txt"), "none")
	got := run(t, "saga", "check", dir, "--output=json")
	got.want(t, ExitOK, file, "note: "+file+":15:15: steps[1]: has neither check nor repeatable")
	var list struct {
		Files []checked `json:"files"`
	}
	if err := json.Unmarshal([]byte(got.out), &list); err != nil || len(list.Files) != 1 ||
		!slices.ContainsFunc(list.Files[0].Notes, func(n definition.Problem) bool {
			return n.Line == 15 && strings.Contains(n.Message, "has neither check nor repeatable")
		}) {
		t.Errorf("%v %+v", err, got)
	}
	writeFile(t, filepath.Join(dir, "bad.yml"), "name: bad\n")
	run(t, "saga", "check", dir).want(t, ExitProblem, "1 of 2 definitions are not valid")
	run(t, "saga", "check", t.TempDir()).want(t, ExitUsage, "has no *.yaml")
}

func TestSagaCommands(t *testing.T) {
	c := newCallee(t)
	s, _ := sagaService(t, c)
	s.cli("saga", "definitions").want(t, ExitOK, "checkout", "file", "Checkout")
	s.cli("saga", "definitions", "checkout", "--source").want(t, ExitOK, "name: points")

	got := s.start("checkout", "order-1", `--input={"order":"o-1"}`, "--wait=30s",
		"--labels=channel:web")
	got.want(t, ExitOK, "started: completed")
	id := regexp.MustCompile(`run_\w+`).FindString(got.out)
	s.start("checkout", "order-1", `--input={"order":"o-1"}`).want(t, ExitOK,
		"run "+id+" was there before: completed")
	s.start("checkout", "order-1", `--input={"order":"other"}`).want(t, ExitFailure,
		"input")
	s.start("checkout", "order-2", `--input={"ordr":"o"}`).want(t, ExitFailure,
		"input.order is missing")
	s.start("checkout", "order-2", "--input=nonsense").want(t, ExitUsage, "is not JSON")
	s.cli("saga", "list", "--label=channel:web").want(t, ExitOK, id, "completed", "order-1")
	if got := s.cli("saga", "list", "--state=held,stuck", "--output=json"); got.code != 0 ||
		strings.Join(strings.Fields(got.out), "") != `{"runs":[]}` {
		t.Errorf("%+v", got)
	}
	s.cli("saga", "show", id).want(t, ExitOK, "points", "charge", "channel:web", "WHAT", "sent")
	if got := c.called(); got != "POST /points, POST /charges, POST /orders" {
		t.Errorf("the callee was called with %s", got)
	}
	if all := strings.Join(c.seen, ""); !strings.Contains(all, "Bearer hush-hush") {
		t.Error("the secret was not sent")
	}
	for _, out := range []string{s.cli("saga", "show", id, "--output=json").out, s.errs.String(),
		s.cli("saga", "definitions", "checkout", "--source").out,
		run(t, "config", "show", "--config", s.file).out} {
		if strings.Contains(out, "hush-hush") {
			t.Errorf("the secret is in %s", out)
		}
	}

	c.answers("/points", http.StatusServiceUnavailable, http.StatusCreated) // and later it goes on by itself
	s.start("checkout", "order-4", `--input={"order":"o-4"}`, "--wait=30s").want(t, ExitOK,
		"completed")
	c.answers("/charges", http.StatusPaymentRequired)
	third := []string{"checkout", "order-3", `--input={"order":"o-3"}`, "--wait=30s"}
	s.start(third...).want(t, ExitFailure, "was undone", "charge")
	// The same start may mean the run that was undone, or the next try of the customer.
	s.start(append(third, "--round=1")...).want(t, ExitFailure, "was there before", "was undone")
	c.answers("/charges", http.StatusCreated)
	s.start(append(third, "--round=2")...).want(t, ExitOK, "started: completed")
	s.start(append(third, "--round=x")...).want(t, ExitUsage, "--round")
}

// start is saga start with the token of the admin, for the account shop.
func (s *serving) start(words ...string) result {
	s.t.Helper()
	return s.cli(append([]string{"saga", "start", "--principal=shop"}, words...)...)
}

// startHeld begins a run that is held, and returns it.
func startHeld(t *testing.T, s *serving, key string) string {
	t.Helper()
	got := s.start("checkout", key, `--input={"order":"o"}`, "--wait=30s")
	got.want(t, ExitFailure, "is held")
	return regexp.MustCompile(`run_\w+`).FindString(got.out)
}

// The token of an admin knows no order of the shop: it starts nothing by itself.
func TestAnAdminStartsRunsForAnAccount(t *testing.T) {
	c := newCallee(t)
	s, _ := sagaService(t, c)
	shop := strings.TrimSpace(s.cli("token", "create", "shop").out)
	start := []string{"saga", "start", "checkout", "order-1", `--input={"order":"o-1"}`, "--wait=30s"}
	as := func(token string, words ...string) result {
		return run(t, append([]string{"ONCED_URL=" + s.url, "ONCED_TOKEN=" + token}, words...)...)
	}
	as(shop, start...).want(t, ExitOK, "started: completed")
	s.cli(start...).want(t, ExitFailure, "would be paid again", "try: the same with --principal=ACCOUNT")
	s.cli(append(start, "--principal=shop")...).want(t, ExitOK, "was there before")
	as(shop, append(start, "--principal=shop")...).want(t, ExitOK, "was there before")
	as(shop, append(start, "--principal=other")...).want(t, ExitFailure, "of its own account only")
	if got := c.called(); got != "POST /points, POST /charges, POST /orders" {
		t.Errorf("the callee was called with %s", got)
	}
	list := s.cli("saga", "list")
	if !regexp.MustCompile(`(?m)DEFINITION +PRINCIPAL +KEY[^\n]*\n.* checkout +shop +order-1 `).
		MatchString(list.out) {
		t.Errorf("the list does not tell whose a run is: %s", list.out)
	}
}

func TestActsOnRuns(t *testing.T) {
	c := newCallee(t)
	s, _ := sagaService(t, c)
	c.answers("/charges", http.StatusBadGateway) // and nothing can tell what became of it
	id := startHeld(t, s, "order-1")
	s.cli("saga", "list", "--state=held").want(t, ExitOK, id, "unknown charge")
	s.cli("saga", "mark-done", id, "charge").want(t, ExitUsage, "needs a reason")
	s.cli("saga", "mark-done", id, "charge", "--reason=seen").want(t, ExitOK, "nothing was done yet",
		"counts as done", "--yes --etag=")
	s.cli("saga", "retry", id, "--reason=x", "--yes").want(t, ExitFailure, "find out and mark it")
	s.cli("saga", "mark-done", id, "charge", "--reason=seen", `--result={"id":"x-9"}`, "--yes",
		`--etag="1"`).want(t, ExitFailure, "changed", "try: onced saga show "+id)
	s.cli("saga", "rerun", id, "--reason=x").want(t, ExitFailure, "rerun does nothing here", "has ended can")
	s.cli("saga", "show", "order-1").want(t, ExitFailure, "try: onced saga list --key=order-1")
	s.start("chekout", "k").want(t, ExitFailure, "try: onced saga definitions")
	s.cli("saga", "definitions", "chekout").want(t, ExitFailure, "try: onced saga definitions")
	held := s.cli("saga", "show", id)
	held.want(t, ExitOK, "after mark-done the run goes on", "after mark-not-done")
	if next := regexp.MustCompile(`(?m)^charge .* yes +(\S+) `).FindStringSubmatch(held.out); next == nil ||
		next[1] != "-" {
		t.Errorf("the step of a held run has a NEXT: %v in %s", next, held.out)
	}
	done := s.cli("saga", "mark-done", id, "charge", "--reason=seen at the gateway", `--result={"id":"x-9"}`,
		"--yes")
	if done.code != ExitOK || done.errors != "" || strings.Count(done.out, "\n") != 1 ||
		!strings.HasPrefix(done.out, "run "+id+": mark-done, now ") {
		t.Errorf("an act is told in more than a line: %+v", done)
	}
	show := s.cli("saga", "show", id, "--wait=30s")
	show.want(t, ExitOK, "completed", "admin: mark-done: seen at the gateway")
	if head, _, _ := strings.Cut(show.out, "STEP"); strings.Contains(head, "not known") || !regexp.
		MustCompile(`begun +\S+T\d\d:\d\d:\d\d\.\d\d\dZ`).MatchString(head) {
		t.Errorf("it says why it was held once, or no milliseconds: %s", head)
	}
	s.cli("saga", "retry", id, "--reason=x").want(t, ExitFailure, "retry does nothing here", "has ended",
		"onced saga rerun "+id)
	s.cli("saga", "rerun", id, "--reason=x").want(t, ExitOK, "nothing was done yet", "TWICE")
	s.cli("saga", "signal", id, "charge", "--outcome=refused").want(t, ExitOK, "nothing was done yet",
		"has ended with its run")
}

func TestActsOnManyRuns(t *testing.T) {
	c := newCallee(t)
	s, _ := sagaService(t, c)
	c.answers("/charges", http.StatusCreated)
	s.start("checkout", "order-1", `--input={"order":"o"}`, "--wait=30s").
		want(t, ExitOK, "completed") // which the filter leaves out
	c.answers("/charges", http.StatusBadGateway) // and nothing can tell what became of it
	a, b := startHeld(t, s, "order-2"), startHeld(t, s, "order-3")
	s.cli("saga", "bulk", "mark-not-done", "--reason=x").want(t, ExitUsage, "mark-not-done needs --step")
	s.cli("saga", "bulk", "retry", "--reason=x", "--step=charge").want(t, ExitUsage, "takes no --step")
	for _, few := range [][]string{nil, {"--yes"}, {"--state=open"}, {"--state=all"}} {
		s.cli(append([]string{"saga", "bulk", "close", "--reason=x"}, few...)...).
			want(t, ExitUsage, "needs a selector", "all definitions and accounts", "or --all")
	}
	s.cli("saga", "bulk", "close", "--reason=x", "--all", "--state=held").
		want(t, ExitUsage, "takes --all or a selector")
	s.cli("saga", "bulk", "close", "--reason=x", "--all").want(t, ExitOK, a, b, "2 would be done")
	s.cli("saga", "bulk", "cancle", "--reason=x").want(t, ExitUsage, "saga bulk cancel")
	args := []string{"saga", "bulk", "mark-not-done", "--step=charge", "--state=held",
		"--reason=gateway was down"}
	dry := s.cli(args...)
	dry.want(t, ExitOK, a, b, "2 would be done", "nothing was done yet")
	if !regexp.MustCompile(`(?m)^` + a + ` +checkout +shop +order-2 +would be done$`).MatchString(dry.out) {
		t.Errorf("it does not tell which runs: %s", dry.out)
	}
	s.cli("saga", "bulk", "retry", "--state=held", "--reason=x", "--yes").
		want(t, ExitFailure, "0 done, 2 refused", "nothing is done")
	s.cli("saga", "bulk", "retry", "--key=none", "--reason=x", "--yes").want(t, ExitOK, "0 done, 0 refused")
	s.cli(append(args, "--limit=20000")...).want(t, ExitOK, a, b, "2 would be done") // in several requests
	s.cli("saga", "list", "--state=held").want(t, ExitOK, a, b)
	s.cli(append(args, "--yes", "--dry-run")...).want(t, ExitOK, "2 would be done")
	c.answers("/charges", http.StatusCreated)
	got := s.cli(append(args, "--yes", "--output=json")...)
	var out struct {
		Verb string `json:"verb"`
		Runs []struct {
			Run   string `json:"run"`
			Acted bool   `json:"acted"`
		} `json:"runs"`
	}
	if err := json.Unmarshal([]byte(got.out), &out); err != nil || got.code != 0 || len(out.Runs) != 2 ||
		!out.Runs[0].Acted || out.Verb != "mark_not_done" {
		t.Errorf("%v %+v", err, got)
	}
	for _, id := range []string{a, b} {
		s.cli("saga", "show", id, "--wait=30s").want(t, ExitOK, "gateway was down", "state       ")
	}
}

// A reply that says nothing the definition knows is shown with its body, and with the time
// of the next try.
func TestA2_02_AnUnclearReplyIsShown(t *testing.T) {
	c := newCallee(t)
	s, _ := sagaService(t, c)
	c.answers("/a", http.StatusTeapot)
	file := filepath.Join(t.TempDir(), "odd.yaml")
	writeFile(t, file, "name: odd\nsteps:\n- name: a\n  call: {url: \""+c.URL+"/a\"}\n"+
		"  repeatable: 24h\n  settles_after: 1h\n  retry: {first: 1h, most: 1h}\n")
	s.cli("saga", "put", file).want(t, ExitOK)
	got := s.start("odd", "o-1")
	id := regexp.MustCompile(`run_\w+`).FindString(got.out)
	row := regexp.MustCompile(`(?m)^a +\S+ +- +1 +yes +20\S+Z .*answered 418: \{"id":"x-1"\}`)
	for got = s.cli("saga", "show", id); !strings.Contains(got.out, "418"); got = s.cli("saga", "show", id) {
		if t.Context().Err() != nil {
			t.Fatalf("%+v", got)
		}
	}
	if !row.MatchString(got.out) || !strings.Contains(got.out, "running") {
		t.Errorf("%s", got.out)
	}
}

func TestSagaPut(t *testing.T) {
	c := newCallee(t)
	s, folder := sagaService(t, c)
	file := filepath.Join(t.TempDir(), "refund.yaml")
	writeFile(t, file, "name: refund\nsteps:\n- name: a\n  call: {url: \""+c.URL+"/a\"}\n")
	s.cli("saga", "put", file, "--dry_run").want(t, ExitOK, "would be a new version")
	s.cli("saga", "put", file, "--dry-run").want(t, ExitOK, "refund would be a new version, 1 steps")
	s.cli("saga", "definitions", "refund").want(t, ExitFailure, "no definition")
	s.cli("saga", "put", file).want(t, ExitOK, "refund is the new version 1, 1 steps",
		"note: "+file+":", "steps[0]: has neither check nor repeatable")
	s.cli("saga", "put", file).want(t, ExitOK, "refund is there already as version 1")
	s.start("refund", "r-1", "--wait=30s").want(t, ExitOK, "completed")
	if got := c.called(); got != "POST /a" {
		t.Errorf("the callee was called with %s", got)
	}
	writeFile(t, file, "name: refund\nsteps:\n- name: a\n  cal: {url: x}\n")
	s.cli("saga", "put", file).want(t, ExitProblem, file+":4:3: steps[0].cal", "nothing was kept")
	s.cli("saga", "put", filepath.Join(folder, "checkout.yaml")).want(t, ExitFailure, "file")
}

// A check of the document does not find what only the configuration refuses.
func TestSagaPutOfAPrivateHostNamesTheConfiguration(t *testing.T) {
	s := startService(t, "")
	file := filepath.Join(t.TempDir(), "refund.yaml")
	writeFile(t, file, "name: refund\nsteps:\n- name: a\n  call: {url: \"http://127.0.0.1:9/a\"}\n")
	got := s.cli("saga", "put", file)
	got.want(t, ExitProblem, "127.0.0.1:9, which is not a public address", "try: add the host to "+
		"sagas.allow_hosts", "restart", "sagas.definitions")
	if strings.Contains(got.errors, "saga check") {
		t.Errorf("it sends to a check that finds nothing: %s", got.errors)
	}
}

func TestSagaSignal(t *testing.T) {
	c := newCallee(t)
	s, folder := sagaService(t, c)
	writeFile(t, filepath.Join(folder, "wait.yaml"), "name: wait\nsteps:\n- name: pay\n"+
		"  call: {url: \""+c.URL+"/pay\", body: {back: \"${callback_url}\"}}\n"+
		"  await: {for: 30m, done: \"${signal.body.ok}\", output: {ref: \"${signal.body.ref}\"}}\n"+
		"  undo: {url: \""+c.URL+"/unpay\"}\n- name: end\n"+
		"  call: {url: \""+c.URL+"/end/${steps.pay.output.ref}\"}\n")
	s.reload("definition", "wait")
	got := s.start("wait", "w-1")
	got.want(t, ExitOK, "started: running")
	id := regexp.MustCompile(`run_\w+`).FindString(got.out)
	s.cli("saga", "signal", id, "pay", "--outcome=maybe").want(t, ExitUsage, "done or refused")
	s.cli("saga", "signal", id, "pay", "--yes").want(t, ExitUsage, "needs an outcome")
	signal := func(code int, want string, words ...string) {
		t.Helper()
		s.cli(append([]string{"saga", "signal", id, "pay", "--outcome=done"}, words...)...).want(t, code,
			want)
	}
	s.cli("saga", "signal", id, "nonsense", "--outcome=done", "--yes").want(t, ExitFailure, "step")
	signal(ExitOK, "nothing was done yet", `--data={"ref":7}`)
	signal(ExitOK, "key         w-1", `--data={"ref":7}`) // the run is shown
	signal(ExitFailure, "data is missing", "--yes")
	signal(ExitFailure, "data.ref is missing", "--yes", `--data={"re":7}`)
	s.cli("saga", "mark-done", id, "pay", "--reason=seen", "--yes").want(t, ExitFailure, "output is missing")
	s.cli("saga", "show", id).want(t, ExitOK, "running")
	signal(ExitOK, "step pay of run "+id+": done, taken", "--yes", `--data={"ref":7}`)
	signal(ExitOK, "known already", "--yes", `--data={"ref":7}`)
	s.cli("saga", "show", id, "--wait=30s").want(t, ExitOK, "completed")
	s.cli("saga", "list").want(t, ExitOK, "completed")
	s.cli("saga", "signal", id, "pay", "--outcome=refused", `--data={"why":"back"}`, "--yes").
		want(t, ExitOK, "contradicts the end")
	s.start("checkout", "order-1", `--input={"order":"o"}`, "--wait=30s").want(t, ExitOK)
	denied := s.cli("saga", "list", "--contradicted")
	denied.want(t, ExitOK, id, "contradicted pay")
	if strings.Contains(denied.out, "order-1") {
		t.Errorf("a run that nothing denies is listed: %s", denied.out)
	}
	s.cli("saga", "list").want(t, ExitOK, id, "order-1", "contradicted pay")
	s.cli("saga", "show", id).want(t, ExitOK, "contradicted pay", "the word refused of step pay",
		`{"why":"back"}`)
	if got := c.called(); !strings.Contains(got, "POST /end/7") {
		t.Errorf("the callee was called with %s", got)
	}
	if seen := strings.Join(c.seen, ""); !strings.Contains(seen, s.url+"/v1/callbacks/") {
		t.Errorf("the callback URL is not that of the service: %s", seen)
	}
	if strings.Contains(s.errs.String(), "/v1/callbacks/") {
		t.Errorf("the log has the callback URL: %s", s.errs)
	}
}

// reload has the service read its configuration again, and waits for a line of its
// log with all of the texts, which a reload before did not write.
func (s *serving) reload(texts ...string) string {
	s.t.Helper()
	before := len(s.errs.String())
	s.signals <- syscall.SIGHUP
	for {
		for line := range strings.Lines(s.errs.String()[before:]) {
			if strings.Contains(line, "reloaded") {
				log := s.errs.String()[before:]
				for _, text := range texts {
					if !strings.Contains(log, text) {
						s.t.Fatalf("no %q in %s", text, log)
					}
				}
				return log
			}
		}
		if s.t.Context().Err() != nil {
			s.t.Fatalf("no reload in %s", s.errs)
		}
	}
}

// A reload with a broken definition changes nothing and says where it is broken; a
// changed one is a new version, and runs keep theirs.
func TestA2_35_ReloadOfDefinitions(t *testing.T) {
	c := newCallee(t)
	s, folder := sagaService(t, c)
	c.answers("/charges", http.StatusBadGateway)
	s.start("checkout", "order-1", `--input={"order":"o"}`, "--wait=30s").
		want(t, ExitFailure, "held")
	file, other := filepath.Join(folder, "checkout.yaml"), filepath.Join(folder, "other.yaml")
	text := checkout(c.URL)

	writeFile(t, other, "name: other\nsteps:\n- name: a\n  call: {url: \""+c.URL+"/a\"}\n")
	writeFile(t, file, strings.Replace(text, "undo: {url", "undoo: {url", 1))
	writeFile(t, s.file, "sagas: {definitions: ["+folder+"]}\n"+
		"secrets: {shop: {value: other-hush}}\nlog: {level: warn}\n")
	log := s.reload("not reloaded", file+":10:3: steps[0].undoo", "undo")
	if strings.Contains(log, "hush") {
		t.Errorf("a secret is logged: %s", log)
	}
	s.cli("saga", "definitions").want(t, ExitOK, "checkout")
	if got := s.cli("saga", "definitions"); strings.Contains(got.out, "other") {
		t.Errorf("a part of the reload is in place: %s", got.out)
	}
	if level := s.app.Config().Log.Level; level != "info" {
		t.Errorf("the level is %s", level)
	}
	s.start("checkout", "order-2", `--input={"order":"o"}`, "--wait=30s").
		want(t, ExitFailure, "held")
	c.mu.Lock()
	if all := strings.Join(c.seen, ""); strings.Contains(all, "other-hush") {
		t.Error("the new secret was used")
	}
	c.mu.Unlock()

	c.answers("/charges", http.StatusCreated)
	writeFile(t, file, text+"  nothing_to_undo: true\n- name: mail\n  call: {url: \""+
		c.URL+"/mails\"}\n")
	writeFile(t, s.file, "sagas: {definitions: ["+folder+"]}\nsecrets: {shop: {value: other-hush}}\n")
	log = s.reload()
	if strings.Contains(log, "not reloaded") {
		t.Fatalf("%s", log)
	}
	s.cli("saga", "definitions", "checkout").want(t, ExitOK, "checkout  2        yes     file",
		"checkout  1        -       file")
	s.start("checkout", "order-3", `--input={"order":"o"}`, "--wait=30s").
		want(t, ExitOK, "completed")
	c.mu.Lock()
	if all := strings.Join(c.seen, ""); !strings.Contains(all, "other-hush") {
		t.Error("the new secret is not used")
	}
	c.mu.Unlock()
	old := s.cli("saga", "list", "--key=order-1", "--output=json")
	id := regexp.MustCompile(`run_\w+`).FindString(old.out)
	s.cli("saga", "mark-not-done", id, "charge", "--reason=x", "--yes").want(t, ExitOK)
	s.cli("saga", "show", id, "--wait=30s").want(t, ExitOK, "checkout 1", "completed")
	if calls := c.called(); strings.Count(calls, "/mails") != 1 {
		t.Errorf("the run of version 1 did what version 2 says: %s", calls)
	}
	s.reload() // the same files again make nothing new
	if got := s.cli("saga", "definitions", "checkout"); strings.Contains(got.out, "checkout  3") {
		t.Errorf("the same content is a new version: %s", got.out)
	}
}

func TestServeRefusesABrokenDefinition(t *testing.T) {
	dir := t.TempDir()
	conf, file := filepath.Join(dir, "onced.yaml"), filepath.Join(dir, "a.yaml")
	writeFile(t, conf, "sagas: {definitions: [a.yaml, none.yaml, b]}\n")
	writeFile(t, file, "name: a\nsteps:\n- name: x\n"+
		"  call: {url: \"http://h/\", headers: {A: \"${secrets.gatway}\"}}\n")
	if err := os.MkdirAll(filepath.Join(dir, "b", "c.yaml"), 0o700); err != nil { // a folder is no file
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "b", "a.json"),
		`{"name":"a","steps":[{"name":"x","call":{"url":"http://h/"}}]}`)
	writeFile(t, filepath.Join(dir, "b", ".a.yaml"), "nonsense")
	t.Chdir(dir)
	for _, words := range [][]string{{"serve", "--listen=127.0.0.1:0"}, {"config", "check"}} {
		got := run(t, words...)
		got.want(t, ExitUsage, "onced.yaml:1:22: sagas.definitions: \"none.yaml\" cannot be read",
			"a.yaml:4:",
			"gatway")
		if strings.Contains(got.errors, "nonsense") {
			t.Errorf("a hidden file was read: %s", got.errors)
		}
	}
	writeFile(t, conf, "sagas: {definitions: [a.yaml, b]}\nsecrets: {gatway: {value: hush}}\n")
	got := run(t, "config", "check")
	got.want(t, ExitUsage, "b/a.json: name: \"a\" is defined in a.yaml too")
	writeFile(t, conf, "sagas: {definitions: [a.yaml, a.yaml]}\nsecrets: {gatway: {value: hush}}\n")
	run(t, "config", "check").want(t, ExitOK, "0 routes, 1 definitions")
}
