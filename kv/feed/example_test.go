package feed_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"onced/kv"
	"onced/kv/feed"
	"onced/kv/memkv"
)

// The event is appended in the transaction of its cause; a consumer reads it by
// cursor.
func Example() {
	ctx := context.Background()
	store := memkv.New(memkv.Options{})
	defer store.Close()
	log := feed.New(feed.Config{Source: "/shop"})

	err := store.Update(ctx, func(w kv.Writer) error {
		if err := w.Put("order", []byte("42"), []byte("paid")); err != nil {
			return err
		}
		_, err := log.Append(w, feed.Event{
			ID:      feed.DerivedID("order", "42", "paid"), // from the fact, never random
			Type:    "order.paid",
			Subject: "42",
			Data:    json.RawMessage(`{"amount":"12.34","asset":"USD"}`),
		})
		return err
	})
	if err != nil {
		panic(err)
	}

	page, err := log.Read(ctx, store, "", 0)
	if err != nil {
		panic(err)
	}
	for _, ev := range page.Events {
		fmt.Println(ev.Seq, ev.ID, ev.Type, string(ev.Data))
	}
	// Output: 1 order:42:paid order.paid {"amount":"12.34","asset":"USD"}
}

// A consumer keeps its cursor in the transaction of its effects. Where its
// cursor no longer fits the log it is told how to go on, and drops events whose
// id it has seen.
func ExampleFeed_Read() {
	ctx := context.Background()
	store := memkv.New(memkv.Options{}) // of onced
	own := memkv.New(memkv.Options{})   // of the consumer
	defer store.Close()
	defer own.Close()
	log := feed.New(feed.Config{})
	err := store.Update(ctx, func(w kv.Writer) error {
		_, err := log.Append(w, feed.Event{ID: "order:42:paid", Type: "order.paid"})
		return err
	})
	if err != nil {
		panic(err)
	}

	cursor := "" // read from own
	page, err := log.Read(ctx, store, cursor, 0)
	var gone *feed.GoneError
	var conflict *feed.ConflictError
	switch {
	case errors.As(err, &gone):
		cursor = gone.Cursor // and fetch what was missed from the listings
	case errors.As(err, &conflict):
		cursor = conflict.Resume
	}
	if err != nil {
		fmt.Println("go on with", cursor)
		return
	}
	err = own.Update(ctx, func(w kv.Writer) error {
		for _, ev := range page.Events {
			seen, err := w.Get("effect", []byte(ev.ID))
			if err != nil || seen != nil {
				return err
			}
			if err := w.Put("effect", []byte(ev.ID), []byte("shipped")); err != nil {
				return err
			}
		}
		return w.Put("cursor", []byte("shop"), []byte(page.Next))
	})
	fmt.Println(len(page.Events), err)
	// Output: 1 <nil>
}
