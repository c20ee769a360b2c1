package httpstep

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"onced/saga/egress"
)

// The secrets of these tests have what is written in other ways in JSON, HTML and URLs.
const (
	tokenSecret  = `tok"en/<&>+é s3cr3t-one`
	querySecret  = `query/s3cr3t two&=%`
	bodySecret   = "body\\s3cr3t\"three"
	headerSecret = "s3cr3t-four"
	basicSecret  = "s3cr3t:five"
)

func secretRequest(target string) *Request {
	basic := base64.StdEncoding.EncodeToString([]byte("user:" + basicSecret))
	return &Request{
		Method: "POST", URL: target + "/path/" + url.PathEscape(querySecret) + "?q=" +
			url.QueryEscape(querySecret),
		Header: http.Header{"Authorization": {"Bearer " + tokenSecret}, "X-Api-Key": {headerSecret},
			"Cookie":              {"session=" + headerSecret},
			"Proxy-Authorization": {"Basic " + basic}},
		Body: []byte(bodySecret), Key: "k1", Trust: egress.Trusted,
		Secrets: []string{querySecret, bodySecret},
	}
}

// leaks reports the secrets in a text, in any form, and large parts of them.
func leaks(text string) (found []string) {
	for _, secret := range []string{tokenSecret, querySecret, bodySecret, headerSecret, basicSecret,
		"s3cr3t", "cr3t"} {
		j, _ := json.Marshal(secret)
		for _, form := range []string{secret, string(j[1 : len(j)-1]), html.EscapeString(secret),
			url.QueryEscape(secret), url.PathEscape(secret),
			base64.StdEncoding.EncodeToString([]byte("user:" + secret))} {
			if strings.Contains(text, form) {
				found = append(found, form)
			}
		}
	}
	return found
}

// echoes are the ways, by name, in which a callee repeats what it was sent.
func echoes() map[string]func(string) string {
	return map[string]func(string) string{
		"plain": func(s string) string { return s },
		"json": func(s string) string {
			b, _ := json.Marshal(map[string]string{"echo": s})
			return string(b)
		},
		"json with slashes": func(s string) string {
			b, _ := json.Marshal(s)
			return strings.ReplaceAll(string(b), "/", `\/`)
		},
		"json of others": func(s string) string {
			return strings.NewReplacer("+", `\u002B`, "'", `\u0027`, "é", `\u00E9`, `"`, `\u0022`, "s3cr3t",
				`s\u0033cr3t`).Replace(s)
		},
		"html of others": func(s string) string {
			return strings.NewReplacer("&", "&amp;", "é", "&eacute;", `"`, "&#x22;", "s3cr3t",
				"s&#x33;cr3t").Replace(s)
		},
		"html":     html.EscapeString,
		"query":    url.QueryEscape,
		"path":     url.PathEscape,
		"after":    func(s string) string { return strings.Repeat("x", maxExcerpt-5) + s },
		"far away": func(s string) string { return strings.Repeat(" ", 10_000) + s },
		"between":  func(s string) string { return "\x00\xff" + s + "\xfe" + s },
	}
}

// TestNoSecretInErrors: a callee repeats all that it was sent, in every way that is
// usual, in an answer of each kind; no text of ours holds a secret of it.
func TestNoSecretInErrors(t *testing.T) {
	ways := echoes()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, basic, _ := strings.Cut(r.Header.Get("Proxy-Authorization"), " ")
		plain, _ := base64.StdEncoding.DecodeString(basic)
		_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		status, _ := strconv.Atoi(r.Header.Get("X-Status"))
		w.WriteHeader(status)
		for _, text := range []string{token, r.URL.Query().Get("q"), string(body), r.Header.Get("X-Api-Key"),
			string(plain), r.Header.Get("Cookie"), basic} {
			_, _ = io.WriteString(w, ways[r.Header.Get("X-Way")](text)+"\n") // or the test finds nothing
		}
	})
	c := newCaller(t, Config{})
	masks := 0
	for way := range ways {
		for _, status := range []int{200, 202, 302, 400, 401, 429, 500} {
			req := secretRequest(s.URL)
			req.Header["X-Way"], req.Header["X-Status"] = []string{way}, []string{strconv.Itoa(status)}
			reply, err := c.Do(t.Context(), req)
			if reply == nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(reply.Body), "cr3t") {
				t.Fatal("the callee repeats nothing: this test cannot fail")
			}
			text := reply.Excerpt() + fmt.Sprint(err) + fmt.Sprint(reply.Err(Refused, "why: "+querySecret))
			masks += strings.Count(text, masked)
			if found := leaks(text); len(found) > 0 {
				t.Errorf("%s, %d: %q\nhas %q", way, status, text, found)
			}
			// A reply that is cut in the middle of a secret.
			for _, limit := range []int{3, 8, 12, 17, 25, 40, 10_010, 310} {
				req.MaxReply = limit
				reply, err := c.Do(t.Context(), req)
				text := reply.Excerpt() + fmt.Sprint(err)
				for n := 7; n <= len(tokenSecret); n++ {
					if strings.Contains(text, tokenSecret[:n]) {
						t.Errorf("%s, %d, cut at %d: %q has %q", way, status, limit, text, tokenSecret[:n])
						break
					}
				}
				if found := leaks(text); len(found) > 0 {
					t.Errorf("%s, %d, cut at %d: %q has %q", way, status, limit, text, found)
				}
			}
		}
	}
	if masks < 100 {
		t.Errorf("only %d secrets were masked: the texts are cut before", masks)
	}
}

// TestNoSecretWithoutReply: nor when the request cannot be sent, or has no answer.
func TestNoSecretWithoutReply(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, r.Header.Get("X-Api-Key")+"\r\n\r\n") // or the test fails
		_ = conn.Close()                                                  // it is no HTTP
	})
	c := newCaller(t, Config{})
	for name, edit := range map[string]func(*Request){
		"no HTTP":     func(*Request) {},
		"bad URL":     func(r *Request) { r.URL = "http://h/%zz" + querySecret },
		"bad scheme":  func(r *Request) { r.URL = querySecret + "://h/" },
		"user":        func(r *Request) { r.URL = "http://u:" + url.PathEscape(querySecret) + "@h/" },
		"no host":     func(r *Request) { r.URL = "http://127.0.0.1:1/" + url.PathEscape(querySecret) },
		"bad value":   func(r *Request) { r.Header["Authorization"] = []string{tokenSecret + "\n"} },
		"other value": func(r *Request) { r.Header["X-Other"] = []string{querySecret + "\x00"} },
		"bad name":    func(r *Request) { r.Header = http.Header{querySecret: {"v"}} },
		"guarded":     func(r *Request) { r.Trust = egress.Guarded },
	} {
		req := secretRequest(s.URL)
		edit(req)
		_, err := c.Do(t.Context(), req)
		if err == nil {
			t.Fatal(name)
		}
		if found := leaks(err.Error()); len(found) > 0 {
			t.Errorf("%s: %v has %q", name, err, found)
		}
		below, _ := errors.AsType[*egress.Error](callError(t, err).Cause)
		if name == "no HTTP" && len(leaks(below.Err.Error())) == 0 {
			t.Error("the error below has no secret: this test cannot fail")
		}
	}
}

func TestExcerpt(t *testing.T) {
	m := newMask(&Request{Secrets: []string{"abcd", "cdef", " ", "", "éü"}})
	for _, c := range []struct {
		in, want string
		cut      bool
	}{
		{"", "", false},
		{"  a \n\t b\x00\x1b[31mc  ", "a b [31mc", false},
		{"xabcdy", "x***y", false},
		{"xabcdefy", "x***y", false}, // two that overlap
		{"abcdabcd", "******", false},
		{"xéüyéz", "x***yéz", false},
		{"xab", "xab", false},
		{"xab", "x***…", true}, // half of one, perhaps
		{"x\xff\xfey", "x y", false},
		{"a\u202eb\u200bc", "a b c", false}, // what turns text around
		{strings.Repeat("x", maxExcerpt), strings.Repeat("x", maxExcerpt), false},
		{strings.Repeat("x", maxExcerpt+1), strings.Repeat("x", maxExcerpt) + "…", false},
		{strings.Repeat("é", maxExcerpt), strings.Repeat("é", maxExcerpt/2) + "…", false},
	} {
		if got := excerpt([]byte(c.in), c.cut, m); got != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
}

// FuzzExcerpt: whatever comes, the text is bounded, printable, in one line, and holds
// no secret.
func FuzzExcerpt(f *testing.F) {
	f.Add([]byte("a secret b"), "secret", true)
	f.Add([]byte("\xc3"), "éü", true)
	f.Add([]byte("0"), "\xe2", true)
	f.Add([]byte(strings.Repeat("ab", 300)), "aba", false)
	f.Fuzz(func(t *testing.T, body []byte, secret string, cut bool) {
		text := excerpt(body, cut, newMask(&Request{Secrets: []string{secret}}))
		if len(text) > maxExcerpt+len("…") || !utf8.ValidString(text) ||
			strings.ContainsAny(text, "\n\r\x00\x1b") {
			t.Errorf("%q", text)
		}
		// White space is drawn together, so a secret with some may come about.
		plain := strings.NewReplacer(masked, " ", "…", " ").Replace(text)
		if utf8.ValidString(secret) && secret != "" && !strings.ContainsAny(secret, " *…") &&
			strings.Contains(plain, secret) {
			t.Errorf("%q has %q", text, secret)
		}
	})
}
