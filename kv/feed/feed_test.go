package feed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"onced/kv"
	"onced/kv/faultkv"
	"onced/kv/group"
	"onced/kv/invariant"
	"onced/kv/kvtest/testclock"
	"onced/kv/memkv"
)

func newClock() *testclock.Clock { return testclock.At(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) }

// open returns a store whose closures run twice, whose rules are checked at the
// end, and a count of its commits.
func open(t testing.TB) (s *memkv.Store, c *testclock.Clock, commits func() int) {
	c = newClock()
	var mu sync.Mutex
	n := 0
	s = memkv.New(memkv.Options{Clock: c, Rerun: true, Observer: func(group.Commit) {
		mu.Lock()
		n++
		mu.Unlock()
	}})
	t.Cleanup(func() { s.Close() })
	invariant.Require(t, s, Rules()...)
	return s, c, func() int { mu.Lock(); defer mu.Unlock(); return n }
}

func event(id string) Event {
	return Event{ID: id, Type: "test.happened", Data: json.RawMessage(`{"n":1}`)}
}

// add appends events with the given ids in one transaction.
func add(t testing.TB, f *Feed, s kv.Store, ids ...string) (last uint64) {
	t.Helper()
	err := s.Update(t.Context(), func(w kv.Writer) error {
		for _, id := range ids {
			n, err := f.Append(w, event(id))
			if err != nil {
				return err
			}
			last = n
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return last
}

func numbered(from, to int) (ids []string) {
	for i := from; i <= to; i++ {
		ids = append(ids, fmt.Sprint("e", i))
	}
	return ids
}

func ids(events []Event) string {
	var out []string
	for _, e := range events {
		out = append(out, e.ID)
	}
	return strings.Join(out, " ")
}

func read(t testing.TB, f *Feed, s kv.Store, cursor string, limit int) Page {
	t.Helper()
	p, err := f.Read(t.Context(), s, cursor, limit)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAppendAndRead(t *testing.T) {
	s, c, _ := open(t)
	f := New(Config{Source: "/shop"})
	p := read(t, f, s, "", 10)
	if len(p.Events) != 0 || p.Next == "" || p.Head != 0 || p.More {
		t.Errorf("page of an empty log: %+v", p)
	}
	start := p.Next
	if last := add(t, f, s, numbered(1, 5)...); last != 5 {
		t.Errorf("last number is %d", last)
	}
	p = read(t, f, s, start, 2)
	if ids(p.Events) != "e1 e2" || p.Head != 5 || !p.More {
		t.Errorf("first page: %s, %+v", ids(p.Events), p)
	}
	p = read(t, f, s, p.Next, 3)
	if ids(p.Events) != "e3 e4 e5" || p.More {
		t.Errorf("second page: %s, %+v", ids(p.Events), p)
	}
	last := p.Next
	if p = read(t, f, s, last, 3); len(p.Events) != 0 || p.Next != last {
		t.Errorf("behind the head: %s, %+v", ids(p.Events), p)
	}
	ev := read(t, f, s, "", 1).Events[0]
	if ev.Source != "/shop" || !ev.Time.Equal(c.Now()) || ev.Seq != 1 || ev.Type != "test.happened" {
		t.Errorf("event is %+v", ev)
	}
	st, err := f.Status(t.Context(), s)
	if err != nil || st.Oldest != 1 || st.Head != 5 {
		t.Errorf("status %+v, %v", st, err)
	}
	if p := read(t, f, s, st.HeadCursor, 9); len(p.Events) != 0 {
		t.Errorf("behind the head cursor: %s", ids(p.Events))
	}
	if p := read(t, f, s, st.OldestCursor, 9); len(p.Events) != 5 {
		t.Errorf("behind the oldest cursor: %s", ids(p.Events))
	}
	newest, err := f.Latest(t.Context(), s, 0, 2)
	if err != nil || ids(newest) != "e5 e4" {
		t.Errorf("latest: %s, %v", ids(newest), err)
	}
	if newest, err = f.Latest(t.Context(), s, 4, 9); err != nil || ids(newest) != "e3 e2 e1" {
		t.Errorf("latest before 4: %s, %v", ids(newest), err)
	}
}

// The form of an event is that of encoding/json, byte for byte, whatever its fields hold.
func TestTheFormIsThatOfAnEnvelope(t *testing.T) {
	t.Parallel()
	at := time.Date(2025, 5, 6, 7, 8, 9, 0, time.UTC)
	texts := []string{"", "plain", "/a?b=c&d=<e>", "quo\"te", "back\\slash", "\x00\n\x1f\x7f",
		"é\u2028\u2029", "not \xff UTF-8", "\u0080 \U0001f600"}
	times := []time.Time{at, at.Add(1), at.Add(120 * time.Millisecond), time.Unix(0, 0), {},
		time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC), at.In(time.FixedZone("x", -5400))}
	data := []json.RawMessage{nil, {}, json.RawMessage(`null`),
		json.RawMessage(` {"a": [1.50, "<&>\u2028"] } `)}
	for i := range 10_000 {
		pick := func(n int) int { return int(uint32(i)*2654435761>>8) / n }
		text := func(n int) string { return texts[pick(n)%len(texts)] }
		ev := Event{ID: text(1), Source: text(9), Type: text(81), Subject: text(729), Seq: uint64(i * i),
			Time: times[pick(3)%len(times)], Data: data[pick(5)%len(data)]}
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		err := enc.Encode(envelope{"1.0", ev.ID, ev.Source, ev.Type, ev.Subject, ev.Time.UTC(), ev.Data,
			ev.Seq})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ev.MarshalJSON(); err != nil || string(got)+"\n" != want.String() {
			t.Fatalf("%+v is\n%s, %v, want\n%s", ev, got, err, want.String())
		}
	}
	for _, ev := range []Event{{Data: json.RawMessage(`{`)}, {Data: json.RawMessage(`1 2`)},
		{Time: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}} {
		if got, err := ev.MarshalJSON(); err == nil {
			t.Errorf("%+v has the form %s", ev, got)
		}
	}
}

func TestBytesAreFrozen(t *testing.T) {
	s, _, _ := open(t)
	f := New(Config{})
	in := Event{ID: "a", Type: "x.y", Subject: "<é&>",
		Time: time.Date(2025, 5, 6, 7, 8, 9, 1e6, time.FixedZone("", 3600)),
		Data: json.RawMessage(" { \"a\" : \"<b>&\", \"n\":0.10000000 } ")}
	err := s.Update(t.Context(), func(w kv.Writer) error {
		_, err := f.Append(w, in)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"specversion":"1.0","id":"a","source":"/onced","type":"x.y","subject":"<é&>",` +
		`"time":"2025-05-06T06:08:09.001Z","data":{"a":"<b>&","n":0.10000000},"seq":1}`
	ev := read(t, f, s, "", 1).Events[0]
	if string(ev.JSON()) != want {
		t.Errorf("bytes are\n%s, want\n%s", ev.JSON(), want)
	}
	again, err := ev.MarshalJSON()
	if err != nil || string(again) != want {
		t.Errorf("MarshalJSON is %s, %v", again, err)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(ev); err != nil || out.String() != want+"\n" {
		t.Errorf("encoded as %s, %v", out.String(), err)
	}
	var back Event
	more := strings.Replace(want, `"seq"`, `"unknown":[1],"seq"`, 1)
	if err := json.Unmarshal([]byte(more), &back); err != nil {
		t.Fatal(err)
	}
	if back.Seq != 1 || back.Subject != in.Subject || !back.Time.Equal(in.Time) {
		t.Errorf("came back as %+v", back)
	}
	for _, bad := range []string{
		`{}`, `[]`, `{"specversion":"0.3","id":"a","source":"/","type":"t"}`,
		`{"specversion":"1.0","id":"","source":"/","type":"t"}`,
		`{"specversion":"1.0","id":"a","source":"/","type":"t","seq":-1}`,
	} {
		if err := json.Unmarshal([]byte(bad), &back); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

func TestBadEventsAreRefusedAndNamed(t *testing.T) {
	s, _, _ := open(t)
	f := New(Config{})
	with := func(change func(*Event)) Event {
		e := event("id")
		change(&e)
		return e
	}
	for _, c := range []struct {
		field string
		ev    Event
	}{
		{"id", with(func(e *Event) { e.ID = "" })},
		{"id", with(func(e *Event) { e.ID = strings.Repeat("x", MaxID+1) })},
		{"id", with(func(e *Event) { e.ID = "a\nb" })},
		{"id", with(func(e *Event) { e.ID = "a\xff" })},
		{"type", with(func(e *Event) { e.Type = "" })},
		{"source", with(func(e *Event) { e.Source = "http://[bad" })},
		{"subject", with(func(e *Event) { e.Subject = "a\x00" })},
		{"time", with(func(e *Event) { e.Time = time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC) })},
		{"time", with(func(e *Event) { e.Time = newClock().Now().Add(48*time.Hour + 1) })},
		{"time", with(func(e *Event) { e.Time = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) })},
		{"data", with(func(e *Event) { e.Data = json.RawMessage(`{"a":`) })},
		{"data", with(func(e *Event) { e.Data = json.RawMessage(`{} {}`) })},
		{"data", with(func(e *Event) { e.Data = json.RawMessage{} })},
		{"data", with(func(e *Event) { e.Data = json.RawMessage("\"\xff\"") })},
		{"data", with(func(e *Event) { e.Data = json.RawMessage(`"` + strings.Repeat("x", MaxData) + `"`) })},
	} {
		err := s.Update(t.Context(), func(w kv.Writer) error {
			_, err := f.Append(w, c.ev)
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "event "+c.field) {
			t.Errorf("bad %s: %v", c.field, err)
		}
		var limit *kv.LimitError
		if errors.As(err, &limit) && !strings.Contains(err.Error(), fmt.Sprint(limit.Limit)) {
			t.Errorf("%v does not print the limit", err)
		}
	}
	// Every time that is taken is one that the rules take.
	for _, at := range []time.Time{time.Unix(0, 0), newClock().Now().Add(48 * time.Hour)} {
		e := with(func(e *Event) { e.Time = at })
		err := s.Update(t.Context(), func(w kv.Writer) error { _, err := f.Append(w, e); return err })
		if err != nil {
			t.Errorf("time %v: %v", at, err)
		}
	}
	biggest := event("big")
	biggest.Data = json.RawMessage(`"` + strings.Repeat("x", MaxData-2) + `"`)
	err := s.Update(t.Context(), func(w kv.Writer) error { _, err := f.Append(w, biggest); return err })
	if err != nil {
		t.Error(err)
	}
}

func TestDerivedID(t *testing.T) {
	const want = "dep:eip155%3A1:0xab:0:1:confirmed"
	if got := DerivedID("dep", "eip155:1", "0xab", "0", "1", "confirmed"); got != want {
		t.Errorf("id is %s", got)
	}
	seen := map[string][]string{}
	for _, parts := range [][]string{
		{"a", "b"}, {"a:b"}, {"a%3Ab"}, {"a", "", "b"}, {"", "a", "b"}, {"a", "b", ""},
		{"a b"}, {"a%20b"}, {"a\nb"}, {"é"}, {"%C3%A9"},
	} {
		id := DerivedID(parts...)
		if other, ok := seen[id]; ok {
			t.Errorf("%q and %q both have the id %s", parts, other, id)
		}
		seen[id] = parts
		if err := checkName("id", id, MaxID); err != nil {
			t.Error(err)
		}
	}
}

func FuzzDerivedID(f *testing.F) {
	f.Add("a", "b", "a:b", "")
	f.Add("%", "3A", ":", "")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		if x, y := DerivedID(a, b), DerivedID(c, d); (x == y) != (a == c && b == d) {
			t.Fatalf("(%q,%q) is %s, (%q,%q) is %s", a, b, x, c, d, y)
		}
		if DerivedID(a, b) == DerivedID(c) || DerivedID(a) == DerivedID(c, d) {
			t.Fatalf("two parts equal one: %q %q %q %q", a, b, c, d)
		}
	})
}

func TestAppendTakesAnIDTwiceAndAppendOnceDoesNot(t *testing.T) {
	s, _, _ := open(t)
	f := New(Config{})
	add(t, f, s, "a", "a")
	if p := read(t, f, s, "", 9); ids(p.Events) != "a a" || p.Events[1].Seq != 2 {
		t.Errorf("the log is %s", ids(p.Events))
	}
	once := func(e Event) (seq uint64, added bool, err error) {
		err = s.Update(t.Context(), func(w kv.Writer) error {
			n, a, err := f.AppendOnce(w, e)
			seq, added = n, a
			return err
		})
		return seq, added, err
	}
	if seq, added, err := once(event("b")); err != nil || !added || seq != 3 {
		t.Errorf("first: %d, %v, %v", seq, added, err)
	}
	later := event("b")
	later.Time = time.Date(2026, 8, 9, 0, 0, 0, 0, time.UTC)
	later.Data = json.RawMessage(` { "n" : 1 }`)
	if seq, added, err := once(later); err != nil || added || seq != 3 {
		t.Errorf("second: %d, %v, %v", seq, added, err)
	}
	for _, change := range []func(*Event){
		func(e *Event) { e.Type = "other" }, func(e *Event) { e.Subject = "other" },
		func(e *Event) { e.Data = json.RawMessage(`{"n":2}`) },
	} {
		e := event("b")
		change(&e)
		if _, _, err := once(e); !errors.Is(err, ErrIDReused) {
			t.Errorf("another fact of the same id: %v", err)
		}
	}
	if _, err := f.Trim(t.Context(), s, Retention{MaxEntries: 0, MaxAge: time.Nanosecond}); err != nil {
		t.Fatal(err)
	}
}

func TestGaplessUnderConcurrentAppendsAndFailures(t *testing.T) {
	s, _, _ := open(t)
	f := New(Config{})
	boom := errors.New("boom")
	var wg sync.WaitGroup
	var mu sync.Mutex
	want := map[string]bool{}
	for g := range 8 {
		wg.Go(func() {
			for i := range 50 {
				id := fmt.Sprintf("%d-%d", g, i)
				var seq uint64
				func() {
					defer func() { recover() }()
					err := s.Update(t.Context(), func(w kv.Writer) error {
						n, err := f.Append(w, event(id))
						if err != nil {
							return err
						}
						switch i % 5 {
						case 1:
							return boom
						case 3:
							panic(boom)
						case 4: // two events of one cause
							if n, err = f.Append(w, event(id+"b")); err != nil {
								return err
							}
						}
						seq = n
						return nil
					})
					if err == nil {
						mu.Lock()
						want[fmt.Sprintf("%d:%s", seq, id)] = true
						mu.Unlock()
					} else if !errors.Is(err, boom) {
						t.Error(err)
					}
				}()
			}
		})
	}
	wg.Wait()
	cursor, n := "", uint64(0)
	for {
		p := read(t, f, s, cursor, 7)
		for _, e := range p.Events {
			if n++; e.Seq != n {
				t.Fatalf("number %d follows %d", e.Seq, n-1)
			}
			delete(want, fmt.Sprintf("%d:%s", e.Seq, strings.TrimSuffix(e.ID, "b")))
		}
		if cursor = p.Next; !p.More {
			break
		}
	}
	if n != 8*(10+10+2*10) {
		t.Errorf("the log has %d entries", n)
	}
	if len(want) > 0 {
		t.Errorf("acknowledged and not in the log: %v", want)
	}
}

// consumer applies events in a store of its own, with the cursor in the same
// transaction. That is what makes it exactly once.
type consumer struct {
	feed  *Feed
	log   kv.Store
	own   kv.Store
	limit int
}

// step consumes one page; fail makes its transaction fail after the effects.
func (c consumer) step(ctx context.Context, fail error) (n int, err error) {
	var cursor []byte
	err = c.own.View(ctx, func(rd kv.Reader) error {
		v, err := rd.Get("cursor", []byte("c"))
		cursor = v
		return err
	})
	if err != nil {
		return 0, err
	}
	p, err := c.feed.Read(ctx, c.log, string(cursor), c.limit)
	if err != nil {
		return 0, err
	}
	return len(p.Events), c.own.Update(ctx, func(w kv.Writer) error {
		for _, e := range p.Events {
			old, err := w.Get("effect", []byte(e.ID))
			if err != nil {
				return err
			}
			if err := w.Put("effect", []byte(e.ID), append(old, 'x')); err != nil {
				return err
			}
		}
		if err := w.Put("cursor", []byte("c"), []byte(p.Next)); err != nil {
			return err
		}
		return fail
	})
}

func effects(t *testing.T, s kv.Store) map[string]int {
	t.Helper()
	out := map[string]int{}
	for e, err := range kv.Pages(t.Context(), s, "effect", kv.Range{}, 0) {
		if err != nil {
			t.Fatal(err)
		}
		out[string(e.Key)] = len(e.Value)
	}
	return out
}

func TestXS03_ConsumerDiesAndResumesWithoutGapOrDouble(t *testing.T) {
	s, _, _ := open(t)
	f := New(Config{})
	own := memkv.New(memkv.Options{})
	defer own.Close()
	crash := errors.New("killed before the commit")
	c := consumer{f, s, own, 3}
	written := 0
	for round := range 20 {
		for range round % 4 {
			written++
			add(t, f, s, fmt.Sprint("e", written))
		}
		if _, err := c.step(t.Context(), crash); !errors.Is(err, crash) {
			t.Fatal(err)
		}
		if round%3 == 0 {
			c.feed = New(Config{}) // a new process
		}
		if _, err := c.step(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	for {
		n, err := c.step(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	got := effects(t, own)
	for i := 1; i <= written; i++ {
		if id := fmt.Sprint("e", i); got[id] != 1 {
			t.Errorf("%s was applied %d times", id, got[id])
		}
	}
	if len(got) != written {
		t.Errorf("%d effects of %d events", len(got), written)
	}
}

// The producer and the consumer each commit; the process dies before, in and
// after every one of these commits.
func TestXS02_KilledAtEveryCommitEachEventIsAppliedOnce(t *testing.T) {
	run := func(s *faultkv.Store, f *Feed) error {
		var done bool
		for i := range 4 { // each cause happens once, with its event
			err := s.Update(context.Background(), func(w kv.Writer) error {
				key := []byte{byte('a' + i)}
				old, err := w.Get("cause", key)
				if err != nil || old != nil {
					return err
				}
				if err := w.Put("cause", key, []byte{1}); err != nil {
					return err
				}
				_, err = f.Append(w, event(string(key)))
				return err
			})
			if err != nil {
				return err
			}
			if _, err := (consumer{f, s, s, 1}).step(context.Background(), nil); err != nil {
				return err
			}
		}
		for !done {
			n, err := consumer{f, s, s, 2}.step(context.Background(), nil)
			if err != nil {
				return err
			}
			done = n == 0
		}
		return nil
	}
	rec := faultkv.New(memkv.New(memkv.Options{}))
	if err := run(rec, New(Config{})); err != nil {
		t.Fatal(err)
	}
	plans := faultkv.Plans(rec.Points())
	t.Logf("%d commits, %d plans", len(rec.Points()), len(plans))
	if len(rec.Points()) < 9 {
		t.Fatalf("the list of commits shrank to %d", len(rec.Points()))
	}
	for _, plan := range plans {
		disk := memkv.NewDisk()
		s := faultkv.New(memkv.Open(disk, memkv.Options{}), plan)
		first := run(s, New(Config{}))
		if s.Crashed() {
			<-s.Down()
		}
		after := faultkv.New(memkv.Open(disk, memkv.Options{}))
		if err := run(after, New(Config{})); err != nil {
			t.Fatalf("%s: %v", plan, err)
		}
		got := effects(t, after)
		for i := range 4 {
			if id := string(rune('a' + i)); got[id] != 1 {
				t.Errorf("%s (%v): %s was applied %d times", plan, first, id, got[id])
			}
		}
		invariant.RequireNow(t, after, Rules()...)
	}
}

func TestCursorOlderThanRetentionIsGone(t *testing.T) {
	s, _, _ := open(t)
	f := New(Config{})
	start := read(t, f, s, "", 1).Next
	add(t, f, s, numbered(1, 10)...)
	two := read(t, f, s, start, 2).Next
	four := read(t, f, s, start, 4).Next
	if n, err := f.Trim(t.Context(), s, Retention{MaxEntries: 6}); err != nil || n != 4 {
		t.Fatalf("trimmed %d, %v", n, err)
	}
	for cursor, missed := range map[string]uint64{start: 4, two: 2} {
		var gone *GoneError
		if _, err := f.Read(t.Context(), s, cursor, 9); !errors.As(err, &gone) {
			t.Fatalf("error is %v", err)
		}
		if gone.Missed() != missed || gone.Oldest != 5 ||
			!strings.Contains(gone.Error(), fmt.Sprint(missed, " entries")) {
			t.Errorf("%v: %+v, want %d missed", gone, gone, missed)
		}
		if p := read(t, f, s, gone.Cursor, 2); ids(p.Events) != "e5 e6" {
			t.Errorf("the oldest cursor reads %s", ids(p.Events))
		}
	}
	if p := read(t, f, s, four, 2); ids(p.Events) != "e5 e6" {
		t.Errorf("the cursor just before the oldest reads %s", ids(p.Events))
	}
	if p := read(t, f, s, "", 1); ids(p.Events) != "e5" {
		t.Errorf("no cursor reads %s", ids(p.Events))
	}
}

func conflict(t *testing.T, f *Feed, s kv.Store, cursor string, kind Conflict) string {
	t.Helper()
	_, err := f.Read(t.Context(), s, cursor, 9)
	var c *ConflictError
	if !errors.As(err, &c) {
		t.Fatalf("error is %v, want a conflict", err)
	}
	if c.Kind != kind {
		t.Errorf("kind is %s, want %s", c.Kind, kind)
	}
	return c.Resume
}

func TestXS05_AfterARestoreEachCursorSaysHowToGoOn(t *testing.T) {
	lost, _, _ := open(t)
	f := New(Config{Rand: bytes.NewReader(bytes.Repeat([]byte{7}, 1000))})
	add(t, f, lost, numbered(1, 8)...)
	at := func(n int) string { return read(t, f, lost, "", n).Next }

	// The copy was taken after e5; then other things happened. Every closure runs
	// twice, and so reads Rand twice.
	restored, _, _ := open(t)
	random := append(bytes.Repeat([]byte{7}, 2*epochSize), bytes.Repeat([]byte{9}, 1000)...)
	g := New(Config{Rand: bytes.NewReader(random)})
	add(t, g, restored, numbered(1, 5)...)
	if p := read(t, g, restored, at(3), 9); ids(p.Events) != "e4 e5" {
		t.Fatalf("the two histories are not one: %s", ids(p.Events))
	}
	if err := restored.Update(t.Context(), g.NewEpoch); err != nil {
		t.Fatal(err)
	}
	add(t, g, restored, "x6", "x7")
	for n, want := range map[int]string{
		3: "e4 e5 x6 x7",          // before the copy: goes on where it was
		5: "x6 x7",                // at the copy
		6: "e1 e2 e3 e4 e5 x6 x7", // another entry is there: all again
		8: "e1 e2 e3 e4 e5 x6 x7", // ahead
	} {
		resume := conflict(t, g, restored, at(n), ConflictEpoch)
		if p := read(t, g, restored, resume, 9); ids(p.Events) != want {
			t.Errorf("cursor at %d resumes with %s, want %s", n, ids(p.Events), want)
		}
	}
	// Without the new epoch, the numbers alone give it away.
	same, _, _ := open(t)
	h := New(Config{Rand: bytes.NewReader(bytes.Repeat([]byte{7}, 1000))})
	add(t, h, same, numbered(1, 5)...)
	add(t, h, same, "y6")
	conflict(t, h, same, at(6), ConflictEntry)
	resume := conflict(t, h, same, at(8), ConflictAhead)
	if p := read(t, h, same, resume, 1); ids(p.Events) != "e1" {
		t.Errorf("resumes with %s", ids(p.Events))
	}
	// A restored copy that had been trimmed.
	if _, err := g.Trim(t.Context(), restored, Retention{MaxEntries: 3}); err != nil {
		t.Fatal(err)
	}
	for n, missed := range map[int]uint64{2: 2, 4: 0} {
		resume := conflict(t, g, restored, at(n), ConflictEpoch)
		if p := read(t, g, restored, resume, 9); ids(p.Events) != "e5 x6 x7" {
			t.Errorf("cursor at %d resumes with %s", n, ids(p.Events))
		}
		_, err := g.Read(t.Context(), restored, at(n), 1)
		c, _ := errors.AsType[*ConflictError](err)
		told := strings.Contains(err.Error(), "2 of them unread")
		if removed := missed * 2; c.Missed != missed || c.Removed != removed || told != (missed > 0) {
			t.Errorf("cursor at %d: %+v, %v; want %d missed of %d", n, c, err, missed, removed)
		}
	}
	// One that is ahead, or where another entry is: what it has seen is not known.
	for _, n := range []int{6, 8} {
		_, err := g.Read(t.Context(), restored, at(n), 1)
		if c, _ := errors.AsType[*ConflictError](err); c.Missed != 0 || c.Removed != 4 {
			t.Errorf("cursor at %d: %+v, want 4 removed", n, c)
		}
	}
}

func TestCursorOfAnotherStoreOnAnEmptyLog(t *testing.T) {
	full, _, _ := open(t)
	empty, _, _ := open(t)
	f := New(Config{})
	add(t, f, full, "a")
	resume := conflict(t, f, empty, read(t, f, full, "", 1).Next, ConflictEpoch)
	if p := read(t, f, empty, resume, 1); len(p.Events) != 0 {
		t.Error("an empty log has events")
	}
	add(t, f, empty, "b")
	if p := read(t, f, empty, resume, 1); ids(p.Events) != "b" {
		t.Errorf("resumes with %s", ids(p.Events))
	}
	if err := memkvEmpty(t).Update(t.Context(), f.NewEpoch); err != nil {
		t.Errorf("a new epoch of an empty log: %v", err)
	}
}

func memkvEmpty(t *testing.T) kv.Store { s, _, _ := open(t); return s }

func TestGarbageIsNoCursor(t *testing.T) {
	s, _, _ := open(t)
	f := New(Config{})
	add(t, f, s, "a")
	good := read(t, f, s, "", 1).Next
	for _, bad := range []string{
		" ", "0", "1", "head", good + "=", good + "A", good[1:], " " + good, strings.ToLower(good) + "é",
		strings.Repeat("A", len(good)-1) + "B", "_" + good[1:], strings.Repeat("!", len(good)),
		good[:len(good)-1] + "\n",
		strings.Repeat("A", 1<<20),
	} {
		var e *CursorError
		_, err := f.Read(t.Context(), s, bad, 1)
		if !errors.As(err, &e) || !strings.Contains(err.Error(), "cursor") || len(err.Error()) > 300 {
			t.Errorf("%.60q: %v", bad, err)
		}
	}
}

func FuzzCursor(f *testing.F) {
	s := memkv.New(memkv.Options{Clock: newClock()})
	defer s.Close()
	fd := New(Config{})
	f.Add("")
	f.Add("head")
	f.Add(position{}.encode())
	add(f, fd, s, numbered(1, 20)...)
	if _, err := fd.Trim(f.Context(), s, Retention{MaxEntries: 15}); err != nil {
		f.Fatal(err)
	}
	f.Add(read(f, fd, s, "", 3).Next)
	f.Add(read(f, fd, s, "", 30).Next)
	f.Fuzz(func(t *testing.T, cursor string) {
		p, err := fd.Read(t.Context(), s, cursor, 5)
		var bad *CursorError
		var gone *GoneError
		var other *ConflictError
		switch {
		case err == nil:
			pos, err := parseCursor(cursor)
			if cursor != "" && (err != nil || pos.encode() != cursor) {
				t.Fatalf("%q is a second text of %v, %v", cursor, pos, err)
			}
			if cursor != "" && len(p.Events) > 0 && p.Events[0].Seq != pos.seq+1 {
				t.Fatalf("%q reads from %d", cursor, p.Events[0].Seq)
			}
		case errors.As(err, &gone):
			read(t, fd, s, gone.Cursor, 1)
		case errors.As(err, &other):
			read(t, fd, s, other.Resume, 1)
		case !errors.As(err, &bad):
			t.Fatalf("%q: %v", cursor, err)
		}
	})
}

func TestTrim(t *testing.T) {
	s, c, commits := open(t)
	f := New(Config{})
	if n, err := f.Trim(t.Context(), s, Retention{MaxAge: time.Second}); n != 0 || err != nil {
		t.Fatalf("trimmed an empty log: %d, %v", n, err)
	}
	for _, id := range numbered(1, 4) {
		err := s.Update(t.Context(), func(w kv.Writer) error {
			_, _, err := f.AppendOnce(w, event(id))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		c.Add(time.Hour)
	}
	was := commits()
	for _, keep := range []Retention{
		{}, {MaxAge: 5 * time.Hour}, {MaxEntries: 4}, {MaxAge: time.Nanosecond, KeepFrom: 1}, {KeepFrom: 3},
	} {
		if n, err := f.Trim(t.Context(), s, keep); n != 0 || err != nil {
			t.Errorf("%+v removed %d, %v", keep, n, err)
		}
	}
	if commits() != was {
		t.Errorf("trimming nothing made %d commits", commits()-was)
	}
	// e1 is 4 hours old.
	keep := Retention{MaxAge: 150 * time.Minute, KeepFrom: 2}
	if n, err := f.Trim(t.Context(), s, keep); n != 1 || err != nil {
		t.Errorf("removed %d, %v", n, err)
	}
	if n, err := f.Trim(t.Context(), s, Retention{MaxEntries: 1, Batch: 1}); n != 1 || err != nil {
		t.Errorf("removed %d, %v", n, err)
	}
	if p := read(t, f, s, "", 9); ids(p.Events) != "e3 e4" {
		t.Errorf("left are %s", ids(p.Events))
	}
	if n, err := f.Trim(t.Context(), s, Retention{MaxAge: 1}); n != 2 || err != nil {
		t.Errorf("removed %d, %v", n, err)
	}
	p := read(t, f, s, "", 9)
	if len(p.Events) != 0 || p.Head != 4 {
		t.Errorf("a log trimmed to nothing: %+v", p)
	}
	add(t, f, s, "e5")
	if p = read(t, f, s, p.Next, 9); ids(p.Events) != "e5" || p.Events[0].Seq != 5 {
		t.Errorf("after it: %s", ids(p.Events))
	}
	// The index went with the entries, so the id is free.
	err := s.Update(t.Context(), func(w kv.Writer) error {
		_, added, err := f.AppendOnce(w, event("e1"))
		if err == nil && !added {
			return errors.New("the id is still taken")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memkv.New(memkv.Options{})
		defer s.Close()
		f := New(Config{MaxSubscribers: 2})
		type result struct {
			p   Page
			err error
		}
		wait := func(ctx context.Context, cursor string) <-chan result {
			out := make(chan result, 1)
			go func() {
				p, err := f.Wait(ctx, s, cursor, 0)
				out <- result{p, err}
			}()
			synctest.Wait()
			return out
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		a, b := wait(ctx, ""), wait(ctx, "")
		var limit *kv.LimitError
		if r := <-wait(ctx, ""); !errors.As(r.err, &limit) || limit.Limit != 2 {
			t.Errorf("a third waiter: %v", r.err)
		}
		boom := errors.New("boom")
		err := s.Update(ctx, func(w kv.Writer) error {
			if _, err := f.Append(w, event("never")); err != nil {
				return err
			}
			return boom
		})
		synctest.Wait()
		if len(a) != 0 || !errors.Is(err, boom) {
			t.Error("a rolled back append woke a reader")
		}
		add(t, f, s, "e1", "e2")
		for _, c := range []<-chan result{a, b} {
			if r := <-c; r.err != nil || ids(r.p.Events) != "e1 e2" {
				t.Errorf("woken with %s, %v", ids(r.p.Events), r.err)
			}
		}
		next := read(t, f, s, "", 0).Next
		r := <-wait(ctx, next) // the bubble's clock moves to the end of ctx
		if r.err != nil || len(r.p.Events) != 0 || r.p.Next != next {
			t.Errorf("after the time-out: %+v", r)
		}
	})
}

func TestWakeUpsCoalesce(t *testing.T) {
	s, _, _ := open(t)
	f := New(Config{})
	sub, err := f.Subscribe()
	if err != nil {
		t.Fatal(err)
	}
	add(t, f, s, "a", "b")
	add(t, f, s, "c")
	<-sub.C()
	select {
	case <-sub.C():
		t.Error("woken twice for what one look finds")
	default:
	}
	err = s.Update(t.Context(), func(w kv.Writer) error {
		_, err := f.Append(w, event("d"))
		if len(sub.C()) != 0 {
			t.Error("woken before the commit")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	<-sub.C()
	sub.Close()
	sub.Close()
	add(t, f, s, "e")
	if len(sub.C()) != 0 {
		t.Error("woken after Close")
	}
}

func TestPagesAreBoundedInBytes(t *testing.T) {
	s, _, _ := open(t)
	f := New(Config{})
	big := json.RawMessage(`"` + strings.Repeat("x", MaxData-2) + `"`)
	for i := range 20 {
		err := s.Update(t.Context(), func(w kv.Writer) error {
			_, err := f.Append(w, Event{ID: fmt.Sprint(i), Type: "t", Data: big})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	cursor, total, pages := "", 0, 0
	for more := true; more; pages++ {
		p := read(t, f, s, cursor, MaxLimit)
		if len(p.Events) == 0 || len(p.Events) > 16 {
			t.Fatalf("a page has %d events", len(p.Events))
		}
		total, cursor, more = total+len(p.Events), p.Next, p.More
	}
	if total != 20 || pages != 2 {
		t.Errorf("%d events on %d pages", total, pages)
	}
}

func TestMoreThanMaxLimitGivesThatMany(t *testing.T) {
	s, _, _ := open(t)
	f := New(Config{})
	add(t, f, s, numbered(1, MaxLimit+1)...)
	for limit, want := range map[int]int{0: DefaultLimit, -1: DefaultLimit,
		MaxLimit: MaxLimit, math.MaxInt: MaxLimit} {
		if p := read(t, f, s, "", limit); len(p.Events) != want {
			t.Errorf("a page of %d has %d events, want %d", limit, len(p.Events), want)
		}
		if got, err := f.Latest(t.Context(), s, 0, limit); err != nil || len(got) != want {
			t.Errorf("the latest %d are %d, %v; want %d", limit, len(got), err, want)
		}
	}
}

// damage is a way to break a log of the entries 3 to 300, and the rule that sees it.
type damage struct {
	name, rule string
	harm       func(w kv.Writer) error
}

func damages() []damage {
	drop := func(seq uint64) func(kv.Writer) error {
		return func(w kv.Writer) error { return entryTable.Delete(w, entryKey(seq)) }
	}
	rewrite := func(from, to uint64, change func(*entry)) func(kv.Writer) error {
		return func(w kv.Writer) error {
			e, _, err := entryTable.Get(w, entryKey(from))
			if err != nil {
				return err
			}
			change(&e)
			return entryTable.Put(w, entryKey(to), e)
		}
	}
	index := func(id string, seq uint64) func(kv.Writer) error {
		return func(w kv.Writer) error { return onceTable.Put(w, kv.Key{}.String(id), onceRow{Seq: seq}) }
	}
	raw := func(key, value string) func(kv.Writer) error {
		return func(w kv.Writer) error { return w.Put(entryTable.ID(), []byte(key), []byte(value)) }
	}
	same := func(*entry) {}
	const log, once = "feed.gapless", "feed.once"
	return []damage{
		{"hole", log, drop(250)},
		{"no oldest", log, drop(3)},
		{"no head", log, drop(300)},
		{"no meta", log, func(w kv.Writer) error { return metaTable.Delete(w, metaKey) }},
		{"trimmed entry left", log, rewrite(3, 1, same)},
		{"beyond the head", log, rewrite(3, 301, same)},
		{"other id", log, rewrite(7, 7, func(e *entry) { e.ID = "x" })},
		{"no bytes", log, rewrite(7, 7, func(e *entry) { e.Body = nil })},
		{"bad row", log, raw(string(entryKey(9)), "?")},
		{"bad key", log, raw("\x09", "?")},
		{"absurd time", log, rewrite(7, 7, func(e *entry) { e.At -= int64(1000 * time.Hour) })},
		{"epoch", log, func(w kv.Writer) error {
			m, _, err := metaTable.Get(w, metaKey)
			m.Epoch = nil
			return errors.Join(err, metaTable.Put(w, metaKey, m))
		}},
		{"id leads nowhere", once, index("q", 999)},
		{"id leads astray", once, index("q", 9)},
	}
}

func TestRulesSeeDamage(t *testing.T) {
	for _, c := range damages() {
		t.Run(c.name, func(t *testing.T) {
			s := memkv.New(memkv.Options{Clock: newClock()})
			defer s.Close()
			f := New(Config{})
			add(t, f, s, numbered(1, 300)...)
			if _, err := f.Trim(t.Context(), s, Retention{MaxEntries: 298}); err != nil {
				t.Fatal(err)
			}
			invariant.RequireNow(t, s, Rules()...)
			if err := s.Update(t.Context(), c.harm); err != nil {
				t.Fatal(err)
			}
			rep, err := invariant.Check(t.Context(), s, Rules()...)
			if err != nil {
				t.Fatal(err)
			}
			if rep.OK() {
				t.Fatal("the rules see nothing")
			}
			for _, v := range rep.Violations {
				if v.Rule != c.rule {
					t.Errorf("%s reports %s", v.Rule, v)
				}
			}
			readUntilError(t, f, s, 2)
		})
	}
}

// readUntilError reads a damaged log: a reader may stop at the damage, and never
// reads on behind it.
func readUntilError(t *testing.T, f *Feed, s kv.Store, n uint64) {
	t.Helper()
	cursor := ""
	for {
		p, err := f.Read(t.Context(), s, cursor, 50)
		if err != nil {
			return
		}
		for _, e := range p.Events {
			if n++; e.Seq != n {
				t.Fatalf("a reader was given %d after %d", e.Seq, n-1)
			}
		}
		if cursor = p.Next; !p.More {
			return
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, per := range []int{1, 100} {
		b.Run(fmt.Sprintf("events=%d", per), func(b *testing.B) {
			s := memkv.New(memkv.Options{})
			defer s.Close()
			f := New(Config{})
			for i := 0; b.Loop(); i++ {
				err := s.Update(b.Context(), func(w kv.Writer) error {
					for j := range per {
						if _, err := f.Append(w, event(fmt.Sprint(i, "-", j))); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*per)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func BenchmarkRead(b *testing.B) {
	s := memkv.New(memkv.Options{})
	defer s.Close()
	f := New(Config{})
	for i := range 10 {
		add(b, f, s, numbered(i*1000, i*1000+999)...)
	}
	for b.Loop() {
		if p := read(b, f, s, "", 100); len(p.Events) != 100 {
			b.Fatal(len(p.Events))
		}
	}
	b.ReportMetric(float64(b.N*100)/b.Elapsed().Seconds(), "events/s")
}
