package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"onced/kv"
	"onced/saga"
	"onced/saga/definition"
)

// filed is a process whose definitions are files.
type filed struct {
	*running

	dir   string
	text  string // of the configuration
	clock *watchedClock
}

// watchedClock calls what is set whenever somebody asks for the time.
type watchedClock struct {
	kv.Clock

	asked atomic.Pointer[func()]
}

func (c *watchedClock) Now() time.Time {
	if f := c.asked.Load(); f != nil {
		(*f)()
	}
	return c.Clock.Now()
}

// startFiled starts one with files by name, and more lines of configuration.
func startFiled(t *testing.T, more string, files ...string) *filed {
	t.Helper()
	f := &filed{dir: t.TempDir(), clock: &watchedClock{Clock: kv.SystemClock()}}
	f.write(t, files...)
	f.text = "sagas: {definitions: [" + f.dir + "]}\n" + more
	o := Options{Version: "test", Clock: f.clock, Load: loader(t.TempDir(), &f.text),
		Level: new(slog.LevelVar)}
	var err error
	if o.Loaded, err = o.Load(); err != nil {
		t.Fatal(err)
	}
	f.running = startSagas(t, o)
	return f
}

// write writes files: pairs of name and content.
func (f *filed) write(t *testing.T, files ...string) {
	t.Helper()
	for i := 0; i < len(files); i += 2 {
		if err := os.WriteFile(filepath.Join(f.dir, files[i]), []byte(files[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// send asks for JSON as the first admin.
func (f *filed) send(method, path, contentType, body string) (status int, answer map[string]any) {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), method, f.url+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	req.Header.Set("Authorization", "Bearer "+f.adminToken())
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		f.t.Fatal(err)
	}
	return res.StatusCode, answer
}

func (f *filed) post(doc string) (status int, answer map[string]any) {
	f.t.Helper()
	return f.send(http.MethodPost, "/v1/definitions", "application/yaml", doc)
}

// latest says which versions new runs use.
func (f *filed) latest() string {
	f.t.Helper()
	all, err := f.app.parts.sagas.book.List(f.t.Context(), "", 0)
	if err != nil {
		f.t.Fatal(err)
	}
	var out []string
	for _, s := range all {
		out = append(out, s.Name+s.Version)
	}
	return strings.Join(out, " ")
}

// secret is a secret as calls get it, or empty.
func (f *filed) secret(name string) string {
	text, _ := f.app.parts.sagas.secret(context.Background(), definition.SecretUse{Name: name})
	return text
}

// waits is a definition of one step that waits, and of a call that uses a secret.
func waits(name, more string) string {
	return "name: " + name + "\nsteps:\n- name: word\n  await: {for: 24h}\n  nothing_to_undo: true\n" + more
}

const useOfNew = "- {name: a, call: {url: 'http://127.0.0.1:1/a', headers: {A: '${secrets.new}'}}}\n"

// A reload that fails at the last of its files leaves the first ones as they were, and
// the secrets too; the next one that is right takes all.
func TestAReloadOfDefinitionsIsWholeOrNothing(t *testing.T) {
	f := startFiled(t, "secrets: {old: {value: first-old}}\n", "a.yaml", waits("a", ""),
		"b.yaml", "version: \"1\"\n"+waits("b", ""))
	f.text = strings.Replace(f.text, "old: {value: first-old}", "new: {value: the-new}", 1)
	f.write(t, "a.yaml", waits("a", useOfNew), "b.yaml", "version: \"1\"\n"+waits("b", useOfNew))
	if _, err := f.app.Reload(); err == nil || !strings.Contains(err.Error(), "b.yaml") {
		t.Fatalf("%v", err)
	}
	if got := f.latest(); got != "a1 b1" || f.secret("old") != "first-old" || f.secret("new") != "" {
		t.Errorf("after a reload that failed: %s, %q, %q", got, f.secret("old"), f.secret("new"))
	}
	if status, a := f.post("name: c\nsteps:\n" + useOfNew); status != http.StatusUnprocessableEntity {
		t.Errorf("a secret of a configuration that is not in force is known: %d %v", status, a)
	}
	f.write(t, "b.yaml", "version: \"2\"\n"+waits("b", useOfNew))
	// While the versions are stored, calls of both configurations find their secrets.
	both := atomic.Bool{}
	look := func() {
		if f.secret("old") == "first-old" && f.secret("new") == "the-new" {
			both.Store(true)
		}
	}
	f.clock.asked.Store(&look)
	if _, err := f.app.Reload(); err != nil {
		t.Fatal(err)
	}
	f.clock.asked.Store(nil)
	if got := f.latest(); got != "a2 b2" || f.secret("old") != "" || f.secret("new") != "the-new" {
		t.Errorf("after the reload: %s, %q, %q", got, f.secret("old"), f.secret("new"))
	}
	if !both.Load() {
		t.Error("calls that began during the reload missed a secret")
	}
}

// A pipe among the files that nobody writes to is refused, and holds up no reload.
func TestAPipeAmongDefinitionsIsRefused(t *testing.T) {
	f := startFiled(t, "", "a.yaml", waits("a", ""))
	pipe := filepath.Join(f.dir, "b.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.app.Reload(); err == nil || !strings.Contains(err.Error(), "b.yaml") ||
		!strings.Contains(err.Error(), "is not a regular file") {
		t.Fatalf("%v", err)
	}
	if err := os.Remove(pipe); err != nil {
		t.Fatal(err)
	}
	if _, err := f.app.Reload(); err != nil {
		t.Error(err)
	}
}

// A name whose file is gone is free for the API after a reload; before, it is not.
func TestANameIsFreeAfterItsFileIsGone(t *testing.T) {
	f := startFiled(t, "", "a.yaml", waits("a", ""), "b.yaml", waits("b", ""))
	if status, a := f.post(waits("a", "- {name: more, await: {}}\n")); status != http.StatusConflict {
		t.Errorf("%d %v", status, a)
	}
	if err := os.Remove(filepath.Join(f.dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	const gone = "no file has a definition any more"
	if strings.Contains(f.log.String(), gone) {
		t.Errorf("it is said too early: %s", f.log)
	}
	if _, err := f.app.Reload(); err != nil {
		t.Fatal(err)
	}
	if log := f.log.String(); strings.Count(log, gone) != 1 || !strings.Contains(log,
		"can be started\" definition=a") {
		t.Errorf("that the last version stays in use is not said: %s", log)
	}
	if status, a := f.post(waits("a", "- {name: more, await: {}}\n")); status != http.StatusCreated ||
		a["version"] != "2" {
		t.Errorf("%d %v", status, a)
	}
}

// Which version new runs use is told in the feed with who brought it, and shown with what
// it declares and calls.
func TestDefinitionsThatArePutAreToldAndShown(t *testing.T) {
	f := startFiled(t, "", "a.yaml", waits("a", ""))
	doc := "name: b\ninput: {order: string, sum: decimal?}\nsteps:\n" +
		"- {name: x, call: {url: 'https://h.example/${input.order}'}, nothing_to_undo: true}\n" +
		"- {name: y, await: {}}\n"
	for i, want := range []int{http.StatusCreated, http.StatusOK} {
		if status, a := f.post(doc); status != want || a["latest"] != true {
			t.Fatalf("%d: %d %v", i, status, a)
		}
	}
	page, err := f.app.parts.feed.Read(t.Context(), f.app.store, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, ev := range page.Events {
		if ev.Type == "operator.definition.put" {
			told = append(told, ev.Subject+" "+string(ev.Data))
		}
	}
	const first = `a {"definition":"a","version":"1","new":true,"origin":"file"`
	if len(told) != 2 || !strings.Contains(told[0], first) || !strings.Contains(told[0], "a.yaml") ||
		!strings.Contains(told[1], `"definition":"b","version":"1"`) ||
		!strings.Contains(told[1], `"actor":"first-admin"`) ||
		!strings.Contains(told[1], `"origin":"api"`) || strings.Contains(told[1], "h.example") {
		t.Errorf("told %q", told)
	}
	_, a := f.send(http.MethodGet, "/v1/definitions/b", "", "")
	text := fmt.Sprint(a)
	for _, want := range []string{"input:map[order:string sum:decimal?]", "latest:true",
		"nothing_to_undo:true", "method:POST", "url:https://h.example/${input.order}"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

// Callback URLs that name the address of the listener are warned of; with a public_url
// there is nothing to say.
func TestCallbacksWithoutAPublicURLAreWarnedOf(t *testing.T) {
	doc := "name: a\nsteps:\n- name: b\n  await: {}\n  call: {url: 'http://h/', body: '${callback_url}'}\n"
	for more, warns := range map[string]bool{"": true, "public_url: https://pay.example.org\n": false} {
		f := startFiled(t, more, "a.yaml", doc, "c.yaml", waits("c", ""))
		log := f.log.String()
		if strings.Contains(log, "public_url is not set") != warns ||
			strings.Contains(log, "definition=c remedy") {
			t.Errorf("%q: %s", more, log)
		}
	}
}

// A callback to a run whose document cannot be read, as after a step back to an earlier
// program, is asked for again, and not refused; nothing is lost when it can be read.
func TestACallbackWaitsForItsDefinition(t *testing.T) {
	o := options(t, "")
	doc := "name: a\nsteps:\n- name: b\n" +
		"  await: {done: '${signal.body.ok}', output: {id: '${signal.body.id}'}}\n"
	r := startSagas(t, o)
	if _, _, err := r.app.parts.sagas.book.Put(t.Context(), []byte(doc), definition.FromAPI); err != nil {
		t.Fatal(err)
	}
	st, err := r.app.parts.sagas.engine.StartRun(t.Context(), saga.StartRequest{Definition: "a", Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	edit := func(from, to string) { // in the store, between two processes
		t.Helper()
		a, err := New(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		err = a.store.Update(t.Context(), func(w kv.Writer) error {
			key := kv.Key{}.String("a").String("1")
			raw, err := w.Get("definition.version", key)
			if err != nil {
				return err
			}
			return w.Put("definition.version", key, bytes.Replace(raw, []byte(from), []byte(to), 1))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	callback := func(want int) {
		t.Helper()
		r := startSagas(t, o)
		_, path, _ := strings.Cut(r.app.parts.sagas.callbacks.URL(st.Run, "b", 1), "/v1/")
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/v1/"+path,
			strings.NewReader(`{"ok":true,"id":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		if res.StatusCode != want || want == 503 && res.Header.Get("Retry-After") == "" {
			t.Errorf("%d %v %s", res.StatusCode, res.Header, text)
		}
		if want == http.StatusOK {
			if v, err := r.app.parts.sagas.engine.Wait(t.Context(), st.Run); err != nil {
				t.Errorf("%+v %v", v, err)
			}
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
	}
	edit("steps:", "stepz:")
	callback(http.StatusServiceUnavailable)
	edit("stepz:", "steps:")
	callback(http.StatusOK)
}

// A thousand runs of a document wait for a callback each. One that comes over HTTP is read
// by the document, and the next step is called within a second. The median is held
// against that second, for the machine of a test has others to serve; it and the slowest
// are in the log.
func TestA2_33_AThousandRunsOfADocumentGoOnByCallback(t *testing.T) {
	const runs = 1000
	backs := make(chan [2]string, 2*runs) // run and its callback URL
	var booked sync.Map                   // when, by run
	callee := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if run, ok := strings.CutPrefix(r.URL.Path, "/book/"); ok {
			booked.LoadOrStore(run, time.Now())
		} else {
			var in struct{ Run, Back string }
			if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
				t.Error(err)
			}
			backs <- [2]string{in.Run, in.Back}
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(callee.Close)
	f := startFiled(t, "", "pay.yaml", strings.ReplaceAll(`name: pay
steps:
- name: charge
  call: {url: "URL/charges", body: {run: "${run.id}", back: "${callback_url}"}}
  await:
    done: "${signal.body.status == 'succeeded'}"
    refused: "${signal.body.status == 'failed'}"
    output: {id: "${signal.body.id}"}
  nothing_to_undo: true
- name: book
  call: {url: "URL/book/${run.id}"}
`, "URL", callee.URL))
	engine := f.app.parts.sagas.engine
	work(64, runs, func(i int) {
		if _, err := engine.StartRun(t.Context(), saga.StartRequest{Definition: "pay", Principal: "acme",
			Key: fmt.Sprint(i)}); err != nil {
			t.Error(err)
		}
	})
	waiting := make([][2]string, runs)
	for i := range waiting {
		waiting[i] = <-backs
	}
	took := make([]time.Duration, runs)
	work(8, runs, func(i int) {
		run, sent := waiting[i][0], time.Now()
		status := callBack(t, waiting[i][1], fmt.Sprintf(`{"status":"succeeded","id":"ch_%d"}`, i))
		if status != http.StatusOK {
			t.Errorf("the callback was answered with %d", status)
			return
		}
		v, err := engine.Wait(t.Context(), run)
		if err != nil {
			t.Error(err)
			return
		}
		if got := string(v.State.Steps[0].SignalData); got != fmt.Sprintf(`{"id":"ch_%d"}`, i) {
			t.Errorf("the callback was read as %s", got)
		}
		if at, ok := booked.Load(run); !ok {
			t.Error("the next step was not called")
		} else {
			took[i] = at.(time.Time).Sub(sent)
		}
	})
	slices.Sort(took)
	t.Logf("from a callback to the next call: median %v, slowest %v", took[runs/2], took[runs-1])
	if took[runs/2] > time.Second {
		t.Errorf("the median is %v", took[runs/2])
	}
}

// callBack posts a callback and returns its status.
func callBack(t *testing.T, url, body string) int {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// work calls do for 0 to n-1, so many at a time.
func work(at, n int, do func(i int)) {
	next := atomic.Int64{}
	var all sync.WaitGroup
	for range at {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	all.Wait()
}

// A start that is repeated gets its run, also when the definition of now would refuse
// its input; a new key is refused, with what is wrong.
func TestARepeatedStartOfAChangedDefinitionIsJoined(t *testing.T) {
	f := startFiled(t, "")
	const steps = "steps: [{name: word, await: {for: 24h}, nothing_to_undo: true}]\n"
	start := func(key string) (int, map[string]any) {
		return f.send(http.MethodPost, "/v1/runs", "application/json",
			`{"definition":"pay","principal":"shop","key":"`+key+`","input":{"order":"o-1"}}`)
	}
	f.post("name: pay\ninput: {order: string}\n" + steps)
	status, first := start("k")
	if status != http.StatusCreated {
		t.Fatalf("%d %v", status, first)
	}
	if status, answer := f.post("name: pay\ninput: {order: string, cents: int}\n" + steps); status != 201 {
		t.Fatalf("%d %v", status, answer)
	}
	if status, again := start("k"); status != http.StatusOK || again["id"] != first["id"] {
		t.Errorf("again: %d %v", status, again)
	}
	status, refused := start("new")
	if status != http.StatusBadRequest || refused["param"] != "input.cents" {
		t.Errorf("a new key: %d %v", status, refused)
	}
}
