package boltkv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"onced/kv"
)

// killed returns the file of a store that was not closed: its free list is missing. It has
// a tree of two levels, and rows of several pages.
func killed(t *testing.T) (file []byte, m meta) {
	t.Helper()
	s := openTest(t, Options{})
	for i := range 50 {
		put(t, s, fmt.Sprint(i), strings.Repeat("v", 1000))
	}
	put(t, s, "long", strings.Repeat("l", 3*pageSize))
	file, err := os.ReadFile(s.Path())
	if err == nil {
		m, _, err = newestMeta(bytes.NewReader(file))
	}
	if err != nil || m.list != noList {
		t.Fatalf("%v; the list is at %d", err, m.list)
	}
	closeStore(t, s)
	return file, m
}

// pagesInUse are the pages of the tree that begin one.
func pagesInUse(t *testing.T, file []byte, m meta) (branches, leaves []uint64) {
	t.Helper()
	tr := tree{file: bytes.NewReader(file), meta: m, seen: make([]uint64, m.pages/64+1)}
	if err := tr.visit(m.root, 0); err != nil {
		t.Fatal(err)
	}
	for id := range m.pages {
		page := file[id*pageSize:]
		switch {
		case tr.seen[id/64]>>(id%64)&1 == 0 || binary.NativeEndian.Uint64(page) != id:
		case binary.NativeEndian.Uint16(page[8:]) == branchPage:
			branches = append(branches, id)
		default:
			leaves = append(leaves, id)
		}
	}
	if len(branches) == 0 || len(leaves) < 10 {
		t.Fatalf("%d branches and %d leaves", len(branches), len(leaves))
	}
	return branches, leaves
}

// A store whose process was killed is read whole before it opens. What is damaged in it is
// an error, and not the end of the process.
func TestADamagedPageIsAnErrorAlsoAfterAKill(t *testing.T) {
	t.Parallel()
	file, m := killed(t)
	branches, leaves := pagesInUse(t, file, m)
	branch, leaf, n := branches[0]*pageSize, leaves[len(leaves)-1]*pageSize, binary.NativeEndian
	tables := m.root * pageSize // small: its rows are those of the tables
	for name, damage := range map[string]func(b []byte){
		"a page is gone":          func(b []byte) { clear(b[leaf:][:pageSize]) },
		"a page of another place": func(b []byte) { copy(b[leaf:][:pageSize], b[branch:][:pageSize]) },
		"no kind":                 func(b []byte) { b[leaf+8] = 3 },
		"continued beyond":        func(b []byte) { n.PutUint32(b[leaf+12:], 1<<31) },
		"too many rows":           func(b []byte) { n.PutUint16(b[leaf+10:], 1<<15) },
		"a row far away":          func(b []byte) { n.PutUint32(b[leaf+pageHeader+4:], 1<<31) },
		"a long key":              func(b []byte) { n.PutUint32(b[leaf+pageHeader+8:], 1<<31) },
		"a long value":            func(b []byte) { n.PutUint32(b[leaf+pageHeader+12:], 1<<31) },
		"a child far away":        func(b []byte) { n.PutUint64(b[branch+pageHeader+8:], 1<<40) },
		"a child that is none":    func(b []byte) { n.PutUint64(b[branch+pageHeader+8:], 0) },
		"a circle":                func(b []byte) { n.PutUint64(b[branch+pageHeader+8:], branches[0]) },
		"a branch without rows":   func(b []byte) { n.PutUint16(b[branch+10:], 0) },
		"a table without a page":  func(b []byte) { n.PutUint32(b[tables+pageHeader+12:], 8) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := slices.Clone(file)
			damage(b)
			path := filepath.Join(t.TempDir(), "s.db")
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			wantRefused(t, path, kv.ErrCorrupt, "restore it from a backup")
		})
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "s.db")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		s := openAt(t, path, Options{})
		defer closeStore(t, s)
		wantRow(t, s, "long", strings.Repeat("l", 3*pageSize))
		wantSound(t, s)
	})
}

// Whatever is damaged, the process goes on.
func TestRandomDamageAfterAKillDoesNotEndTheProcess(t *testing.T) {
	t.Parallel()
	file, m := killed(t)
	branches, leaves := pagesInUse(t, file, m)
	all, refused := append(branches, leaves...), 0
	random := rand.New(rand.NewPCG(1, 2))
	path := filepath.Join(t.TempDir(), "s.db")
	for i := range 150 {
		b := slices.Clone(file)
		page := b[all[random.IntN(len(all))]*pageSize:]
		for range 1 + i%3 { // where the numbers are
			page[random.IntN(pageHeader+4*elementSize)] = byte(random.Uint32())
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), path, nil)
		switch {
		case errors.Is(err, kv.ErrCorrupt) || errors.Is(err, kv.ErrForeign): // its name may be damaged
			refused++
		case err != nil:
			t.Errorf("%d: %v", i, err)
		default:
			_ = s.Close() // what it says of what is damaged is not the matter
		}
	}
	if refused < 30 || refused == 150 {
		t.Errorf("%d of 150 were refused", refused)
	}
}
