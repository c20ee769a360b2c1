package invariant

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"onced/kv"
	"onced/kv/memkv"
)

type item struct {
	N int `json:"n"`
}

var items = kv.NewTable[item]("test.item", 1)

// positive breaks on rows with a negative number.
var positive = Rule{Name: "test.positive", Why: "Nothing less than nothing exists.",
	Check: Rows(items, func(_ kv.Reader, row kv.Row[item]) ([]string, error) {
		if row.Value.N < 0 {
			return []string{fmt.Sprint("is ", row.Value.N)}, nil
		}
		return nil, nil
	})}

func store(t testing.TB, numbers ...int) *memkv.Store {
	s := memkv.New(memkv.Options{})
	t.Cleanup(func() { s.Close() })
	err := s.Update(t.Context(), func(w kv.Writer) error {
		for i, n := range numbers {
			if err := items.Put(w, kv.Key{}.Uint(uint64(i)), item{n}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// alternating returns n numbers of which every step-th is negative.
func alternating(n, step int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
		if i%step == step-1 {
			out[i] = -i
		}
	}
	return out
}

func TestCheckFindsEveryBrokenRow(t *testing.T) {
	for _, n := range []int{0, 1, pageRows - 1, pageRows, pageRows + 1, 3*pageRows + 7} {
		rep, err := Check(t.Context(), store(t, alternating(n, 10)...), positive)
		if err != nil || rep.Total() != n/10 || rep.OK() != (n/10 == 0) || rep.Rules != 1 {
			t.Errorf("%d rows: %d found, %v, %v", n, rep.Total(), rep, err)
		}
	}
}

func TestReportIsBounded(t *testing.T) {
	other := Rule{Name: "test.other", Check: positive.Check}
	rep, err := Check(t.Context(), store(t, alternating(1050, 5)...), positive, other)
	if err != nil || len(rep.Violations) != 2*MaxPerRule || rep.More[positive.Name] != 110 ||
		rep.Total() != 420 {
		t.Fatalf("%d listed, %v more, %v", len(rep.Violations), rep.More, err)
	}
	text := rep.String()
	if strings.Count(text, "\n") != 2*MaxPerRule+1 ||
		!strings.Contains(text, "test.positive: and 110 more\ntest.other: ") ||
		!strings.HasSuffix(text, "test.other: and 110 more") {
		t.Errorf("the report is:\n%s", text)
	}
}

func TestUndecodableRowIsAViolationAndTheRestIsChecked(t *testing.T) {
	s := store(t, 1, 2, -3)
	err := s.Update(t.Context(), func(w kv.Writer) error {
		return w.Put(items.ID(), kv.Key{}.Uint(1), []byte("??"))
	})
	if err != nil {
		t.Fatal(err)
	}
	rep, err := Check(t.Context(), s, positive)
	if err != nil || rep.Total() != 2 || !strings.Contains(rep.String(), "cannot be decoded") {
		t.Errorf("%v, %v", rep, err)
	}
}

func TestFailingRulesDoNotHideOthers(t *testing.T) {
	boom := errors.New("boom")
	judge := func(name string, fn func() error) Rule {
		return Rule{Name: name, Check: RawRows(items.ID(), func(kv.Reader, kv.Entry) ([]string, error) {
			return nil, fn()
		})}
	}
	fails := judge("test.fails", func() error { return boom })
	panics := judge("test.panics", func() error { panic("bug") })
	half := Rule{Name: "test.half", Check: func(context.Context, kv.Store) iter.Seq2[Violation, error] {
		return func(yield func(Violation, error) bool) {
			_ = yield(Violation{Subject: "x", Detail: "y"}, nil) && yield(Violation{}, boom)
		}
	}}
	rep, err := Check(t.Context(), store(t, -1), fails, panics, half, positive)
	if !errors.Is(err, boom) || !strings.Contains(err.Error(), "test.panics: the check panicked: bug") ||
		!strings.Contains(err.Error(), "test.half") {
		t.Errorf("error is %v", err)
	}
	if rep.Rules != 1 || rep.Total() != 2 {
		t.Errorf("report is %+v", rep)
	}
}

func TestCheckEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if rep, err := Check(ctx, store(t, -1), positive); !errors.Is(err, context.Canceled) || rep.Rules != 0 {
		t.Errorf("%+v, %v", rep, err)
	}
}

// A row and what belongs to it are changed together while the rule runs; judged
// in two snapshots they would not fit.
func TestLiveStoreCausesNoFalseAlarm(t *testing.T) {
	s := store(t)
	pair := func(ctx context.Context, n int) error {
		return s.Update(ctx, func(w kv.Writer) error {
			for i := range uint64(pageRows + 50) {
				if err := items.Put(w, kv.Key{}.Uint(i), item{n}); err != nil {
					return err
				}
				if err := w.Put("test.twin", kv.Key{}.Uint(i), []byte{byte(n)}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := pair(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	judge := func(rd kv.Reader, row kv.Row[item]) ([]string, error) {
		twin, err := rd.Get("test.twin", row.Key)
		if err == nil && (len(twin) != 1 || int(twin[0]) != row.Value.N) {
			return []string{"has another twin"}, nil
		}
		return nil, err
	}
	twins := Rule{Name: "test.twins", Check: Rows(items, judge)}
	done := make(chan error)
	go func() {
		for i := range 100 {
			if err := pair(t.Context(), i); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for checks := 0; ; checks++ {
		rep, err := Check(t.Context(), s, twins)
		if err != nil || !rep.OK() {
			t.Fatalf("%v, %v", rep, err)
		}
		select {
		case err := <-done:
			if err != nil || checks == 0 && testing.Verbose() {
				t.Log("checks:", checks, err)
			}
			return
		default:
		}
	}
}

// recorder is a TB that keeps what a test would have said.
type recorder struct {
	errors   []string
	cleanups []func()
}

func (r *recorder) Helper()                   {}
func (r *recorder) Errorf(f string, a ...any) { r.errors = append(r.errors, fmt.Sprintf(f, a...)) }
func (r *recorder) Cleanup(f func())          { r.cleanups = append(r.cleanups, f) }

func TestRequire(t *testing.T) {
	closed := store(t)
	closed.Close()
	for name, c := range map[string]struct {
		store kv.Store
		rules []Rule
		want  string
	}{
		"holds":    {store(t, 1), []Rule{positive}, ""},
		"broken":   {store(t, -1), []Rule{positive}, "test.positive"},
		"closed":   {closed, []Rule{positive}, "could not be checked"},
		"no rules": {store(t), nil, "no rules"},
	} {
		var tb recorder
		Require(&tb, c.store, c.rules...)
		if len(tb.errors) > 0 || len(tb.cleanups) != 1 {
			t.Fatalf("%s: checked before the end", name)
		}
		tb.cleanups[0]()
		got := strings.Join(tb.errors, "\n")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: said %q", name, got)
		}
	}
}
