package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// sagaOf is a definition of three steps; last is the path of the third one's call.
func sagaOf(name, last string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "name: %s\ninput: {order: string, cents: int}\nsteps:\n", name)
	for i, path := range []string{"/points", "/charges", last} {
		fmt.Fprintf(&b, "- name: step%d\n  call: {url: \"UPSTREAM%s\", body: \"${input}\"}\n"+
			"  undo: {url: \"UPSTREAM/back\", body: \"${input}\"}\n  repeatable: 24h\n", i+1, path)
	}
	return b.String()
}

// start makes requests that start a run each, and wait for its end.
func (s *benched) start(definition string) func() *http.Request {
	run := strconv.FormatInt(time.Now().UnixNano(), 36)
	return func() *http.Request {
		body := fmt.Sprintf(`{"definition":%q,"key":"%s-%d","input":%s}`, definition, run, s.keys.Add(1),
			`{"order":"o-1234567890","cents":4999}`)
		r, err := http.NewRequestWithContext(context.Background(), "POST", "http://"+s.addr+"/v1/runs",
			strings.NewReader(body))
		if err != nil {
			panic(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+s.client)
		r.Header.Set("Prefer", "wait=30")
		return r
	}
}

// wantRun fails unless a run of the definition ends with that status.
func (s *benched) wantRun(b *testing.B, definition, status string) {
	b.Helper()
	resp, err := s.Do(s.start(definition)())
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	var run struct{ Status, State string }
	if err := json.Unmarshal(text, &run); err != nil || run.Status+run.State != status {
		b.Fatalf("a run of %s: %v\n%s", definition, err, text)
	}
}

// BenchmarkSaga measures runs of three steps over HTTP from their start to their
// end, good ones and such whose third step is refused, so that two are undone, each
// against a skeleton of as many calls and one commit more.
func BenchmarkSaga(b *testing.B) {
	s := newBenched(b)
	s.wantRun(b, "good", "completed")
	s.wantRun(b, "bad", "compensated")
	for _, clients := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("good/clients=%d", clients), func(b *testing.B) {
			compare(b, clients, contender{"skeleton", s.fresh(s.skeleton + "/saga")},
				contender{"saga", s.start("good")})
		})
		b.Run(fmt.Sprintf("undone/clients=%d", clients), func(b *testing.B) {
			compare(b, clients, contender{"skeleton", s.fresh(s.skeleton + "/undone")},
				contender{"saga", s.start("bad")})
		})
	}
}
