package config

import (
	"fmt"
	"strings"
	"testing"
)

const oneRoute = "routes: [{path: /a, name: a, upstream: 'http://h'}]\n"

func texts(problems []Problem) string {
	var b strings.Builder
	for _, p := range problems {
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}

// Whoever starts in another folder, or misnames the file, guards nothing.
func TestNoRoutesIsAWarning(t *testing.T) {
	for name, c := range map[string]struct {
		src  Source
		want []string // nil: no warning
	}{
		"no file": {Source{ReadFile: files(nil)},
			[]string{"default: routes: has no entry", "claims API and sagas", "there is no onced.yaml",
				"--config"}},
		"another ending": {Source{ReadFile: files(map[string]string{"onced.yml": oneRoute})},
			[]string{"is onced.yml your file?", "--config=onced.yml"}},
		"empty": {Source{ReadFile: files(map[string]string{DefaultFile: ""})},
			[]string{"onced.yaml: routes: has no entry", "routes: []"}},
		"empty, and another": {Source{ReadFile: files(map[string]string{DefaultFile: "",
			"onced.yml": oneRoute})}, []string{"is onced.yml your file?"}},
		"no value": {Source{ReadFile: files(map[string]string{DefaultFile: "routes:\n"})},
			[]string{"routes: has no entry"}},
		"named and empty": {Source{File: "x.yaml", ReadFile: files(map[string]string{"x.yaml": "",
			"onced.yml": oneRoute})}, []string{"x.yaml: routes: has no entry"}},
		"meant":  {Source{ReadFile: files(map[string]string{DefaultFile: "routes: []\n"})}, nil},
		"routes": {Source{ReadFile: files(map[string]string{DefaultFile: oneRoute})}, nil},
	} {
		l, err := Load(c.src)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := texts(l.Warnings)
		if n := strings.Count(got, "\n"); n != min(len(c.want), 1) {
			t.Errorf("%s: %d warnings: %s", name, n, got)
		}
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in %s", name, want, got)
			}
		}
		if c.src.File != "" && strings.Contains(got, "onced.yml") {
			t.Errorf("%s: the file was named, and another is offered: %s", name, got)
		}
	}
}

// What says nothing about the effect must not be taken for a proof unnoticed.
func TestDoubtfulOutcomesAreWarnedOf(t *testing.T) {
	for outcomes, want := range map[string][]string{
		"":                                 nil,
		"refused: [400, 4xx]":              {"refused: has 408, "},
		"refused: [503]":                   {"refused: has 503, ", "unpaid"},
		"retry: [429, 503, 504]":           {"retry: has 503-504, ", "charged twice"},
		"refused: [408], retry: [5xx]":     {"refused: has 408, ", "retry: has 5xx, "},
		"refused: [5xx], unknown: [5xx]":   nil,
		"done: [2xx, 500], refused: [400]": nil,
	} {
		if strings.Contains(outcomes, "4xx") {
			outcomes += ", retry: []" // a status means one thing
		}
		l := mustLoad(t, "routes: [{path: /a, name: a, upstream: 'http://h', outcomes: {"+outcomes+"}}]\n")
		got := texts(l.Warnings)
		for _, text := range want {
			if !strings.Contains(got, text) {
				t.Errorf("%s: no %q in %s", outcomes, text, got)
			}
		}
		if (got == "") != (want == nil) {
			t.Errorf("%s: %s", outcomes, got)
		}
		if l := mustLoad(t, "routes: [{path: /a, key: ignore, upstream: 'http://h', outcomes: {"+outcomes+
			"}}]\n"); len(l.Warnings) > 0 {
			t.Errorf("%s, without keys: %s", outcomes, texts(l.Warnings))
		}
	}
}

func TestNotFoundIsNoted(t *testing.T) {
	const note = "burns keys"
	l := mustLoad(t, "routes:\n- {path: /a, name: a, upstream: 'http://h'}\n"+
		"- {path: /b, name: b, upstream: 'http://h', outcomes: {unknown: [404]}}\n"+
		"- {path: /c, name: c, upstream: 'http://h', outcomes: {refused: [404]}}\n"+
		"- {path: /d, name: d, upstream: 'http://h', key: ignore}\n")
	got := texts(l.Notes)
	if strings.Count(got, note) != 1 || !strings.Contains(got, "404 (a, c)") {
		t.Errorf("%s", got)
	}
	l = mustLoad(t, "routes: [{path: /b, name: b, upstream: 'http://h', outcomes: {unknown: [404]}}]\n")
	if got := texts(l.Notes); strings.Contains(got, note) {
		t.Errorf("%s", got)
	}
}

// A route to onced itself would ask onced for ever.
func TestUpstreamIsNotOnced(t *testing.T) {
	for _, c := range []struct {
		listen, upstream string
		same             bool
	}{
		{"127.0.0.1:8080", "http://127.0.0.1:8080", true},
		{"127.0.0.1:8080", "http://127.0.0.1:8080/v1", true},
		{"127.0.0.1:8080", "http://localhost:8080", true},
		{"127.0.0.1:8080", "http://[::ffff:127.0.0.1]:8080", true},
		{"localhost:8080", "http://LOCALHOST:8080", true},
		{"localhost:8080", "http://[::1]:8080", true},
		{":8080", "http://127.0.0.1:8080", true},
		{"0.0.0.0:8080", "http://localhost:8080", true},
		{"[::]:8080", "http://[::1]:8080", true},
		{"127.0.0.1:80", "http://127.0.0.1", true},
		{"127.0.0.1:443", "https://127.0.0.1", true},
		{"10.0.0.7:8080", "http://10.0.0.7:8080", true},
		{"pay.internal:8080", "http://pay.internal:8080", true},

		{"127.0.0.1:8080", "http://127.0.0.1:9000", false},
		{"127.0.0.1:8080", "http://127.0.0.2:8080", false},
		{"127.0.0.1:8080", "http://[::1]:8080", false},
		{"127.0.0.1:443", "http://127.0.0.1", false},
		{":8080", "http://gateway.example:8080", false},
		{"127.0.0.1:8080", "http://gateway.example:8080", false},
		{"127.0.0.1:0", "http://127.0.0.1", false},
	} {
		for _, key := range []string{"listen", "metrics.listen"} {
			other := map[string]string{"listen": "metrics.listen", "metrics.listen": "listen"}[key]
			l, err := Load(Source{Flags: map[string]string{key: c.listen, other: "127.0.0.1:1"},
				ReadFile: files(map[string]string{DefaultFile: "routes: [{path: /a, upstream: '" +
					c.upstream + "'}]"})})
			if same := err != nil; same != c.same {
				t.Errorf("%s %s, upstream %s: %v %v", key, c.listen, c.upstream, l, err)
			} else if same && !strings.Contains(err.Error(), "routes[0].upstream: ") {
				t.Errorf("%s %s, upstream %s: %v", key, c.listen, c.upstream, err)
			}
		}
	}
}

// Relative paths of the file mean the same wherever the program is started.
func TestPathsAreSeenFromTheFile(t *testing.T) {
	const text = "data: store\nsagas:\n  definitions: [defs, /abs, ../more]\n" +
		"  tls: {ca_file: ca.pem, cert_file: /abs/cert.pem, key_file: key.pem}\n" +
		"secrets: {a: {file: secret}}\n" +
		"routes: [{path: /a, upstream: 'http://h', headers: [{name: A, value_file: secret}]}]\n"
	for file, want := range map[string]string{
		"onced.yaml":     "store [defs /abs ../more] ca.pem /abs/cert.pem key.pem",
		"sub/onced.yaml": "sub/store [sub/defs /abs more] sub/ca.pem /abs/cert.pem sub/key.pem",
		"/etc/o/c.yaml": "/etc/o/store [/etc/o/defs /abs /etc/more] /etc/o/ca.pem /abs/cert.pem " +
			"/etc/o/key.pem",
	} {
		dir := file[:strings.LastIndexByte("/"+file, '/')]
		l, err := Load(Source{File: file, ReadFile: files(map[string]string{file: text,
			dir + "secret": "hush"})})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		s := l.Config.Sagas
		if got := fmt.Sprint(l.Config.Data, " ", s.Definitions, " ", s.TLS.CAFile, " ", s.TLS.CertFile, " ",
			s.TLS.KeyFile); got != want {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
		if l.Config.Secrets["a"].Reveal() != "hush" ||
			l.Config.Routes[0].Headers[0].Value.Reveal() != "hush" {
			t.Errorf("%s: the secrets are of another file", file)
		}
	}
}

// The default is in the file's folder too: the line that says it can be left out.
// What a shell says is seen from where the shell is.
func TestDataFolder(t *testing.T) {
	for name, c := range map[string]struct {
		src  Source
		want string
	}{
		"no file":      {Source{}, "./onced-data"},
		"here":         {Source{File: "onced.yaml"}, "./onced-data"},
		"elsewhere":    {Source{File: "/etc/o/c.yaml"}, "/etc/o/onced-data"},
		"variable":     {Source{File: "/etc/o/c.yaml", Environ: []string{"ONCED_DATA=x"}}, "x"},
		"flag":         {Source{File: "/etc/o/c.yaml", Flags: map[string]string{"data": "./x"}}, "./x"},
		"by ONCED_...": {Source{Environ: []string{"ONCED_CONFIG=/etc/o/c.yaml"}}, "/etc/o/onced-data"},
	} {
		c.src.ReadFile = files(map[string]string{"onced.yaml": oneRoute, "/etc/o/c.yaml": oneRoute})
		if name == "no file" {
			c.src.ReadFile = files(nil)
		}
		l, err := Load(c.src)
		if err != nil || l.Config.Data != c.want {
			t.Errorf("%s: %v, %v; want %s", name, l, err, c.want)
		}
	}
}
