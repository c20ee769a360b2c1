package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"onced/api/problem"
	"onced/kv/faultkv"
	"onced/kv/memkv"
	"onced/saga"
)

// doneWord is a callback of who has no more to say.
const doneWord = `{"outcome":"done"}`

// A callback finishes its step, whatever its content type; the second time changes
// nothing and is answered alike.
func TestCallbacksAreIdempotent(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		done := `{"outcome":"done","data":{"id":"ch_1"}}`
		for i, c := range []struct {
			contentType, body, want string
		}{
			{"application/json", done, "completed"}, {"text/plain", done, "completed"},
			{"", done, "completed"},
			{"application/x-www-form-urlencoded", " " + done + "\n", "completed"},
			{"", `{"outcome":"refused","reason":"card stolen"}`, "compensated"},
		} {
			path := r.started("pay", fmt.Sprint(i))
			r.state(path, "running")
			first := r.ask("", "POST "+r.callbackOf(path), c.body, "Content-Type", c.contentType).want(t,
				200, "")
			a := r.state(path, c.want)
			again := r.ask("", "POST "+r.callbackOf(path), c.body, "Content-Type", c.contentType).want(t,
				200, "")
			if first.text("outcome") != "accepted" || again.text("outcome") != "repeated" {
				t.Errorf("%v: %s, %s", c, first.raw, again.raw)
			}
			if r.see(path).header.Get("ETag") != a.header.Get("ETag") {
				t.Errorf("%v: the second one changed the run", c)
			}
			step := a.at("steps").([]any)[0].(map[string]any)
			if strings.Contains(c.body, "ch_1") &&
				fmt.Sprint(step["signal"]) != "map[data:map[id:ch_1] outcome:done]" {
				t.Errorf("%v: %v", c, step)
			}
			if c.want == "compensated" && !strings.Contains(string(a.raw), "card stolen") {
				t.Errorf("the reason is lost: %s", a.raw)
			}
		}
		r.wantLedger("charge=5 order=4") // what a callee refuses after it took it is the callee's to free
	})
}

// Nothing is taken for a run whose definition is not there: who sends it is asked to send
// it again, with a document and without, by callback and by signal.
func TestWordForARunWhoseDefinitionIsAwayIsAskedForAgain(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		r.ask("admin", "POST /v1/definitions", map[string]any{"name": "doc"}).want(t, 201, "")
		coded, documented := r.started("pay", "1"), r.started("doc", "2")
		r.state(coded, "running")
		r.docs.away = true
		again := func(a answer) {
			t.Helper()
			if a.want(t, 503, "unavailable"); a.header.Get("Retry-After") == "" {
				t.Errorf("it does not say when: %v", a.header)
			}
		}
		again(r.ask("", "POST "+r.callbackOf(documented), `{"status":"succeeded"}`))
		known := r.engine
		r.engine = r.emptyEngine() // a process that does not know the definitions
		r.serve(t)
		again(r.ask("", "POST "+r.callbackOf(coded), doneWord))
		again(r.ask("operator", "POST "+coded+"/signals/charge", doneWord))
		r.engine, r.docs.away = known, false
		r.serve(t)
		r.ask("", "POST "+r.callbackOf(coded), doneWord).want(t, 200, "")
		r.ask("", "POST "+r.callbackOf(documented), `{"status":"succeeded"}`).want(t, 200, "")
		r.state(coded, "completed")
		r.state(documented, "completed")
	})
}

// Whoever says in the callee's place that a step was done says what came of it, when
// others read it: by signal, by mark_done, and by mark_done of many.
func TestADoneOfAPersonBringsWhatIsRead(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		r.ask("admin", "POST /v1/definitions", map[string]any{"name": "doc"}).want(t, 201, "")
		path, marked, plain := r.started("doc", "1"), r.started("doc", "2"), r.started("pay", "3")
		r.state(path, "running")
		signal := func(outcome string, data any) answer {
			return r.ask("operator", "POST "+path+"/signals/charge",
				map[string]any{"outcome": outcome, "data": data})
		}
		for _, data := range []any{nil, "x", map[string]any{"amount": 1}} {
			if a := signal("done", data).want(t, 400, "invalid_field"); a.problem.Param != "data.id" {
				t.Errorf("%s", a.raw)
			}
		}
		for _, output := range []any{nil, 7} {
			a := r.operate(marked, "mark_done", "step", "charge", "output", output).
				want(t, 400, "invalid_field")
			if a.problem.Param != "output.id" {
				t.Errorf("%s", a.raw)
			}
		}
		bulk := map[string]any{"verb": "mark_done", "step": "charge", "reason": "x", "dry_run": true,
			"all": true, "filter": map[string]any{"state": "open"}}
		for _, dry := range []bool{true, false} {
			bulk["dry_run"] = dry
			a := r.ask("operator", "POST /v1/runs/bulk", bulk).want(t, 200, "")
			if len(a.at("refused").([]any)) != 2 || len(a.at("acted").([]any)) != 1 ||
				!strings.Contains(string(a.raw), "data.id is missing") &&
					!strings.Contains(string(a.raw), "output.id") {
				t.Errorf("%s", a.raw)
			}
		}
		r.state(plain, "completed") // no document asks for more
		r.state(path, "running")
		r.state(marked, "running")
		signal("done", map[string]any{"id": "ch_1"}).want(t, 202, "")
		r.operate(marked, "mark_done", "step", "charge", "output", map[string]any{"id": "ch_2"}).
			want(t, 200, "")
		r.state(path, "completed")
		r.state(marked, "completed")
		refused := r.started("doc", "4")
		r.state(refused, "running")
		path = refused
		signal("refused", nil).want(t, 202, "") // nothing is read of what was refused
		r.state(path, "compensated")
	})
}

// A document says how the bodies of its callbacks are read.
func TestCallbacksAreReadByTheirDefinition(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		r.ask("admin", "POST /v1/definitions", map[string]any{"name": "doc"}).want(t, 201, "")
		path := r.started("doc", "1")
		if a := r.state(path, "running"); a.text("labels.by") != "document" {
			t.Errorf("%s", a.raw)
		}
		post := func(body string, status int, code problem.Code) string {
			t.Helper()
			return r.ask("", "POST "+r.callbackOf(path), body).want(t, status, code).text("outcome")
		}
		if got := post(`{"status":"processing"}`, 200, ""); got != "ignored" {
			t.Error(got)
		}
		post(`[]`, 400, "invalid_field")
		r.state(path, "running")
		if got := post(`{"status":"succeeded"}`, 200, ""); got != "accepted" {
			t.Error(got)
		}
		r.state(path, "completed")
	})
}

func TestSG12_ALateCallbackIsUndoneOnceByALinkedRun(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		r.set("charge", "retry=1h")
		path := r.started("pay", "order-1")
		r.state(path, "running")
		r.operate(path, "cancel").want(t, 200, "") // it was never taken, as the callee said
		r.state(path, "compensated")
		r.stands["charge"]++ // and yet it was
		for i, want := range []string{"accepted", "repeated", "repeated"} {
			a := r.ask("", "POST "+r.callbackOf(path), `{"outcome":"done"}`).want(t, 200, "")
			if synctest.Wait(); a.text("outcome") != want {
				t.Errorf("callback %d: %s", i, a.raw)
			}
		}
		r.wantLedger("")
		a := r.state(path, "compensated")
		corrections, _ := a.at("corrections").([]any)
		if len(corrections) != 1 {
			t.Fatalf("%s", a.raw)
		}
		run := corrections[0].(map[string]any)["run"].(string)
		fix := r.state("/v1/runs/"+run, "compensated")
		if "/v1/runs/"+fix.text("parent") != path || fix.text("link") != "correction" ||
			fix.text("principal") != "acme" {
			t.Errorf("%s", fix.raw)
		}
		if got := r.lists("acme", "key=order-1"); len(got) != 2 || !slices.Contains(got, run) {
			t.Errorf("the key has the runs %v", got)
		}
		r.ask("acme", "GET "+path, nil, "If-None-Match", a.header.Get("ETag")).want(t, 304, "")
		if n := strings.Count(r.made(), "undo charge"); n != 1 {
			t.Errorf("%d undos: %s", n, r.made())
		}
	})
}

func TestSG13_ACallbackDuringTheUndo(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		r.set("order", "refused")
		r.set("undo charge", "retry=1m")
		path := r.started("pay", "order-1")
		synctest.Wait()
		r.ask("", "POST "+r.callbackOf(path), doneWord).want(t, 200, "")
		r.state(path, "compensating")
		a := r.ask("", "POST "+r.callbackOf(path), doneWord).want(t, 200, "")
		if a.text("outcome") != "repeated" {
			t.Errorf("%s", a.raw)
		}
		time.Sleep(2 * time.Minute)
		r.state(path, "compensated")
		r.wantLedger("")
	})
}

// A signal that comes before the reply of the action is kept.
func TestSignalsComeEarlyAndTwice(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		r.set("charge", "retry=1h")
		path := r.started("pay", "k")
		r.state(path, "running")
		signal := map[string]any{"outcome": "done", "data": map[string]any{"amount": 1.50}}
		r.ask("acme", "POST "+path+"/signals/charge", signal).want(t, 202, "")
		r.state(path, "completed")
		if a := r.ask("acme", "POST "+path+"/signals/charge", signal).want(t, 200, ""); a.text("outcome") !=
			"repeated" {
			t.Errorf("%s", a.raw)
		}
		r.wantLedger("order=1")
		// Who is not the owner is told of in the feed.
		other := r.started("pay", "l")
		r.state(other, "running")
		r.ask("operator", "POST "+other+"/signals/charge",
			map[string]any{"outcome": "done", "reason": "seen it"}).
			want(t, 202, "")
		r.ask("operator", "POST "+other+"/signals/charge", map[string]any{"outcome": "done"}).want(t, 200, "")
		page, err := r.feed.Read(t.Context(), r.store, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		told := ""
		for _, ev := range page.Events {
			if ev.Type == "operator.run.signal" {
				told += string(ev.Data)
			}
		}
		if strings.Count(told, `"actor":"operator"`) != 1 || !strings.Contains(told, "seen it") {
			t.Errorf("told: %s", told)
		}
		r.ask("viewer", "POST "+other+"/signals/charge", signal).want(t, 403, "forbidden")
	})
}

// A client settles by signal what waits for one. The word about another step, whose
// outcome nobody knows, is an operator's.
func TestClientsSignalOnlyWhatAwaitsASignal(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		r.set("order", "always", "dropped")
		path := r.started("pay", "k")
		r.state(path, "running")
		r.ask("", "POST "+r.callbackOf(path), doneWord).want(t, 200, "")
		before := r.state(path, "held")
		for _, outcome := range []string{"done", "refused"} {
			a := r.ask("acme", "POST "+path+"/signals/order", map[string]any{"outcome": outcome}).
				want(t, 409, "wrong_state")
			if !strings.Contains(a.problem.Detail, "mark_done") || !strings.Contains(a.problem.Detail,
				"operator") {
				t.Errorf("it says no remedy: %s", a.raw)
			}
		}
		if r.see(path).header.Get("ETag") != before.header.Get("ETag") {
			t.Error("a refused word has changed the run")
		}
		r.ask("operator", "POST "+path+"/signals/order", map[string]any{"outcome": "done",
			"reason": "seen in their book"}).want(t, 202, "")
		if a := r.state(path, "completed"); !strings.Contains(string(a.raw),
			"operator: done: seen in their book") {
			t.Errorf("the history does not say who and why: %s", a.raw)
		}
	})
}

// A word that denies the end of a run is not answered as if it counted: the answer and the
// run say so, by signal and by callback, each time.
func TestAWordThatDeniesTheEndIsAnsweredSo(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		path := r.started("pay", "k")
		r.state(path, "running")
		r.ask("", "POST "+r.callbackOf(path), doneWord).want(t, 200, "")
		before := r.state(path, "completed")
		refused := map[string]any{"outcome": "refused", "reason": "charged back"}
		for i := range 2 {
			for _, a := range []answer{r.ask("", "POST "+r.callbackOf(path), refused),
				r.ask("acme", "POST "+path+"/signals/charge", refused)} {
				if a.want(t, 200, "").text("outcome") != "contradicts" {
					t.Errorf("%d: %s", i, a.raw)
				}
			}
		}
		if a := r.ask("", "POST "+r.callbackOf(path), doneWord).want(t, 200, ""); a.
			text("outcome") != "repeated" {
			t.Errorf("the word that fits: %s", a.raw)
		}
		a := r.state(path, "completed")
		if !strings.Contains(fmt.Sprint(a.at("contradictions")), "outcome:refused step:charge") {
			t.Errorf("the run does not say it: %s", a.raw)
		}
		if a.header.Get("ETag") == before.header.Get("ETag") || fmt.Sprint(a.at("revision")) !=
			fmt.Sprint(before.at("revision")) {
			t.Errorf("ETag %s, before %s", a.header.Get("ETag"), before.header.Get("ETag"))
		}
	})
}

// The runs whose end is denied are found in a list, by pages, and say so in every list.
func TestContradictedRunsAreFound(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		var denied []string
		for i := range 6 {
			path := r.started("pay", fmt.Sprint(i))
			r.state(path, "running")
			r.ask("", "POST "+r.callbackOf(path), doneWord).want(t, 200, "")
			r.state(path, "completed")
			if i%2 == 0 {
				r.ask("acme", "POST "+path+"/signals/charge", map[string]any{"outcome": "refused",
					"data": map[string]any{"why": "charged back"}}).want(t, 200, "")
				denied = append([]string{strings.TrimPrefix(path, "/v1/runs/")}, denied...)
			}
			time.Sleep(time.Second)
		}
		for _, query := range []string{"contradicted=true", "contradicted=true&limit=1",
			"contradicted=true&state=completed&definition=pay"} {
			if got := r.lists("viewer", query); !slices.Equal(got, denied) {
				t.Errorf("%s lists %v, want %v", query, got, denied)
			}
		}
		if got := r.lists("globex", "contradicted=true"); len(got) != 0 {
			t.Errorf("another account sees %v", got)
		}
		if got := r.lists("viewer", "contradicted=false"); len(got) != 6 {
			t.Errorf("without the filter it lists %v", got)
		}
		all := r.ask("viewer", "GET /v1/runs?limit=2", nil).want(t, 200, "")
		if n := strings.Count(string(all.raw), `"outcome":"refused"`); n != 1 {
			t.Errorf("%d of the two newest are denied: %s", n, all.raw)
		}
		cursor := r.ask("viewer", "GET /v1/runs?contradicted=true&limit=1", nil).text("next_cursor")
		r.ask("viewer", "GET /v1/runs?limit=1&cursor="+cursor, nil).want(t, 400, "invalid_cursor")
		r.ask("viewer", "GET /v1/runs?contradicted=yes", nil).want(t, 400, "invalid_field")
		for as, sees := range map[string]bool{"operator": true, "acme": true, "viewer": false} {
			a := r.ask(as, "GET /v1/runs/"+denied[0], nil).want(t, 200, "")
			if strings.Contains(string(a.raw), "charged back") != sees {
				t.Errorf("%s: %s", as, a.raw)
			}
		}
	})
}

// Whatever is not exactly a token of this store opens nothing, and reads nothing.
func TestCallbackTokensCannotBeMade(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		path := r.started("pay", "k")
		r.state(path, "running")
		good := strings.TrimPrefix(r.callbackOf(path), callbackPath)
		run := strings.TrimPrefix(path, "/v1/runs/")
		foreign, err := NewCallbacks(bytes.Repeat([]byte("x"), 32), "https://pay.example.org")
		if err != nil {
			t.Fatal(err)
		}
		own := r.deps.Sagas.Callbacks
		bad := []string{"x", "-", "_", strings.Repeat("A", 43), strings.Repeat("A", 64),
			strings.Repeat("A", 2000),
			good + "A", good + "AAAA", good[:len(good)-1], good[4:], run, "..." + good,
			foreign.token(callback{run, "charge", 1}), own.token(callback{run, "charge", 2}),
			own.token(callback{run, "other", 1}), own.token(callback{"run_0", "charge", 1})}
		for i := range good {
			swapped := byte('A')
			if good[i] == swapped {
				swapped = 'B'
			}
			bad = append(bad, good[:i]+string(swapped)+good[i+1:])
		}
		for _, token := range bad {
			req := httptest.NewRequest(http.MethodPost, callbackPath+token, unread{})
			req.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			r.server.ServeHTTP(w, req)
			if w.Code != 404 || !strings.Contains(w.Body.String(), "no such callback") {
				t.Errorf("%s: %d %s", token, w.Code, w.Body)
			}
		}
		r.state(path, "running")
		r.ask("", "POST "+callbackPath+good, doneWord).want(t, 200, "")
		r.state(path, "completed")
	})
}

// unread fails a test that reads it.
type unread struct{}

func (unread) Read([]byte) (int, error) { panic("the body was read before the token was known") }

// Equal calls get equal URLs, in every process on the same store.
func TestCallbackURLsSurviveARestart(t *testing.T) {
	s := memkv.Open(memkv.NewDisk(), memkv.Options{})
	var urls []string
	for range 2 {
		key, err := CallbackKey(t.Context(), s, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		c, err := NewCallbacks(key, "https://pay.example.org/onced/")
		if err != nil {
			t.Fatal(err)
		}
		urls = append(urls, c.URL("run_1", "charge", 1))
		seen := map[string]bool{}
		for _, other := range []callback{{"run_1", "charge", 1}, {"run_1", "charge", 2},
			{"run_1", "charg", 1},
			{"run_", "1charge", 1}, {"run_2", "charge", 1}} {
			seen[c.URL(other.run, other.step, other.round)] = true
			if got, ok := c.open(c.token(other)); !ok || got != other {
				t.Errorf("%+v came back as %+v", other, got)
			}
		}
		if len(seen) != 5 {
			t.Errorf("only %d of 5 differ", len(seen))
		}
	}
	if urls[0] != urls[1] || !strings.HasPrefix(urls[0], "https://pay.example.org/onced/v1/callbacks/") {
		t.Errorf("%v", urls)
	}
	cursor, err := CursorKey(t.Context(), s, rand.Reader)
	if key, _ := CallbackKey(t.Context(), s, rand.Reader); err != nil || bytes.Equal(cursor, key) {
		t.Error("callbacks and cursors share a key")
	}
	for _, bad := range []string{"", "pay.example.org", "ftp://x", "https://u:p@x", "https://x?a=b",
		"https://x#a"} {
		if _, err := NewCallbacks(cursor, bad); err == nil {
			t.Errorf("%q is taken for a public URL", bad)
		}
	}
	if _, err := NewCallbacks(cursor[:31], "https://x"); err == nil {
		t.Error("a short key is taken")
	}
}

// The token is a secret: it is in no log, no name of a route, and no answer.
func TestCallbackTokensAreNotTold(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		path := r.started("pay", "k")
		synctest.Wait()
		token := r.callbackOf(path)
		secret := strings.TrimPrefix(token, callbackPath)
		answers := ""
		for _, what := range []string{"POST " + token, "POST " + token + "A", "GET " + token,
			"POST " + token + "/",
			"POST " + strings.Replace(token, "v1", "V1", 1), "POST " + token + "?x=1"} {
			for _, body := range []any{nil, `{"outcome":"done"}`, `{"outcome":"maybe"}`, `{`} {
				a := r.ask("", what, body)
				answers += string(a.raw) + fmt.Sprint(a.header)
			}
		}
		if strings.Contains(answers, secret[:40]) {
			t.Errorf("an answer holds it: %s", answers)
		}
		if strings.Contains(r.log.String(), secret[:40]) ||
			!strings.Contains(r.log.String(), "/v1/callbacks/{token}") {
			t.Errorf("the log holds it: %s", r.log)
		}
		for _, d := range r.watch.seen {
			if strings.Contains(d.Route, secret[:40]) {
				t.Errorf("a route holds it: %+v", d)
			}
		}
		if a := r.see(path); strings.Contains(string(a.raw), secret[:40]) {
			t.Errorf("the run holds it: %s", a.raw)
		}
	})
}

func TestCallbackBodiesAreBounded(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		path := r.started("pay", "k")
		r.state(path, "running")
		for _, c := range []struct {
			body   string
			status int
			code   problem.Code
			header []string
		}{
			{`{"outcome":"done","data":"` + strings.Repeat("x", DefaultMaxBody) + `"}`, 413, "too_large",
				nil},
			{`{"outcome":"done"`, 400, "invalid_json", nil}, {`outcome=done`, 400, "invalid_json", nil},
			{"", 400, "invalid_json", nil}, {" \n", 400, "invalid_json", nil},
			{`{}`, 400, "invalid_field", nil},
			{`null`, 400, "invalid_json", nil},
			{"{\"outcome\":\"done\xff\"}", 400, "invalid_json", nil}, {`{}{}`, 400, "invalid_json", nil},
			{`{"outcome":"done"}`, 415, "unsupported_media_type", []string{"Content-Encoding", "gzip"}},
			{`{"outcome":"perhaps"}`, 400, "invalid_field", nil}, {`[]`, 400, "invalid_json", nil},
			{`{"outcome":"done","more":1}`, 400, "unknown_field", nil},
		} {
			r.ask("", "POST "+r.callbackOf(path), c.body, c.header...).want(t, c.status, c.code)
		}
		r.state(path, "running")
		// Half a megabyte of data of a signal is refused too, by name.
		r.ask("acme", "POST "+path+"/signals/charge", `{"outcome":"done","data":"`+
			strings.Repeat("x", DefaultMaxBody)+`"}`).want(t, 413, "too_large")
	})
}

// While the store does not take it, a callback is not acknowledged.
func TestCallbacksThatAreNotStoredAreNotAcknowledged(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		path := r.started("pay", "k")
		r.state(path, "running")
		r.store.Arm(faultkv.Plan{When: faultkv.Before, Mode: faultkv.Fail})
		if a := r.ask("", "POST "+r.callbackOf(path), doneWord); a.status < 500 {
			t.Errorf("%d %s", a.status, a.raw)
		}
	})
}

// A thousand waiting runs go on by their callbacks alone: no time passes, and each
// costs one commit for the word and what its steps cost.
func TestA2_33_AThousandWaitingRunsGoOnByCallback(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		const runs = 1000
		var paths []string
		for i := range runs {
			st, err := r.engine.StartRun(t.Context(), saga.StartRequest{Definition: "pay", Principal: "acme",
				Key: fmt.Sprint(i)})
			if err != nil {
				t.Fatal(err)
			}
			paths = append(paths, r.callbackOf("/v1/runs/"+st.Run))
		}
		synctest.Wait()
		if got := r.commit.calls["charge done"]; got != runs || r.commit.runs["completed"] != 0 {
			t.Fatalf("%d charges, %v", got, r.commit.runs)
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		before, began := r.store.Count(), time.Now()
		var all sync.WaitGroup
		for _, p := range paths {
			all.Go(func() {
				req := httptest.NewRequest(http.MethodPost, p, strings.NewReader(doneWord))
				w := httptest.NewRecorder()
				if r.server.ServeHTTP(w, req); w.Code != 200 {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
		}
		all.Wait()
		synctest.Wait()
		if took := time.Since(began); took != 0 || r.commit.runs["completed"] != runs {
			t.Errorf("after %v %d are completed", took, r.commit.runs["completed"])
		}
		// One for the word and the intent of the order, or two; one for the end.
		if n := r.store.Count() - before; n > 3*runs {
			t.Errorf("%d commits for %d callbacks", n, runs)
		}
	})
}

// BenchmarkCallbacks resumes 1,000 waiting runs per round, from the first callback to
// the end of the last run; ms/1000 is the figure.
func BenchmarkCallbacks(b *testing.B) {
	r := newSagaRig(b, nil)
	const runs = 1000
	var took time.Duration
	for n := range b.N {
		ids, paths := make([]string, runs), make([]string, runs)
		for i := range runs {
			st, err := r.engine.StartRun(context.Background(), saga.StartRequest{Definition: "pay",
				Principal: "acme", Key: fmt.Sprint(n, "-", i)})
			if err != nil {
				b.Fatal(err)
			}
			ids[i], paths[i] = st.Run, r.callbackOf("/v1/runs/"+st.Run)
		}
		for { // until all wait
			page, _, err := r.engine.List(context.Background(), saga.Query{Statuses: nil, Limit: 1})
			if err != nil || len(page) == 0 {
				b.Fatal(err)
			}
			r.commit.mu.Lock()
			charged := r.commit.calls["charge done"]
			r.commit.mu.Unlock()
			if charged == runs*(n+1) {
				break
			}
			time.Sleep(time.Millisecond)
		}
		began := time.Now()
		work := make(chan string, runs)
		for _, p := range paths {
			work <- p
		}
		close(work)
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				for p := range work {
					w := httptest.NewRecorder()
					r.server.ServeHTTP(w,
						httptest.NewRequest(http.MethodPost, p, strings.NewReader(doneWord)))
				}
			})
		}
		all.Wait()
		for _, id := range ids {
			if v, err := r.engine.Wait(context.Background(), id); err != nil {
				b.Fatal(v, err)
			}
		}
		took += time.Since(began)
	}
	b.ReportMetric(float64(took.Milliseconds())/float64(b.N), "ms/1000")
}
