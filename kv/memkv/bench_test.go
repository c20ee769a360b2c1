package memkv_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"onced/kv"
	"onced/kv/memkv"
)

type benchRow struct{ body []byte }

// benchTables are tables of rows that are copied and nothing else.
func benchTables(n int) []kv.Table[benchRow] {
	codec := &kv.Codec[benchRow]{
		Append: func(dst []byte, v *benchRow) []byte { return append(dst, v.body...) },
		Read:   func(body []byte, v *benchRow) error { v.body = body; return nil },
	}
	tables := make([]kv.Table[benchRow], n)
	for i := range tables {
		tables[i] = kv.NewTable(kv.TableID(fmt.Sprintf("bench.rows%d", i)), 1,
			kv.TableOptions[benchRow]{Codec: codec})
	}
	return tables
}

// BenchmarkUpdate is the cost of transactions without an engine's: of a closure that
// does nothing, and of one that reads and writes a row in each of so many tables.
func BenchmarkUpdate(b *testing.B) {
	body := bytes.Repeat([]byte("v"), 200)
	for _, n := range []int{0, 1, 4} {
		b.Run(fmt.Sprintf("rows=%d", n), func(b *testing.B) {
			s := memkv.New(memkv.Options{})
			defer func() { _ = s.Close() }()
			tables := benchTables(n)
			update := func(w kv.Writer, key kv.Key) error {
				for _, t := range tables {
					if _, _, err := t.Get(w, key); err != nil {
						return err
					}
					if err := t.Put(w, key, benchRow{body}); err != nil {
						return err
					}
				}
				return nil
			}
			b.ReportAllocs()
			for i := uint64(0); b.Loop(); i++ {
				key := kv.Key{}.String("a merchant's account").String("order").Uint(i % 1000)
				if err := s.Update(context.Background(), func(w kv.Writer) error {
					return update(w, key)
				}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkView is the cost of a read.
func BenchmarkView(b *testing.B) {
	s := memkv.New(memkv.Options{})
	defer func() { _ = s.Close() }()
	table, key := benchTables(1)[0], kv.Key{}.String("order")
	if err := s.Update(context.Background(), func(w kv.Writer) error {
		return table.Put(w, key, benchRow{bytes.Repeat([]byte("v"), 200)})
	}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := s.View(context.Background(), func(r kv.Reader) error {
			_, _, err := table.Get(r, key)
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
}
