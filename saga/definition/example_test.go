package definition_test

import (
	"fmt"

	"onced/saga/definition"
)

// All that is wrong with a document is told at once, with its place.
func ExampleParse() {
	const src = `name: pay
input: {order: string, amount: decimal}
steps:
- name: charge
  call:
    url: https://pay.example/charges/${input.ordr}
    bdy: {amount: "${input.amount}"}
- name: ship
  call: {url: https://ship.example/parcels}
`
	_, problems := definition.Parse([]byte(src), definition.Options{File: "pay.yaml"})
	for _, p := range problems {
		fmt.Println(p.Line, p.Column, p.Field)
	}
	fmt.Println(problems[1])
	// Output:
	// 4 3 steps[0].undo
	// 6 46 steps[0].call.url
	// 7 5 steps[0].call.bdy
	// pay.yaml:6:46: steps[0].call.url: ordr is not known; did you mean order?; there are amount, order
}
