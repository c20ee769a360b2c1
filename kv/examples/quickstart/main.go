// Command quickstart shows the store and the feed in one page: it opens a file,
// writes rows together with the event they cause, scans them, and reads the feed
// from its beginning.
//
//	go run ./kv/examples/quickstart
//
// It guarantees nothing beyond what the packages it uses do, and leaves nothing
// behind: its file is in a temporary folder.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"onced/kv"
	"onced/kv/boltkv"
	"onced/kv/feed"
)

// order is a row of the table "shop.order".
type order struct {
	Customer string `json:"customer"`
	Cents    int64  `json:"cents"`
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	dir, err := os.MkdirTemp("", "quickstart")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	store, err := boltkv.Open(ctx, filepath.Join(dir, "shop.db"), nil)
	if err != nil {
		return err
	}
	s := shop{store: store, orders: kv.NewTable[order]("shop.order", 1), events: feed.New(feed.Config{})}
	return errors.Join(s.trade(ctx, log.New(out, "", 0)), store.Close())
}

type shop struct {
	store  kv.Store
	orders kv.Table[order]
	events *feed.Feed
}

func (s *shop) trade(ctx context.Context, out *log.Logger) error {
	for _, id := range []string{"order-1", "order-2", "order-3"} {
		if err := s.place(ctx, id); err != nil {
			return err
		}
	}
	if err := s.listOrders(ctx, out); err != nil {
		return err
	}
	return s.readFeed(ctx, out)
}

// place writes an order and the event that tells of it: both, or none.
func (s *shop) place(ctx context.Context, id string) error {
	o := order{Customer: "ada", Cents: 4200}
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return s.store.Update(ctx, func(w kv.Writer) error {
		if err := s.orders.Put(w, kv.Key{}.String(id), o); err != nil {
			return err
		}
		event := feed.Event{ID: "placed:" + id, Type: "order.placed", Subject: id, Data: data}
		_, err := s.events.Append(w, event)
		return err
	})
}

// listOrders scans the table in one consistent snapshot. A closure only collects;
// what is done with the rows comes after it.
func (s *shop) listOrders(ctx context.Context, out *log.Logger) error {
	var lines []string
	err := s.store.View(ctx, func(rd kv.Reader) error {
		lines = lines[:0]
		for row, err := range s.orders.Scan(rd, kv.Range{}) {
			if err != nil {
				return err
			}
			id, o := kv.DecodeKey(row.Key).String(), row.Value
			lines = append(lines, fmt.Sprintf("row   %s: %s, %d cents", id, o.Customer, o.Cents))
		}
		return nil
	})
	for _, l := range lines {
		out.Println(l)
	}
	return err
}

// readFeed reads the log from its oldest entry. A real consumer stores the cursor
// together with what it does about the events.
func (s *shop) readFeed(ctx context.Context, out *log.Logger) error {
	page, err := s.events.Read(ctx, s.store, "", 0)
	for _, e := range page.Events {
		out.Printf("event %d: %s %s", e.Seq, e.Type, e.Subject)
	}
	return err
}
