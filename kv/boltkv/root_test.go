package boltkv

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"onced/kv"
)

// rootPages is how many leaves the root has.
func rootPages(t *testing.T, s *Store) int {
	t.Helper()
	m, _, err := newestMeta(s.backend.file)
	page := make([]byte, pageSize)
	if err == nil {
		_, err = s.backend.file.ReadAt(page, int64(m.root)*pageSize)
	}
	if err != nil {
		t.Fatal(err)
	}
	if binary.NativeEndian.Uint16(page[8:]) == leafPage {
		return 1
	}
	return int(binary.NativeEndian.Uint16(page[10:]))
}

// fillTables puts a row of size bytes into each of n tables.
func fillTables(t *testing.T, s *Store, n, size int) {
	t.Helper()
	err := s.Update(t.Context(), func(w kv.Writer) error {
		for i := range n {
			err := w.Put(kv.TableID(fmt.Sprintf("test.%02d", i)), fmt.Append(nil, "row"), make([]byte, size))
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Tables that have grown leave a root of one page behind, whatever it had before.
func TestTheRootIsOnePageAgain(t *testing.T) {
	t.Parallel()
	for _, tables := range []int{9, 12, 20, 30} {
		s := openTest(t, Options{})
		fillTables(t, s, tables, 500)
		before := rootPages(t, s)
		if before == 1 {
			t.Fatalf("%d tables fit on one page", tables)
		}
		fillTables(t, s, tables, 2000)
		for range before { // one page is joined at a time
			if err := small(s, lookAtList+1); err != nil {
				t.Fatal(err)
			}
		}
		if n := rootPages(t, s); n != 1 {
			t.Errorf("%d tables: the root has %d pages of %d", tables, n, before)
		}
		wantSound(t, s)
		closeStore(t, s)
	}
}

// A root that does not fit on one page is left alone: each look would join and split it.
func TestARootOfManySmallTablesIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := openTest(t, Options{})
	fillTables(t, s, 9, 400)
	before := rootPages(t, s)
	for range 3 {
		if err := small(s, lookAtList-1); err != nil {
			t.Fatal(err)
		}
		if s.backend.split {
			t.Fatal("it is to be joined")
		}
	}
	if n := rootPages(t, s); n != before || n == 1 {
		t.Errorf("%d pages, %d before", n, before)
	}
	wantSound(t, s)
}

// Whatever the tables hold, nothing is lost when the root is joined at any commit.
func TestJoiningTheRootLosesNothing(t *testing.T) {
	t.Parallel()
	s := openTest(t, Options{})
	s.backend.db.NoSync = true
	r := rand.New(rand.NewPCG(5, 1))
	want := map[string]int{}
	joins := 0
	for round := range 400 {
		s.backend.commits, s.backend.split = 1, r.IntN(2) == 0
		err := s.Update(t.Context(), func(w kv.Writer) error {
			for range 1 + r.IntN(6) {
				table := fmt.Sprintf("test.%02d", r.IntN(16))
				size := []int{1, 100, 700, 1500, 5000}[r.IntN(5)]
				if r.IntN(4) == 0 {
					delete(want, table)
					if err := w.Delete(kv.TableID(table), []byte("row")); err != nil {
						return err
					}
					continue
				}
				want[table] = size
				if err := w.Put(kv.TableID(table), []byte("row"), make([]byte, size)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if s.backend.split { // it will be, and not only because the test says so
			joins++
		}
		for i := range 16 {
			table := fmt.Sprintf("test.%02d", i)
			err := s.View(t.Context(), func(rd kv.Reader) error {
				v, err := rd.Get(kv.TableID(table), []byte("row"))
				if size, ok := want[table]; len(v) != size || (v != nil) != ok {
					t.Fatalf("round %d: %s has %d bytes, want %d", round, table, len(v), size)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if round%20 == 0 {
			wantSound(t, s)
		}
	}
	if joins == 0 {
		t.Error("no root was to be joined")
	}
}

// Whatever stands in the pages of a root, looking at them does no harm.
func TestADamagedRootIsNoPanic(t *testing.T) {
	t.Parallel()
	s := openTest(t, Options{})
	fillTables(t, s, 9, 500)
	if err := small(s, 1); err != nil {
		t.Fatal(err)
	}
	m, _, err := newestMeta(s.backend.file)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	root := whole[m.root*pageSize:][:pageSize]
	pages := []uint64{m.root}
	for i := range int(binary.NativeEndian.Uint16(root[10:])) {
		below, err := element(m.root, root[pageHeader+i*elementSize:], true)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, below)
	}
	if len(pages) < 3 {
		t.Fatalf("the root has %d pages", len(pages))
	}
	r := rand.New(rand.NewPCG(6, 1))
	for range 20_000 {
		file := slices.Clone(whole[:m.pages*pageSize])
		for range 1 + r.IntN(3) {
			page := file[pages[r.IntN(len(pages))]*pageSize:]
			page[8+r.IntN(pageHeader+2*elementSize-8)] = byte(r.UintN(256))
		}
		_, _ = rootIsSplit(bytes.NewReader(file), m) // it may err, and must end
	}
}
