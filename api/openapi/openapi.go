// Package openapi holds the OpenAPI 3.1 document of the HTTP API, written by
// hand. A contract test of package api makes sure that every route is in it, that
// nothing else is, and that every answer in the tests fits it. It guarantees
// nothing at run time, keeps no state, and asks nothing of its caller.
package openapi

import (
	_ "embed"
	"strings"
)

//go:embed openapi.yaml
var document string

// Document returns the document's bytes, the caller's to keep.
func Document() []byte { return []byte(strings.Clone(document)) }
