package main

import (
	"strings"
	"testing"
)

func TestQuickstart(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	const want = `row   order-1: ada, 4200 cents
row   order-2: ada, 4200 cents
row   order-3: ada, 4200 cents
event 1: order.placed order-1
event 2: order.placed order-2
event 3: order.placed order-3
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
