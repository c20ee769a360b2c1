package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"onced/api/openapi"
)

// contract holds exchanges against the OpenAPI document.
type contract struct {
	doc map[string]any

	mu       sync.Mutex
	compiler *jsonschema.Compiler
	seen     map[string]bool // operations that succeeded
	problems map[string]bool // operations that answered a problem
}

const docURL = "mem:///openapi.json"

func loadContract(t *testing.T) *contract {
	t.Helper()
	var tree any
	if err := yaml.Unmarshal(openapi.Document(), &tree); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	closeObjects(parsed)
	c := &contract{doc: parsed.(map[string]any), compiler: jsonschema.NewCompiler(),
		seen: map[string]bool{}, problems: map[string]bool{}}
	c.compiler.DefaultDraft(jsonschema.Draft2020)
	c.compiler.AssertFormat()
	c.compiler.AssertContent()
	if err := c.compiler.AddResource(docURL, parsed); err != nil {
		t.Fatal(err)
	}
	return c
}

// closeObjects makes an undocumented member an error. To others the document
// stays open, so that answers may gain members.
func closeObjects(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["additionalProperties"]; !ok && v["type"] == "object" && v["properties"] != nil {
			v["additionalProperties"] = false
		}
		for _, e := range v {
			closeObjects(e)
		}
	case []any:
		for _, e := range v {
			closeObjects(e)
		}
	}
}

// resolve follows a $ref and returns the thing and its pointer.
func (c *contract) resolve(pointer string) (map[string]any, string) {
	var v any = c.doc
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		m, ok := v.(map[string]any)
		if !ok {
			return nil, pointer
		}
		v = m[part]
	}
	m, _ := v.(map[string]any)
	if ref, ok := m["$ref"].(string); ok {
		return c.resolve(strings.TrimPrefix(ref, "#"))
	}
	return m, pointer
}

func escapePointer(s string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(s) }

// validate holds a JSON text against the schema at the pointer.
func (c *contract) validate(pointer string, raw []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	schema, err := c.compiler.Compile(docURL + "#" + (&url.URL{Fragment: pointer}).EscapedFragment())
	if err != nil {
		return fmt.Errorf("the document's schema %s: %w", pointer, err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	return schema.Validate(v)
}

// operation finds the documented operation of a request.
func (c *contract) operation(method, path string) (key, pointer string) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for p := range c.doc["paths"].(map[string]any) {
		pattern := "^" + regexp.MustCompile(`\\\{[a-z]+\\\}`).ReplaceAllString(regexp.QuoteMeta(p),
			"[^/]+") + "$"
		if !regexp.MustCompile(pattern).MatchString(path) {
			continue
		}
		pointer = "/paths/" + escapePointer(p) + "/" + strings.ToLower(method)
		if op, _ := c.resolve(pointer); op != nil {
			return method + " " + p, pointer
		}
	}
	return "", ""
}

// check holds one exchange against the document. Paths that are not in it, and
// methods that it does not name there, may only be answered with problems.
func (c *contract) check(t *testing.T, req *http.Request, sent []byte, a answer) {
	t.Helper()
	bad := func(format string, args ...any) {
		t.Helper()
		t.Errorf("contract: %s %s: status %d: %s\n%.300s", req.Method, req.URL.Path, a.status,
			fmt.Sprintf(format, args...), a.raw)
	}
	if place, _ := placeOf(req.URL); place == otherPath && a.header.Get("Request-Id") != "" &&
		a.status < 400 {
		return // the fallback's
	}
	key, pointer := c.operation(req.Method, req.URL.Path)
	media, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	if key == "" {
		if a.status < 400 || media != "application/problem+json" {
			bad("it is not in the document")
		}
		if err := c.validate("/components/schemas/Problem", a.raw); err != nil &&
			req.Method != http.MethodHead {
			bad("%v", err)
		}
		return
	}
	c.note(key, a.status)
	if a.status < 300 && len(bytes.TrimSpace(sent)) > 0 {
		if err := c.validateRequest(pointer, req.Header.Get("Content-Type"), sent); err != nil {
			bad("the request was accepted and does not fit: %v", err)
		}
	}
	resp, at := c.resolve(pointer + "/responses/" + fmt.Sprint(a.status))
	if resp == nil {
		resp, at = c.resolve(pointer + "/responses/default")
	}
	if resp == nil {
		bad("it has no documented response")
		return
	}
	c.checkHeaders(resp, a, bad)
	content, _ := resp["content"].(map[string]any)
	if len(content) == 0 {
		if len(a.raw) > 0 {
			bad("a body where none is documented")
		}
		return
	}
	if content[media] == nil {
		bad("the content type %q is not documented there", media)
		return
	}
	if strings.HasSuffix(media, "json") && req.Method != http.MethodHead {
		if err := c.validate(at+"/content/"+escapePointer(media)+"/schema", a.raw); err != nil {
			bad("%v", err)
		}
	}
}

// validateRequest holds the body of an accepted request against the document. A
// callback's is JSON whatever its content type says.
func (c *contract) validateRequest(pointer, contentType string, sent []byte) error {
	media, _, _ := strings.Cut(contentType, ";")
	if strings.Contains(pointer, "callbacks") {
		media = "application/json"
	}
	body, at := c.resolve(pointer + "/requestBody")
	content, _ := body["content"].(map[string]any)
	if content[media] == nil {
		return fmt.Errorf("the document has no body of the type %q", media)
	}
	if !strings.HasSuffix(media, "json") {
		return nil
	}
	return c.validate(at+"/content/"+escapePointer(media)+"/schema", sent)
}

func (c *contract) note(key string, status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if status < 400 {
		c.seen[key] = true
	} else {
		c.problems[key] = true
	}
}

// checkHeaders wants each of our headers to be documented.
func (c *contract) checkHeaders(resp map[string]any, a answer, bad func(string, ...any)) {
	documented, _ := resp["headers"].(map[string]any)
	for _, name := range []string{"ETag", "Location", "Link", "Retry-After", "Idempotency-Replayed",
		"Preference-Applied"} {
		if a.header.Get(name) != "" && documented[name] == nil {
			bad("the header %s is not documented there", name)
		}
	}
}

// documented lists the operations of the document.
func (c *contract) documented() []string {
	var out []string
	for p, item := range c.doc["paths"].(map[string]any) {
		for method := range item.(map[string]any) {
			if method != "parameters" {
				out = append(out, strings.ToUpper(method)+" "+p)
			}
		}
	}
	slices.Sort(out)
	return out
}

func TestContractHasEveryRouteAndNoOther(t *testing.T) {
	r := newRig(t, func(d *Deps) { d.Metrics = http.NotFoundHandler() }, withIdleSagas(t))
	var routes []string
	for _, rt := range r.server.Routes() {
		routes = append(routes, rt.Method+" "+rt.Path)
	}
	slices.Sort(routes)
	if got, want := strings.Join(routes, "\n"), strings.Join(r.contract.documented(), "\n"); got != want {
		t.Errorf("the routes are\n%s\n\nthe document has\n%s", got, want)
	}
	if len(routes) < 40 {
		t.Errorf("only %d routes", len(routes))
	}
}

// Every schema compiles, and every operation has a summary, an id of its own and
// a security that fits its route.
func TestContractIsSound(t *testing.T) {
	r := newRig(t, func(d *Deps) { d.Metrics = http.NotFoundHandler() }, withIdleSagas(t))
	c := r.contract
	if c.doc["openapi"] != "3.1.1" {
		t.Errorf("openapi: %v", c.doc["openapi"])
	}
	for name := range c.doc["components"].(map[string]any)["schemas"].(map[string]any) {
		if err := c.validate("/components/schemas/"+name, []byte("0")); err != nil &&
			strings.Contains(err.Error(), "the document's schema") {
			t.Error(err)
		}
	}
	ids := map[string]bool{}
	for _, rt := range r.server.routes() {
		_, pointer := c.operation(rt.Method, rt.Path)
		op, _ := c.resolve(pointer)
		id, _ := op["operationId"].(string)
		if id == "" || ids[id] || op["summary"] == nil || op["tags"] == nil {
			t.Errorf("%s %s lacks an id of its own, a summary or a tag", rt.Method, rt.Path)
		}
		ids[id] = true
		if _, open := op["security"]; open != (len(rt.may) == 0) {
			t.Errorf("%s %s: the document says open %v, the route %v", rt.Method, rt.Path, open,
				len(rt.may) == 0)
		}
		params := c.parameters(pointer, "query")
		slices.Sort(params)
		want := slices.Clone(rt.query)
		slices.Sort(want)
		if !slices.Equal(params, want) && rt.query != nil {
			t.Errorf("%s %s: the document has the parameters %v, the route %v", rt.Method, rt.Path, params,
				want)
		}
	}
	checkRefs(t, c, c.doc)
}

func (c *contract) parameters(pointer, in string) []string {
	out := []string{}
	op, _ := c.resolve(pointer)
	list, _ := op["parameters"].([]any)
	for _, p := range list {
		m := p.(map[string]any)
		if ref, ok := m["$ref"].(string); ok {
			m, _ = c.resolve(strings.TrimPrefix(ref, "#"))
		}
		if m["in"] == in {
			out = append(out, m["name"].(string))
		}
	}
	return out
}

func checkRefs(t *testing.T, c *contract, v any) {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok {
			if got, _ := c.resolve(strings.TrimPrefix(ref, "#")); got == nil {
				t.Errorf("%s leads nowhere", ref)
			}
		}
		for name, e := range v {
			if e == nil { // a comma in a text that lacks its quotation marks
				t.Errorf("the member %q has no value", name)
			}
			checkRefs(t, c, e)
		}
	case []any:
		for _, e := range v {
			checkRefs(t, c, e)
		}
	}
}

// The harness itself must notice what it is there for.
func TestContractNoticesWhatDoesNotFit(t *testing.T) {
	r := newRig(t)
	for name, raw := range map[string]string{
		"a member too many": `{"outcome":"freed","surprise":1}`,
		"a wrong type":      `{"outcome":"freed","retry_after_s":"1"}`,
		"a wrong word":      `{"outcome":"perhaps"}`,
		"a missing member":  `{}`,
		"a wrong instant": `{"outcome":"finished","claim":{"id":"cl_x","scope":"s","key":"k",
			"state":"done","try":1,
			"version":1,"earlier_outcome_unknown":false,"result_size":0,"created_at":"2026-05-04 12:30"}}`,
	} {
		if r.contract.validate("/components/schemas/Answer", []byte(raw)) == nil {
			t.Errorf("%s passes", name)
		}
	}
	if err := r.contract.validate("/components/schemas/Answer", []byte(`{"outcome":"freed"}`)); err != nil {
		t.Error(err)
	}
}

// Every operation succeeds once and, where it can, fails once, each time within
// the document.
func TestContractOfEveryOperation(t *testing.T) {
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = w.Write([]byte("up 1\n"))
	})
	r := newRig(t, func(d *Deps) { d.Metrics = metrics })
	for _, p := range []string{"/livez", "/readyz", "/openapi.yaml", "/problems", "/problems/stale"} {
		r.ask("", "GET "+p, nil).want(t, 200, "")
		r.ask("", "HEAD "+p, nil).want(t, 200, "")
	}
	r.ask("", "GET /problems/nonsense", nil).want(t, 404, "not_found")
	r.ask("metrics", "GET /metrics", nil).want(t, 200, "")
	r.ask("client", "GET /metrics", nil).want(t, 403, "forbidden")

	owned := func(extra ...any) map[string]any {
		b := map[string]any{"token": tokenA}
		for i := 0; i < len(extra); i += 2 {
			b[extra[i].(string)] = extra[i+1]
		}
		return b
	}
	path := r.acquire("k1", "intent", map[string]any{"amount": "1.00"})
	r.ask("acme", "GET "+path, nil).want(t, 200, "")
	r.ask("acme", "POST "+path+"/heartbeat", owned("lease_s", 60)).want(t, 200, "")
	r.ask("acme", "POST "+path+"/done", owned("result", map[string]any{"id": "ch_1"})).want(t, 200, "")
	r.ask("acme", "POST "+r.acquire("k2")+"/refused", owned("result_b64", "AAE=", "content_type",
		"x/y")).want(t, 200, "")
	r.ask("acme", "POST "+r.acquire("k3")+"/release", owned()).want(t, 200, "")
	path, etag := r.unknownClaim("k4")
	r.ask("acme", "POST /v1/claims", claimBody("k4", "take_over", true, "token", tokenB)).want(t, 200, "")
	r.ask("acme", "POST "+path+"/repeat", map[string]any{"token": tokenB, "key_valid_for_s": 3600}).want(t,
		200, "")
	a := r.ask("acme", "POST "+path+"/looked_up", map[string]any{"token": tokenB, "answer": "nothing",
		"settles_after_s": 10, "reason": "still empty",
		"asked_at": instant(r.clock.Now())}).want(t, 200, "")
	if a.text("outcome") != "still_unknown" || a.at("retry_after_s") != 10.0 {
		t.Errorf("%s", a.raw)
	}
	r.ask("operator", "POST "+path+"/resolve", map[string]any{"verdict": "done", "reason": "seen",
		"result": 1},
		"If-Match", etag).want(t, 412, "stale")
	r.ask("operator", "POST "+path+"/resolve", map[string]any{"verdict": "done", "reason": "seen",
		"result": 1},
		"If-Match", a.header.Get("ETag")).want(t, 200, "")
	for range 3 {
		r.ask("viewer", "GET /v1/claims?limit=1", nil).want(t, 200, "")
	}
	made := r.ask("admin", "POST /v1/tokens", map[string]any{"name": "new", "role": "client"}).want(t, 201,
		"")
	at := "/v1/tokens/" + made.text("token.id")
	r.ask("admin", "GET "+at, nil).want(t, 200, "")
	r.ask("admin", "GET /v1/tokens?limit=2", nil).want(t, 200, "")
	r.ask("admin", "POST "+at+"/rotate", map[string]any{"overlap_s": 60}, "If-Match",
		made.header.Get("ETag")).
		want(t, 201, "")
	r.ask("admin", "POST "+at+"/revoke", map[string]any{"reason": "old"}).want(t, 200, "")
	for _, rt := range r.server.routes() {
		if len(rt.may) > 0 {
			concrete := strings.ReplaceAll(rt.Path, "{id}", "none")
			r.ask("", rt.Method+" "+concrete, nil).want(t, 401, "unauthorized")
		}
	}
	for _, op := range r.contract.documented() {
		if !r.contract.seen[op] && !aboutSagas(op) {
			t.Errorf("%s never succeeded", op)
		}
	}
}

// aboutSagas reports that an operation is tried by TestContractOfSagas.
func aboutSagas(op string) bool {
	_, path, _ := strings.Cut(op, " ")
	return slices.ContainsFunc([]string{"/v1/runs", "/v1/callbacks", "/v1/definitions"},
		func(p string) bool { return strings.HasPrefix(path, p) })
}
