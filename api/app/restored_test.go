package app

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"onced/kv"
)

// After a restore that the configuration tells of, the service looks a step up before it
// sends it for the first time.
func TestAServiceOfARestoredStoreLooksBeforeItSends(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{"": "POST", ", restored: %s": "GET POST"} {
		var mu sync.Mutex
		var calls []string
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			if calls = append(calls, r.Method); r.Method == http.MethodGet {
				w.WriteHeader(http.StatusNotFound)
			}
		}))
		f := &filed{dir: t.TempDir(), clock: &watchedClock{Clock: kv.SystemClock()}}
		f.write(t, "pay.yaml", strings.ReplaceAll(`name: pay
input: {order: string}
steps:
- name: charge
  call: {url: "URL/charges", body: "${input}"}
  check: {method: GET, url: "URL/charges/1", done: "${reply.status == 200}", absent: "${reply.status == 404}"}
  settles_after: 1ms
  nothing_to_undo: true
`, "URL", s.URL))
		if key != "" {
			key = fmt.Sprintf(key, time.Now().UTC().Format(time.RFC3339))
		}
		f.text = "sagas: {definitions: [" + f.dir + "]" + key + "}\n"
		o := Options{Version: "test", Clock: f.clock, Load: loader(t.TempDir(), &f.text),
			Level: new(slog.LevelVar)}
		var err error
		if o.Loaded, err = o.Load(); err != nil {
			t.Fatal(err)
		}
		f.running = startSagas(t, o)
		_, started := f.send(http.MethodPost, "/v1/runs", "application/json",
			`{"definition": "pay", "key": "1", "principal": "shop", "input": {"order": "o"}}`)
		id, _ := started["id"].(string)
		if v, err := f.app.parts.sagas.engine.Wait(t.Context(), id); err != nil || v.State.Reason != "" {
			t.Fatalf("%v: %+v, %v", started, v, err)
		}
		mu.Lock()
		if got := strings.Join(calls, " "); got != want {
			t.Errorf("restored %q: the calls are %s, want %s", key, got, want)
		}
		mu.Unlock()
		s.Close()
	}
}
