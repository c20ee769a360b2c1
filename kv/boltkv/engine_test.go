package boltkv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"onced/kv"
	"onced/kv/group"
)

// used returns how much of the file is in use, free pages included.
func used(t testing.TB, s *Store) (size int64) {
	t.Helper()
	err := s.backend.db.View(func(tx *bolt.Tx) error { size = tx.Size(); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return size
}

func TestANewStoreIsSmall(t *testing.T) {
	t.Parallel()
	s := openTest(t, Options{})
	put(t, s, "a", "1")
	info, err := os.Stat(s.Path())
	if err != nil || info.Size() > 2<<20 {
		t.Errorf("a new store has %d bytes (%v)", info.Size(), err)
	}
	closeStore(t, s)
	if fs, err := os.Stat(s.Path()); err != nil || fs.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v (%v), others must not read it", fs.Mode(), err)
	}
}

// An open View must not make writers wait, though the file outgrows many times
// the map that bbolt would make for it.
func TestAnOpenViewDoesNotStallWriters(t *testing.T) {
	t.Parallel()
	s := openTest(t, Options{})
	put(t, s, "a", "1")
	err := s.View(t.Context(), func(r kv.Reader) error {
		written := make(chan error, 1)
		go func() {
			for i := range 10 { // few: a View has kv.MaxTxTime, on a slow machine too
				err := s.Update(context.Background(), func(w kv.Writer) error {
					return w.Put(testTable, fmt.Append(nil, i), make([]byte, 200<<10))
				})
				if err != nil {
					written <- err
					return
				}
			}
			written <- nil
		}()
		if err := <-written; err != nil {
			return err
		}
		v, err := r.Get(testTable, []byte("a"))
		if string(v) != "1" {
			t.Errorf("the View reads %q", v)
		}
		v, err2 := r.Get(testTable, []byte("9"))
		if v != nil {
			t.Error("the View sees a later commit")
		}
		return errors.Join(err, err2)
	})
	if err != nil {
		t.Error(err)
	}
	closeStore(t, s)
}

func TestMapHeadroom(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{0, 1 << 20, 20 << 30} {
		if got := int64(mapHeadroom(size)); got < 2*size || got < 256<<20 {
			t.Errorf("a file of %d bytes gets a map of %d", size, got)
		}
	}
}

// A page of rows is looked at all the time while writers replace rows: the
// pages they free are used again.
func TestXS09_TheFileIsBoundedWhileAPageIsOpen(t *testing.T) {
	t.Parallel()
	s := openTest(t, Options{})
	s.backend.db.NoSync = true // only the size counts here
	key := func(i int) []byte { return fmt.Appendf(nil, "%04d", i) }
	write := func(commits int) {
		random := rand.New(rand.NewPCG(1, uint64(commits)))
		for range commits {
			err := s.Update(context.Background(), func(w kv.Writer) error {
				for range 10 {
					if err := w.Put(testTable, key(random.IntN(500)), make([]byte, 1000)); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
	write(100)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for !stop.Load() {
				n := 0
				for _, err := range kv.Pages(context.Background(), s, testTable, kv.Range{}, 50) {
					if n++; err != nil {
						t.Error(err)
					}
				}
				if n < 300 {
					t.Errorf("the page shows %d rows", n)
				}
			}
		})
	}
	write(200)
	first := used(t, s)
	write(800)
	stop.Store(true)
	wg.Wait()
	// Were none used again, it would be 32 MiB and more. A reader that the machine stops
	// for a while holds on to some.
	if last := used(t, s); last > max(2*first, 12<<20) {
		t.Errorf("the file grew from %d to %d bytes; it holds 500 rows of 1000", first, last)
	}
	wantSound(t, s)
	closeStore(t, s)
}

// fill writes rows with keys by the function, in small commits, and returns how
// many bytes of file there are for each byte of row.
func fill(t *testing.T, key func(i int) []byte) float64 {
	t.Helper()
	s := openTest(t, Options{wrap: nil})
	s.backend.db.NoSync = true // only the layout counts here
	before, rows, n := used(t, s), int64(0), 0
	for range 150 {
		err := s.Update(t.Context(), func(w kv.Writer) error {
			for range 50 {
				k := key(n)
				n++
				rows += int64(len(k) + 100)
				if err := w.Put(testTable, k, make([]byte, 100)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	ratio := float64(used(t, s)-before) / float64(rows)
	wantSound(t, s)
	closeStore(t, s)
	return ratio
}

// Keys in order of time, as most tables have them, leave full pages behind;
// others leave room in them.
func TestPagesAreFilledByTheOrderOfKeys(t *testing.T) {
	t.Parallel()
	if r := fill(t, func(i int) []byte { return fmt.Appendf(nil, "%018d", i) }); r > 1.5 {
		t.Errorf("keys in order take %.2f bytes for each", r)
	}
	random := rand.New(rand.NewPCG(1, 1))
	if r := fill(t, func(int) []byte { return fmt.Appendf(nil, "%018d", random.Uint64()>>4) }); r > 2.2 {
		t.Errorf("random keys take %.2f bytes for each", r)
	}
}

// wantList fails unless the last commit wrote the free list, or did not.
func wantList(t *testing.T, what, path string, want bool) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, _, err := newestMeta(f)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.list != noList; got != want {
		t.Errorf("%s: the free list is in the file: %v, want %v", what, got, want)
	}
}

func TestALongFreeListStaysOutOfTheFileUntilClose(t *testing.T) {
	t.Parallel()
	s := openTest(t, Options{})
	path := s.Path()
	s.backend.db.NoSync = true
	if err := small(s, 2*lookAtList); err != nil {
		t.Fatal(err)
	}
	wantList(t, "a small file", path, false)
	if err := purge(s, 12_000); err != nil {
		t.Fatal(err)
	}
	wantList(t, "a long list", path, false)
	s.backend.commits = 1 // as after many commits: one tries
	if err := small(s, 2); err != nil {
		t.Fatal(err)
	}
	wantList(t, "the commit that tries", path, true)
	if err := small(s, 1); err != nil {
		t.Fatal(err)
	}
	wantList(t, "the next", path, false)
	size := used(t, s)
	closeStore(t, s)
	wantList(t, "a closed store", path, true)

	s = openAt(t, path, Options{})
	wantList(t, "opened again", path, true) // that commit makes the epoch
	s.backend.db.NoSync = true
	if err := small(s, 1); err != nil {
		t.Fatal(err)
	}
	wantList(t, "opened again, a commit later", path, false)
	// New rows take the free pages, and the list is short again.
	for from := 0; from < 10_000; from += 1000 {
		err := s.Update(t.Context(), func(w kv.Writer) error {
			for i := from; i < from+1000; i++ {
				if err := w.Put(testTable, fmt.Appendf(nil, "%08d", i), make([]byte, 3500)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if now := used(t, s); now > size+size/10 {
		t.Errorf("the file grew from %d to %d bytes; free pages were lost", size, now)
	}
	s.backend.commits = 1
	if err := small(s, 3); err != nil {
		t.Fatal(err)
	}
	wantList(t, "short again", path, true)
	wantSound(t, s)
	closeStore(t, s)
}

// A process is killed while the list is kept out of the file.
func TestALostFreeListIsRebuilt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.db")
	startChild(t, "unlisted", path).rest()
	wantList(t, "after the crash", path, false)
	var log bytes.Buffer
	s := openAt(t, path, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if !strings.Contains(log.String(), "rebuilding the free list") {
		t.Errorf("the operator is not told: %q", log.String())
	}
	wantList(t, "opened again", path, true)
	size := used(t, s)
	s.backend.db.NoSync = true
	if err := purge(s, 5_000); err != nil {
		t.Fatal(err)
	}
	if now := used(t, s); now > size {
		t.Errorf("the file grew from %d to %d bytes; free pages were lost", size, now)
	}
	wantSound(t, s)
	closeStore(t, s)
}

// After a commit error nothing more is written, the free list neither, although
// the engine would take it: the commit failed, not the disk.
func TestXS08_CloseWritesNothingAfterACommitError(t *testing.T) {
	t.Parallel()
	for _, fail := range []bool{false, true} {
		s := openTest(t, Options{})
		s.backend.commits, s.backend.long = 1<<20, true // the list stays out of the file, as after a purge
		put(t, s, "a", "1")
		if fail {
			noKey := []group.Change{{Table: testTable}}
			if _, err := s.backend.Commit(noKey); err == nil {
				t.Fatal("bbolt took a row without a key")
			}
		}
		before, err := os.ReadFile(s.Path())
		if err != nil {
			t.Fatal(err)
		}
		closeStore(t, s)
		after, err := os.ReadFile(s.Path())
		if err != nil || bytes.Equal(after, before) != fail {
			t.Errorf("with a commit error: %t; Close left the file as it was: %t (%v)",
				fail, bytes.Equal(after, before), err)
		}
		wantList(t, "after Close", s.Path(), !fail)
	}
}

func TestNewWorkIsRefusedWhenSpaceIsShort(t *testing.T) {
	t.Parallel()
	var now, free atomic.Int64
	var unknown atomic.Bool
	free.Store(100 << 20)
	s := openTest(t, Options{
		MinFree: 80 << 20,
		Clock:   kv.ClockFunc(func() time.Time { return time.Unix(now.Load(), 0) }),
		space: func(string) (uint64, error) {
			if unknown.Load() {
				return 0, errors.New("cannot tell")
			}
			return uint64(free.Load()), nil
		},
	})
	defer closeStore(t, s)
	admit := func() error {
		now.Add(1)
		return s.Update(t.Context(), func(w kv.Writer) error {
			if err := kv.AdmitIntent(w); err != nil {
				return err
			}
			return w.Put(testTable, []byte("intent"), nil)
		})
	}
	if err := admit(); err != nil {
		t.Errorf("with room: %v", err)
	}
	free.Store(79 << 20)
	err := admit()
	if !errors.Is(err, kv.ErrNoSpace) {
		t.Fatalf("without room: %v", err)
	}
	for _, text := range []string{"79 MiB free", filepath.Dir(s.Path()), "the mark is 80 MiB"} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error %q does not say %q", err, text)
		}
	}
	put(t, s, "outcome", "1") // of work begun before
	wantRow(t, s, "outcome", "1")
	free.Store(81 << 20)
	if err := admit(); err != nil {
		t.Errorf("with room again: %v", err)
	}
	free.Store(0)
	unknown.Store(true)
	if err := admit(); err != nil {
		t.Errorf("when space cannot be told: %v", err)
	}
}

func TestTheMarkCanBeTurnedOff(t *testing.T) {
	t.Parallel()
	s := openTest(t, Options{MinFree: -1, space: func(string) (uint64, error) { return 0, nil }})
	if err := s.Update(t.Context(), kv.AdmitIntent); err != nil {
		t.Error(err)
	}
	closeStore(t, s)
}

func TestTheMarkKnowsTheLargestFile(t *testing.T) {
	t.Parallel()
	s := openTest(t, Options{})
	defer closeStore(t, s)
	put(t, s, "a", "1")
	g := newSpaceGauge(s.Path(), withDefaults(&Options{}))
	g.max = 64 << 20
	if err := g.admit(); !errors.Is(err, kv.ErrNoSpace) || !strings.Contains(err.Error(), "can have 64 MiB") {
		t.Errorf("error %v, want ErrNoSpace with the figures", err)
	}
	g = newSpaceGauge(s.Path(), withDefaults(&Options{}))
	g.max = 100 << 20
	if err := g.admit(); err != nil {
		t.Error(err)
	}
}

// No name of a table reaches the bucket of the file's own rows.
func TestTablesDoNotReachTheFilesOwnBucket(t *testing.T) {
	t.Parallel()
	if len(metaBucket) <= kv.MaxTableName {
		t.Errorf("a table could be named %q", metaBucket)
	}
}

// The reader of meta pages agrees with bbolt's.
func TestNewestMetaIsWhatBboltSees(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1024, 4096, 16384, 65536} {
		path := filepath.Join(t.TempDir(), "s.db")
		db, err := bolt.Open(path, 0o600, &bolt.Options{PageSize: size})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if err := db.Update(func(tx *bolt.Tx) error {
				_, err := tx.CreateBucket([]byte{byte('a' + i)})
				return err
			}); err != nil {
				t.Fatal(err)
			}
			b, _ := os.ReadFile(path)
			for _, damage := range []int{-1, 0, 1} { // none, or one of the two
				c := bytes.Clone(b)
				lost := 0
				m0, _, _ := newestMeta(bytes.NewReader(c))
				if damage >= 0 {
					clear(c[damage*size:][:128])
					if int(m0.tx%2) == damage {
						lost = 1
					}
				}
				m, _, err := newestMeta(bytes.NewReader(c))
				_ = db.View(func(tx *bolt.Tx) error {
					if err != nil || m.pageSize != int64(size) || m.tx != uint64(tx.ID()-lost) ||
						lost == 0 && int64(m.pages)*m.pageSize != tx.Size() {
						t.Errorf("page size %d, damage %d: %+v and %v; bbolt has transaction %d of %d bytes",
							size, damage, m, err, tx.ID(), tx.Size())
					}
					return nil
				})
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzNewestMeta: no content of a file makes the reader of meta pages fail in
// another way than by an error.
func FuzzNewestMeta(f *testing.F) {
	path := filepath.Join(f.TempDir(), "s.db")
	db, err := bolt.Open(path, 0o600, &bolt.Options{PageSize: 1024})
	if err != nil {
		f.Fatal(err)
	}
	_ = db.Close()
	image, _ := os.ReadFile(path)
	f.Add(image)
	f.Add([]byte("text"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, magic, err := newestMeta(io.NewSectionReader(bytes.NewReader(b), 0, int64(len(b))))
		if err == nil && (!magic || m.pageSize <= 0) {
			t.Errorf("%+v without magic", m)
		}
	})
}
