package saga_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"onced/kv/feed"
	"onced/kv/memkv"
	"onced/kv/timer"
	"onced/saga"
)

// purchase is the input of the checkout, and what its steps give.
type purchase struct {
	Customer string `json:"customer"`
	Cents    int    `json:"cents"`
}

type points struct {
	Spent int `json:"spent"`
}

type voucher struct {
	Code string `json:"code"`
}

type payment struct {
	ID string `json:"id"`
}

type confirmation struct {
	Number string `json:"number"`
}

// world stands for four services; each of them would get saga.DownstreamKey(ctx) as
// its Idempotency-Key.
type world struct{ soldOut bool }

func (world) spendPoints(_ context.Context, p purchase) (points, error) {
	fmt.Println("spend the points of", p.Customer)
	return points{Spent: 100}, nil
}

func (world) returnPoints(_ context.Context, p purchase, got points) error {
	fmt.Println("return", got.Spent, "points to", p.Customer)
	return nil
}

func (world) takeVoucher(context.Context, purchase) (voucher, error) {
	fmt.Println("take the voucher")
	return voucher{Code: "SPRING"}, nil
}

func (world) releaseVoucher(_ context.Context, _ purchase, v voucher) error {
	fmt.Println("release the voucher", v.Code)
	return nil
}

func (world) charge(_ context.Context, p purchase) (payment, error) {
	fmt.Println("charge", p.Cents)
	return payment{ID: "pay_1"}, nil
}

func (world) refund(_ context.Context, _ purchase, p payment) error {
	fmt.Println("refund", p.ID)
	return nil
}

// findCharge asks the gateway what became of the charge with this key.
func (world) findCharge(context.Context, purchase, saga.Doubt) (payment, bool, error) {
	return payment{ID: "pay_1"}, true, nil
}

func (w world) createOrder(ctx context.Context, _ purchase) (confirmation, error) {
	paid, err := saga.Output[payment](ctx, "charge")
	if err != nil {
		return confirmation{}, saga.NotDone(err)
	}
	if w.soldOut {
		return confirmation{}, saga.Refused(errors.New("sold out"))
	}
	fmt.Println("create the order paid by", paid.ID)
	return confirmation{Number: "A-1"}, nil
}

func (w world) checkout() *saga.Definition {
	return saga.New("checkout").
		Step("loyalty", w.spendPoints, w.returnPoints).
		Step("voucher", w.takeVoucher, w.releaseVoucher).
		Step("charge", w.charge, w.refund, saga.Check(w.findCharge)).
		Step("order", w.createOrder, nil)
}

// serve runs an engine over a new store and returns it with its end.
func serve(d *saga.Definition) (*saga.Engine, func()) {
	store := memkv.New(memkv.Options{})
	timers := timer.New(store, timer.Config{})
	engine, err := saga.NewEngine(store, saga.Config{Timers: timers, Feed: feed.New(feed.Config{})})
	if err == nil {
		err = engine.Register(d)
	}
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- engine.Serve(ctx) }()
	go func() { ended <- timers.Run(ctx) }()
	return engine, func() {
		cancel()
		<-ended
		<-ended
		_ = store.Close()
	}
}

// A checkout across four services: all of it happens, or nothing of it stands.
func ExampleNew() {
	checkout := world{}.checkout()
	engine, stop := serve(checkout)
	defer stop()

	run, err := engine.Run(context.Background(), checkout, "order-42", purchase{"ann", 4200})
	if err != nil {
		fmt.Println(err)
		return
	}
	var c confirmation
	if err := run.Output("order", &c); err != nil {
		fmt.Println(err)
	}
	fmt.Println("confirmed as", c.Number)
	// The same order again: nothing happens twice.
	_, err = engine.Run(context.Background(), checkout, "order-42", purchase{"ann", 4200})
	fmt.Println(err)
	// Output:
	// spend the points of ann
	// take the voucher
	// charge 4200
	// create the order paid by pay_1
	// confirmed as A-1
	// <nil>
}

// When a step is refused, those before it are undone, the last one first.
func ExampleFailure() {
	checkout := world{soldOut: true}.checkout()
	engine, stop := serve(checkout)
	defer stop()

	_, err := engine.Run(context.Background(), checkout, "order-43", purchase{"bob", 990})
	if f, ok := errors.AsType[*saga.Failure](err); ok {
		fmt.Println(f.Status, "because of", f.Step+":", f.Err)
		fmt.Println("undone:", f.Undone)
	}
	// Output:
	// spend the points of bob
	// take the voucher
	// charge 990
	// refund pay_1
	// release the voucher SPRING
	// return 100 points to bob
	// compensated because of order: refused: sold out
	// undone: [charge voucher loyalty]
}

// A step that is finished by a word of the callee: a webhook, an approval.
func ExampleEngine_Signal() {
	w := world{}
	asked := make(chan struct{})
	ask := func(context.Context, purchase) (payment, error) {
		close(asked)
		return payment{ID: "pay_2"}, nil
	}
	d := saga.New("transfer").
		Step("charge", ask, w.refund, saga.AwaitSignal()).
		Await("approval").
		Step("order", func(ctx context.Context, _ purchase) (confirmation, error) {
			who, err := saga.Output[string](ctx, "approval")
			fmt.Println("approved by", who)
			return confirmation{Number: "A-2"}, err
		}, nil)
	engine, stop := serve(d)
	defer stop()

	ctx := context.Background()
	started, err := engine.Start(ctx, d, "order-44", purchase{"eve", 100})
	if err != nil {
		fmt.Println(err)
		return
	}
	<-asked
	for range 2 { // webhooks come twice, and early
		err := engine.Signal(ctx, saga.Signal{Definition: "transfer", Key: "order-44", Step: "charge"})
		if err != nil {
			fmt.Println(err)
		}
	}
	err = engine.Signal(ctx, saga.Signal{Run: started.Run, Step: "approval", Data: []byte(`"ann"`)})
	if err != nil {
		fmt.Println(err)
	}
	run, err := engine.Wait(ctx, started.Run)
	fmt.Println(run.State.Status, err)
	// Output:
	// approved by ann
	// completed <nil>
}

// A step that a webhook finishes, and whose reply was lost. The look-up tells apart what
// has begun from what is finished: found would end the step without its webhook.
func ExampleBegun() {
	looked := make(chan struct{})
	ask := func(context.Context, purchase) (payment, error) {
		return payment{}, errors.New("no reply")
	}
	look := func(context.Context, purchase, saga.Doubt) (payment, bool, error) {
		defer close(looked)
		status := "processing" // is what the gateway says of the key
		switch status {
		case "succeeded":
			return payment{ID: "pay_3"}, true, nil
		case "processing":
			return payment{ID: "pay_3"}, false, saga.Begun(nil)
		}
		return payment{}, false, nil // it knows of none
	}
	d := saga.New("transfer").
		Step("charge", ask, world{}.refund, saga.AwaitSignal(), saga.Check(look),
			saga.Backoff(time.Millisecond, time.Second)).
		Step("order", func(ctx context.Context, _ purchase) (confirmation, error) {
			paid, err := saga.SignalData[payment](ctx, "charge")
			fmt.Println("create the order paid by", paid.ID)
			return confirmation{Number: "A-3"}, err
		}, nil)
	engine, stop := serve(d)
	defer stop()

	ctx := context.Background()
	started, err := engine.Start(ctx, d, "order-45", purchase{"joe", 700})
	if err != nil {
		fmt.Println(err)
		return
	}
	<-looked
	err = engine.Signal(ctx, saga.Signal{Run: started.Run, Step: "charge", Data: []byte(`{"id": "pay_3"}`)})
	if err != nil {
		fmt.Println(err)
	}
	run, err := engine.Wait(ctx, started.Run)
	fmt.Println(run.State.Status, err)
	// Output:
	// create the order paid by pay_3
	// completed <nil>
}
