package feed

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"onced/kv"
	"onced/kv/memkv"
)

// endsAfter ends a context in the n-th View, before that reads.
type endsAfter struct {
	kv.Store
	n   int
	end func()
}

func (e *endsAfter) View(ctx context.Context, fn func(kv.Reader) error) error {
	if e.n--; e.n == 0 {
		e.end()
	}
	return e.Store.View(ctx, fn)
}

// However ctx ends, a long poll has a cursor to answer with, and with it nothing
// is missed.
func TestWaitAlwaysHasACursor(t *testing.T) {
	gaveUp := errors.New("gave up")
	for name, c := range map[string]struct {
		view   int  // in which reading ctx ends; 0 is before the call
		behind bool // the cursor is at the head
		add    bool // an event comes as ctx ends
		want   string
	}{
		"ended before, nothing there":     {0, true, false, ""},
		"ended before, an event there":    {0, false, false, "e1"},
		"ended in the first reading":      {1, true, false, ""},
		"ended in it, an event there":     {1, false, false, "e1"},
		"ended as an event woke it":       {2, true, true, ""},
		"ended while it waits for events": {-1, true, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memkv.New(memkv.Options{})
				defer s.Close()
				f := New(Config{})
				add(t, f, s, "e1")
				cursor := ""
				if c.behind {
					cursor = read(t, f, s, "", 0).Next
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				end := func() { cancel(gaveUp) }
				if c.view == 0 {
					end()
				}
				var p Page
				var err error
				done := make(chan struct{})
				go func() {
					p, err = f.Wait(ctx, &endsAfter{s, c.view, end}, cursor, 0)
					close(done)
				}()
				synctest.Wait()
				if c.add {
					add(t, f, s, "e2")
				}
				if c.view < 0 {
					end()
				}
				<-done
				if err != nil || ids(p.Events) != c.want || p.Next == "" {
					t.Fatalf("got %q, next %q, %v; want %q, a cursor and no error",
						ids(p.Events), p.Next, err, c.want)
				}
				add(t, f, s, "e3")
				want := "e3"
				if c.add {
					want = "e2 e3"
				}
				if got := ids(read(t, f, s, p.Next, 0).Events); got != want {
					t.Errorf("the next reading gives %q, want %q", got, want)
				}
			})
		})
	}
}

// An error of the store stays one, also when ctx has ended.
func TestWaitHidesNoErrorOfTheStore(t *testing.T) {
	s := memkv.New(memkv.Options{})
	f := New(Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Wait(ctx, s, "no cursor", 0); !errors.As(err, new(*CursorError)) {
		t.Errorf("error %v, want a CursorError", err)
	}
	s.Close()
	if _, err := f.Wait(ctx, s, "", 0); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("error %v, want ErrClosed", err)
	}
}

func TestADamagedEntryKeepsNobodyFromWhatComesBefore(t *testing.T) {
	for name, harm := range map[string]func(w kv.Writer) error{
		"damaged": func(w kv.Writer) error { return w.Put(entryTable.ID(), entryKey(3), []byte("damaged")) },
		"newer":   func(w kv.Writer) error { return w.Put(entryTable.ID(), entryKey(3), []byte{200, 0}) },
		"missing": func(w kv.Writer) error { return w.Delete(entryTable.ID(), entryKey(3)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := memkv.New(memkv.Options{})
			defer s.Close()
			f := New(Config{})
			add(t, f, s, "e1", "e2", "e3", "e4")
			if err := s.Update(t.Context(), harm); err != nil {
				t.Fatal(err)
			}
			p, err := f.Read(t.Context(), s, "", 0)
			if err != nil || ids(p.Events) != "e1 e2" || !p.More {
				t.Fatalf("got %q, more %t, %v; want e1 e2 and more", ids(p.Events), p.More, err)
			}
			p, err = f.Read(t.Context(), s, p.Next, 0)
			if !unreadable(err) || len(p.Events) > 0 || p.Next != "" {
				t.Errorf("then %q, %v; want the error of the entry", ids(p.Events), err)
			}
		})
	}
}

// However many keys are damaged, wherever they lie, the rule comes to an end and sees
// each once, and the hole behind them.
func TestTheRuleOfTheLogEndsOnManyDamagedKeys(t *testing.T) {
	const damaged = 2*rulePage + 5
	for name, prefix := range map[string]string{"before": "\x00", "behind": "\xff"} {
		t.Run(name, func(t *testing.T) {
			s := memkv.New(memkv.Options{})
			defer s.Close()
			add(t, New(Config{}), s, numbered(1, 2*rulePage)...)
			err := s.Update(t.Context(), func(w kv.Writer) error {
				for i := range damaged {
					key := append([]byte(prefix), kv.Key{}.Int(int64(i))...)
					if err := w.Put(entryTable.ID(), key, []byte("x")); err != nil {
						return err
					}
				}
				return w.Delete(entryTable.ID(), entryKey(rulePage))
			})
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, err := range checkLog(t.Context(), s) {
				if n++; err != nil || n > damaged+1 {
					t.Fatalf("%d violations, %v", n, err)
				}
			}
			if n != damaged+1 {
				t.Errorf("%d violations, want %d", n, damaged+1)
			}
		})
	}
}

// A row of an id that cannot be read keeps no entry from being removed, and says
// nothing of whether its fact was told.
func TestADamagedRowOfAnIDDoesNotStopTrim(t *testing.T) {
	s := memkv.New(memkv.Options{Rerun: true})
	defer s.Close()
	f := New(Config{})
	once := func(w kv.Writer) error { _, _, err := f.AppendOnce(w, event("e1")); return err }
	if err := s.Update(t.Context(), once); err != nil {
		t.Fatal(err)
	}
	add(t, f, s, "e2", "e3")
	err := s.Update(t.Context(), func(w kv.Writer) error {
		return w.Put(onceTable.ID(), kv.Key{}.String("e1"), []byte("damaged"))
	})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := f.Trim(t.Context(), s, Retention{MaxEntries: 1}); n != 2 || err != nil {
		t.Errorf("trimmed %d, %v; want 2", n, err)
	}
	if err := s.Update(t.Context(), once); !unreadable(err) {
		t.Errorf("told again: %v, want the error of the row", err)
	}
}
