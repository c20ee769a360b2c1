package boltkv

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"onced/kv"
	"onced/kv/claim"
)

// The benchmarks of this file measure what a large file costs. Their size is in
// the environment, see NOTES.md, which has the figures of a large run.

const scaleTable kv.TableID = "scale.rows"

func scaleRows() uint64 { return envNumber("ONCED_BENCH_ROWS", 100_000) }

func envNumber(name string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// scaleKey returns the key of row i of n: in the order of i, spread over all
// keys.
func scaleKey(i, n uint64) []byte {
	k := binary.BigEndian.AppendUint64(nil, i*(1<<63/n))
	return append(binary.BigEndian.AppendUint64(k, i*0x9E3779B97F4A7C15), 0, 0)
}

// build makes a file of n rows of 18 and 100 bytes, half of each page used, as
// random keys leave it at worst.
func build(b *testing.B, n uint64) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "s.db")
	s := openAt(b, path, Options{})
	s.backend.db.NoSync = true
	value := make([]byte, 100)
	for i := uint64(0); i < n; {
		err := s.backend.db.Update(func(tx *bolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists([]byte(scaleTable))
			for end := min(i+100_000, n); i < end; i++ {
				err = errors.Join(err, bucket.Put(scaleKey(i, n), value))
			}
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := errors.Join(s.backend.db.Sync(), s.Close()); err != nil {
		b.Fatal(err)
	}
	return path
}

// purgeMost deletes nine of ten rows, spread over the file.
func purgeMost(b *testing.B, path string, n uint64) {
	b.Helper()
	s := openAt(b, path, Options{})
	s.backend.db.NoSync = true
	for i := uint64(0); i < n; {
		err := s.Update(b.Context(), func(w kv.Writer) error {
			end := min(i+10_000, n)
			for j := i; j < end; j++ {
				if j%10 == 0 {
					continue
				}
				if err := w.Delete(scaleTable, scaleKey(j, n)); err != nil {
					return err
				}
			}
			i = end
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := errors.Join(s.backend.db.Sync(), s.Close()); err != nil {
		b.Fatal(err)
	}
}

// procField reads a number from /proc/self/status or io.
func procField(file, field string) uint64 {
	b, _ := os.ReadFile("/proc/self/" + file)
	_, rest, _ := strings.Cut("\n"+string(b), "\n"+field+":")
	n := uint64(0)
	_, _ = fmt.Sscan(rest, &n)
	return n
}

// childOpen opens the store and puts some load on it; it prints the seconds to
// open and the MiB of its own memory then and later.
func childOpen(path string) error {
	start := time.Now()
	s, err := Open(context.Background(), path, nil)
	if err != nil {
		return err
	}
	sayf("%f %f", time.Since(start).Seconds(), float64(procField("status", "RssAnon"))/1024)
	n := scaleRows()
	var wg sync.WaitGroup
	errs := make(chan error, 16)
	for c := range 16 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(c), 1))
			for range 200 {
				key := scaleKey(random.Uint64N(n), n)
				err := s.View(context.Background(), func(r kv.Reader) error {
					_, err := r.Get(scaleTable, key)
					return err
				})
				err2 := s.Update(context.Background(), func(w kv.Writer) error {
					return w.Put(scaleTable, key, make([]byte, 200))
				})
				if err = errors.Join(err, err2); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	sayf("%f 0", float64(procField("status", "RssAnon"))/1024)
	select {
	case err := <-errs:
		return err
	default:
		return s.Close()
	}
}

// childLeave ends without closing the store, as a crash does, with the free
// list in the file or not.
func childLeave(path string, listed bool) error {
	s, err := Open(context.Background(), path, nil)
	if err != nil {
		return err
	}
	s.backend.commits, s.backend.long = 1000, !listed
	if err := small(s, 2); err != nil {
		return err
	}
	os.Exit(0)
	return nil
}

// coldOpens measures opening in processes of their own with a cold cache.
func coldOpens(b *testing.B, path, before string) {
	b.Helper()
	opened, rss, load, runs := 0.0, 0.0, 0.0, 0.0
	for b.Loop() {
		startChild(b, before, path).rest()
		cold := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0) == nil
		lines := startChild(b, "open", path).rest()
		var sec, mib, under float64
		if _, err := fmt.Sscan(strings.Join(lines, " "), &sec, &mib, &under); err != nil || !cold {
			b.Fatalf("%v: %q; dropped caches (needs root): %v", err, lines, cold)
		}
		opened, rss, load, runs = opened+sec, max(rss, mib), max(load, under), runs+1
	}
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(opened/runs, "s-cold-open")
	b.ReportMetric(rss, "MiB-anon-opened")
	b.ReportMetric(load, "MiB-anon-load")
	b.ReportMetric(float64(info.Size()>>20), "MiB-file")
}

// BenchmarkLargeFile opens a file of ONCED_BENCH_ROWS rows, and then the same
// after nine of ten rows were deleted, each after a crash that found the free
// list in the file or out of it; and it measures small commits then.
func BenchmarkLargeFile(b *testing.B) {
	n := scaleRows()
	path := build(b, n)
	open := func(name string) {
		b.Run(name+"/open/listed", func(b *testing.B) { coldOpens(b, path, "keep listed") })
		b.Run(name+"/open/unlisted", func(b *testing.B) { coldOpens(b, path, "unlist") })
		b.Run(name+"/commit/chosen", func(b *testing.B) { commits(b, path, n, nil) })
		b.Run(name+"/commit/listed", func(b *testing.B) { listed := true; commits(b, path, n, &listed) })
		b.Run(name+"/commit/unlisted", func(b *testing.B) { listed := false; commits(b, path, n, &listed) })
	}
	open("full")
	purgeMost(b, path, n)
	open("purged")
}

// commits measures small commits by one client; listed, when set, is forced.
func commits(b *testing.B, path string, n uint64, listed *bool) {
	s := openAt(b, path, Options{})
	defer closeStore(b, s)
	if listed != nil {
		s.backend.commits, s.backend.long = 1<<30, !*listed
	}
	random := rand.New(rand.NewPCG(1, 1))
	write := func() {
		key := scaleKey(random.Uint64N(n), n)
		err := s.Update(b.Context(), func(w kv.Writer) error {
			return w.Put(scaleTable, key, make([]byte, 200))
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	write()
	bytes := procField("io", "wchar")
	var took []time.Duration
	for b.Loop() {
		for range 100 {
			start := time.Now()
			write()
			took = append(took, time.Since(start))
		}
	}
	b.ReportMetric(float64(procField("io", "wchar")-bytes)/float64(len(took)), "written-B/commit")
	reportTimes(b, took)
}

func reportTimes(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-p99")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms-max")
}

// BenchmarkBytesWritten measures what one lone call writes to the disk, in a
// store that holds ONCED_BENCH_ROWS rows already, and a tenth as many claims: an
// insert of 200 bytes, and a claim of kv/claim from Begin to Done with an intent
// and a result of 200 bytes each, under random keys and keys in order.
func BenchmarkBytesWritten(b *testing.B) {
	n := scaleRows()
	path := build(b, n)
	addClaims(b, path, n/10)
	for _, order := range []string{"random", "ordered"} {
		ordered := order == "ordered"
		b.Run("insert/"+order, func(b *testing.B) {
			s := openAt(b, path, Options{})
			defer closeStore(b, s)
			bytesWritten(b, ordered, func(key []byte) error {
				table := scaleTable
				if ordered {
					table = "scale.ordered"
				}
				return s.Update(b.Context(), func(w kv.Writer) error {
					return w.Put(table, append(key, make([]byte, 10)...), make([]byte, 200))
				})
			})
		})
		b.Run("claim/"+order, func(b *testing.B) {
			s := openAt(b, path, Options{})
			defer closeStore(b, s)
			book, err := claim.New(b.Context(), s, claim.Config{})
			if err != nil {
				b.Fatal(err)
			}
			bytesWritten(b, ordered, func(key []byte) error { return claimed(b.Context(), book, key) })
		})
	}
}

// addClaims adds ended claims under random keys.
func addClaims(b *testing.B, path string, n uint64) {
	b.Helper()
	s := openAt(b, path, Options{})
	s.backend.db.NoSync = true
	book, err := claim.New(b.Context(), s, claim.Config{})
	if err != nil {
		b.Fatal(err)
	}
	for i := uint64(0); i < n; {
		err := s.Update(b.Context(), func(w kv.Writer) error {
			for end := min(i+500, n); i < end; i++ {
				key := binary.BigEndian.AppendUint64(nil, rand.Uint64())
				req, res, err := oneClaim(book, key)
				if err == nil {
					_, err = book.BeginTx(w, req)
				}
				if err == nil {
					_, err = book.DoneTx(w, req.Ref(), res)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := errors.Join(s.backend.db.Sync(), s.Close()); err != nil {
		b.Fatal(err)
	}
}

func oneClaim(book *claim.Book, key []byte) (claim.Request, claim.Result, error) {
	token, err := book.NewToken()
	return claim.Request{ID: claim.ID{Scope: claim.ScopeOf("shop-17", "pay"), Key: hex.EncodeToString(key)},
		Token: token, Fingerprint: claim.FingerprintOf(key), Intent: make([]byte, 200),
		Owner: claim.LocalOwner()}, claim.Result{Type: "application/json", Data: make([]byte, 200)}, err
}

// claimed claims a key and ends the claim.
func claimed(ctx context.Context, book *claim.Book, key []byte) error {
	req, res, err := oneClaim(book, key)
	if err != nil {
		return err
	}
	d, err := book.Begin(ctx, req)
	if err == nil && d.Kind != claim.Acquired {
		err = fmt.Errorf("the claim is %v", d.Kind)
	}
	if err != nil {
		return err
	}
	_, err = book.Done(ctx, req.Ref(), res)
	return err
}

func bytesWritten(b *testing.B, ordered bool, call func(key []byte) error) {
	next := uint64(time.Now().UnixNano())
	chars, disk, calls := procField("io", "wchar"), procField("io", "write_bytes"), 0
	for b.Loop() {
		calls++
		key := binary.BigEndian.AppendUint64(nil, rand.Uint64())
		if ordered {
			next++
			key = binary.BigEndian.AppendUint64(nil, next)
		}
		if err := call(key); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(procField("io", "wchar")-chars)/float64(calls), "written-B/op")
	b.ReportMetric(float64(procField("io", "write_bytes")-disk)/float64(calls), "dirtied-B/op")
}

// BenchmarkIdle measures what an open store writes that nobody uses, for
// ONCED_BENCH_IDLE seconds.
func BenchmarkIdle(b *testing.B) {
	s := openTest(b, Options{})
	defer closeStore(b, s)
	if err := small(s, 10); err != nil {
		b.Fatal(err)
	}
	seconds := envNumber("ONCED_BENCH_IDLE", 2)
	chars, disk := procField("io", "wchar"), procField("io", "write_bytes")
	for b.Loop() {
		<-time.After(time.Duration(seconds) * time.Second)
	}
	written, dirtied := procField("io", "wchar")-chars, procField("io", "write_bytes")-disk
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(seconds), "s-idle")
	b.ReportMetric(float64(written), "written-B")
	b.ReportMetric(float64(dirtied), "dirtied-B")
}

// BenchmarkOpenView measures commits of 64 KiB while a View is held open for
// ONCED_BENCH_VIEW seconds and the file grows, and the same without headroom in
// the map.
func BenchmarkOpenView(b *testing.B) {
	for name, headroom := range map[string]bool{"headroom": true, "none": false} {
		b.Run(name, func(b *testing.B) {
			s := openTest(b, Options{})
			defer closeStore(b, s)
			if !headroom {
				s.backend.db = reopenBare(b, s)
			}
			var took []time.Duration
			for b.Loop() {
				took = append(took, commitsBesideView(b, s)...)
			}
			reportTimes(b, took)
			b.ReportMetric(float64(len(took)), "commits")
		})
	}
}

// reopenBare opens the file with bbolt's own choice of map.
func reopenBare(b *testing.B, s *Store) *bolt.DB {
	b.Helper()
	if err := s.backend.db.Close(); err != nil {
		b.Fatal(err)
	}
	db, err := bolt.Open(s.Path(), 0o600, engineOptions(0))
	if err != nil {
		b.Fatal(err)
	}
	return db
}

// commitsBesideView commits until a View has been open long enough, and the
// commit that is under way then has ended.
func commitsBesideView(b *testing.B, s *Store) (took []time.Duration) {
	b.Helper()
	held, begun := make(chan struct{}), make(chan struct{})
	wait := time.Duration(envNumber("ONCED_BENCH_VIEW", 1)) * time.Second
	go func() {
		defer close(held)
		_ = s.View(context.Background(), func(kv.Reader) error {
			close(begun)
			<-time.After(wait)
			return nil
		})
	}()
	<-begun
	for i := 0; ; i++ {
		start := time.Now()
		err := s.Update(b.Context(), func(w kv.Writer) error {
			return w.Put(scaleTable, fmt.Appendf(nil, "%d", start.UnixNano()), make([]byte, 64<<10))
		})
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
		select {
		case <-held:
			return took
		default:
		}
	}
}

// BenchmarkPages compares ways to fill pages, and sizes of pages, on bbolt
// alone: bytes of file and bytes written for each byte of rows.
func BenchmarkPages(b *testing.B) {
	for _, order := range []string{"random", "ordered"} {
		for _, fill := range []float64{0.5, 0.9} {
			for _, size := range []int{4096, 16384} {
				b.Run(fmt.Sprintf("%s/fill=%.1f/page=%d", order, fill, size), func(b *testing.B) {
					pages(b, order == "ordered", fill, size)
				})
			}
		}
	}
}

func pages(b *testing.B, ordered bool, fill float64, size int) {
	opt := engineOptions(mapHeadroom(0))
	opt.PageSize, opt.NoSync = size, true
	db, err := bolt.Open(filepath.Join(b.TempDir(), "b.db"), 0o600, opt)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	chars, rows, i := procField("io", "wchar"), 0.0, uint64(0)
	put := func(tx *bolt.Tx) error {
		bucket, err := tx.CreateBucketIfNotExists([]byte("b"))
		bucket.FillPercent = fill
		for range 10 {
			i++
			key := binary.BigEndian.AppendUint64(make([]byte, 0, 18), i)
			if !ordered {
				binary.BigEndian.PutUint64(key, rand.Uint64())
			}
			key = key[:18]
			err = errors.Join(err, bucket.Put(key, make([]byte, 100)))
			rows += 118
		}
		return err
	}
	for b.Loop() {
		if err := db.Update(put); err != nil {
			b.Fatal(err)
		}
	}
	_ = db.View(func(tx *bolt.Tx) error {
		b.ReportMetric(float64(tx.Size())/rows, "file-B/row-B")
		return nil
	})
	b.ReportMetric(float64(procField("io", "wchar")-chars)/rows, "written-B/row-B")
}
