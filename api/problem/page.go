package problem

import (
	"html/template"
	"net/http"
	"strings"
)

var page = template.Must(template.New("problem").Parse(`<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>{{if .One}}{{.One.Title}}{{else}}Problems{{end}}</title></head>
<body>
{{if .One}}<h1>{{.One.Title}}</h1>
<p>Code <code>{{.One.Code}}</code>, HTTP status {{.One.Status}}.</p>
<h2>What to do</h2>
<p>{{.One.Remedy}}</p>
<p><a href="/problems">All problems</a></p>
{{else}}<h1>Problems</h1>
<p>Each error of the API has one of these codes.</p>
<table>
<thead><tr><th scope="col">Code</th><th scope="col">Status</th><th scope="col">Title</th></tr></thead>
<tbody>
{{range .All}}<tr><td><a href="/problems/{{.Code}}">{{.Code}}</a></td><td>{{.Status}}</td><td>{{.Title}}</td></tr>
{{end}}</tbody>
</table>
{{end}}</body>
</html>
`))

// Page serves the page of the problem that ends the path, and the list of all
// at the path without a code. An unknown code is a [NotFound] problem. It needs
// no token: nothing on it is secret.
func Page(w http.ResponseWriter, r *http.Request) {
	var data struct {
		One *Entry
		All []Entry
	}
	name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/problems"), "/")
	if name == "" {
		data.All = Catalogue()
	} else {
		e, ok := Lookup(Code(name))
		if !ok {
			Write(w, r, New(NotFound, "there is no problem of this code; /problems lists all"))
			return
		}
		data.One = &e
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = page.Execute(w, data) // a client that has gone cannot be told
}
