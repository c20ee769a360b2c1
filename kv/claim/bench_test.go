package claim

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"onced/kv"
	"onced/kv/memkv"
)

// The benchmarks run in memory: what they measure is the time of the processor,
// most of it inside closures, which run one after the other.

func benchBook(b *testing.B) (*Book, kv.Store) {
	store := memkv.New(memkv.Options{})
	b.Cleanup(func() { _ = store.Close() })
	book, err := New(context.Background(), store, Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	return book, store
}

func nth(i int) Request { return ask("A", withID("op/shop/pay", fmt.Sprintf("%018d", i))) }

func BenchmarkBegin(b *testing.B) {
	book, _ := benchBook(b)
	i := 0
	for b.Loop() {
		i++
		if d, err := book.Begin(context.Background(), nth(i)); err != nil || d.Kind != Acquired {
			b.Fatal(d, err)
		}
	}
}

func BenchmarkBeginDone(b *testing.B) {
	book, _ := benchBook(b)
	res := Result{Type: "application/json", Data: bytes.Repeat([]byte("x"), 200)}
	i := 0
	for b.Loop() {
		i++
		req := nth(i)
		if _, err := book.Begin(context.Background(), req); err != nil {
			b.Fatal(err)
		}
		if _, err := book.Done(context.Background(), req.Ref(), res); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReplay(b *testing.B) {
	book, _ := benchBook(b)
	req := nth(1)
	if _, err := book.Begin(context.Background(), req); err != nil {
		b.Fatal(err)
	}
	res := Result{Data: bytes.Repeat([]byte("x"), 200)}
	if _, err := book.Done(context.Background(), req.Ref(), res); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if d, err := book.Begin(context.Background(), req); err != nil || d.Kind != Replay {
			b.Fatal(d, err)
		}
	}
}

// BenchmarkPut is the bare cost of a durable row of the same size.
func BenchmarkPut(b *testing.B) {
	_, store := benchBook(b)
	value := make([]byte, 300)
	i := 0
	for b.Loop() {
		i++
		key := recordKey(ID{"op/shop/pay", fmt.Sprintf("%018d", i)})
		put := func(w kv.Writer) error { return w.Put("bench", key, value) }
		err := store.Update(context.Background(), put)
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeRecord(b *testing.B) {
	s, err := Machine{Epoch: 1, Opened: start}.Begin(nil, start, nth(1))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		raw, err := recordTable.Encode(s.Record)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(raw)), "bytes/row")
	}
}

func BenchmarkDecodeRecord(b *testing.B) {
	s, err := Machine{Epoch: 1, Opened: start}.Begin(nil, start, nth(1))
	if err != nil {
		b.Fatal(err)
	}
	raw, err := recordTable.Encode(s.Record)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeRecord(raw); err != nil {
			b.Fatal(err)
		}
	}
}
