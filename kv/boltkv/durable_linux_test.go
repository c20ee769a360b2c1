package boltkv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"onced/kv"
	"onced/kv/claim"
	"onced/kv/kvtest/system"
)

// childMake makes a store, or opens it.
func childMake(path string) error {
	runtime.LockOSThread() // strace counts the calls of each thread by itself
	s, err := Open(context.Background(), path, nil)
	if err != nil {
		sayf("not opened: %v", err)
		return nil
	}
	return s.Close()
}

// traced runs childMake and returns the folders that were synced before the
// first commit, which is the second time that the file itself is synced: the
// first is of the empty file.
func traced(t *testing.T, path string) (folders []string, trace string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "trace")
	lines := startChild(t, "make", path, "strace", "-f", "-y", "--seccomp-bpf", "-qq", "-o", out,
		"-e", "trace=mkdirat,mkdir,fsync,fdatasync").rest()
	b, err := os.ReadFile(out)
	if err != nil || len(lines) > 0 {
		t.Fatalf("%q, %v", lines, err)
	}
	files := 0
	syncs := regexp.MustCompile(`(fsync|fdatasync)\(\d+<([^>]*)>`)
	for _, m := range syncs.FindAllStringSubmatch(string(b), -1) {
		switch {
		case m[1] == "fdatasync" && m[2] == path:
			files++
		case m[1] == "fsync" && m[2] != path && files < 2:
			folders = append(folders, m[2])
		}
	}
	if files < 2 {
		t.Fatalf("the trace is not as expected:\n%s", b)
	}
	return folders, string(b)
}

// After a power cut a folder is there only if the folder above it was synced
// after it was made, and only then may a commit be acknowledged.
func TestTheNamesOfNewFoldersAreDurableBeforeTheFirstCommit(t *testing.T) {
	t.Parallel()
	system.Need(t, "strace")
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(base, "a", "b", "s.db")
	want := []string{filepath.Dir(path), filepath.Join(base, "a"), base}
	folders, trace := traced(t, path)
	if got := strings.Join(folders, " "); !strings.HasPrefix(got+" ", strings.Join(want, " ")+" ") {
		t.Errorf("synced are %s\nwant %s\n%s", got, want, trace)
	}
	last := strings.LastIndex(trace, "mkdir")
	if first := strings.Index(trace, "fsync("); last < 0 || first < last {
		t.Errorf("a folder was made after the first was synced:\n%s", trace)
	}

	// The process before was killed when it had made the folders, or the file too.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	folders, trace = traced(t, path)
	if got := strings.Join(folders, " "); !strings.HasPrefix(got+" ", strings.Join(want, " ")+" ") {
		t.Errorf("with folders of an earlier try synced are %s\nwant %s\n%s", got, want, trace)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	folders, trace = traced(t, path)
	if len(folders) < len(want) {
		t.Errorf("with a file of an earlier try synced are %s\nwant %s\n%s", folders, want, trace)
	}
	if folders, trace = traced(t, path); len(folders) > 0 { // an old file: nothing to do
		t.Errorf("opened again, it syncs %s\n%s", folders, trace)
	}
}

// A folder that was made and cannot be synced is an error, and nothing is
// acknowledged; one above that others made is none.
func TestAFolderThatCannotBeSynced(t *testing.T) {
	t.Parallel()
	system.Need(t, "strace")
	for n, refused := range map[int]bool{1: true, 2: true, 3: true, 4: false} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "a", "b", "s.db")
			lines := startChild(t, "make", path, "strace", "-f", "--seccomp-bpf", "-qq", "-o", dir+"/trace",
				"-e", "trace=fsync", "-e", fmt.Sprintf("inject=fsync:error=EIO:when=%d", n)).rest()
			if got := strings.Contains(strings.Join(lines, " "), "durable"); got != refused {
				t.Errorf("%q; want it refused: %t", lines, refused)
			}
			s := openAt(t, path, Options{}) // with a disk that works it is made
			wantSound(t, s)
			closeStore(t, s)
		})
	}
}

// childUnreadable takes the second half of the file away from under the store,
// which reads like pages that the disk cannot read. It prints how the store
// behaves.
func childUnreadable(path string) error {
	const rows = 2000
	ctx := context.Background()
	s, err := Open(ctx, path, nil)
	if err != nil {
		return err
	}
	key := func(i int) []byte { return fmt.Appendf(nil, "%06d", i) }
	write := func(w kv.Writer, i int) error { return w.Put(testTable, key(i), make([]byte, 3000)) }
	if err := fillRows(s, rows, write); err != nil {
		return err
	}
	// The engine takes any free page for a new root: write until both are in the half
	// that stays, or no row could be read.
	for try := 0; !rootsInFirstHalf(s); try++ {
		if try == 1000 {
			return errors.New("the roots are always in the second half")
		}
		for i := range 2 {
			if err := s.Update(ctx, func(w kv.Writer) error { return write(w, i) }); err != nil {
				return err
			}
		}
	}
	m, _, err := newestMeta(s.backend.file)
	if err == nil {
		err = os.Truncate(path, int64(m.pages)*m.pageSize/2)
	}
	if err != nil {
		return err
	}
	rowsOf := map[string]int{} // how a reading ends → such a row
	for i := range rows {
		err := s.View(ctx, func(r kv.Reader) error {
			_, err := r.Get(testTable, key(i))
			return err
		})
		rowsOf[ending(path, err)] = i
	}
	good, bad := rowsOf["good"], rowsOf["unreadable"]
	if len(rowsOf) != 2 || good == 0 || bad == 0 {
		return fmt.Errorf("rows by their reading: %v", rowsOf)
	}
	scan := func(r kv.Reader) error {
		for _, err := range r.Scan(testTable, kv.Range{From: key(bad)}) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	sayf("a scan: %s", ending(path, s.View(ctx, scan)))
	sayf("a scan to write: %s", ending(path, s.Update(ctx, func(w kv.Writer) error { return scan(w) })))
	sayf("the store: %s", ending(path, s.Healthy()))
	sayf("a commit: %s", ending(path, s.Update(ctx, func(w kv.Writer) error { return write(w, bad) })))
	sayf("the next: %s", ending(path, s.Update(ctx, func(w kv.Writer) error { return write(w, good) })))
	sayf("a good row: %s", ending(path, s.View(ctx, func(r kv.Reader) error {
		_, err := r.Get(testTable, key(good))
		return err
	})))
	s.backend.db.NoFreelistSync, s.backend.broken = true, false // Close will want to write
	sayf("close: %s", ending(path, s.Close()))
	return nil
}

// rootsInFirstHalf reports whether the pages by which every row of testTable is found
// are in the first half of the file.
func rootsInFirstHalf(s *Store) (low bool) {
	_ = s.backend.db.View(func(tx *bolt.Tx) error {
		half := tx.Size() / int64(s.backend.db.Info().PageSize) / 2
		top, table := tx.Cursor().Bucket().Root(), tx.Bucket([]byte(testTable)).Root()
		low = int64(top) < half && int64(table) < half
		return nil
	})
	return low
}

// fillRows writes rows in batches of a hundred.
func fillRows(s *Store, rows int, write func(w kv.Writer, i int) error) error {
	for i := 0; i < rows; i += 100 {
		err := s.Update(context.Background(), func(w kv.Writer) (err error) {
			for j := i; j < i+100; j++ {
				err = errors.Join(err, write(w, j))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ending names how a call ended.
func ending(path string, err error) string {
	switch {
	case err == nil:
		return "good"
	case errors.Is(err, kv.ErrCommitUnknown):
		return "unknown"
	case errors.Is(err, kv.ErrStopped):
		return "stopped"
	case errors.Is(err, kv.ErrCorrupt) && strings.Contains(err.Error(), path):
		return "unreadable"
	}
	return err.Error()
}

func TestAPageThatCannotBeReadIsAnError(t *testing.T) {
	t.Parallel()
	system.Need(t) // faults in a map, as Linux has them
	path := filepath.Join(t.TempDir(), "s.db")
	lines := startChild(t, "unreadable", path).rest()
	want := []string{"a scan: unreadable", "a scan to write: unreadable", "the store: good",
		"a commit: unknown", "the next: stopped", "a good row: good", "close: good"}
	if got := strings.Join(lines, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// Panics of a closure, and faults outside the map, are not the store's.
func TestPanicsOfClosuresAreTheCallers(t *testing.T) {
	t.Parallel()
	s := openTest(t, Options{})
	put(t, s, "a", "1")
	for name, fail := range map[string]func(){
		"a value":       func() { panic("own") },
		"a nil pointer": func() { var p *int; *p = 1 }, //nolint:govet // it is meant to fail
		"elsewhere":     func() { panic(strayFault{}) },
	} {
		for _, call := range []func() error{
			func() error { return s.View(t.Context(), func(kv.Reader) error { fail(); return nil }) },
			func() error { return s.Update(t.Context(), func(kv.Writer) error { fail(); return nil }) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: the panic did not come through", name)
					}
				}()
				if err := call(); err != nil {
					t.Errorf("%s: turned into %v", name, err)
				}
			}()
		}
	}
	if old := debug.SetPanicOnFault(false); old {
		t.Error("the goroutine still panics on faults")
	}
	put(t, s, "a", "2")
	closeStore(t, s)
}

// strayFault is a fault at an address that is not the store's.
type strayFault struct{}

func (strayFault) Error() string { return "fault" }
func (strayFault) RuntimeError() {}
func (strayFault) Addr() uintptr { return 1 << 16 }

// BenchmarkFaults measures what it costs to ask for panics on faults.
func BenchmarkFaults(b *testing.B) {
	s := openTest(b, Options{})
	defer closeStore(b, s)
	fn := func(kv.Reader) error { return nil }
	b.Run("nothing", func(b *testing.B) {
		for b.Loop() {
			_ = func() (err error) {
				defer s.faults(debug.SetPanicOnFault(true), &err)
				return nil
			}()
		}
	})
	b.Run("view", func(b *testing.B) {
		for b.Loop() {
			_ = s.View(b.Context(), fn)
		}
	})
	b.Run("bare view", func(b *testing.B) {
		for b.Loop() {
			_ = s.Store.View(b.Context(), fn)
		}
	})
}

// childClaim pays once under a claim in a store on a small file system of its
// own, which is full when the payment is made and its outcome is to be saved.
// Then there is room again, and the store is opened again. It prints what every
// caller is told.
func childClaim(dir string) error {
	var charges []string // the gateway's ledger: downstream keys
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	path := filepath.Join(dir, "s.db")
	clock := kv.ClockFunc(func() time.Time { return now })
	open := func() (*Store, *claim.Book, error) {
		s, err := Open(context.Background(), path, &Options{MinFree: -1, Clock: clock})
		if err != nil {
			return nil, nil, err
		}
		book, err := claim.New(context.Background(), s, claim.Config{})
		return s, book, err
	}
	ctx := context.Background()
	req := claim.Request{ID: claim.ID{Scope: claim.ScopeOf("shop-17", "pay"), Key: "order-1"},
		Intent: []byte("charge order-1"), Owner: claim.LocalOwner()}
	downstream := claim.DownstreamKey(req.ID.Scope, req.ID.Key)
	begin := func(book *claim.Book, who string, takeOver bool) claim.Request {
		r := req
		r.Token, r.TakeOver = "the-token-of-the-"+who, takeOver
		d, err := book.Begin(ctx, r)
		if d.Kind == claim.Acquired && err == nil { // only then it may be paid
			charges = append(charges, downstream)
		}
		sayf("%s begins: %v, %v, %d bytes of result, %s", who, d.Kind, d.Record.State,
			len(d.Record.Result.Data), ending(path, err))
		return r
	}

	s, book, err := open()
	if err != nil {
		return err
	}
	first := begin(book, "first", false)
	if err := fillUp(filepath.Join(dir, "filler")); err != nil {
		return err
	}
	result := claim.Result{Type: "text/plain", Data: make([]byte, 100_000)}
	_, err = book.Done(ctx, first.Ref(), result)
	sayf("first is done: %s, disk full: %t", ending(path, err),
		strings.Contains(fmt.Sprint(err), syscall.ENOSPC.Error()))
	begin(book, "second", true)
	sayf("close: %s", ending(path, s.Close()))

	if err := os.Remove(filepath.Join(dir, "filler")); err != nil {
		return err
	}
	now = now.Add(time.Second)
	if s, book, err = open(); err != nil {
		return err
	}
	begin(book, "third", false)
	fourth := begin(book, "fourth", true)
	// It asks the gateway, which has the charge under the derived key.
	f := claim.Finding{Answer: claim.FoundNothing, SettlesAfter: time.Minute}
	if slices.Contains(charges, downstream) {
		f = claim.Finding{Answer: claim.FoundDone, Result: result}
	}
	d, err := book.LookedUp(ctx, fourth.Ref(), f)
	sayf("fourth looked up: %v, %v, %s", d.Kind, d.Record.State, ending(path, err))
	begin(book, "fifth", false)
	sayf("charges: %d, close: %s", len(charges), ending(path, s.Close()))
	return nil
}

// fillUp writes to a file until its file system is full.
func fillUp(path string) error {
	f, err := os.Create(path)
	for size := 1 << 20; err == nil && size > 0; {
		if _, err = f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size, err = size/2, nil
		}
	}
	return errors.Join(err, f.Close())
}

// A payment is made, and then its outcome cannot be saved, for the disk is full.
// The intent was committed before: whoever comes after the restart does not pay
// again but asks the gateway.
func TestIK11_AFullDiskAfterTheEffectDoesNotChargeTwice(t *testing.T) {
	t.Parallel()
	system.NeedRoot(t, "unshare", "mount")
	lines := startChild(t, "claim", t.TempDir(), ownMounts(`mount -t tmpfs -o size=4m none "$2"`)...).rest()
	want := []string{
		"first begins: acquired, pending, 0 bytes of result, good",
		"first is done: unknown, disk full: true",
		"second begins: none, absent, 0 bytes of result, unknown",
		"close: good",
		"third begins: in_doubt, unknown, 0 bytes of result, good",
		"fourth begins: took_over, pending, 0 bytes of result, good",
		"fourth looked up: finished, done, good",
		"fifth begins: replay, done, 100000 bytes of result, good",
		"charges: 1, close: good",
	}
	if got := strings.Join(lines, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}
