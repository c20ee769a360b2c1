package saga_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"onced/kv"
	"onced/kv/boltkv"
	"onced/kv/claim"
	"onced/kv/feed"
	"onced/kv/memkv"
	"onced/saga"
)

type Order struct {
	ID    string `json:"id"`
	Cents int    `json:"cents"`
}

type Receipt struct {
	Charge string `json:"charge"`
}

// pay and lookUp stand for calls of a gateway.
func pay(ctx context.Context, o Order) (Receipt, error) {
	fmt.Fprintln(os.Stdout, "charging", o.ID, "with a key of", len(saga.DownstreamKey(ctx)), "characters")
	return Receipt{Charge: "ch_" + o.ID}, nil
}

func lookUp(context.Context, Order, saga.Doubt) (Receipt, bool, error) {
	return Receipt{}, false, nil
}

// The effect happens once, however often it is called while the key is kept, and
// across a crash at any moment.
func ExampleIdempotent() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "shop")
	check(err)
	defer os.RemoveAll(dir)

	store, err := boltkv.Open(ctx, filepath.Join(dir, "shop.db"), nil)
	check(err)
	defer store.Close()
	claims, err := claim.New(ctx, store, claim.Config{Feed: feed.New(feed.Config{})})
	check(err)
	charge := saga.Idempotent(claims, "charge", pay,
		saga.Key(func(o Order) string { return o.ID }), saga.Check(lookUp))
	for range 3 {
		receipt, err := charge(ctx, Order{ID: "order-1", Cents: 4200})
		fmt.Println(receipt.Charge, err)
	}
	// Output:
	// charging order-1 with a key of 35 characters
	// ch_order-1 <nil>
	// ch_order-1 <nil>
	// ch_order-1 <nil>
}

// What the function knows about its effect it says; anything else is unknown.
func ExampleRefused() {
	ctx := context.Background()
	store := memkv.New(memkv.Options{})
	defer store.Close()
	claims, err := claim.New(ctx, store, claim.Config{Feed: feed.New(feed.Config{})})
	check(err)
	charge := saga.Idempotent(claims, "charge", func(_ context.Context, o Order) (Receipt, error) {
		switch {
		case o.Cents <= 0: // before the call
			return Receipt{}, saga.NotDone(errors.New("the amount is missing"))
		case o.Cents > 100_000: // the gateway's word
			return Receipt{}, saga.Refused(&saga.RefusedError{Code: "card_declined", Message: "no funds"})
		}
		return Receipt{}, errors.New("connection reset") // who knows
	}, saga.Key(func(o Order) string { return o.ID }))

	for _, o := range []Order{{"a", 0}, {"b", 200_000}, {"b", 200_000}, {"c", 10}} {
		_, err := charge(ctx, o)
		var unknown *saga.UnknownError
		switch {
		case errors.Is(err, saga.ErrNotDone):
			fmt.Println("correct it and try again:", err)
		case errors.Is(err, saga.ErrRefused):
			fmt.Println("tell the customer:", err)
		case errors.As(err, &unknown):
			fmt.Println("may have happened; a person looks at it:", unknown.Held)
		}
	}
	// Output:
	// correct it and try again: the amount is missing
	// tell the customer: refused (card_declined): no funds
	// tell the customer: refused (card_declined): no funds
	// may have happened; a person looks at it: true
}

// An event is handled once, however often it is delivered.
func ExampleOnce() {
	ctx := context.Background()
	store := memkv.New(memkv.Options{})
	defer store.Close()
	claims, err := claim.New(ctx, store, claim.Config{Retention: 90 * 24 * time.Hour,
		Feed: feed.New(feed.Config{})})
	check(err)
	type event struct{ ID, Order string }
	ship := saga.Once(claims, "payments", func(_ context.Context, e event) (string, error) {
		fmt.Println("shipping", e.Order)
		return "parcel-1", nil
	}, saga.Key(func(e event) string { return e.ID }), saga.Repeatable(24*time.Hour))
	for range 2 {
		fmt.Println(ship(ctx, event{"evt_1", "order-1"}))
	}
	// Output:
	// shipping order-1
	// parcel-1 <nil>
	// parcel-1 <nil>
}

// An effect that is rows of the store commits together with its id.
func ExampleOnceTx() {
	ctx := context.Background()
	store := memkv.New(memkv.Options{})
	defer store.Close()
	points := kv.NewTable[int]("shop.points", 1)
	for range 3 {
		total, err := saga.OnceTx(ctx, store, "bonus", "order-1", func(w kv.Writer) (int, error) {
			key := kv.Key{}.String("ada")
			have, _, err := points.Get(w, key)
			if err != nil {
				return 0, err
			}
			return have + 10, points.Put(w, key, have+10)
		})
		fmt.Println(total, err)
	}
	// Output:
	// 10 <nil>
	// 10 <nil>
	// 10 <nil>
}

// A person settles what no program can. In a program of your own the tool for it
// is yours to write; the parts of it are here.
func ExampleOperation_ResultOf() {
	ctx := context.Background()
	store := memkv.New(memkv.Options{})
	defer store.Close()
	claims, err := claim.New(ctx, store, claim.Config{Feed: feed.New(feed.Config{})})
	check(err)
	broken := func(context.Context, Order) (Receipt, error) {
		return Receipt{}, errors.New("connection reset") // who knows
	}
	op, err := saga.NewOperation(claims, "charge", broken, saga.Key(func(o Order) string { return o.ID }))
	check(err)
	_, err = op.Do(ctx, Order{ID: "order-1"})
	fmt.Println("unknown:", errors.Is(err, saga.ErrUnknown))

	page, err := claims.ListOpen(ctx, claim.Query{}) // what waits for a person
	check(err)
	for _, c := range page.Claims {
		fmt.Println(c.ID.Key, "is", c.Record.State)
	}
	waits := page.Claims[0]
	result, err := op.ResultOf(Receipt{Charge: "ch_found"}) // what the gateway's dashboard shows
	check(err)
	_, err = claims.Resolve(ctx, claim.Resolution{ID: waits.ID, Version: waits.Record.Version,
		Verdict: claim.VerdictDone, Result: result, Actor: "ada", Reason: "seen in the gateway's dashboard"})
	check(err)

	again, err := op.Do(ctx, Order{ID: "order-1"})
	fmt.Println(again.Value.Charge, again.Replayed, err)
	// Output:
	// unknown: true
	// order-1 is unknown
	// ch_found true <nil>
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
