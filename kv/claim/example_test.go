package claim_test

import (
	"context"
	"fmt"
	"time"

	"onced/kv/claim"
	"onced/kv/memkv"
)

// Two requests with one key: the first charges, the second gets its answer.
func Example() {
	ctx := context.Background()
	store := memkv.New(memkv.Options{})
	defer store.Close()
	book, err := claim.New(ctx, store, claim.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	pay := func(body string) {
		token, err := book.NewToken()
		if err != nil {
			fmt.Println(err)
			return
		}
		req := claim.Request{
			ID:          claim.ID{Scope: claim.ScopeOf("shop-17", "pay"), Key: "order-1"},
			Token:       token,
			Fingerprint: claim.FingerprintOf([]byte(body)),
			Intent:      []byte("charge order-1"),
			Owner:       claim.LocalOwner(),
		}
		d, err := book.BeginWait(ctx, req, 10*time.Second)
		if err != nil {
			fmt.Println(err)
			return
		}
		if d.Kind != claim.Acquired {
			fmt.Printf("%v %s\n", d.Kind, d.Record.Result.Data)
			return
		}
		// The intent is on disk. Now, outside any transaction, the effect, under
		// claim.DownstreamKey(req.ID.Scope, req.ID.Key).
		answer := []byte("charged")
		d, err = book.Done(ctx, req.Ref(), claim.Result{Type: "text/plain", Data: answer})
		fmt.Printf("%v %s %v\n", d.Kind, d.Record.Result.Data, err)
	}
	pay(`{"amount":"10.00"}`)
	pay(`{"amount":"10.00"}`)
	pay(`{"amount":"99.00"}`)
	// Output:
	// finished charged <nil>
	// replay charged
	// mismatch
}

// Whoever takes over an unknown key finds out first what became of it.
func ExampleBook_LookedUp() {
	ctx := context.Background()
	store := memkv.New(memkv.Options{})
	defer store.Close()
	book, err := claim.New(ctx, store, claim.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	req := claim.Request{
		ID:    claim.ID{Scope: claim.ScopeOf("shop-17", "pay"), Key: "order-1"},
		Token: "the-token-of-the-first", Owner: claim.LocalOwner(),
	}
	_, _ = book.Begin(ctx, req)
	_, _ = book.Unknown(ctx, req.Ref(), "the gateway did not answer in time")

	req.Token, req.TakeOver = "the-token-of-the-second", true
	d, err := book.Begin(ctx, req)
	fmt.Println(d.Kind, err)
	// Ask the gateway for a charge with the derived key. It has none. That is
	// proof once the last send is old enough.
	d, err = book.LookedUp(ctx, req.Ref(), claim.Finding{
		Answer: claim.FoundNothing, SettlesAfter: time.Minute,
	})
	fmt.Println(d.Kind, d.RetryAfter > 59*time.Second, err)
	// Output:
	// took_over <nil>
	// still_unknown true <nil>
}
