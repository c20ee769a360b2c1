package app

import (
	"errors"
	"strings"
	"testing"

	"onced/api"
	"onced/saga/definition"
)

// A version that this program cannot read is no mistake of who starts a run of it.
func TestAnUnusableVersionIsAway(t *testing.T) {
	t.Parallel()
	err := asAPI(&definition.UnusableError{Name: "checkout", Version: "7",
		Err: definition.Problems{{Field: "steps", Message: "is not known"}}})
	var faults *api.DefinitionError
	if !errors.Is(err, api.ErrDefinitionAway) || errors.As(err, &faults) ||
		!strings.Contains(err.Error(), "version 7 of checkout") {
		t.Errorf("the error is %v", err)
	}
	if err := asAPI(nil); err != nil {
		t.Error(err)
	}
}
