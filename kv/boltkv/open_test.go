package boltkv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"

	"onced/kv"
	"onced/kv/kvtest/system"
)

const testTable kv.TableID = "test.rows"

func put(t testing.TB, s kv.Store, key, value string) {
	t.Helper()
	err := s.Update(context.Background(), func(w kv.Writer) error {
		return w.Put(testTable, []byte(key), []byte(value))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// wantRow fails unless the row is there with this value.
func wantRow(t testing.TB, s kv.Store, key, want string) {
	t.Helper()
	var got []byte
	err := s.View(context.Background(), func(r kv.Reader) (err error) {
		got, err = r.Get(testTable, []byte(key))
		return err
	})
	if err != nil || got == nil || string(got) != want {
		t.Errorf("row %q is %q (%v), want %q", key, got, err, want)
	}
}

func closeStore(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// wantRefused fails unless opening path answers want, says each of texts, and
// leaves the file as it was.
func wantRefused(t *testing.T, path string, want error, texts ...string) {
	t.Helper()
	before, _ := os.ReadFile(path)
	s, err := Open(t.Context(), path, &Options{LockTimeout: 50 * time.Millisecond})
	if err == nil {
		_ = s.Close()
	}
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
	for _, text := range append(texts, path) {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error %q does not say %q", err, text)
		}
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(after, before) {
		t.Errorf("the file was changed: %d bytes, %d before", len(after), len(before))
	}
}

func TestIK24_ASecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	system.Need(t) // /proc
	path := filepath.Join(t.TempDir(), "s.db")
	holder := startChild(t, "hold", path)
	holder.want("held")
	start := time.Now()
	s, err := Open(t.Context(), path, nil)
	if err == nil {
		closeStore(t, s)
	}
	if took := time.Since(start); took > 30*time.Second { // one second is meant; the machine may be busy
		t.Errorf("it took %v", took)
	}
	if !errors.Is(err, kv.ErrLocked) {
		t.Fatalf("error %v, want ErrLocked", err)
	}
	for _, text := range []string{path, fmt.Sprintf("process %d)", holder.cmd.Process.Pid),
		"stop it, or use another data folder"} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error %q does not say %q", err, text)
		}
	}
	wantRefused(t, path, kv.ErrLocked)
	holder.rest()
	s = openAt(t, path, Options{})
	if s.Epoch() != 2 {
		t.Errorf("epoch %d after one holder", s.Epoch())
	}
	closeStore(t, s)
}

// A process that waits for the lock gets it when the other ends, and can be
// told to stop waiting.
func TestIK24_WaitingForTheLock(t *testing.T) {
	t.Parallel()
	first := openTest(t, Options{})
	gaveUp := errors.New("gave up")
	for _, wait := range []time.Duration{0, time.Second, time.Minute} { // 0: before the call
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			ctx, cancel := context.WithTimeoutCause(t.Context(), wait, gaveUp)
			defer cancel()
			_, err := Open(ctx, first.Path(), &Options{LockTimeout: time.Hour})
			if took := time.Since(start); !errors.Is(err, gaveUp) || took != wait {
				t.Errorf("after %v: %v; want the context's cause after %v", took, err, wait)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := Open(t.Context(), first.Path(), &Options{LockTimeout: time.Minute})
		if took := time.Since(start); !errors.Is(err, kv.ErrLocked) || took != time.Minute {
			t.Errorf("after %v: %v; want ErrLocked after a minute", took, err)
		}
	})
	opened := make(chan error, 1)
	go func() {
		s, err := Open(t.Context(), first.Path(), &Options{LockTimeout: time.Hour})
		if err == nil {
			err = s.Close()
		}
		opened <- err
	}()
	closeStore(t, first)
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

func TestEpochRisesWithEveryOpening(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "deep", "er", "s.db")
	for want := uint64(1); want <= 3; want++ {
		s := openAt(t, path, Options{})
		if s.Epoch() != want {
			t.Errorf("epoch %d, want %d", s.Epoch(), want)
		}
		closeStore(t, s)
	}
}

// boltFile makes a file of another program.
func boltFile(t *testing.T, path string, opt *bolt.Options, fill func(tx *bolt.Tx) error) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(fill), db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestForeignFilesAreRefusedAndLeftAsTheyWere(t *testing.T) {
	t.Parallel()
	write := func(b []byte) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	const magic = "\xed\xda\x0c\xed\x02\x00\x00\x00"
	other := func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("theirs")); return err }
	for name, c := range map[string]struct {
		make func(t *testing.T, path string)
		want error
		says string
	}{
		"text":      {write([]byte("orders:\n- 1\n")), kv.ErrForeign, "name another file"},
		"long text": {write(bytes.Repeat([]byte("orders "), 9000)), kv.ErrForeign, "name another file"},
		"zeroes":    {write(make([]byte, 1<<20)), kv.ErrForeign, "name another file"},
		"folder":    {func(t *testing.T, p string) { _ = os.Mkdir(p, 0o700) }, kv.ErrForeign, "folder"},
		"damaged meta": {write(append(make([]byte, 16), magic+strings.Repeat("x", 200)...)),
			kv.ErrCorrupt, "backup"},
		"another program's bbolt file": {func(t *testing.T, p string) { boltFile(t, p, nil, other) },
			kv.ErrForeign, "bbolt file of another program"},
		"another program's without a free list": {func(t *testing.T, p string) {
			boltFile(t, p, &bolt.Options{NoFreelistSync: true, PageSize: 16384}, other)
		}, kv.ErrForeign, "bbolt file of another program"},
		"another application": {func(t *testing.T, p string) {
			boltFile(t, p, nil, func(tx *bolt.Tx) error {
				b, err := tx.CreateBucket(metaBucket)
				return errors.Join(err, b.Put(keyApp, []byte("twiced")))
			})
		}, kv.ErrForeign, `"twiced"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "s.db")
			c.make(t, path)
			wantRefused(t, path, c.want, c.says)
		})
	}
}

func TestDamagedFilesAreRefusedAndLeftAsTheyWere(t *testing.T) {
	t.Parallel()
	s := openTest(t, Options{})
	for i := range 500 {
		put(t, s, fmt.Sprint(i), strings.Repeat("v", 1000))
	}
	closeStore(t, s)
	whole, err := os.ReadFile(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	m, _, err := newestMeta(bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		damage func(b []byte) []byte
		want   error
	}{
		"cut to its first page": {func(b []byte) []byte { return b[:pageSize] }, kv.ErrCorrupt},
		"cut to three pages":    {func(b []byte) []byte { return b[:3*pageSize] }, kv.ErrCorrupt},
		"cut in the middle":     {func(b []byte) []byte { return b[:m.pages/2*pageSize] }, kv.ErrCorrupt},
		"one page short":        {func(b []byte) []byte { return b[:(m.pages-1)*pageSize] }, kv.ErrCorrupt},
		"both metas damaged": {func(b []byte) []byte {
			b[50], b[pageSize+50] = 0xaa, 0xaa
			return b
		}, kv.ErrCorrupt},
		"the free list damaged": {func(b []byte) []byte {
			clear(b[m.list*pageSize:][:pageSize])
			return b
		}, kv.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "s.db")
			if err := os.WriteFile(path, c.damage(slices.Clone(whole)), 0o600); err != nil {
				t.Fatal(err)
			}
			wantRefused(t, path, c.want, "restore it from a backup")
			wantRefused(t, path, c.want) // it is not left locked
		})
	}
	t.Run("nothing beyond the pages in use", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "s.db")
		if err := os.WriteFile(path, whole[:m.pages*pageSize], 0o600); err != nil {
			t.Fatal(err)
		}
		s := openAt(t, path, Options{})
		wantRow(t, s, "499", strings.Repeat("v", 1000))
		closeStore(t, s)
	})
	t.Run("the newer meta damaged", func(t *testing.T) {
		t.Parallel()
		b := slices.Clone(whole)
		b[m.tx%2*pageSize+50] = 0xaa
		path := filepath.Join(t.TempDir(), "s.db")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		s := openAt(t, path, Options{}) // the commit before is whole
		wantRow(t, s, "498", strings.Repeat("v", 1000))
		closeStore(t, s)
	})
}

// A crash while the file is made leaves nothing, or zeroes, or some of what
// bbolt writes first: in it nothing was committed yet.
func TestAFileToWhichNothingWasCommittedIsBegunAnew(t *testing.T) {
	t.Parallel()
	fresh := filepath.Join(t.TempDir(), "fresh.db")
	db, err := bolt.Open(fresh, 0o600, engineOptions(0))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(fresh)
	if err != nil || len(image) != 4*pageSize {
		t.Fatalf("a new file has %d bytes (%v)", len(image), err)
	}
	zeroed := func(pages ...int) []byte {
		b := slices.Clone(image)
		for _, p := range pages {
			clear(b[p*pageSize : (p+1)*pageSize])
		}
		return b
	}
	for name, content := range map[string][]byte{
		"empty": nil, "zeroes": make([]byte, 4*pageSize), "first page": image[:pageSize], "whole": image,
		"a zero byte": make([]byte, 1), "no first meta": zeroed(0), "no second meta": zeroed(1),
		"no free list": zeroed(2), "no root": zeroed(3),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "s.db")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			s := openAt(t, path, Options{})
			if s.Epoch() != 1 {
				t.Errorf("epoch %d", s.Epoch())
			}
			put(t, s, "a", "1")
			wantSound(t, s)
			closeStore(t, s)
		})
	}
}

func TestANewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	s := openTest(t, Options{schema: schemaVersion + 1})
	put(t, s, "a", "1")
	closeStore(t, s)
	wantRefused(t, s.Path(), kv.ErrNewer,
		fmt.Sprintf("schema %d, known up to %d", schemaVersion+1, schemaVersion))
}

// appendStep is a migration that notes itself in a row.
func appendStep(name string) migration {
	return func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte(testTable))
		return b.Put([]byte("steps"), append(b.Get([]byte("steps")), name...))
	}
}

func snapshots(t *testing.T, path string) []string {
	t.Helper()
	found, err := filepath.Glob(path + ".*")
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestMigrationRunsTheStepsInOrderAfterASnapshot(t *testing.T) {
	t.Parallel()
	s := openTest(t, Options{schema: 1})
	path := s.Path()
	put(t, s, "steps", "")
	closeStore(t, s)
	o := Options{schema: 4, migrations: map[uint64]migration{
		1: appendStep("1"), 2: appendStep("2"), 3: appendStep("3"),
	}}
	s = openAt(t, path, o)
	wantRow(t, s, "steps", "123")
	closeStore(t, s)
	s = openAt(t, path, o) // nothing left to do
	wantRow(t, s, "steps", "123")
	closeStore(t, s)
	kept := snapshots(t, path)
	if len(kept) != 1 || !strings.HasPrefix(kept[0], path+".schema1.") {
		t.Fatalf("beside the file: %v", kept)
	}
	s = openAt(t, kept[0], Options{schema: 1})
	wantRow(t, s, "steps", "")
	wantSound(t, s)
	closeStore(t, s)
}

func TestMigrationResumesAfterAFailureBetweenSteps(t *testing.T) {
	t.Parallel()
	s := openTest(t, Options{schema: 1})
	path := s.Path()
	put(t, s, "steps", "")
	closeStore(t, s)
	fail := errors.New("cannot")
	o := Options{schema: 3, migrations: map[uint64]migration{1: appendStep("1"), 2: func(tx *bolt.Tx) error {
		return errors.Join(appendStep("X")(tx), fail)
	}}}
	_, err := Open(t.Context(), path, &o)
	first := snapshots(t, path)
	if !errors.Is(err, fail) || len(first) != 1 || !strings.Contains(err.Error(), first[0]) ||
		!strings.Contains(err.Error(), "schema 2") {
		t.Fatalf("error %v with %v beside the file; want it to name the snapshot and the step", err, first)
	}
	o.migrations[2] = func(*bolt.Tx) error { panic("worse") }
	for range 2 { // the same state again and again: one more copy, and not one each time
		if _, err = Open(t.Context(), path, &o); err == nil || !strings.Contains(err.Error(), "worse") {
			t.Fatalf("error %v", err)
		}
	}
	if n := len(snapshots(t, path)); n != 2 {
		t.Errorf("%d copies beside the file", n)
	}
	o.migrations[2] = appendStep("2")
	s = openAt(t, path, o)
	wantRow(t, s, "steps", "12")
	closeStore(t, s)
}

// A folder stands where the copy would be written.
func TestMigrationNeedsItsSnapshotAndAllSteps(t *testing.T) {
	t.Parallel()
	s := openTest(t, Options{schema: 1})
	put(t, s, "steps", "")
	closeStore(t, s)
	before, _ := os.ReadFile(s.Path())
	o := Options{schema: 3, migrations: map[uint64]migration{1: appendStep("1")}}
	_, err := Open(t.Context(), s.Path(), &o)
	if err == nil || !strings.Contains(err.Error(), "no migration from schema 2") {
		t.Errorf("error %v, want the missing step", err)
	}
	o.migrations[2] = appendStep("2")
	m, _, _ := newestMeta(bytes.NewReader(before))
	part := fmt.Sprintf("%s.schema1.tx%d.bak.part", s.Path(), m.tx)
	if err := os.MkdirAll(filepath.Join(part, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), s.Path(), &o)
	if err == nil || !strings.Contains(err.Error(), "snapshot before migration") {
		t.Errorf("error %v, want the snapshot's", err)
	}
	if after, _ := os.ReadFile(s.Path()); !bytes.Equal(after, before) {
		t.Error("the file was changed")
	}
}

// A file of each version before this one is opened, and those who wrote it do not open it
// again.
func TestFilesOfEarlierVersionsAreMigrated(t *testing.T) {
	t.Parallel()
	for version := uint64(1); version < schemaVersion; version++ {
		s := openTest(t, Options{schema: version})
		put(t, s, "a", "1")
		closeStore(t, s)
		path := s.Path()
		s = openAt(t, path, Options{})
		wantRow(t, s, "a", "1")
		closeStore(t, s)
		if _, err := Open(t.Context(), path, &Options{schema: version}); !errors.Is(err, kv.ErrNewer) {
			t.Errorf("version %d: error %v, want kv.ErrNewer", version, err)
		}
	}
}
