package timer_test

import (
	"context"
	"fmt"
	"time"

	"onced/kv"
	"onced/kv/memkv"
	"onced/kv/timer"
)

// A hold on a seat ends by itself: the timer is set in the transaction that makes
// the hold, and the transaction that fires it ends the hold.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	store := memkv.New(memkv.Options{})
	defer store.Close()
	timers := timer.New(store, timer.Config{})
	ended := make(chan string, 1)
	err := timers.Handle("seat.expire", timer.Handler{
		Tx: func(_ context.Context, w kv.Writer, t timer.Timer) error {
			w.OnCommit(func() { ended <- t.Owner })
			return w.Delete("seat.hold", []byte(t.Owner))
		},
	})
	if err != nil {
		panic(err)
	}
	done := make(chan error)
	go func() { done <- timers.Run(ctx) }()

	err = store.Update(ctx, func(w kv.Writer) error {
		if err := w.Put("seat.hold", []byte("12A"), []byte("alice")); err != nil {
			return err
		}
		return timers.Set(w, timer.Timer{
			Kind: "seat.expire", Owner: "12A", Due: w.Now().Add(10 * time.Millisecond),
		})
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("free again:", <-ended)
	cancel()
	fmt.Println(<-done)
	// Output:
	// free again: 12A
	// <nil>
}

// A handler outside calls another system, so it runs in no transaction. It
// removes its timer in the transaction that records what came of the call.
func ExampleHandler() {
	ctx, cancel := context.WithCancel(context.Background())
	store := memkv.New(memkv.Options{})
	defer store.Close()
	timers := timer.New(store, timer.Config{})
	asked := make(chan string, 1)
	err := timers.Handle("payment.ask", timer.Handler{
		Workers: 8,
		Outside: func(ctx context.Context, t timer.Timer) error {
			answer := []byte("settled") // what the gateway says
			err := store.Update(ctx, func(w kv.Writer) error {
				if err := timers.Delete(w, t); err != nil {
					return err
				}
				return w.Put("payment", []byte(t.Owner), answer)
			})
			asked <- t.Owner
			return err
		},
	})
	if err != nil {
		panic(err)
	}
	done := make(chan error)
	go func() { done <- timers.Run(ctx) }()
	err = store.Update(ctx, func(w kv.Writer) error {
		return timers.Set(w, timer.Timer{Kind: "payment.ask", Owner: "pay_7", Due: w.Now()})
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(<-asked)
	cancel()
	fmt.Println(<-done)
	// Output:
	// pay_7
	// <nil>
}
