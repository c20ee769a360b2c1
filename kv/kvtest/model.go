package kvtest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"onced/kv"
)

var modelTests = []namedTest{
	{"Model/OneCaller", testModelOneCaller},
	{"Model/ManyCallers", testModelManyCallers},
}

// FuzzModel lets the fuzzer choose the operations that a store and a simple
// model then both perform; they must answer the same. Scheduling makes coverage
// vary from run to run, so give the fuzzer -fuzzminimizetime 10x, or it spends
// its time on making inputs smaller.
func FuzzModel(f *testing.F, open func(t testing.TB) kv.Store, caps Capabilities) {
	s := &suite{open: open, caps: caps}
	rnd := rand.New(rand.NewPCG(7, 7))
	for n := 50; n <= 800; n *= 2 {
		seed := make([]byte, n)
		for i := range seed {
			seed[i] = byte(rnd.Uint32())
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		if err := runModel(t, s, &fuzzChoices{choices}, 1000); err != nil {
			t.Fatal(err)
		}
	})
}

func testModelOneCaller(t *testing.T, s *suite) {
	for seed := range uint64(8) {
		c := randomChoices{rand.New(rand.NewPCG(seed, 1))}
		if err := runModel(t, s, c, 60); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// runModel performs up to n transactions one after the other.
func runModel(t testing.TB, s *suite, c choices, n int) error {
	st := s.open(t)
	defer func() { _ = st.Close() }()
	now := model{}
	for i := 0; i < n && c.more(); i++ {
		if s.caps.Reopen != nil && c.pick(16) == 0 {
			st = s.caps.Reopen(t, st)
		}
		p := newPlan(c)
		seen, next, err := p.run(st)
		if err != nil {
			return fmt.Errorf("transaction %d: %w\n%v", i, err, p)
		}
		after, want := now.clone(), []string(nil)
		for _, o := range p.ops {
			want = append(want, after.do(o))
		}
		if at, ok := differ(seen, want); ok {
			return fmt.Errorf("transaction %d: operation %d answers %q, want %q\n%v",
				i, at, seen[at], want[at], p)
		}
		if next && !p.view {
			now = after
		}
	}
	return now.check(st)
}

func differ(got, want []string) (int, bool) {
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			return i, true
		}
	}
	return 0, false
}

// choices are made by a seed or by the fuzzer.
type choices interface {
	more() bool
	pick(n int) int // 0 to n-1
}

type randomChoices struct{ *rand.Rand }

func (c randomChoices) more() bool     { return true }
func (c randomChoices) pick(n int) int { return c.IntN(n) }

type fuzzChoices struct{ rest []byte }

func (c *fuzzChoices) more() bool { return len(c.rest) > 0 }

func (c *fuzzChoices) pick(n int) int {
	if len(c.rest) == 0 {
		return 0
	}
	b := int(c.rest[0])
	c.rest = c.rest[1:]
	return b % n
}

type opKind int

const (
	opPut opKind = iota
	opGet
	opDelete
	opScan
	opScanDelete // deletes each row while it scans
	opScanPut    // writes beside each row while it scans
	opKinds
)

type op struct {
	kind  opKind
	table kv.TableID
	key   string
	value string
	r     kv.Range
}

func newOp(c choices, view bool) op {
	o := op{kind: opKind(c.pick(int(opKinds))), table: kv.TableID(fmt.Sprint("model.", c.pick(2)))}
	if view && o.kind != opScan {
		o.kind = opGet
	}
	o.key = newKey(c)
	switch o.kind {
	case opPut:
		o.value = strings.Repeat(fmt.Sprint(c.pick(256)), c.pick(4))
		if c.pick(32) == 0 {
			o.value = string(fill(9000 + c.pick(256)))
		}
	case opScan, opScanDelete, opScanPut:
		o.r = kv.Range{Reverse: c.pick(2) == 0, Limit: c.pick(6)}
		if c.pick(3) > 0 {
			o.r.From = []byte(o.key)
		}
		if c.pick(3) > 0 {
			o.r.To = []byte(newKey(c))
		}
	}
	return o
}

// newKey makes short keys of few letters, so that they meet often.
func newKey(c choices) string {
	letters := "\x00ab\xff"
	var key strings.Builder
	for range 1 + c.pick(3) {
		key.WriteString(letters[c.pick(4):][:1])
	}
	return key.String()
}

// plan is one transaction, decided before it runs, so that it can run again.
type plan struct {
	view bool
	fail int // 1: with an error, 2: with a panic
	ops  []op
}

func newPlan(c choices) *plan {
	p := &plan{view: c.pick(5) == 0, fail: max(c.pick(8)-5, 0)}
	for range 1 + c.pick(10) {
		p.ops = append(p.ops, newOp(c, p.view))
	}
	return p
}

// String lists the operations, for a failed test.
func (p *plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "view %v, fail %d\n", p.view, p.fail)
	for i, o := range p.ops {
		fmt.Fprintf(&b, "%3d kind %d %s %q=%.20q [%q, %q) reverse %v limit %d\n", i, o.kind, o.table, o.key,
			o.value, o.r.From, o.r.To, o.r.Reverse, o.r.Limit)
	}
	return b.String()
}

// run performs the transaction and returns what each operation answered, and
// whether it was committed. An error is a fault of the store.
func (p *plan) run(st kv.Store) (seen []string, committed bool, err error) {
	return p.runWith(st, func(kv.Reader) error { return nil }, func(kv.Writer) error { return nil })
}

// runWith calls first at the beginning of the closure, and last at the end of
// an Update.
func (p *plan) runWith(st kv.Store, first func(kv.Reader) error, last func(kv.Writer) error) (
	seen []string, committed bool, err error) {
	perform := func(r kv.Reader, w kv.Writer) error {
		if err := first(r); err != nil {
			return err
		}
		var got []string
		for _, o := range p.ops {
			s, err := o.perform(r, w)
			if err != nil {
				return err
			}
			got = append(got, s)
		}
		seen = got
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			if v != errWanted { //nolint:errorlint // the very value
				panic(v)
			}
			err = nil
		}
	}()
	ctx := context.Background()
	if p.view {
		err = st.View(ctx, func(r kv.Reader) error { return perform(r, nil) })
		return seen, false, err
	}
	err = st.Update(ctx, func(w kv.Writer) error {
		if err := perform(w, w); err != nil {
			return err
		}
		switch p.fail {
		case 1:
			return errWanted
		case 2:
			panic(errWanted)
		}
		return last(w)
	})
	if p.fail == 1 && err == errWanted { //nolint:errorlint // the very error
		return seen, false, nil
	}
	return seen, err == nil, err
}

func (o op) perform(r kv.Reader, w kv.Writer) (string, error) {
	key := []byte(o.key)
	switch o.kind {
	case opPut:
		return "", w.Put(o.table, key, []byte(o.value))
	case opDelete:
		return "", w.Delete(o.table, key)
	case opGet:
		v, err := r.Get(o.table, key)
		return answer(v, v != nil), err
	}
	var b strings.Builder
	for e, err := range r.Scan(o.table, o.r) {
		if err == nil && o.kind == opScanDelete {
			err = w.Delete(o.table, e.Key)
		}
		if err == nil && o.kind == opScanPut {
			err = w.Put(o.table, append(e.Key[:1:1], 'n'), []byte("new"))
		}
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%q=%s ", e.Key, answer(e.Value, true))
	}
	return b.String(), nil
}

func answer(value []byte, present bool) string {
	if !present {
		return "-"
	}
	return fmt.Sprintf("%q", value)
}

// model is the meaning of a store: sorted on demand, copied when in doubt.
type model map[kv.TableID]map[string]string

func (m model) clone() model {
	c := model{}
	for t, rows := range m {
		c[t] = maps.Clone(rows)
	}
	return c
}

func (m model) do(o op) string {
	rows := m[o.table]
	if rows == nil {
		rows = map[string]string{}
		m[o.table] = rows
	}
	switch o.kind {
	case opPut:
		rows[o.key] = o.value
		return ""
	case opDelete:
		delete(rows, o.key)
		return ""
	case opGet:
		v, ok := rows[o.key]
		return answer([]byte(v), ok)
	}
	var b strings.Builder
	for i, e := range m.scan(o.table, o.r) {
		if o.r.Limit > 0 && i == o.r.Limit {
			break
		}
		switch o.kind {
		case opScanDelete:
			delete(rows, e[0])
		case opScanPut:
			rows[e[0][:1]+"n"] = "new"
		}
		fmt.Fprintf(&b, "%q=%s ", e[0], answer([]byte(e[1]), true))
	}
	return b.String()
}

// scan returns the pairs of r as they are now, whatever its limit.
func (m model) scan(t kv.TableID, r kv.Range) [][2]string {
	var out [][2]string
	for _, k := range slices.Sorted(maps.Keys(m[t])) {
		if k >= string(r.From) && (r.To == nil || k < string(r.To)) {
			out = append(out, [2]string{k, m[t][k]})
		}
	}
	if r.Reverse {
		slices.Reverse(out)
	}
	return out
}

// check compares everything that the store holds with the model.
func (m model) check(st kv.Store) error {
	for _, t := range []kv.TableID{"model.0", "model.1"} {
		o := op{kind: opScan, table: t}
		p := &plan{view: true, ops: []op{o}}
		seen, _, err := p.run(st)
		if err != nil {
			return err
		}
		if want := m.do(o); seen[0] != want {
			return fmt.Errorf("at the end table %s holds %s, want %s", t, seen[0], want)
		}
	}
	return nil
}

// event is one transaction of many callers: what it saw, and after how many
// commits it did.
type event struct {
	plan      *plan
	seen      []string
	after     uint64
	committed bool
}

// Callers run random transactions at once. Every transaction reads a counter
// first, and adds one when it commits: so the order of commits is known, and
// every answer, also of Views and of failed ones, must be the model's at that
// place of the order.
func testModelManyCallers(t *testing.T, s *suite) {
	for seed := range uint64(3) {
		st := s.open(t)
		const callers = 8
		events := make([][]event, callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				c := randomChoices{rand.New(rand.NewPCG(seed, uint64(i)+2))}
				var err error
				if events[i], err = runCaller(st, c, 40); err != nil {
					t.Errorf("seed %d, caller %d: %v", seed, i, err)
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			return
		}
		if err := checkHistory(st, slices.Concat(events...)); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
}

// runCaller performs n transactions and checks that this caller never sees a
// state older than one it saw or made before.
func runCaller(st kv.Store, c choices, n int) ([]event, error) {
	var events []event
	var least uint64
	for range n {
		e := event{plan: newPlan(c)}
		first := func(r kv.Reader) error {
			after, err := number(r, "n")
			e.after = after
			return err
		}
		last := func(w kv.Writer) error {
			_, err := add(w, "n", 1)
			return err
		}
		var err error
		if e.seen, e.committed, err = e.plan.runWith(st, first, last); err != nil {
			return events, err
		}
		if e.after < least {
			return events, fmt.Errorf("saw the state after %d commits, and before that after %d",
				e.after, least)
		}
		if least = e.after; e.committed {
			least++
		}
		events = append(events, e)
	}
	return events, nil
}

// checkHistory replays the commits in their order on a model, and asks at each
// place whether everybody who was there saw the model's answers.
func checkHistory(st kv.Store, events []event) error {
	slices.SortStableFunc(events, func(a, b event) int {
		switch {
		case a.after != b.after:
			return int(a.after) - int(b.after)
		case a.committed == b.committed:
			return 0
		case a.committed: // the commit of a place comes after its readers
			return 1
		}
		return -1
	})
	now, commits := model{}, uint64(0)
	for _, e := range events {
		if e.after != commits {
			return fmt.Errorf("a transaction saw the state after %d commits, of which %d were made",
				e.after, commits)
		}
		after, want := now.clone(), []string(nil)
		for _, o := range e.plan.ops {
			want = append(want, after.do(o))
		}
		if at, ok := differ(e.seen, want); ok {
			return fmt.Errorf("after %d commits operation %d answers %q, want %q\n%v",
				commits, at, e.seen[at], want[at], e.plan)
		}
		if e.committed {
			now = after
			commits++
		}
	}
	return now.check(st)
}
