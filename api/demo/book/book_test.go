package book

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestJournal(t *testing.T) {
	name := filepath.Join(t.TempDir(), "journal")
	j, err := OpenJournal(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	const n = 200
	for i := range n {
		writers.Go(func() {
			if err := j.Append(i); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	if _, err := j.file.WriteString(`"torn`); err != nil { // a crash in the middle of a line
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	collect := func(line []byte) error { seen[string(line)] = true; return nil }
	if j, err = OpenJournal(name, collect); err != nil {
		t.Fatal(err)
	}
	if err := j.Append("after"); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := j.Append("closed"); err == nil {
		t.Error("a line that was not written was acknowledged")
	}
	if err := j.Append("again"); err == nil {
		t.Error("a file that nobody knows was written on")
	}
	clear(seen)
	if _, err := OpenJournal(name, collect); err != nil {
		t.Fatal(err)
	}
	if len(seen) != n+1 || !seen["0"] || !seen[`"after"`] {
		t.Errorf("%d lines, want %d", len(seen), n+1)
	}
	bad := errors.New("bad")
	if _, err := OpenJournal(name, func([]byte) error { return bad }); !errors.Is(err, bad) ||
		!strings.Contains(err.Error(), "line 1") {
		t.Errorf("a line that cannot be read: %v", err)
	}
}

func TestLedgerSurvivesItsProcess(t *testing.T) {
	name := filepath.Join(t.TempDir(), Charge.File())
	l, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(5, 0).UTC()
	entries := []Entry{
		{Kind: Effect, ID: l.NextID("ch"), Order: "A", Reference: "A.1", Value: "10.00 USD", Key: "k1",
			At: at},
		{Kind: Told, ID: "ch_1", Order: "A", Reference: "A.1", At: at},
		{Kind: Undo, ID: l.NextID("re"), Order: "A", Reference: "A.1", Of: "ch_1", Key: "k2", At: at},
		{Kind: Refusal, ID: "r", Order: "B", Reference: "B.1", Key: "k1", At: at},
		{Kind: Absent, ID: "none", Order: "C", Reference: "C.1", At: at},
	}
	for _, e := range entries {
		if err := l.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	check := func(what string, l *Ledger) {
		t.Helper()
		if got := fmt.Sprint(l.Entries()); got != fmt.Sprint(entries) {
			t.Errorf("%s: %s", what, got)
		}
		a := l.Find("A.1")
		if len(a.Effects) != 1 || len(a.Undos) != 1 || a.Undos[0].Of != "ch_1" || a.Refused {
			t.Errorf("%s: A: %+v", what, a)
		}
		if !l.Find("B.1").Refused || l.Find("Z").Refused || l.WasTold("x") || !l.WasTold("ch_1") {
			t.Errorf("%s: B: %+v", what, l.Find("B.1"))
		}
		if e, found := l.Keyed("k1"); !found || e.ID != "ch_1" { // the first one counts
			t.Errorf("%s: k1: %+v", what, e)
		}
		if _, found := l.Keyed(""); found {
			t.Errorf("%s: an entry without a key has one", what)
		}
	}
	read, err := Read(name)
	if err != nil {
		t.Fatal(err)
	}
	check("read", read)
	again, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	check("opened again", again)
	for range 10 {
		if id := again.NextID("ch"); id == "ch_1" || id == "re_2" {
			t.Errorf("the id %s was given again", id)
		}
	}
}

func TestLedgerRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, line := range []string{`{"kind":"gift","id":"1"}`, `{"kind":"effect","idd":"1"}`, `{`} {
		name := filepath.Join(t.TempDir(), "ledger")
		if err := os.WriteFile(name, []byte(line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(name); err == nil {
			t.Errorf("%s is opened", line)
		}
		if _, err := Read(name); err == nil {
			t.Errorf("%s is read", line)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a ledger that is not there: %v", err)
	}
}
