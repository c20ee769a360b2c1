package api

import (
	"strings"
	"testing"
)

// A callback that cannot be read is answered as it is, and kept in the history of its
// run: its sender may not send it again.
func TestACallbackThatCannotBeReadIsInTheHistory(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		r.ask("admin", "POST /v1/definitions", map[string]any{"name": "doc"}).want(t, 201, "")
		path := r.started("doc", "1")
		r.state(path, "running")
		for range 2 {
			r.ask("", "POST "+r.callbackOf(path), `[]`).want(t, 400, "invalid_field")
		}
		history := string(r.ask("admin", "GET "+path, nil).want(t, 200, "").raw)
		if n := strings.Count(history, "a callback could not be read: signal.body is no object"); n != 1 {
			t.Errorf("it is %d times in\n%s", n, history)
		}
		r.ask("", "POST "+r.callbackOf(path), `{"status":"succeeded"}`).want(t, 200, "")
		r.state(path, "completed")
	})
}
