// Command chargeonce charges an order once, although 100 calls race for it and
// the shop is killed at the worst moment: the gateway has charged, and the shop
// has not heard of it.
//
//	go run ./kv/examples/chargeonce
//
// It plays the gateway itself, with its own ledger, and starts the shop as a
// process of its own: the same program with -shop, connected by its standard
// input and output. The shop kills itself by SIGKILL in the middle of its first
// charge. Started again, it finds out by asking the gateway. The ledger has the
// last word.
//
// What is guaranteed is what package saga promises: one charge on the ledger, and
// the same answer for each of the 100 calls.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"onced/kv/boltkv"
	"onced/kv/claim"
	"onced/kv/feed"
	"onced/saga"
)

func main() {
	path := flag.String("shop", "", "be the shop, with its store in this file")
	flag.Parse()
	ctx := context.Background()
	var err error
	if *path != "" {
		err = shop(ctx, *path)
	} else {
		err = gateway(ctx, log.New(os.Stdout, "", 0))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chargeonce:", err)
		os.Exit(1)
	}
}

// Order is what is charged.
type Order struct{ ID string }

// Receipt is what comes of it.
type Receipt struct{ Charge string }

// shop is what a shop writes. 100 calls stand for impatient customers, retrying
// clients and redelivered webhooks.
func shop(ctx context.Context, path string) error {
	store, err := boltkv.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	claims, err := claim.New(ctx, store, claim.Config{Feed: feed.New(feed.Config{})})
	if err != nil {
		return err
	}
	wire := &wire{in: bufio.NewScanner(os.Stdin), out: os.Stdout}
	charge := saga.Idempotent(claims, "charge", wire.pay,
		saga.Key(func(o Order) string { return o.ID }), saga.Check(wire.lookUp))

	answers := make([]string, 100)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			receipt, err := charge(ctx, Order{ID: "order-1"})
			answers[i] = fmt.Sprintf("%s (error: %v)", receipt.Charge, err)
		})
	}
	wg.Wait()
	for _, a := range answers {
		if _, err := wire.ask("answer " + a); err != nil {
			return err
		}
	}
	return store.Close()
}

// wire is the shop's connection to the gateway.
type wire struct {
	mu  sync.Mutex
	in  *bufio.Scanner
	out io.Writer
}

func (w *wire) ask(question string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := fmt.Fprintln(w.out, question); err != nil {
		return "", err
	}
	if !w.in.Scan() {
		return "", errors.Join(io.ErrUnexpectedEOF, w.in.Err())
	}
	return w.in.Text(), nil
}

// pay charges, and dies before it can tell, the first time.
func (w *wire) pay(ctx context.Context, _ Order) (Receipt, error) {
	answer, err := w.ask("charge " + saga.DownstreamKey(ctx))
	if err != nil {
		return Receipt{}, err
	}
	if answer == "ch_1" {
		return Receipt{}, syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	return Receipt{Charge: answer}, nil
}

// lookUp asks what became of a charge.
func (w *wire) lookUp(_ context.Context, _ Order, d saga.Doubt) (Receipt, bool, error) {
	answer, err := w.ask("look " + d.DownstreamKey)
	return Receipt{Charge: answer}, answer != "none", err
}

// ledger is the gateway's: the key of each charge, in order. It does not honour
// keys: whoever asks twice is charged twice.
type ledger struct {
	charges []string
	answers map[string]int
}

func gateway(ctx context.Context, out *log.Logger) error {
	dir, err := os.MkdirTemp("", "chargeonce")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "shop.db")
	l := &ledger{answers: map[string]int{}}

	out.Println("100 calls race to charge order-1.")
	if err := l.serve(ctx, path); err == nil {
		return errors.New("the shop was not killed")
	}
	out.Printf("The gateway has charged %d time. The shop was killed before it heard of it.",
		len(l.charges))
	out.Println("The shop starts again, and 100 calls race to charge order-1.")
	if err := l.serve(ctx, path); err != nil {
		return err
	}
	for answer, n := range l.answers {
		out.Printf("%d calls got %s", n, answer)
	}
	out.Printf("The gateway's ledger: %d charge.", len(l.charges))
	if len(l.charges) != 1 || len(l.answers) != 1 {
		return fmt.Errorf("that is not once: %d charges, %d answers", len(l.charges), len(l.answers))
	}
	return nil
}

// serve runs one life of the shop and answers it.
func (l *ledger) serve(ctx context.Context, path string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, "-shop", path) //nolint:gosec // it starts itself
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, err := fmt.Fprintln(in, l.reply(lines.Text())); err != nil {
			break // the shop is gone
		}
	}
	return cmd.Wait()
}

func (l *ledger) reply(question string) string {
	verb, rest, _ := strings.Cut(question, " ")
	switch verb {
	case "charge":
		l.charges = append(l.charges, rest)
		return fmt.Sprintf("ch_%d", len(l.charges))
	case "look":
		for i, key := range l.charges {
			if key == rest {
				return fmt.Sprintf("ch_%d", i+1)
			}
		}
	case "answer":
		l.answers[rest]++
	}
	return "none"
}
