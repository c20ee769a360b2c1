package saga

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"onced/kv"
	"onced/kv/invariant"
	"onced/kv/memkv"
	"onced/saga/machine"
)

// shelf has runs of many kinds, and what is true of them.
type shelf struct {
	*till
	runs []*RunView // in the order of their ids
}

// fill starts n runs, of which some fail and some wait.
func (s *shelf) fill(n int, seed uint64) {
	s.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range n {
		s.plan["charge"] = [][]string{nil, nil, {"refused"}, {"dropped"}}[r.IntN(4)]
		s.plan["order"], s.plan["undo charge"] = nil, nil
		if r.IntN(8) == 0 {
			s.plan["order"], s.plan["undo charge"] = []string{"refused"}, []string{"retry=1h"}
		}
		req := StartRequest{Definition: []string{"pay", "take"}[r.IntN(2)],
			Principal: []string{"", "acme", "acm"}[r.IntN(3)],
			Key:       fmt.Sprint(r.IntN(n / 16)), Input: []byte(`{}`),
			Labels: map[string]string{"shop": fmt.Sprint(r.IntN(3)), "n": fmt.Sprint(i)}}
		if _, err := s.engine.StartRun(s.Context(), req); err != nil {
			s.Fatal(err)
		}
		settle()
		s.plan["charge"] = nil
		pass(time.Duration(r.IntN(3000)) * time.Millisecond)
	}
	s.runs = s.all(Query{Limit: 500})
	slices.SortFunc(s.runs, func(a, b *RunView) int { return slices.Compare([]byte(a.Run), []byte(b.Run)) })
}

// all reads all pages.
func (s *shelf) all(q Query) (out []*RunView) {
	s.Helper()
	for range 1000 {
		page, next, err := s.engine.List(s.Context(), q)
		if err != nil {
			s.Fatal(err)
		}
		if out = append(out, page...); next == "" {
			return out
		}
		q.Cursor = next
	}
	s.Fatal("the list has no end")
	return nil
}

func listed(runs []*RunView) (ids []string) {
	for _, v := range runs {
		ids = append(ids, v.Run)
	}
	return ids
}

func payAndTake(o *outside) []*Definition {
	var defs []*Definition
	for _, name := range []string{"pay", "take"} {
		defs = append(defs, New(name).Step("charge", o.act("charge"), o.undo("charge")).
			Step("order", o.act("order"), nil))
	}
	return defs
}

// Whatever is selected comes, whatever is not does not, in the order of time, by
// whichever index.
func TestListsSelectByEveryIndex(t *testing.T) {
	inTill(t, payAndTake, func(t *testing.T, in *till) {
		s := &shelf{till: in}
		s.fill(240, 7)
		r := rand.New(rand.NewPCG(8, 1))
		statuses := []machine.Status{machine.Running, machine.Completed, machine.Compensating,
			machine.Compensated, machine.Held, machine.Stuck, machine.Closed}
		seen, rounds := map[machine.Status]bool{}, 0
		for _, v := range s.runs {
			if seen[v.State.Status] = true; v.Round > 1 {
				rounds++
			}
		}
		if len(s.runs) < 60 || !seen[machine.Held] || !seen[machine.Compensated] ||
			!seen[machine.Completed] ||
			!seen[machine.Compensating] || rounds < 5 {
			t.Fatalf("%d runs, %v, %d of later rounds", len(s.runs), seen, rounds)
		}
		some := func(of ...string) string { return of[r.IntN(len(of))] }
		hits := 0
		for range 2000 {
			q := Query{Definition: some("", "", "pay", "none"), Principal: some("", "", "acme", "acm", "ac"),
				Limit: 1 + r.IntN(9)}
			if r.IntN(4) == 0 {
				q.Key = fmt.Sprint(r.IntN(20))
			}
			if r.IntN(3) == 0 {
				q.Label, q.Value = "shop", some("0", "1", "", "7")
			}
			for range r.IntN(3) {
				q.Statuses = append(q.Statuses, statuses[r.IntN(len(statuses))])
			}
			at := func() time.Time { return s.runs[r.IntN(len(s.runs))].Created }
			if r.IntN(4) == 0 {
				q.From = at()
			}
			if r.IntN(4) == 0 {
				q.To = at()
			}
			var want []string
			for _, v := range slices.Backward(s.runs) {
				stored := &run{def: v.Definition, principal: v.Principal, key: v.Key, created: v.Created,
					state: v.State, labels: sortedLabels(v.Labels)}
				if q.selects(stored) {
					want = append(want, v.Run)
				}
			}
			hits += len(want)
			if got := listed(s.all(q)); !slices.Equal(got, want) {
				t.Fatalf("%+v\n gives %v\n want %v", q, got, want)
			}
		}
		if hits < 1000 {
			t.Fatalf("only %d hits", hits)
		}
	})
}

// A list reads no more than what it looks for: rows of others are not seen.
func TestListsDoNotReadWhatIsNotSelected(t *testing.T) {
	s, e := engineOn(t, quickSteps("quick", nil))
	counted := &readStore{Store: s}
	for i := range 300 {
		req := StartRequest{Definition: "quick", Key: fmt.Sprint(i), Input: []byte(`{}`), Principal: "acme",
			Labels: map[string]string{"batch": fmt.Sprint(i / 100)}}
		if i == 5 {
			req.Principal, req.Labels = "globex", map[string]string{"batch": "rare"}
		}
		st, err := e.StartRun(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Wait(t.Context(), st.Run); err != nil {
			t.Fatal(err)
		}
	}
	e.store = counted
	for name, q := range map[string]Query{"label": {Label: "batch", Value: "rare"},
		"principal": {Principal: "globex"}, "key": {Key: "5"}, "definition": {Definition: "none"},
		"state": {Statuses: []machine.Status{machine.Held, machine.Running, machine.Closed}},
		"time":  {To: time.Unix(1, 0)}, "contradicted": {Contradicted: true}} {
		counted.rows = 0
		page, next, err := e.List(t.Context(), q)
		want := map[string]int{"label": 1, "principal": 1, "key": 1}[name]
		if err != nil || len(page) != want || next != "" || counted.rows > 4*want {
			t.Errorf("%s: %d runs, next %q, %d rows read, %v", name, len(page), next, counted.rows, err)
		}
	}
}

// readStore counts the rows that are read.
type readStore struct {
	kv.Store
	rows int
}

func (s *readStore) View(ctx context.Context, fn func(kv.Reader) error) error {
	return s.Store.View(ctx, func(rd kv.Reader) error { return fn(&readReader{rd, s}) })
}

type readReader struct {
	kv.Reader
	s *readStore
}

func (r *readReader) Get(t kv.TableID, key []byte) ([]byte, error) {
	r.s.rows++
	return r.Reader.Get(t, key)
}

func (r *readReader) Scan(t kv.TableID, in kv.Range) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		for x, err := range r.Reader.Scan(t, in) {
			if r.s.rows++; !yield(x, err) {
				return
			}
		}
	}
}

// denied starts n runs of two steps and denies the end of every second one, by a word about
// both steps.
func (s *shelf) denied(n int) (ids []string) {
	s.Helper()
	for i := range n {
		st, err := s.engine.StartRun(s.Context(), StartRequest{Definition: s.def().Name(), Principal: "acme",
			Key: fmt.Sprint(i), Input: []byte(`{}`)})
		if err != nil {
			s.Fatal(err)
		}
		settle()
		for _, refused := range []bool{false, true} {
			for _, step := range []string{"charge", "order"} {
				if !refused || i%2 == 0 {
					s.signal(st.Run, step, refused)
					settle()
				}
			}
		}
		if v := s.wantStatus(st.Run, machine.Completed); v.Contradictions != nil {
			ids = append(ids, st.Run)
		}
		pass(time.Second)
	}
	slices.Reverse(ids)
	return ids
}

// The runs whose end is denied are found, each once although there is a word for each of two
// steps, on pages of any size, also when another one is denied meanwhile.
func TestContradictedRunsAreListed(t *testing.T) {
	inTill(t, awaitTwice, func(t *testing.T, in *till) {
		s := &shelf{till: in}
		ids := s.denied(10)
		if len(ids) != 5 {
			t.Fatalf("%d runs are denied", len(ids))
		}
		for limit := range 6 {
			got := s.all(Query{Contradicted: true, Limit: limit})
			if !slices.Equal(listed(got), ids) || len(got[0].Contradictions) != 2 {
				t.Errorf("by %d: %v, want %v", limit, listed(got), ids)
			}
		}
		for name, q := range map[string]Query{"0": {Key: "4"}, "no": {Key: "5"}, "5": {Principal: "acme"},
			"none": {Principal: "globex"}, "open": {Statuses: []machine.Status{machine.Running}}} {
			want := map[string]int{"0": 1, "5": 5}[name]
			if q.Contradicted = true; len(s.all(q)) != want {
				t.Errorf("%s: %d runs, want %d", name, len(s.all(q)), want)
			}
		}
		plain := s.all(Query{Key: "4"})
		if len(plain) != 1 || plain[0].Contradictions["order"].Outcome != machine.OutcomeRefused {
			t.Errorf("another list does not tell of it: %+v", plain)
		}
		page, next, err := s.engine.List(t.Context(), Query{Contradicted: true, Limit: 2})
		if err != nil {
			t.Fatal(err)
		}
		s.signal(s.all(Query{Key: "9"})[0].Run, "charge", true) // the newest
		rest := s.all(Query{Contradicted: true, Limit: 2, Cursor: next})
		if got := append(listed(page), listed(rest)...); !slices.Equal(got, ids) {
			t.Errorf("with one more: %v, want %v", got, ids)
		}
	})
}

// What came after an instant is counted, whichever run it is about.
func TestContradictionsAreCounted(t *testing.T) {
	inTill(t, awaitTwice, func(t *testing.T, in *till) {
		s := &shelf{till: in}
		if n, last, err := s.engine.Contradicted(t.Context(), time.Time{}); n != 0 || !last.IsZero() ||
			err != nil {
			t.Fatal(n, last, err)
		}
		s.denied(4)
		n, last, err := s.engine.Contradicted(t.Context(), time.Time{})
		if n != 4 || err != nil {
			t.Fatal(n, err)
		}
		pass(time.Hour)
		now := time.Now()
		s.signal(s.all(Query{Key: "1"})[0].Run, "order", true) // an older run than the last that is denied
		n, newest, err := s.engine.Contradicted(t.Context(), last)
		if n != 1 || !newest.Equal(now) || err != nil {
			t.Errorf("%d, the last at %v, want one at %v, %v", n, newest, now, err)
		}
		if n, _, err := s.engine.Contradicted(t.Context(), newest); n != 0 || err != nil {
			t.Error(n, err)
		}
	})
}

func awaitTwice(o *outside) []*Definition {
	return []*Definition{New("pay").Step("charge", o.act("charge"), o.undo("charge"), AwaitSignal()).
		Step("order", o.act("order"), nil, AwaitSignal())}
}

// Two principals have two runs of one key, with keys of their own downstream.
func TestPrincipalsShareNoRun(t *testing.T) {
	inTill(t, payAndTake, func(t *testing.T, s *till) {
		var runs []string
		for _, p := range []string{"", "a", "b", "a\x00", "b"} {
			st, err := s.engine.StartRun(t.Context(), StartRequest{Definition: "pay", Principal: p, Key: "k",
				Input: fmt.Appendf(nil, `{"for":%q}`, p[:min(1, len(p))])})
			if err != nil || st.Joined != slices.Contains(runs, st.Run) {
				t.Fatalf("%q: %+v, %v", p, st, err)
			}
			runs = append(runs, st.Run)
		}
		settle()
		if s.wantLedger("charge=4 order=4"); runs[4] != runs[2] {
			t.Error(runs)
		}
		for i, p := range []string{"", "a", "b", "a\x00"} {
			v, err := s.engine.FindKey(t.Context(), RunKey{p, "pay", "k"})
			if err != nil || v.Run != runs[i] || v.Principal != p {
				t.Errorf("%q: %+v, %v", p, v, err)
			}
		}
		if _, err := s.engine.FindKey(t.Context(), RunKey{"c", "pay", "k"}); !errors.Is(err, ErrNoRun) {
			t.Error(err)
		}
	})
}

// What retention takes away is in no list any more, and what it leaves is.
func TestSweptRunsLeaveTheLists(t *testing.T) {
	inTill(t, payAndTake, func(t *testing.T, in *till) {
		s := &shelf{till: in}
		s.fill(60, 3)
		open := 0
		for _, v := range s.runs {
			if !v.State.Status.Terminal() {
				open++
			}
		}
		pass(31 * 24 * time.Hour)
		if n, err := s.engine.SweepRuns(t.Context(), 0); err != nil || n == 0 {
			t.Fatal(n, err)
		}
		left := s.all(Query{})
		rows := 0
		for _, err := range kv.Pages(t.Context(), s.store, listTable, kv.Range{}, 0) {
			if rows++; err != nil {
				t.Fatal(err)
			}
		}
		if len(left) == 0 || len(left) > open || rows > 6*len(left) {
			t.Errorf("%d runs left of %d that were open, %d rows", len(left), open, rows)
		}
		invariant.RequireNow(t, s.store, RunRules()...)
	})
}

// A commit fails, and the store stops. The program still shows the runs that are sure, and
// ends at once when it is told to: what is in doubt is known after a restart, not sooner.
func TestAStoreThatStopsShowsWhatIsSureAndHoldsNobodyUp(t *testing.T) {
	inTill(t, twoSteps(Timeout(time.Second)), func(t *testing.T, s *till) {
		sure := s.completed().Run
		s.plan["charge"] = []string{"hang"}
		st, err := s.engine.Start(s.Context(), s.def(), "order-2", theOrder)
		if err != nil {
			t.Fatal(err)
		}
		settle()
		other := memkv.Open(s.disk, memkv.Options{}) // nothing can be written any more
		pass(time.Minute)
		if _, err := s.engine.Get(s.Context(), st.Run); !errors.Is(err, kv.ErrCommitUnknown) {
			t.Fatalf("the run in doubt answers %v", err)
		}
		for name, q := range map[string]Query{"all": {}, "definition": {Definition: "pay"},
			"key": {Key: theOrder.ID}, "in doubt": {Key: "order-2"},
			"open": {Statuses: []machine.Status{machine.Running, machine.Held}}} {
			page, next, err := s.engine.List(s.Context(), q)
			want := map[string]int{"in doubt": 0, "open": 0}
			n, special := want[name]
			if !special {
				n = 1
			}
			if err != nil || next != "" || len(page) != n || n == 1 && page[0].Run != sure {
				t.Errorf("%s: %d runs, %q, %v", name, len(page), next, err)
			}
		}
		began := time.Now()
		s.stop()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the end took %v", took)
		}
		_ = other.Close()
		s.boot()
	})
}

// deadReads is a store that cannot be read.
type deadReads struct {
	kv.Store
	dead *atomic.Bool
}

func (d deadReads) View(ctx context.Context, fn func(kv.Reader) error) error {
	if d.dead.Load() {
		return errors.New("the disk does not answer")
	}
	return d.Store.View(ctx, fn)
}

// Who waits for the store to answer does not keep the program from ending.
func TestWhoLooksAgainEndsWithTheEngine(t *testing.T) {
	inTill(t, twoSteps(), func(t *testing.T, s *till) {
		s.stop()
		dead := &atomic.Bool{}
		s.wrap = func(st kv.Store) kv.Store { return deadReads{st, dead} }
		s.boot()
		id := s.completed().Run
		dead.Store(true)
		done := make(chan bool)
		go func() { s.engine.lookAgain(id); close(done) }()
		pass(time.Hour)
		select {
		case <-done:
			t.Error("it gave up")
		default:
		}
		s.stop()
		settle()
		select {
		case <-done:
		default:
			t.Error("it goes on")
		}
		s.boot()
		dead.Store(false)
	})
}
