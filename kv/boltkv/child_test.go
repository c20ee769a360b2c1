package boltkv

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	bolt "go.etcd.io/bbolt"

	"onced/kv"
)

// Tests that need a process of their own run this test program again, as one
// of these children, with a path.
var children = map[string]func(path string) error{
	"hold":     childHold,
	"write":    childWrite,
	"unlisted": childUnlisted,
}

const childVar = "ONCED_TEST_CHILD"

var childPath = flag.String("child.path", "", "the path that a child process works on")

func TestMain(m *testing.M) {
	if name := os.Getenv(childVar); name != "" {
		run := children[name]
		if run == nil {
			run = linuxChildren[name]
		}
		flag.Parse()
		if err := run(*childPath); err != nil {
			sayf("child failed: %v", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child is a running process.
type child struct {
	t     testing.TB
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Scanner
}

// startChild runs a child; the words of wrap, if any, come before its command.
func startChild(t testing.TB, name, path string, wrap ...string) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append(wrap, exe, "-child.path", path)
	c := &child{t: t, cmd: exec.CommandContext(context.Background(), args[0], args[1:]...)}
	// The race detector would let every child sleep for a second at its end.
	c.cmd.Env = append(os.Environ(), childVar+"="+name, "GORACE=atexit_sleep_ms=0")
	c.cmd.Stderr = os.Stderr
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.stdin.Close()
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	})
	return c
}

// want reads the next line, which must be this one.
func (c *child) want(line string) {
	c.t.Helper()
	if !c.out.Scan() || c.out.Text() != line {
		c.t.Fatalf("the child says %q, want %q", c.out.Text(), line)
	}
}

// rest reads all further lines to the end of the child, which must be without
// error.
func (c *child) rest() []string {
	c.t.Helper()
	_ = c.stdin.Close()
	var lines []string
	for c.out.Scan() {
		lines = append(lines, c.out.Text())
	}
	if err := c.cmd.Wait(); err != nil {
		c.t.Fatalf("the child ended with %v:\n%s", err, strings.Join(lines, "\n"))
	}
	return lines
}

// sayf prints a line at once.
func sayf(format string, args ...any) { fmt.Fprintf(os.Stdout, format+"\n", args...) }

// childHold holds the store until its input ends.
func childHold(path string) error {
	s, err := Open(context.Background(), path, nil)
	if err != nil {
		return err
	}
	sayf("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return s.Close()
}

const (
	stormTable kv.TableID = "test.storm"
	churnTable kv.TableID = "test.churn"
	stormRows             = 3 // of one transaction
)

// childWrite writes from some goroutines until it is killed, and prints "ack
// TRANSACTION" after each that was acknowledged.
func childWrite(path string) error {
	s, err := Open(context.Background(), path, &Options{MaxCalls: 8})
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			for n := 0; ; n++ {
				id := fmt.Sprintf("%d.%d.%d", s.Epoch(), g, n)
				err := s.Update(context.Background(), func(w kv.Writer) error { return stormTx(w, id) })
				if err != nil {
					sayf("child failed: %v", err)
					return
				}
				sayf("ack %s", id)
			}
		})
	}
	wg.Wait()
	return errors.New("the writers ended")
}

func stormTx(w kv.Writer, id string) error {
	for i := range stormRows {
		if err := w.Put(stormTable, fmt.Appendf(nil, "%s.%d", id, i), make([]byte, 300)); err != nil {
			return err
		}
	}
	// Rows that are replaced, so that pages are freed and used again.
	return w.Put(churnTable, []byte(id[len(id)-1:]), make([]byte, 2000))
}

// acknowledged returns the transactions that a child acknowledged.
func acknowledged(lines []string) []string {
	var ids []string
	for _, l := range lines {
		if id, ok := strings.CutPrefix(l, "ack "); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// wantStorm opens the store and fails unless every acknowledged transaction is
// there, every transaction is there whole or not at all, and bbolt finds its
// file sound.
func wantStorm(t *testing.T, path string, acks []string) {
	t.Helper()
	s := openAt(t, path, Options{})
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	rows := map[string]int{}
	for e, err := range kv.Pages(t.Context(), s, stormTable, kv.Range{}, 0) {
		if err != nil {
			t.Fatal(err)
		}
		id := string(e.Key)
		rows[id[:strings.LastIndexByte(id, '.')]]++
	}
	for _, id := range acks {
		if rows[id] == 0 {
			t.Errorf("transaction %s was acknowledged and is missing", id)
		}
	}
	for id, n := range rows {
		if n != stormRows {
			t.Errorf("transaction %s has %d rows of %d", id, n, stormRows)
		}
	}
	wantSound(t, s)
}

// wantSound lets bbolt check its file.
func wantSound(t testing.TB, s *Store) {
	t.Helper()
	err := s.backend.db.View(func(tx *bolt.Tx) error {
		var all []error
		for err := range tx.Check() {
			all = append(all, err)
		}
		return errors.Join(all...)
	})
	if err != nil {
		t.Errorf("bbolt's check: %v", err)
	}
}

// childUnlisted leaves a store behind, as a crash does, whose free list is not
// in the file.
func childUnlisted(path string) error {
	s, err := Open(context.Background(), path, nil)
	if err != nil {
		return err
	}
	if err := purge(s, 12_000); err != nil {
		return err
	}
	if !s.backend.long {
		return errors.New("the free list is still written")
	}
	os.Exit(0)
	return nil
}

// purge writes rows of about a page each and deletes them again, in bounded
// batches, and then makes some small commits.
func purge(s *Store, rows int) error {
	ctx := context.Background()
	for _, del := range []bool{false, true} {
		for from := 0; from < rows; from += 1000 {
			err := s.Update(ctx, func(w kv.Writer) error {
				for i := from; i < from+1000; i++ {
					key := fmt.Appendf(nil, "%08d", i)
					err := w.Put(churnTable, key, make([]byte, 3500))
					if del && i%100 != 0 {
						err = w.Delete(churnTable, key)
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return small(s, lookAtList+2)
}

// small makes n small commits.
func small(s *Store, n int) error {
	for i := range n {
		err := s.Update(context.Background(), func(w kv.Writer) error {
			return w.Put(stormTable, []byte("small"), fmt.Append(nil, i))
		})
		if err != nil {
			return err
		}
	}
	return nil
}
