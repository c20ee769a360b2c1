package app

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// TestTokensOfRoutes: who may not send a request to a route is told why, and
// guessing is slowed there as it is at the API.
func TestTokensOfRoutes(t *testing.T) {
	r := start(t, options(t, "auth: {max_failures: 3}\n"+
		"routes: [{path: /charges, upstream: 'http://127.0.0.1:1'}]\n"))
	if status, _ := r.get("/livez"); status != http.StatusOK { // then the token is printed
		t.Fatal(status)
	}
	admin := regexp.MustCompile(`onced_[a-z2-7]{52}`).FindString(r.notice.String())
	for _, c := range []struct {
		name, token string
		status      int
		code        string
	}{
		{"no token", "", 401, "unauthorized"},
		{"an admin's", admin, 400, "idempotency_key_missing"},
		{"a wrong one", "onced_" + strings.Repeat("a", 52), 401, "unauthorized"},
		{"a wrong one again", "onced_" + strings.Repeat("b", 52), 401, "unauthorized"},
		{"a third", "onced_" + strings.Repeat("c", 52), 401, "unauthorized"},
		{"once too often", "onced_" + strings.Repeat("d", 52), 429, "too_many_requests"},
		{"an admin's from there", admin, 400, "idempotency_key_missing"},
	} {
		status, body, err := r.do(http.MethodPost, "/charges", c.token, strings.NewReader("{}"))
		if err != nil || status != c.status || !strings.Contains(body, `"code":"`+c.code+`"`) {
			t.Errorf("%s: %d %s %v; want %d %s", c.name, status, body, err, c.status, c.code)
		}
	}
}
