package app

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"onced/api/auth"
	"onced/api/proxy"
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
	_, shop, err := r.app.parts.auth.Create(t.Context(), auth.Spec{Name: "shop", Role: auth.Client,
		Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	// An admin with the account of the shop is no shop either.
	_, root, err := r.app.parts.auth.Create(t.Context(), auth.Spec{Name: "root", Role: auth.Admin,
		Principal: "shop", Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, token string
		status      int
		code        string
	}{
		{"no token", "", 401, "unauthorized"},
		{"a client's", shop, 400, "idempotency_key_missing"},
		{"an admin's", admin, 403, "forbidden"},
		{"an admin's of the same account", root, 403, "forbidden"},
		{"a wrong one", "onced_" + strings.Repeat("a", 52), 401, "unauthorized"},
		{"a wrong one again", "onced_" + strings.Repeat("b", 52), 401, "unauthorized"},
		{"a third", "onced_" + strings.Repeat("c", 52), 401, "unauthorized"},
		{"once too often", "onced_" + strings.Repeat("d", 52), 429, "too_many_requests"},
		{"a client's from there", shop, 400, "idempotency_key_missing"},
	} {
		status, body, err := r.do(http.MethodPost, "/charges", c.token, strings.NewReader("{}"))
		if err != nil || status != c.status || !strings.Contains(body, `"code":"`+c.code+`"`) {
			t.Errorf("%s: %d %s %v; want %d %s", c.name, status, body, err, c.status, c.code)
		}
	}
}

// What the proxy says of a request can be found by the id of its answer.
func TestWarningsNameTheRequest(t *testing.T) {
	r := start(t, options(t, "routes: [{path: /charges, principal: shop, upstream: 'http://127.0.0.1:1'}]\n"))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/charges",
		strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Idempotency-Key", "k")
	req.Header.Set("Request-Id", "id-of-the-shop")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if err := r.end(); err != nil { // the line of the access log is written after the answer
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(r.log.String()) {
		if !strings.Contains(line, "msg=request") && !strings.Contains(line, "an upstream did not answer") {
			continue
		}
		lines++
		if strings.Count(line, "request_id=id-of-the-shop") != 1 {
			t.Errorf("%s", line)
		}
	}
	if lines != 2 {
		t.Errorf("%s", r.log)
	}
}

// One outcome that nobody knows is one warning, however the answer broke and
// however often it is asked for.
func TestUnknownOutcomeIsOneWarning(t *testing.T) {
	for name, answer := range map[string]string{"no answer": "", "half an answer": "HTTP/1.1 200 OK\r\n" +
		"Content-Length: 10\r\n\r\nhalf"} {
		t.Run(name, func(t *testing.T) {
			upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.WriteString(conn, answer)
				_ = conn.Close()
			}))
			defer upstream.Close()
			r := start(t, options(t, "routes: [{path: /charges, principal: shop, upstream: '"+
				upstream.URL+"'}]\n"))
			for _, want := range []int{http.StatusBadGateway, http.StatusConflict, http.StatusConflict} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/charges",
					strings.NewReader("{}"))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Idempotency-Key", "k")
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				if res.StatusCode != want {
					t.Errorf("%d, want %d", res.StatusCode, want)
				}
			}
			if err := r.end(); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(r.log.String(), "level=WARN"); n != 1 {
				t.Errorf("%d warnings:\n%s", n, r.log)
			}
		})
	}
}

// The body of a request to a route is bounded in time by the server, and nothing is
// claimed for one that does not arrive.
func TestASlowBodyOfARouteIsCutOff(t *testing.T) {
	r := start(t, options(t, "http: {read_timeout: 100ms}\n"+
		"routes: [{path: /charges, principal: shop, upstream: 'http://127.0.0.1:1'}]\n"))
	c := r.dial()
	_ = c.SetDeadline(time.Now().Add(time.Minute)) // or it would wait for ever
	_, _ = io.WriteString(c, "POST /charges HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\n"+
		"Content-Length: 10\r\n\r\nslow")
	if status, err := answer(bufio.NewReader(c)); status != http.StatusRequestTimeout {
		t.Errorf("%d %v", status, err)
	}
	_, ok, err := r.app.parts.book.Get(t.Context(), proxy.ClaimID("shop", "charges", "k"))
	if ok || err != nil {
		t.Errorf("there is a claim: %v %v", ok, err)
	}
}
