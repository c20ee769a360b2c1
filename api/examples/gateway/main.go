// Command gateway is a payment gateway to try onced with. It moves no money, and
// it is careless on purpose: it charges whenever it is asked, whatever the
// Idempotency-Key says, so that one charge in its ledger is onced's doing.
//
//	go run ./api/examples/gateway
//
// The card decides what happens:
//
//	good      charged, and answered with 201
//	declined  not charged, and answered with 402
//	silent    charged, and the connection cut before the answer
//
// GET /charges is the ledger, and GET /charges/KEY looks up the charge that came
// with an Idempotency-Key. DELETE /charges/ID refunds one.
//
// For checkouts of several steps it plays two more services: POST /points takes
// points of a customer for an order, DELETE /points/ORDER gives them back, and
// POST /orders makes the order, if there is an address.
//
// The ledger is kept in memory and ends with the program. It listens to loopback
// only, unless -listen says otherwise.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9000", "the `ADDRESS` to listen to")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *listen, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1) //nolint:gocritic // nothing is left for stop to do
	}
}

func run(ctx context.Context, listen string, out io.Writer) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	g := &gateway{out: out}
	srv := &http.Server{Handler: g.handler(), ReadTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
	_, err = fmt.Fprintf(out, "the gateway is listening at http://%s; no real money\n", l.Addr())
	if err != nil {
		return err
	}
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// charge is a line of the ledger.
type charge struct {
	ID     string `json:"id"`
	Order  string `json:"order"`
	Amount string `json:"amount"`
	key    string
}

// gateway takes charges. Its methods may be called concurrently.
type gateway struct {
	out io.Writer

	mu     sync.Mutex
	ledger []charge
}

func (g *gateway) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /charges", g.charge)
	mux.HandleFunc("GET /charges", func(w http.ResponseWriter, _ *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, c := range g.ledger {
			_ = json.NewEncoder(w).Encode(c) // an error means that the caller has gone
		}
	})
	mux.HandleFunc("GET /charges/{key}", g.lookUp)
	mux.HandleFunc("DELETE /charges/{id}", g.said("refunded %s", "id"))
	mux.HandleFunc("POST /points", g.takePoints)
	mux.HandleFunc("DELETE /points/{order}", g.said("gave the points of order %s back", "order"))
	mux.HandleFunc("POST /orders", g.order)
	return mux
}

// said answers with nothing and says what was done, to whatever the path names.
func (g *gateway) said(what, name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		g.sayf(what, r.PathValue(name))
		w.WriteHeader(http.StatusNoContent)
	}
}

func (g *gateway) sayf(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, _ = fmt.Fprintf(g.out, format+"\n", args...)
}

// read decodes a request, or answers it.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(into)
	if err != nil {
		answer(w, http.StatusBadRequest, problem{"the body is not what is needed: " + err.Error()})
	}
	return err == nil
}

func (g *gateway) takePoints(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Order    string `json:"order"`
		Customer string `json:"customer"`
		Points   int    `json:"points"`
	}
	if read(w, r, &in) {
		g.sayf("took %d points of %s for order %s", in.Points, in.Customer, in.Order)
		answer(w, http.StatusCreated, struct {
			Taken int `json:"taken"`
		}{in.Points})
	}
}

func (g *gateway) order(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Order   string `json:"order"`
		Address string `json:"address"`
	}
	switch {
	case !read(w, r, &in):
	case in.Address == "":
		answer(w, http.StatusUnprocessableEntity, problem{"there is no address to send it to"})
	default:
		g.sayf("made order %s", in.Order)
		answer(w, http.StatusCreated, struct {
			Parcel string `json:"parcel"`
		}{"pa_" + in.Order})
	}
}

func (g *gateway) charge(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Order  string `json:"order"`
		Amount string `json:"amount"`
		Card   string `json:"card"`
	}
	switch {
	case !read(w, r, &in):
	case in.Order == "" || in.Amount == "":
		answer(w, http.StatusBadRequest, problem{"order and amount are needed"})
	case in.Card == "declined":
		answer(w, http.StatusPaymentRequired, problem{"the card was declined"})
	case in.Card == "silent":
		g.book(charge{Order: in.Order, Amount: in.Amount, key: r.Header.Get("Idempotency-Key")})
		panic(http.ErrAbortHandler) // cuts the connection
	default:
		c := g.book(charge{Order: in.Order, Amount: in.Amount, key: r.Header.Get("Idempotency-Key")})
		answer(w, http.StatusCreated, c)
	}
}

// book charges.
func (g *gateway) book(c charge) charge {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.ID = fmt.Sprintf("ch_%d", len(g.ledger)+1)
	g.ledger = append(g.ledger, c)
	_, _ = fmt.Fprintf(g.out, "charged %s for order %s (%s)\n", c.Amount, c.Order, c.ID)
	return c
}

func (g *gateway) lookUp(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.ledger {
		if c.key == r.PathValue("key") {
			answer(w, http.StatusOK, c)
			return
		}
	}
	answer(w, http.StatusNotFound, problem{"there is no such charge"})
}

// problem is what is answered instead of a charge.
type problem struct {
	Error string `json:"error"`
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		return // the caller has gone
	}
}
