package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"onced/saga/httpstep"
)

// files is a file system for Load.
func files(m map[string]string) func(string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		text, ok := m[name]
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		return []byte(text), nil
	}
}

func load(text string, env ...string) (*Loaded, error) {
	return Load(Source{Environ: env, ReadFile: files(map[string]string{DefaultFile: text,
		"/run/token": "s3cret-of-a-file\n"})})
}

func mustLoad(t *testing.T, text string, env ...string) *Loaded {
	t.Helper()
	l, err := load(text, env...)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return l
}

func TestNothingSaidIsTheDefault(t *testing.T) {
	for name, src := range map[string]Source{
		"no file":    {ReadFile: files(nil)},
		"empty":      {ReadFile: files(map[string]string{DefaultFile: ""})},
		"a comment":  {ReadFile: files(map[string]string{DefaultFile: "# nothing\n"})},
		"null parts": {ReadFile: files(map[string]string{DefaultFile: "log:\nhttp:\nroutes:\n"})},
	} {
		l, err := Load(src)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(l.Config, Default()) {
			t.Errorf("%s: %+v", name, l.Config)
		}
	}
	if c := Default(); c.Listen != "127.0.0.1:8080" || c.Claims.Retention != 720*time.Hour ||
		c.HTTP.MaxBody != 1<<20 {
		t.Errorf("the defaults are %+v", c)
	}
}

func TestThreeLinesAreARoute(t *testing.T) {
	c := mustLoad(t, "routes:\n  - path: /charges\n    upstream: http://127.0.0.1:9000\n").Config
	want := DefaultRoute()
	want.Name, want.Path = "charges", "/charges"
	want.Upstream, _ = parseURL("http://127.0.0.1:9000")
	if len(c.Routes) != 1 || !reflect.DeepEqual(c.Routes[0], want) {
		t.Fatalf("got %+v\nwant %+v", c.Routes, want)
	}
	o := want.Outcomes
	for status, class := range map[int]string{
		200: "done", 202: "done", 299: "done", 400: "refused", 402: "refused", 404: "refused", 422: "refused",
		401: "retry", 407: "retry", 409: "retry", 425: "retry", 429: "retry",
		300: "", 304: "", 406: "", 408: "", 412: "", 500: "", 502: "", 503: "", 504: "", 599: "",
	} {
		got := ""
		for name, set := range map[string]httpstep.Statuses{"done": o.Done, "refused": o.Refused,
			"retry": o.Retry} {
			if set.Has(status) {
				got += name
			}
		}
		if got != class {
			t.Errorf("%d is %q, want %q", status, got, class)
		}
	}
}

// uncommented sets every key of the sample.
func uncommented() string {
	top, routes, _ := strings.Cut(Sample(), "#routes:\n")
	top = regexp.MustCompile(`(?m)^( *)#([^ \n])`).ReplaceAllString(top, "$1$2")
	var b strings.Builder
	b.WriteString(top + "routes:\n")
	for line := range strings.Lines(routes) {
		b.WriteString(strings.TrimPrefix(line, "#"))
	}
	return b.String()
}

func TestSampleIsTheDefaults(t *testing.T) {
	if l := mustLoad(t, Sample()); !reflect.DeepEqual(l.Config, Default()) || len(l.Origins) > 0 {
		t.Errorf("the sample as it is sets something: %v", l.Origins)
	}
	l := mustLoad(t, uncommented())
	got := *l.Config
	routes := got.Routes
	got.Routes = nil
	if want := *Default(); fmt.Sprintf("%v", got) != fmt.Sprintf("%v", want) { // an empty list is like none
		t.Errorf("the sample's values are not the defaults:\n%+v\n%+v", got, want)
	}
	for _, k := range Keys() {
		if l.Origin(k.Path).Kind != FromFile {
			t.Errorf("%s is not in the sample", k.Path)
		}
		if k.Doc == "" || (k.Reload != strings.HasSuffix(k.Doc, "[reload]")) {
			t.Errorf("%s: comment %q, reload %v", k.Path, k.Doc, k.Reload)
		}
	}
	if len(routes) != 1 {
		t.Fatalf("%d routes", len(routes))
	}
	for _, s := range l.Settings() {
		inside := strings.HasPrefix(s.Key, "routes[0].")
		absent := strings.HasPrefix(s.Key, "routes[0].check.absent.") || strings.HasSuffix(s.Key, ".is")
		if inside && s.Origin == "default" && !absent {
			t.Errorf("%s is not in the sample", s.Key)
		}
	}
	check := routes[0].Check
	routes[0].Check, routes[0].Headers = nil, nil
	want1 := DefaultRoute()
	want1.Name, want1.Path = "charges", "/charges"
	want1.Upstream, _ = parseURL("http://127.0.0.1:9000")
	if fmt.Sprintf("%v", routes[0]) != fmt.Sprintf("%v", want1) {
		t.Errorf("the sample's route is not the default:\n%v\n%v", routes[0], want1)
	}
	if check.Method != http.MethodGet || check.Timeout != 10*time.Second || check.ReplyStatus != 200 {
		t.Errorf("the sample's check: %+v", check)
	}
}

func TestEveryKeyHasANameOfItsOwn(t *testing.T) {
	seen := map[string]string{}
	for _, k := range Keys() {
		if other := seen[k.Env]; other != "" {
			t.Errorf("%s is the variable of %s and %s", k.Env, other, k.Path)
		}
		seen[k.Env] = k.Path
		if clusterEnv.MatchString(k.Env) || slices.Contains(otherEnv, k.Env) {
			t.Errorf("%s would be taken for something else", k.Env)
		}
	}
	if len(seen) < 15 {
		t.Fatalf("only %d keys", len(seen))
	}
}

// problems is a text table: a file, an arrow, and the lines of its problems.
const problems = `
lisen: x
=> onced.yaml:1:1: lisen: is not a key; did you mean listen?

http: {max_bdy: 3}
=> onced.yaml:1:8: http.max_bdy: is not a key; did you mean max_body?

max_header: 3
=> onced.yaml:1:1: max_header: is not a key; did you mean http.max_header?

log: {zzzzzzzz: 1}
=> onced.yaml:1:7: log.zzzzzzzz: is not a key; allowed: level, format

data: a
data: b
=> onced.yaml:2:1: data: stands here again, first in line 1; remove one of the two

data:
=> onced.yaml:1:6: data: has no value; remove the line, or write "" for an empty text

data: ""
=> onced.yaml:1:7: data: is empty; name a folder

http: [1]
=> onced.yaml:1:7: http: is a list; allowed: a section of keys

http: {max_body: {a: 1}}
=> onced.yaml:1:18: http.max_body: is a section of keys; allowed: a single value

http: {max_body: 1 apple}
=> onced.yaml:1:18: http.max_body: "1 apple" is not a size; allowed: 1KiB to 12MiB, for example 64KiB, 1MiB, 10MB

http: {max_body: 13MiB}
=> onced.yaml:1:18: http.max_body: "13MiB" is too large; allowed: 1KiB to 12MiB

http: {read_timeout: 10}
=> onced.yaml:1:22: http.read_timeout: "10" has no unit; allowed: 100ms to 1h, for example 500ms, 30s, 5m, 24h, 30d; did you mean 10s?

http: {read_timeout: -10s}
=> onced.yaml:1:22: http.read_timeout: "-10s" is too small; allowed: 100ms to 1h

http: {read_timeout: soon}
=> onced.yaml:1:22: http.read_timeout: "soon" is not a duration; allowed: 100ms to 1h, for example 500ms, 30s, 5m, 24h, 30d

http: {max_connections: many}
=> onced.yaml:1:25: http.max_connections: "many" is not a whole number; allowed: 1 to 1000000, a whole number

http: {max_connections: 0}
=> onced.yaml:1:25: http.max_connections: "0" is too small; allowed: 1 to 1000000

http: {trusted_proxies: [10.0.0.0/8, home]}
=> onced.yaml:1:25: http.trusted_proxies: "home" (entry 2) is no network; allowed: for example 10.0.0.0/8, 192.168.1.7, fd00::/8

log: {level: wran}
=> onced.yaml:1:14: log.level: "wran" is not known; allowed: debug, info, warn, error; did you mean warn?

listen: 8080
=> onced.yaml:1:9: listen: "8080" is not an address; allowed: host:port; for example 127.0.0.1:8080, or :8080 for every address of this machine

metrics: {listen: "127.0.0.1:8080"}
=> onced.yaml:1:19: metrics.listen: "127.0.0.1:8080" is the address of listen; choose another port, or leave it empty to share the address

data: "a\nb"
=> onced.yaml:1:7: data: "a\nb" holds a control character; write it on one line

data: &x a
=> onced.yaml:1:7: data: is an anchor or an alias; write the value out; they are not supported

data: *x
=> onced.yaml:1:7: is not YAML: unknown anchor 'x' referenced; indent with spaces and put texts with : or # into quotes

<<: {data: a}
=> onced.yaml:1:1: "<<": is not a key; allowed: listen, data, public_url, log, store, claims, sagas, http, auth, metrics, secrets, routes

routes: {path: /x}
=> onced.yaml:1:9: routes: is a section of keys; allowed: a list

routes: [null]
=> onced.yaml:1:10: routes[0]: is empty; remove it or fill it in
=> onced.yaml:1:10: routes[0].path: is missing; for example path: /charges
=> onced.yaml:1:10: routes[0].upstream: is missing; for example upstream: http://127.0.0.1:9000
`

// routeProblems is the same for one route, whose first line is given.
const routeProblems = `
path: charges
=> routes[0].path: "charges" does not begin with /; for example /charges, /orders/{id}/pay or /payments/*

path: /a//b
=> routes[0].path: "/a//b" has an empty segment; for example /charges, /orders/{id}/pay or /payments/*

path: /a/{}
=> routes[0].path: "/a/{}" has the segment {}; a parameter is {name}; for example /charges, /orders/{id}/pay or /payments/*

path: /V1/charges
=> routes[0].path: "/V1/charges" is a path of onced itself; put a segment before it and take it off again: path: /gateway/V1/charges, strip_prefix: /gateway

strip_prefix: /b
=> routes[0].strip_prefix: "/b" is not the beginning of path; allowed: whole literal segments that path begins with, without / at the end

upstream: 127.0.0.1:9000
=> routes[0].upstream: "127.0.0.1:9000" is not an http or https URL; allowed: for example http://127.0.0.1:9000

upstream: http://me:pw@host
=> routes[0].upstream: "http://***@host" holds a user; credentials go into headers; allowed: for example http://127.0.0.1:9000

upstream: ftp://host
=> routes[0].upstream: "ftp://host" is not an http or https URL; allowed: for example http://127.0.0.1:9000

upstream: http://host/?q
=> routes[0].upstream: "http://host/?***" holds a query or a fragment; allowed: for example http://127.0.0.1:9000

name: Charges
=> routes[0].name: "Charges" is not a name; allowed: 1 to 100 lower-case letters, digits and ._-

method: POST
=> routes[0].method: is not a key; did you mean methods?

methods: [post, CONNECT]
=> routes[0].methods: "post" is not a method of a route; allowed: POST, PUT, PATCH, DELETE and others in capitals, but not CONNECT and TRACE

methods: []
=> routes[0].methods: is empty; name at least one, for example POST

methods: [GET, POST]
=> routes[0].methods: "GET" cannot be guarded by a key: clients and proxies send it again as they please; take it out, it passes with others: pass; what charges by GET needs POST

methods: [HEAD]
=> routes[0].methods: "HEAD" cannot be guarded by a key: clients and proxies send it again as they please; take it out, it passes with others: pass; what charges by GET needs POST

methods: [OPTIONS]
  key: optional
=> routes[0].methods: "OPTIONS" cannot be guarded by a key: clients and proxies send it again as they please; take it out, it passes with others: pass; what charges by GET needs POST

methods: [TRACE]
  key: ignore
=> routes[0].methods: "TRACE" is not a method of a route; allowed: POST, PUT, PATCH, DELETE and others in capitals, but not CONNECT and TRACE

key: needed
=> routes[0].key: "needed" is not known; allowed: required, optional, ignore

key_header: "X Y"
=> routes[0].key_header: "X Y" is not the name of a header

upstream_key_header: host
=> routes[0].upstream_key_header: "host" belongs to the connection and cannot be set

headers: [{name: A}]
=> routes[0].headers[0].value: is missing; give one of value, value_file and value_env

headers: [{name: A, value: hush, value_env: B}]
=> routes[0].headers[0].value_env: is given twice; leave one of value, value_file and value_env

headers: [{name: A, value_file: /nowhere}]
=> routes[0].headers[0].value_file: "/nowhere" cannot be read: file does not exist; make the file readable, or name another

headers: [{name: A, value_env: NOWHERE}]
=> routes[0].headers[0].value_env: "NOWHERE" is not set; set the variable, or name another

headers: [{name: A, value: "hush\r\nB: c"}]
=> routes[0].headers[0].value: holds a control character; a secret is one line of text

headers: [{name: idempotency-key, value: a}]
=> routes[0].headers[0].name: "idempotency-key" is the header of the derived key; remove it; onced sets it

outcomes: {done: [200], refused: [200-201]}
=> routes[0].outcomes.refused: has 200, which done has too; a status means one thing

outcomes: {done: [99]}
=> routes[0].outcomes.done[0]: "99" is not a status, a class of them or a range; allowed: 200 to 599, 2xx, 402-405

outcomes: {done: []}
=> routes[0].outcomes.done: is empty; no request could ever succeed; name a status

key_valid_for: 0s
=> routes[0].key_valid_for: "0s" is too small; allowed: 1s to 8760h

repeatable: yes
=> routes[0].repeatable: "yes" is not true or false; allowed: true, false

check: {path: "/x/{kay}", done: {status: 200}}
=> routes[0].check.path: "{kay}" is not known; allowed: {key}, {downstream_key}

check: {path: "http://evil/{key}", done: {status: 200}}
=> routes[0].check.path: "http://evil/{key}" is not a path; begin with / and put parameters into query; scheme and host are the upstream's

check: {path: "/x/{key}"}
=> routes[0].check: recognises no answer; say for example done: {status: 200} and absent: {status: 404}

check: {path: "/x/{key}", done: {status: 2x}}
=> routes[0].check.done.status: "2x" is not a status, a class of them or a range; allowed: 200 to 599, 2xx, 402-405

check: {path: "/x/{key}", done: {status: 200, equals: [a]}}
=> routes[0].check.done.field: is missing; say which field equals

check: {path: /x, done: {status: 200}}
=> routes[0].check: does not say which request it looks up; put {downstream_key} or {key} into path, query or headers

check: {done: {status: 200}, query: {k: "{key}"}}
=> routes[0].check.path: is missing; for example path: /charges/{downstream_key}
`

// table yields the entries of a text table.
func table(text string) (entries [][2]string) {
	for entry := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		in, want, _ := strings.Cut(entry, "\n=> ")
		entries = append(entries, [2]string{in + "\n", strings.ReplaceAll(want, "\n=> ", "\n")})
	}
	return entries
}

func TestProblems(t *testing.T) {
	for _, e := range table(problems) {
		_, err := load(e[0])
		if got := fmt.Sprint(err); got != e[1] {
			t.Errorf("%s got  %s\n want %s", e[0], got, e[1])
		}
	}
}

func TestProblemsOfRoutes(t *testing.T) {
	place := regexp.MustCompile(`(?m)^onced\.yaml:\d+:\d+: `)
	for _, e := range table(routeProblems) {
		text := "routes:\n- " + e[0]
		for _, line := range []string{"path: /charges\n", "upstream: http://127.0.0.1:9000\n"} {
			if key, _, _ := strings.Cut(line, ":"); !strings.HasPrefix(e[0], key+":") {
				text += "  " + line
			}
		}
		_, err := load(text)
		if got := place.ReplaceAllString(fmt.Sprint(err), ""); got != e[1] {
			t.Errorf("%s got  %s\n want %s", text, got, e[1])
		}
		if strings.Contains(fmt.Sprint(err), "hush") {
			t.Errorf("%s shows a secret: %v", text, err)
		}
	}
}

func TestRoutesAreToldApart(t *testing.T) {
	route := func(path, more string) string {
		return "- path: " + path + "\n  upstream: http://h\n" + more
	}
	_, err := load("routes:\n" + route("/a-b", "") + route("/a/b", "") + route("/x/{id}", "") +
		route("/x/{name}", "  name: y\n"))
	want := "onced.yaml:4:3: routes[1].name: \"a-b\" is the name of routes[0] too; " +
		"give each route a name of its own; it tells their keys apart\n" +
		"onced.yaml:8:9: routes[3].path: \"/x/{name}\" matches the same paths as routes[2]; " +
		"make one route of the two"
	if got := fmt.Sprint(err); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAllProblemsAtOnceInTheOrderOfTheFile(t *testing.T) {
	_, err := load("http:\n  read_timeout: 5\n  max_bdy: 1\nlog: {level: loud}\n", "ONCED_HTTP_MAX_BODDY=3",
		"ONCED_DATA=")
	e, ok := errors.AsType[*Error](err)
	if !ok || !errors.Is(err, ErrInvalid) || len(e.Problems) != 5 {
		t.Fatalf("got %v", err)
	}
	var keys []string
	for _, p := range e.Problems {
		keys = append(keys, p.Origin.String())
	}
	want := []string{"onced.yaml:2:17", "onced.yaml:3:3", "onced.yaml:4:14", "ONCED_HTTP_MAX_BODDY",
		"ONCED_DATA"}
	if !slices.Equal(keys, want) {
		t.Errorf("got %q\nwant %q", keys, want)
	}
}

func TestFlagOverEnvOverFileOverDefault(t *testing.T) {
	src := Source{ReadFile: files(map[string]string{DefaultFile: "data: of-file\n",
		"other.yaml": "data: of-other\n"})}
	steps := []struct {
		set          func()
		data, origin string
	}{
		{func() {}, "of-file", "onced.yaml:1:7"},
		{func() { src.Environ = append(src.Environ, "ONCED_CONFIG=other.yaml") }, "of-other",
			"other.yaml:1:7"},
		{func() { src.File = "onced.yaml" }, "of-file", "onced.yaml:1:7"},
		{func() { src.Environ = append(src.Environ, "ONCED_DATA=of-env") }, "of-env", "ONCED_DATA"},
		{func() { src.Flags = map[string]string{"data": "of-flag"} }, "of-flag", "--data"},
	}
	for _, s := range steps {
		s.set()
		l, err := Load(src)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Origin("data").String(); l.Config.Data != s.data || got != s.origin {
			t.Errorf("got %s from %s, want %s from %s", l.Config.Data, got, s.data, s.origin)
		}
	}
	if o := mustLoad(t, "").Origin("data").String(); o != "default" {
		t.Errorf("a default is from %s", o)
	}
}

func TestANamedFileMustBeThere(t *testing.T) {
	for _, src := range []Source{{File: "x.yaml"}, {Environ: []string{"ONCED_CONFIG=x.yaml"}}} {
		src.ReadFile = files(nil)
		_, err := Load(src)
		if err == nil || !strings.Contains(err.Error(), `"x.yaml" cannot be read: file does not exist`) {
			t.Errorf("got %v", err)
		}
	}
	_, err := load(strings.Repeat("#", maxFile+1))
	if err == nil || !strings.Contains(err.Error(), "longer than 1MiB") {
		t.Errorf("a long file: %v", err)
	}
}

func TestVariablesOfOthersArePassedOver(t *testing.T) {
	mustLoad(t, "", "ONCED_PORT=tcp://10.0.0.1:8080", "ONCED_PORT_8080_TCP_ADDR=10.0.0.1",
		"ONCED_SERVICE_HOST=10.0.0.1",
		"ONCED_SERVICE_PORT_HTTP=8080", "ONCED_TOKEN=x", "ONCE=1", "PATH=/bin", "odd")
}

func TestPort(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"", "127.0.0.1:5000"}, {"listen: :80", ":5000"}, {`listen: "[::1]:80"`, "[::1]:5000"},
	} {
		if l := mustLoad(t, c.file, "PORT=5000"); l.Config.Listen != c.want ||
			l.Origin("listen").Name != "PORT" {
			t.Errorf("%s: %s, want %s", c.file, l.Config.Listen, c.want)
		}
	}
	if l := mustLoad(t, "", "PORT=5000", "ONCED_LISTEN=:1"); l.Config.Listen != ":1" {
		t.Errorf("PORT won over ONCED_LISTEN: %s", l.Config.Listen)
	}
	if _, err := load("", "PORT=tcp"); err == nil {
		t.Error("PORT=tcp was taken")
	}
}

func TestWarningBeyondThisMachine(t *testing.T) {
	for addr, warns := range map[string]bool{
		":8080": true, "0.0.0.0:8080": true, "10.1.1.1:80": true, "[::]:80": true, "example.com:80": true,
		"127.0.0.1:80": false, "127.9.9.9:80": false, "[::1]:80": false, "localhost:80": false,
		"[::ffff:127.0.0.1]:80": false,
	} {
		if l := mustLoad(t, "routes: []\nlisten: \""+addr+"\"\n"); (len(l.Warnings) > 0) != warns {
			t.Errorf("%s: %v", addr, l.Warnings)
		}
	}
}

func TestSecretsAreNeverShown(t *testing.T) {
	const hush = "hush-hush"
	s := NewSecret(hush)
	type holder struct {
		S Secret  `json:"s"`
		P *Secret `json:"p"`
	}
	text, err := json.Marshal(holder{s, &s})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "s", s, "h", holder{s, &s})
	shown := fmt.Sprintf("%v %+v %#v %s %q %x %d %v %+v %#v", s, s, s, s, s, s, s, holder{s, nil},
		holder{s, nil}, holder{s, nil}) +
		string(text) + log.String() + s.String()
	if strings.Contains(shown, hush) || strings.Contains(shown, fmt.Sprintf("%x", hush)) ||
		!strings.Contains(shown, "***") {
		t.Errorf("shown: %s", shown)
	}
	if s.Reveal() != hush || s.IsZero() || !NewSecret("").IsZero() || NewSecret("").String() != "" {
		t.Error("Reveal, IsZero, String")
	}
	l := mustLoad(t, "routes:\n- path: /c\n  upstream: http://h\n  headers:\n"+
		"  - {name: A, value: hush-hush}\n  - {name: B, value_file: /run/token}\n"+
		"  - {name: C, value_env: HUSH}\n",
		"HUSH=hush-of-env")
	var got []string
	for _, h := range l.Config.Routes[0].Headers {
		got = append(got, h.Value.Reveal())
	}
	if want := []string{hush, "s3cret-of-a-file", "hush-of-env"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	all := fmt.Sprintf("%+v %#v %+v", l.Settings(), l.Config.Routes[0].Headers, l.Origins)
	if strings.Contains(all, "hush-") || strings.Contains(all, "s3cret") {
		t.Errorf("shown: %s", all)
	}
	if !strings.Contains(all, "onced.yaml:6:27 (file /run/token)") {
		t.Errorf("the origin does not name the file: %s", all)
	}
}

// withSecret is a configuration with a secret outside of lists.
type withSecret struct {
	Part struct {
		Token Secret `key:"token"`
		Other string `default:"x" key:"other"`
	} `key:"part"`
}

func TestSecretOfAVariableOrAFile(t *testing.T) {
	for _, c := range []struct {
		src       Source
		want, via string
		problem   string
	}{
		{src: Source{Environ: []string{"ONCED_PART_TOKEN=hush"}}, want: "hush", via: "ONCED_PART_TOKEN"},
		{src: Source{Environ: []string{"ONCED_PART_TOKEN_FILE=/f"}}, want: "of-f",
			via: "ONCED_PART_TOKEN_FILE (file /f)"},
		{src: Source{Flags: map[string]string{"part.token_file": "/f"}}, want: "of-f",
			via: "--part.token_file (file /f)"},
		{src: Source{Flags: map[string]string{"part.token": "hush"}}}, // there is no such flag
		{src: Source{Environ: []string{"ONCED_PART_TOKEN=hush", "ONCED_PART_TOKEN_FILE=/f"}},
			problem: "ONCED_PART_TOKEN_FILE: part.token: is given twice; " +
				"unset ONCED_PART_TOKEN or ONCED_PART_TOKEN_FILE"},
		{src: Source{Environ: []string{"ONCED_PART_TOKEN_FILE=/none"}}, problem: "ONCED_PART_TOKEN_FILE: " +
			`part.token_file: "/none" cannot be read: file does not exist; ` +
			"make the file readable, or name another"},
		{src: Source{Environ: []string{"ONCED_PART_TOKEN_FILE=/empty"}}, problem: "ONCED_PART_TOKEN_FILE: " +
			`part.token_file: "/empty" is empty; write the secret into it`},
	} {
		var cfg withSecret
		setDefaults(reflect.ValueOf(&cfg).Elem())
		l := newLoader(reflect.ValueOf(&cfg).Elem())
		c.src.ReadFile = files(map[string]string{"/f": "of-f\r\n", "/empty": ""})
		l.gather(c.src)
		if got := fmt.Sprint(l.problems.err()); c.problem != "" && got != c.problem || c.problem == "" &&
			got != "<nil>" {
			t.Errorf("%+v: %s", c.src, got)
		}
		if c.problem != "" {
			continue
		}
		if got := cfg.Part.Token.Reveal(); got != c.want || c.via != "" &&
			l.origins["part.token"].String() != c.via {
			t.Errorf("%+v: %q from %s", c.src, got, l.origins["part.token"])
		}
	}
}

func TestOutcomesThatAreWrittenWin(t *testing.T) {
	text := "routes:\n- path: /c\n  upstream: http://h\n  outcomes: "
	for _, c := range []struct{ in, done, refused, retry string }{
		{"{}", "2xx", "400,402-405,410-411,413-415,422,431,451", "401,407,409,425,429"},
		{"{refused: [409]}", "2xx", "409", "401,407,425,429"},
		{"{retry: 503}", "2xx", "400,402-405,410-411,413-415,422,431,451", "503"},
		{"{unknown: [202, 404]}", "200-201,203-299", "400,402-403,405,410-411,413-415,422,431,451",
			"401,407,409,425,429"},
	} {
		o := mustLoad(t, text+c.in+"\n").Config.Routes[0].Outcomes
		if o.Done.String() != c.done || o.Refused.String() != c.refused || o.Retry.String() != c.retry {
			t.Errorf("%s: %s | %s | %s", c.in, o.Done, o.Refused, o.Retry)
		}
	}
}

func TestMerge(t *testing.T) {
	route := "routes:\n- path: /c\n  upstream: http://h\n"
	old := mustLoad(t, "data: a\n").Config
	next := mustLoad(t, "data: b\nlog: {level: debug}\nhttp: {max_body: 2MiB}\n"+route).Config
	m, restart, err := Merge(old, next)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"data", "http.max_body"}; !slices.Equal(restart, want) {
		t.Errorf("restart for %q, want %q", restart, want)
	}
	if m.Data != "a" || m.HTTP.MaxBody != 1<<20 || m.Log.Level != "debug" || len(m.Routes) != 1 {
		t.Errorf("merged: %+v", m)
	}
	if next.Data != "b" || old.Log.Level != "info" {
		t.Error("Merge changed what it was given")
	}
	if _, restart, err := Merge(old, old); err != nil || len(restart) > 0 {
		t.Errorf("no change: %q, %v", restart, err)
	}
	// What was valid by itself need not be beside what stays.
	next = mustLoad(t, "listen: 127.0.0.1:1\nmetrics: {listen: 127.0.0.1:8080}\n").Config
	if m, _, err := Merge(old, next); err != nil || m.Metrics.Listen != "" {
		t.Errorf("both need a restart: %+v, %v", m, err)
	}
}

func TestSettings(t *testing.T) {
	l := mustLoad(t, "log: {level: debug}\nroutes:\n- path: /c\n  upstream: http://h\n"+
		"  check: {path: /x, query: {b: '{key}', a: c}, done: {status: [2xx, 404]}}\n")
	got := map[string]Setting{}
	for _, s := range l.Settings() {
		got[s.Key] = s
	}
	for key, want := range map[string]string{
		"log.level": "debug onced.yaml:1:14", "claims.retention": "720h default",
		"http.max_body":               "1MiB default",
		"routes[0].upstream":          "http://h onced.yaml:4:13",
		"routes[0].check.query":       "a=c,b={key} onced.yaml:5:28",
		"routes[0].check.done.status": "2xx,404 onced.yaml:5:63",
		"routes[0].methods":           "POST,PUT,PATCH,DELETE default",
	} {
		if s := got[key]; s.Value+" "+s.Origin != want {
			t.Errorf("%s: %q %q, want %q", key, s.Value, s.Origin, want)
		}
	}
	if s := got["http.max_body"]; s.Env != "ONCED_HTTP_MAX_BODY" || s.Doc == "" || s.Reload {
		t.Errorf("%+v", s)
	}
}

// A problem shows no password, however broken the URL is that holds it.
func TestProblemsShowNoCredentials(t *testing.T) {
	for _, text := range []string{"http://user:s3cret@h/", "http://user:s3c/r@et@h:9/",
		"http://u:s3cret@h:x/", "user:s3cret@h:9000", "ftp://u:s3cret@h", "https://h/?token=s3cret",
		"http://s3cret@h", "http://us er:s3cret@h/"} {
		_, err := load("routes: [{path: /a, upstream: '" + text + "'}]\n")
		if err == nil || strings.Contains(err.Error(), "s3c") || !strings.Contains(err.Error(), "***") ||
			!strings.Contains(err.Error(), "routes[0].upstream") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"listen: 'http://u:s3cret@h/'\n",
		"data: ''\nlog: {level: 'http://u:s3cret@h/'}\n",
		"http: {trusted_proxies: ['http://u:s3cret@h']}\n",
		"routes: [{path: 'http://u:s3cret@h/', upstream: 'http://h'}]\n"} {
		if _, err := load(text); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Who only wants to know where the service is needs none of its secrets.
func TestLoadWithoutSecrets(t *testing.T) {
	text := "listen: 127.0.0.1:7\nroutes: [{path: /a, upstream: 'http://h', headers: [" +
		"{name: A, value_env: NOT_SET}, {name: B, value_file: /not/there}]}]\n"
	if _, err := load(text); err == nil {
		t.Error("the service starts without them")
	}
	l, err := Load(Source{NoSecrets: true, ReadFile: files(map[string]string{DefaultFile: text})})
	if err != nil || l.Config.Listen != "127.0.0.1:7" {
		t.Fatalf("%v", err)
	}
	wrong := files(map[string]string{DefaultFile: "listn: x"})
	if _, err := Load(Source{NoSecrets: true, ReadFile: wrong}); err == nil {
		t.Error("other mistakes pass")
	}
}

func TestRemarks(t *testing.T) {
	l := mustLoad(t, "routes:\n- {path: /pay/charges, upstream: 'http://h'}\n"+
		"- {path: /slow, name: slow, timeout: 26s, upstream: 'http://h'}\n"+
		"- {path: /free, name: free, timeout: 1m, key: ignore, upstream: 'http://h'}\n")
	if len(l.Warnings) != 1 || l.Warnings[0].Key != "routes[1].timeout" ||
		!strings.Contains(l.Warnings[0].String(), "drain_timeout, which is 25s") {
		t.Errorf("%v", l.Warnings)
	}
	if len(l.Notes) != 2 || l.Notes[0].Key != "routes[0]" ||
		!strings.Contains(l.Notes[0].String(), "add name: pay-charges") {
		t.Errorf("%v", l.Notes)
	}
	if d := DefaultRoute().Timeout; d >= Default().HTTP.DrainTimeout {
		t.Errorf("a stop cuts off requests of routes as they are by default: %v", d)
	}
}
