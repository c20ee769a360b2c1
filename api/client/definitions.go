package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"onced/api/problem"
)

// Definition is one version of a document that sagas are made of.
type Definition struct {
	Name      string            `json:"name"`                // names it
	Version   string            `json:"version,omitempty"`   // empty in a dry run that would make a new one
	Origin    string            `json:"origin"`              // file or api
	Latest    bool              `json:"latest"`              // new runs use it
	Title     string            `json:"title,omitempty"`     // for people
	CreatedAt time.Time         `json:"created_at,omitzero"` // when it was first kept
	DryRun    bool              `json:"dry_run,omitempty"`   // nothing was kept
	Input     map[string]string `json:"input,omitempty"`     // the declared fields and their types
	Steps     []DefinitionStep  `json:"steps"`               // in their order
	Source    string            `json:"source,omitempty"`    // the document; not in lists
	Notes     []problem.Place   `json:"notes,omitempty"`     // no mistakes, seldom meant; of PutDefinition

	// New is true when PutDefinition has made, or in a dry run would make, a version.
	New bool `json:"-"`
}

// DefinitionStep is a step in short.
type DefinitionStep struct {
	Name          string `json:"name"`                      // unique within the definition
	Method        string `json:"method,omitempty"`          // of its call; shown with the source only
	URL           string `json:"url,omitempty"`             // of its call; shown with the source only
	Awaits        bool   `json:"awaits,omitempty"`          // it is finished by a signal
	Undo          bool   `json:"undo,omitempty"`            // it can be undone
	Check         bool   `json:"check,omitempty"`           // a look-up can tell what became of it
	Pivot         bool   `json:"pivot,omitempty"`           // the point of no return
	Irreversible  bool   `json:"irreversible,omitempty"`    // it cannot be undone, and that matters
	NothingToUndo bool   `json:"nothing_to_undo,omitempty"` // it cannot be undone, and need not be
}

const definitionsPath = "/v1/definitions"

// PutDefinition posts a document, YAML or JSON; with dryRun it is checked only. What is
// wrong with it is the problem invalid_definition, whose Problems list everything.
func (c *Client) PutDefinition(ctx context.Context, source []byte, dryRun bool) (*Definition, error) {
	k := call{method: http.MethodPost, path: definitionsPath, raw: source, contentType: "application/yaml"}
	if dryRun {
		k.query = url.Values{"dry_run": {"true"}}
	}
	var out Definition
	a, err := c.send(ctx, k, &out)
	if err != nil {
		return nil, err
	}
	out.New = a.status == http.StatusCreated || out.DryRun && out.Version == ""
	return &out, nil
}

// GetDefinition reads a version; "" is the latest.
func (c *Client) GetDefinition(ctx context.Context, name, version string) (*Definition, error) {
	path := definitionsPath + "/" + url.PathEscape(name)
	if version != "" {
		path += "/versions/" + url.PathEscape(version)
	}
	var out Definition
	if _, err := c.do(ctx, call{method: http.MethodGet, path: path}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// DefinitionPage is a page of a listing.
type DefinitionPage struct {
	Definitions []Definition `json:"definitions"`           // without sources
	NextCursor  string       `json:"next_cursor,omitempty"` // empty at the end
}

// ListDefinitions lists the latest version of each definition in the order of names,
// limit of them (0 is the server's default) from the cursor on.
func (c *Client) ListDefinitions(ctx context.Context, cursor string, limit int) (DefinitionPage, error) {
	q := url.Values{}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	var out DefinitionPage
	_, err := c.do(ctx, call{method: http.MethodGet, path: definitionsPath, query: q}, &out)
	return out, err
}

// ListVersions lists all versions of a definition, the latest first.
func (c *Client) ListVersions(ctx context.Context, name string) ([]Definition, error) {
	var out DefinitionPage
	_, err := c.do(ctx, call{method: http.MethodGet, path: definitionsPath + "/" + url.PathEscape(name) +
		"/versions"}, &out)
	return out.Definitions, err
}
