package api

import (
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"onced/api/auth"
	"onced/api/problem"
)

// definitionView is a definition in JSON.
type definitionView struct {
	Name      string               `json:"name"`
	Version   string               `json:"version,omitempty"`
	Origin    string               `json:"origin"`
	Latest    bool                 `json:"latest"`
	Title     string               `json:"title,omitempty"`
	CreatedAt string               `json:"created_at,omitempty"`
	DryRun    bool                 `json:"dry_run,omitempty"`
	Input     map[string]string    `json:"input,omitempty"`
	Steps     []definitionStepView `json:"steps"`
	Source    string               `json:"source,omitempty"`
	Notes     []problem.Place      `json:"notes,omitempty"`
}

type definitionStepView struct {
	Name          string `json:"name"`
	Method        string `json:"method,omitempty"` // with the source
	URL           string `json:"url,omitempty"`    // with the source
	Awaits        bool   `json:"awaits,omitempty"`
	Undo          bool   `json:"undo,omitempty"`
	Check         bool   `json:"check,omitempty"`
	Pivot         bool   `json:"pivot,omitempty"`
	Irreversible  bool   `json:"irreversible,omitempty"`
	NothingToUndo bool   `json:"nothing_to_undo,omitempty"`
}

// viewDefinition shows a definition; source adds the document itself, and what the
// steps call.
func viewDefinition(d Definition, source bool) *definitionView {
	v := &definitionView{Name: d.Name, Version: d.Version, Origin: d.Origin, Latest: d.Latest, Title: d.Title,
		CreatedAt: instant(d.CreatedAt), Input: d.Input, Steps: []definitionStepView{}}
	for _, s := range d.Steps {
		if !source {
			s.Method, s.URL = "", ""
		}
		v.Steps = append(v.Steps, definitionStepView(s))
	}
	if source {
		v.Source = d.Source
		v.Notes = places(d.Notes)
	}
	return v
}

// seesSource: a document names what is behind, and which secrets it uses.
func seesSource(c echo.Context) bool { return caller(c).Can(auth.RunsContent) }

// documentTypes are the content types of documents. JSON is read as YAML too.
var documentTypes = []string{"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml",
	"application/json", "text/plain"}

// putDefinition answers POST /v1/definitions.
func (s *Server) putDefinition(c echo.Context) error {
	if s.sagas.Definitions == nil {
		return problem.New(problem.NotFound, "this server keeps no definitions")
	}
	dry, err := boolParam(c, "dry_run")
	if err != nil {
		return err
	}
	if err := checkDocumentType(c.Request()); err != nil {
		return err
	}
	raw, err := s.readBody(c)
	if err != nil {
		return err
	}
	d, isNew, err := s.sagas.Definitions.Put(c.Request().Context(), NewDefinition{Source: raw,
		Actor: caller(c).Name, DryRun: dry})
	if err != nil {
		return err
	}
	v, status := viewDefinition(d, true), http.StatusOK
	if v.DryRun = dry; isNew && !dry {
		status = http.StatusCreated
		c.Response().Header().Set("Location", definitionPath(d))
	}
	return s.json(c, status, v)
}

func definitionPath(d Definition) string {
	return "/v1/definitions/" + url.PathEscape(d.Name) + "/versions/" + url.PathEscape(d.Version)
}

func checkDocumentType(r *http.Request) error {
	bad := problem.New(problem.UnsupportedMediaType, "send application/yaml or application/json").
		At("Content-Type")
	given := r.Header.Values("Content-Type")
	if len(given) != 1 || len(r.Header.Values("Content-Encoding")) > 0 {
		return bad
	}
	media, params, err := mime.ParseMediaType(given[0])
	if charset := params["charset"]; err != nil || !slices.Contains(documentTypes, media) ||
		charset != "" && !strings.EqualFold(charset, "utf-8") {
		return bad
	}
	return nil
}

func boolParam(c echo.Context, name string) (bool, error) {
	switch c.QueryParam(name) {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	}
	return false, invalidField(name, "use true or false")
}

// problem lists all faults.
func (e *DefinitionError) problem() *problem.Problem {
	p := problem.New(problem.InvalidDefinition, "")
	p.Problems = places(e.Faults)
	return p
}

func places(faults []DefinitionFault) (out []problem.Place) {
	for _, f := range faults {
		out = append(out, problem.Place{Line: f.Line, Column: f.Column, Field: f.Field, Message: f.Message})
	}
	return out
}

// definitionPage is the answer of lists of definitions.
type definitionPage struct {
	Definitions []*definitionView `json:"definitions"`
	Next        string            `json:"next,omitempty"`
	NextCursor  string            `json:"next_cursor,omitempty"`
}

// definitionFilter stands in the cursors of the one listing of definitions.
const definitionFilter = "definitions"

// listDefinitions answers GET /v1/definitions.
func (s *Server) listDefinitions(c echo.Context) error {
	limit, err := intParam(c, "limit", 1, maxPage)
	if err != nil {
		return err
	}
	if limit == 0 {
		limit = defaultPage
	}
	after, err := s.cursors.open(c.QueryParam("cursor"), definitionFilter)
	if err != nil {
		return err
	}
	out := definitionPage{Definitions: []*definitionView{}}
	if s.sagas.Definitions == nil {
		return s.json(c, http.StatusOK, out)
	}
	found, err := s.sagas.Definitions.List(c.Request().Context(), after, limit+1)
	if err != nil {
		return err
	}
	for _, d := range found[:min(limit, len(found))] {
		out.Definitions = append(out.Definitions, viewDefinition(d, false))
	}
	if len(found) > limit {
		if out.NextCursor, err = s.cursors.seal(found[limit-1].Name, definitionFilter); err != nil {
			return err
		}
		out.Next = nextURL(c, out.NextCursor)
	}
	return s.json(c, http.StatusOK, out)
}

// getDefinition answers GET /v1/definitions/{name}, and of one version.
func (s *Server) getDefinition(c echo.Context) error {
	if s.sagas.Definitions == nil {
		return ErrNoDefinition
	}
	d, err := s.sagas.Definitions.Get(c.Request().Context(), c.Param("name"), c.Param("version"))
	if err != nil {
		return err
	}
	return s.json(c, http.StatusOK, viewDefinition(d, seesSource(c)))
}

// listVersions answers GET /v1/definitions/{name}/versions.
func (s *Server) listVersions(c echo.Context) error {
	if s.sagas.Definitions == nil {
		return ErrNoDefinition
	}
	found, err := s.sagas.Definitions.Versions(c.Request().Context(), c.Param("name"))
	if err != nil {
		return err
	}
	out := definitionPage{Definitions: []*definitionView{}}
	for _, d := range found {
		out.Definitions = append(out.Definitions, viewDefinition(d, false))
	}
	return s.json(c, http.StatusOK, out)
}
