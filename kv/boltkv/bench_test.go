package boltkv_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"onced/kv"
	"onced/kv/boltkv"
)

// The benchmarks of this file measure one durable insert of a 200-byte value
// under a random 18-byte key, by 1, 16, 64 and 256 clients. Every writer under
// test is measured in the same run, with the same bbolt options.

type benchRow struct {
	Body string `json:"body"`
}

// rowOverhead is what a typed row of one text adds: version, length, JSON.
const rowOverhead = 14

// insertTyped is ours: insert if absent through a typed table.
func insertTyped(b *testing.B) (func(key, value []byte) error, func() error) {
	s, err := boltkv.Open(b.Context(), filepath.Join(b.TempDir(), "s.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	rows := kv.NewTable[benchRow]("bench.rows", 1)
	return func(key, value []byte) error {
		return s.Update(context.Background(), func(w kv.Writer) error {
			k := kv.Key{}.Bytes(key)
			if _, ok, err := rows.Get(w, k); ok || err != nil {
				return err
			}
			return rows.Put(w, k, benchRow{Body: string(value[:len(value)-rowOverhead])})
		})
	}, s.Close
}

func bareDB(b *testing.B) *bolt.DB {
	db, err := bolt.Open(filepath.Join(b.TempDir(), "b.db"), 0o600, boltkv.EngineOptions())
	if err != nil {
		b.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("b")); return err })
	if err != nil {
		b.Fatal(err)
	}
	return db
}

func insertUpdate(b *testing.B) (func(key, value []byte) error, func() error) {
	db := bareDB(b)
	return func(key, value []byte) error {
		return db.Update(func(tx *bolt.Tx) error {
			boltkv.Grow(db, tx)
			return tx.Bucket([]byte("b")).Put(key, value)
		})
	}, db.Close
}

func insertBatch(delay time.Duration) func(b *testing.B) (func(key, value []byte) error, func() error) {
	return func(b *testing.B) (func(key, value []byte) error, func() error) {
		db := bareDB(b)
		db.MaxBatchDelay = delay
		return func(key, value []byte) error {
			return db.Batch(func(tx *bolt.Tx) error {
				boltkv.Grow(db, tx)
				return tx.Bucket([]byte("b")).Put(key, value)
			})
		}, db.Close
	}
}

// insertGroup is the simplest writer that groups: it takes whatever waits and
// puts it in one transaction. It reads nothing, so it is the ceiling.
func insertGroup(b *testing.B) (func(key, value []byte) error, func() error) {
	db := bareDB(b)
	type put struct {
		key, value []byte
		done       chan error
	}
	queue := make(chan put, 4096)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for first := range queue {
			puts := []put{first}
		more:
			for len(puts) < 1024 {
				select {
				case p, ok := <-queue:
					if !ok {
						break more
					}
					puts = append(puts, p)
				default:
					break more
				}
			}
			err := db.Update(func(tx *bolt.Tx) error {
				boltkv.Grow(db, tx)
				for _, p := range puts {
					if err := tx.Bucket([]byte("b")).Put(p.key, p.value); err != nil {
						return err
					}
				}
				return nil
			})
			for _, p := range puts {
				p.done <- err
			}
		}
	}()
	done := sync.Pool{New: func() any { return make(chan error, 1) }}
	return func(key, value []byte) error {
			c := done.Get().(chan error)
			queue <- put{key, value, c}
			err := <-c
			done.Put(c)
			return err
		}, func() error {
			close(queue)
			<-ended
			return db.Close()
		}
}

// BenchmarkInsert runs all writers in turn, round by round, and reports medians:
// inserts a second of each, and ours as a ratio to the bare group writer and to
// a bare Update of the same round.
func BenchmarkInsert(b *testing.B) {
	writers := []struct {
		name string
		open func(b *testing.B) (func(key, value []byte) error, func() error)
	}{
		{"onced", insertTyped}, {"group", insertGroup}, {"update", insertUpdate},
		{"batch1ms", insertBatch(time.Millisecond)}, {"batch10ms", insertBatch(10 * time.Millisecond)},
	}
	for _, clients := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			inserts := make([]func(key, value []byte) error, len(writers))
			for i, w := range writers {
				insert, closeStore := w.open(b)
				inserts[i] = insert
				defer func() { _ = closeStore() }()
			}
			rates := make([][]float64, len(writers))
			order := rand.New(rand.NewPCG(1, uint64(clients)))
			for round := 0; b.Loop(); round++ {
				for _, i := range order.Perm(len(writers)) { // each comes after each of the others
					rates[i] = append(rates[i], insertRate(b, clients, round, inserts[i]))
				}
			}
			b.ReportMetric(0, "ns/op")
			for i, w := range writers {
				b.ReportMetric(median(rates[i]), w.name+"/s")
			}
			b.ReportMetric(medianRatio(rates[0], rates[1]), "of-group")
			b.ReportMetric(medianRatio(rates[0], rates[2]), "of-update")
		})
	}
}

// oneRound is how long a writer is measured at a time: long beside a commit, or its
// beginning and its end count for more than what is between them.
const oneRound = 400 * time.Millisecond

// insertRate inserts from clients goroutines for a while and returns inserts a
// second.
func insertRate(b *testing.B, clients, round int, insert func(key, value []byte) error) float64 {
	value := bytes.Repeat([]byte("v"), 200)
	var done atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for c := range clients {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(c), uint64(round)))
			for time.Since(start) < oneRound {
				key := make([]byte, 18)
				for i := range key {
					key[i] = byte(random.Uint32())
				}
				if err := insert(key, value); err != nil {
					b.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(start).Seconds()
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}

func medianRatio(a, b []float64) float64 {
	r := make([]float64, len(a))
	for i := range a {
		r[i] = a[i] / b[i]
	}
	return median(r)
}
