package api

import (
	"fmt"
	"strings"
	"testing"
)

func TestDefinitionsAreKeptByVersion(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		doc := `{"name":"doc","title":"One"}`
		dry := r.ask("admin", "POST /v1/definitions?dry_run=true", doc).want(t, 200, "")
		if dry.at("dry_run") != true || dry.at("version") != nil || dry.header.Get("Location") != "" {
			t.Errorf("%s", dry.raw)
		}
		r.ask("admin", "GET /v1/definitions/doc", nil).want(t, 404, "not_found")
		first := r.ask("admin", "POST /v1/definitions", doc).want(t, 201, "")
		again := r.ask("admin", "POST /v1/definitions?dry_run=false", doc).want(t, 200, "")
		if first.text("version") != "1" || string(first.raw) != string(again.raw) ||
			first.text("source") != doc ||
			first.header.Get("Location") != "/v1/definitions/doc/versions/1" {
			t.Errorf("%v\n%s\n%s", first.header, first.raw, again.raw)
		}
		second := strings.Replace(doc, "One", "Two", 1)
		for i, contentType := range []string{"application/yaml", "text/yaml; charset=utf-8",
			"application/x-yaml",
			"text/plain"} {
			a := r.ask("admin", "POST /v1/definitions", fmt.Sprint(second, strings.Repeat(" ", i)),
				"Content-Type", contentType)
			if i == 0 && a.text("version") != "2" || a.status > 201 && a.problem.Code != "" {
				t.Errorf("%s: %s", contentType, a.raw)
			}
		}
		r.ask("admin", "GET /v1/definitions/doc/versions/9", nil).want(t, 404, "not_found")
		if a := r.ask("viewer", "GET /v1/definitions/doc/versions/1", nil); a.text("title") != "One" {
			t.Errorf("%s", a.raw)
		}
		a := r.ask("viewer", "GET /v1/definitions/doc/versions", nil)
		if len(a.at("definitions").([]any)) != 5 {
			t.Errorf("%s", a.raw)
		}
	})
}

func TestDefinitionProblemsAreAllTold(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		for _, what := range []string{"POST /v1/definitions", "POST /v1/definitions?dry_run=true"} {
			a := r.ask("admin", what, "steps: []", "Content-Type", "application/yaml").
				want(t, 422, "invalid_definition")
			p := a.problem.Problems
			if len(p) != 2 || p[0].Line != 1 || p[0].Column != 3 || p[0].Field != "name" ||
				p[1].Message != "no steps" {
				t.Errorf("%s", a.raw)
			}
		}
		r.ask("admin", "POST /v1/definitions", `{"name":"taken"}`).want(t, 409, "wrong_state")
		for _, contentType := range []string{"", "text/html", "application/yaml; charset=latin1", "yaml"} {
			r.ask("admin", "POST /v1/definitions", `{"name":"doc"}`, "Content-Type", contentType).
				want(t, 415, "unsupported_media_type")
		}
		r.ask("admin", "POST /v1/definitions?dry_run=yes", `{"name":"doc"}`).want(t, 400, "invalid_field")
		r.ask("admin", "POST /v1/definitions", strings.Repeat("x", DefaultMaxBody+1)).want(t, 413,
			"too_large")
		if a := r.ask("admin", "GET /v1/definitions", nil); len(a.at("definitions").([]any)) != 0 {
			t.Errorf("%s", a.raw)
		}
	})
}

// Which version new runs use, and what the document declares, is shown.
func TestDefinitionsSayWhatTheyAre(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		for _, title := range []string{"One", "Two"} {
			r.ask("admin", "POST /v1/definitions", map[string]any{"name": "doc", "title": title}).
				want(t, 201, "")
		}
		all := r.ask("viewer", "GET /v1/definitions/doc/versions", nil).want(t, 200, "").
			at("definitions").([]any)
		for i, want := range []bool{true, false} {
			if got := all[i].(map[string]any)["latest"]; got != want {
				t.Errorf("%d: %v", i, all[i])
			}
		}
		a := r.ask("operator", "GET /v1/definitions/doc", nil).want(t, 200, "")
		steps, _ := a.at("steps").([]any)
		if a.text("input.order") != "string" || len(steps) != 2 {
			t.Fatalf("%s", a.raw)
		}
		charge, mail := steps[0].(map[string]any), steps[1].(map[string]any)
		if charge["method"] != "POST" || charge["url"] != "https://gateway.example/c" ||
			mail["nothing_to_undo"] != true || charge["nothing_to_undo"] != nil {
			t.Errorf("%s", a.raw)
		}
	})
}

// Who posts a definition can use every secret: that is the admin. The sources are for
// operators and admins.
func TestDefinitionsAreForThoseWhoMay(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		doc := `{"name":"doc","title":"the source"}`
		for _, as := range []string{"client", "viewer", "operator", "metrics"} {
			r.ask(as, "POST /v1/definitions", doc).want(t, 403, "forbidden")
		}
		r.ask("admin", "POST /v1/definitions", doc).want(t, 201, "")
		for as, sees := range map[string]bool{"client": false, "viewer": false, "operator": true,
			"admin": true} {
			for _, p := range []string{"", "/versions/1"} {
				a := r.ask(as, "GET /v1/definitions/doc"+p, nil).want(t, 200, "")
				calls := strings.Contains(string(a.raw), "https://gateway.example/c")
				if (a.at("source") != nil) != sees || calls != sees || a.text("steps") != "" ||
					a.text("title") != "the source" {
					t.Errorf("%s: %s", as, a.raw)
				}
			}
		}
		r.ask("metrics", "GET /v1/definitions", nil).want(t, 403, "forbidden")
	})
}

func TestDefinitionsArePaged(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		for i := range 7 {
			r.ask("admin", "POST /v1/definitions", fmt.Sprintf(`{"name":"d%d"}`, i)).want(t, 201, "")
		}
		var names []string
		pages := 0
		for next := "/v1/definitions?limit=3"; next != ""; pages++ {
			a := r.ask("client", "GET "+next, nil).want(t, 200, "")
			for _, d := range a.at("definitions").([]any) {
				names = append(names, d.(map[string]any)["name"].(string))
			}
			next = a.text("next")
		}
		if fmt.Sprint(names) != "[d0 d1 d2 d3 d4 d5 d6]" || pages != 3 {
			t.Errorf("%v in %d pages", names, pages)
		}
	})
}

// Without a book of documents the rest works.
func TestSagasWithoutDocuments(t *testing.T) {
	r := newRig(t, withIdleSagas(t))
	r.ask("admin", "POST /v1/definitions", `{"name":"doc"}`).want(t, 404, "not_found")
	r.ask("viewer", "GET /v1/definitions", nil).want(t, 200, "")
	r.ask("viewer", "GET /v1/definitions/doc", nil).want(t, 404, "not_found")
	r.ask("viewer", "GET /v1/definitions/doc/versions", nil).want(t, 404, "not_found")
	r.ask("acme", "POST /v1/runs", startBody("doc", "k")).want(t, 400, "invalid_field")
	r.ask("viewer", "GET /v1/runs", nil).want(t, 200, "")
	if _, err := New(Deps{Book: r.deps.Book, Auth: r.deps.Auth, Sagas: &Sagas{}}); err == nil {
		t.Error("Sagas without an engine are taken")
	}
	none := newRig(t)
	none.ask("admin", "GET /v1/runs", nil).want(t, 404, "not_found")
	none.ask("", "POST /v1/callbacks/x", nil).want(t, 404, "not_found")
}
