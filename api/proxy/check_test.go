package proxy

import (
	"bufio"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"onced/api/config"
)

func TestLookUpRequest(t *testing.T) {
	routes := routesOf(t, `
routes:
- path: /charges
  upstream: http://127.0.0.1:1/base
  principal: shop
  headers: [{name: Authorization, value: secret}]
  check:
    path: /by/{key}/x-{downstream_key}
    query: {q: "a&{key}", d: "{downstream_key}"}
    headers: {X-Key: "<{key}>"}
    done: {status: 200}
`, "")
	p, err := New(Config{Claims: newSetup(t, plain, "http://127.0.0.1:1").book, Routes: routes,
		Principal: bearer})
	if err != nil {
		t.Fatal(err)
	}
	rt := p.routes[0]
	for key, want := range map[string]string{
		"k":         "/base/by/k/x-oc_1?d=oc_1&q=a%26k",
		"a/b?c#d":   "/base/by/a%2Fb%3Fc%23d/x-oc_1?d=oc_1&q=a%26a%2Fb%3Fc%23d",
		"100%":      "/base/by/100%25/x-oc_1?d=oc_1&q=a%26100%25",
		"a b;c=1&d": "/base/by/a%20b%3Bc=1&d/x-oc_1?d=oc_1&q=a%26a+b%3Bc%3D1%26d",
		"é":         "/base/by/%C3%A9/x-oc_1?d=oc_1&q=a%26%C3%A9",
		"{key}":     "/base/by/%7Bkey%7D/x-oc_1?d=oc_1&q=a%26%7Bkey%7D",
		"..":        "", ".": "", "../x": "", "a/../b": "", "..;x": "", "a\\b": "", "a//b": "",
	} {
		req, err := rt.lookUpRequest(t.Context(), key, "oc_1")
		if want == "" {
			if err == nil {
				t.Errorf("%q: %s", key, req.URL)
			}
			continue
		}
		if err != nil || req.URL.RequestURI() != want || req.URL.Host != "127.0.0.1:1" {
			t.Errorf("%q: %v, %v; want %s", key, req, err, want)
			continue
		}
		if req.Header.Get("X-Key") != "<"+key+">" || req.Header.Get("Authorization") != "secret" {
			t.Errorf("%q: %v", key, req.Header)
		}
	}
}

func TestLookUpAnswers(t *testing.T) {
	const yaml = plain + `
  settles_after: 1ms
  check:
    path: /look/{downstream_key}
    done: {status: 200, field: data.0.state, equals: [paid, "7", "true"]}
    refused: {status: 200, field: error.code}
    absent: {status: [200, 404], field: none, equals: ["true"]}
    reply_status: 201
`
	for answer, want := range map[string]struct {
		status int
		part   string
	}{
		`200 OK|{"data":[{"state":"paid"}]}`:                    {201, `"paid"`},
		`200 OK|{"data":[{"state":7}]}`:                         {201, "7"},
		`200 OK|{"data":[{"state":true}]}`:                      {201, "true"},
		`200 OK|{"data":[{"state":"failed"}]}`:                  {409, "outcome_unknown"},
		`200 OK|{"data":[{"state":null}]}`:                      {409, "outcome_unknown"},
		`200 OK|{"data":[]}`:                                    {409, "outcome_unknown"},
		`200 OK|{"data":{"0":{"state":"paid"}}}`:                {201, "paid"},
		`200 OK|{"data":[{"state":{"paid":1}}]}`:                {409, "outcome_unknown"},
		`200 OK|{"data":[{"state":"paid"}]} {}`:                 {409, "outcome_unknown"},
		`200 OK|{"data":[{"state":"paid"}`:                      {409, "outcome_unknown"},
		`200 OK|`:                                               {409, "outcome_unknown"},
		`201 Yes|{"data":[{"state":"paid"}]}`:                   {409, "outcome_unknown"},
		`200 OK|{"error":{"code":"declined"}}`:                  {422, "declined"},
		`200 OK|{"data":[{"state":"paid"}],"error":{"code":1}}`: {201, "paid"},
		`404 No|{"none":false}`:                                 {409, "outcome_unknown"},
		`404 No|{"none":true}`:                                  {502, "upstream_failed"},
		// sent again, and lost again
		`302 Found|{"data":[{"state":"paid"}]}`: {409, "outcome_unknown"},
	} {
		head, body, _ := strings.Cut(answer, "|")
		w := newWire(t, func(w *wire, _ int, conn net.Conn, r *bufio.Reader) {
			if req, ok := w.request(r); ok && req.URL.Path != "/charges" {
				_, _ = fmt.Fprintf(conn, "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", head, len(body), body)
			}
		})
		clock, store := clockAndStore()
		s := setupOn(t, store, routesOf(t, yaml, w.url()))
		s.pays(502, "upstream_failed", false)
		clock.Add(time.Second)
		resp, got := s.pay()
		if resp.StatusCode != want.status || !strings.Contains(got, want.part) {
			t.Errorf("%s: %d %s", answer, resp.StatusCode, got)
		}
		again, got := s.pay()
		if want.status == 201 || want.status == 422 {
			if again.StatusCode != want.status || again.Header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("%s: then %d %s", answer, again.StatusCode, got)
			}
		}
	}
}

func TestMatchesNothingByItself(t *testing.T) {
	if _, ok := (answer{200, nil}).matches(config.Match{}, one); ok {
		t.Error("an empty match matches")
	}
}

// FuzzPaths: what is let through has nothing in it that two readers could read
// differently, and undoing its escapes once more changes nothing.
func FuzzPaths(f *testing.F) {
	for _, s := range []string{"/a/b", "/%61", "/a%2Fb", "/%2e%2e/", "/..;/", "/%252e", "/a;b=c", "/%",
		"//", "/a%5c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := url.ParseRequestURI(raw)
		if err != nil {
			return
		}
		path, err := plainPath(u)
		if err != nil {
			return
		}
		if undoEscapes(path) != path && !strings.Contains(path, "%25") {
			t.Fatalf("%q became %q", raw, path)
		}
		if dangerous(path) != "" || dangerous(u.Path) != "" || !strings.HasPrefix(path, "/") {
			t.Fatalf("%q became %q", raw, path)
		}
		for _, alias := range aliases(path) {
			if alias == path || dangerous(alias) != "" {
				t.Fatalf("%q is an alias of %q", alias, path)
			}
		}
	})
}
