package client_test

import (
	"context"
	"encoding/json"
	"fmt"

	"onced/api/client"
	"onced/api/problem"
)

// An owner claims a key, causes the effect once, and reports the outcome. Whoever
// comes with the same key later gets the same result.
func Example() {
	url, token, stop, err := serve()
	if err != nil {
		panic(err)
	}
	defer stop()
	ctx := context.Background()
	c, err := client.New(url, client.Config{Token: token})
	if err != nil {
		panic(err)
	}
	body := `{"amount":"100.00","asset":"EUR"}`
	for range 2 {
		a, err := c.Claim(ctx, client.ClaimRequest{Operation: "charge", Key: "order-1001",
			Token: "a-random-text-of-this-owner", Payload: &body, LeaseS: 30})
		if err != nil {
			panic(err)
		}
		fmt.Println(a.Outcome)
		if a.Outcome == "replay" {
			fmt.Println(string(a.Claim.Result))
			return
		}
		// Here the effect is caused, with a.DownstreamKey as its idempotency key.
		ref := client.Ref{ID: a.Claim.ID, Token: "a-random-text-of-this-owner"}
		if _, err := c.Done(ctx, ref, client.Result{JSON: json.RawMessage(`{"charge":"ch_1"}`)}); err != nil {
			panic(err)
		}
	}
	// Output:
	// acquired
	// replay
	// {"charge":"ch_1"}
}

// Problems are told apart by their code.
func ExampleCode() {
	url, token, stop, err := serve()
	if err != nil {
		panic(err)
	}
	defer stop()
	c, err := client.New(url, client.Config{Token: token})
	if err != nil {
		panic(err)
	}
	body, other := "100 EUR", "200 EUR"
	req := client.ClaimRequest{Operation: "charge", Key: "order-1002", Token: "a-random-text-of-this-owner",
		Payload: &body, LeaseS: 30}
	if _, err := c.Claim(context.Background(), req); err != nil {
		panic(err)
	}
	req.Payload = &other
	_, err = c.Claim(context.Background(), req)
	fmt.Println(client.Code(err) == problem.Mismatch, err)
	// Output:
	// true The key was used for another request: the fingerprint is not that of the first request
}
