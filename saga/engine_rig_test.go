package saga

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"onced/kv"
	"onced/kv/feed"
	"onced/kv/invariant"
	"onced/kv/memkv"
	"onced/kv/timer"
	"onced/saga/machine"
)

// outside is the world that sagas act on, with its own ledger.
type outside struct {
	mu      sync.Mutex
	forgets map[string]bool     // steps of which it does not honour the keys
	plan    map[string][]string // call → how its next ones end; see perform
	calls   []string            // "charge", "undo charge", "check charge"
	keys    map[string][]string // call → the keys that were sent, in order
	stands  map[string][]string // step → keys of the effects that stand
	effects map[string]int      // key → how often its effect happened
	before  func(call string)   // is told of every call, before and after its effect
	after   func(call string)
	fault   func(call string, effect func() error) error
}

func newOutside() *outside {
	return &outside{plan: map[string][]string{}, keys: map[string][]string{}, stands: map[string][]string{},
		effects: map[string]int{}}
}

// errNoReply is no mark: the outcome is unknown.
var errNoReply = errors.New("no reply")

// reached takes down a call that has come to the callee, and returns how it shall end.
func (o *outside) reached(call, key string, effect func()) string {
	if o.before != nil {
		o.before(call)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, call)
	o.keys[call] = append(o.keys[call], key)
	how := ""
	if p := o.plan[call]; len(p) > 0 {
		how, o.plan[call] = p[0], p[1:]
		if how == "always" {
			how, o.plan[call] = p[1], p
		}
	}
	if how == "" || how == "lost" {
		effect()
	}
	return how
}

// perform ends a call as planned: "" is done, "lost" has its effect and gives no
// reply, "dropped" neither, "accepted" gives a reply and has none yet, "hang" is over
// only with its context.
func (o *outside) perform(ctx context.Context, call string, effect func()) error {
	how := ""
	run := func() error {
		how = o.reached(call, DownstreamKey(ctx), effect)
		if o.after != nil {
			o.after(call)
		}
		return nil
	}
	var err error
	if o.fault != nil {
		err = o.fault(call, run)
	} else {
		err = run()
	}
	if err != nil {
		return err
	}
	switch name, arg, _ := strings.Cut(how, "="); name {
	case "", "accepted":
		return nil
	case "refused":
		return Refused(&RefusedError{Code: "no", Message: call + " refused"})
	case "retry":
		d, _ := time.ParseDuration(arg)
		return RetryAfter(d, errors.New("busy"))
	case "lost", "dropped":
		return errNoReply
	case "panic":
		panic("bug")
	case "hang":
		<-ctx.Done()
		return ctx.Err()
	}
	return fmt.Errorf("plan %q", how)
}

func (o *outside) act(step string) func(context.Context, order) (receipt, error) {
	return func(ctx context.Context, in order) (receipt, error) {
		key := DownstreamKey(ctx)
		err := o.perform(ctx, step, func() {
			if o.forgets[step] || !slices.Contains(o.stands[step], key) {
				o.stands[step] = append(o.stands[step], key)
				o.effects[key]++
			}
		})
		return receipt{Order: in.ID, Key: key}, err
	}
}

func (o *outside) undo(step string) func(context.Context, order, receipt) error {
	return func(ctx context.Context, in order, _ receipt) error {
		action := CallOf(ctx).ActionKey
		return o.perform(ctx, "undo "+step, func() {
			o.stands[step] = slices.DeleteFunc(o.stands[step], func(k string) bool { return k == action })
		})
	}
}

func (o *outside) check(step string) func(context.Context, order, Doubt) (receipt, bool, error) {
	return func(ctx context.Context, in order, d Doubt) (receipt, bool, error) {
		found := false
		err := o.perform(ctx, "check "+step, func() {
			found = slices.Contains(o.stands[step],
				d.DownstreamKey)
		})
		return receipt{Order: in.ID, Key: d.DownstreamKey}, found, err
	}
}

// ledger tells how many effects of each step stand.
func (o *outside) ledger() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []string
	for _, step := range slices.Sorted(maps.Keys(o.stands)) {
		if n := len(o.stands[step]); n > 0 {
			out = append(out, fmt.Sprintf("%s=%d", step, n))
		}
	}
	return strings.Join(out, " ")
}

// actionKey is the key that the action of a step is sent with.
func actionKey(definition, step, key string, round uint64) string {
	c := &Call{Key: key, Round: round}
	return callKey(keyOfKind(machine.Action, ""), keyOfStep(definition, step), c, 0)
}

func (o *outside) made() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.calls, ", ")
}

// till is a program with sagas in a bubble, which can be restarted.
type till struct {
	*testing.T
	*outside
	disk   *memkv.Disk
	store  kv.Store
	cfg    Config
	defs   []*Definition
	wrap   func(kv.Store) kv.Store
	clock  kv.Clock // of the next process; nil is the system's
	feed   *feed.Feed
	engine *Engine
	cancel context.CancelFunc
	ended  chan error
	seen   *observed
}

// observed counts what the observer is told.
type observed struct {
	mu       sync.Mutex
	statuses map[string]int
	calls    map[string]int
}

func (o *observed) CallEnded(c CallInfo) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls[c.Kind+" "+c.Outcome]++
}

func (o *observed) RunChanged(r RunInfo) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.statuses[r.Status]++
}

// inTill runs a test in a bubble with definitions made of its outside world.
func inTill(t *testing.T, defs func(*outside) []*Definition, test func(*testing.T, *till)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		s := &till{T: t, outside: o, disk: memkv.NewDisk(), defs: defs(o), feed: feed.New(feed.Config{}),
			seen: &observed{statuses: map[string]int{}, calls: map[string]int{}}}
		s.boot()
		defer func() {
			s.stop()
			s.check()
		}()
		test(t, s)
	})
}

func (s *till) check() {
	s.Helper()
	last := memkv.Open(s.disk, memkv.Options{})
	defer last.Close()
	invariant.RequireNow(s.T, last, slices.Concat(RunRules(), timer.Rules(time.Hour), feed.Rules())...)
}

// prepare makes the engine of a new process.
func (s *till) prepare() *timer.Runner {
	s.Helper()
	s.store = memkv.Open(s.disk, memkv.Options{Rerun: true, Clock: s.clock})
	var st kv.Store = s.store
	if s.wrap != nil {
		st = s.wrap(st)
	}
	timers := timer.New(st, timer.Config{Clock: s.clock})
	cfg := s.cfg
	cfg.Timers, cfg.Feed, cfg.Observer, cfg.Clock = timers, s.feed, s.seen, s.clock
	e, err := NewEngine(st, cfg)
	if err == nil {
		err = e.Register(s.defs...)
	}
	if err != nil {
		s.Fatal(err)
	}
	s.engine = e
	return timers
}

func (s *till) serve(timers *timer.Runner) {
	ctx, cancel := context.WithCancel(context.Background())
	ended, engine := make(chan error, 2), s.engine // of this start: another may come
	s.cancel, s.ended = cancel, ended
	go func() { ended <- engine.Serve(ctx) }()
	go func() { ended <- timers.Run(ctx) }()
}

func (s *till) boot() { s.serve(s.prepare()) }

// stop ends the process in order.
func (s *till) stop() {
	s.Helper()
	s.cancel()
	for range 2 {
		if err := <-s.ended; err != nil && !errors.Is(err, kv.ErrClosed) {
			s.Error(err)
		}
	}
	_ = s.store.Close()
}

// kill ends the process at once: nothing of it reaches the disk any more.
func (s *till) kill() {
	s.Helper()
	dead := s.store
	s.store = memkv.Open(s.disk, memkv.Options{}) // takes the disk away
	s.cancel()
	_ = s.store.Close()
	go func() { _ = dead.Close() }()
}

func (s *till) def() *Definition { return s.defs[0] }

// run starts the order and waits for its end.
func (s *till) run() (*RunView, error) {
	return s.engine.Run(s.Context(), s.def(), theOrder.ID, theOrder)
}

// failed runs the order, which must fail.
func (s *till) failed(class error) *Failure {
	s.Helper()
	_, err := s.run()
	var f *Failure
	if !errors.As(err, &f) || !errors.Is(err, class) {
		s.Fatalf("the error is %v, want %v", err, class)
	}
	return f
}

func (s *till) completed() *RunView {
	s.Helper()
	v, err := s.run()
	if err != nil || v.State.Status != machine.Completed {
		s.Fatalf("%+v, %v", v, err)
	}
	return v
}

func (s *till) started() string {
	s.Helper()
	st, err := s.engine.Start(s.Context(), s.def(), theOrder.ID, theOrder)
	if err != nil {
		s.Fatal(err)
	}
	return st.Run
}

func (s *till) view(id string) *RunView {
	s.Helper()
	v, err := s.engine.Get(s.Context(), id)
	if err != nil {
		s.Fatal(err)
	}
	return v
}

func (s *till) wantStatus(id string, want machine.Status) *RunView {
	s.Helper()
	v := s.view(id)
	if v.State.Status != want {
		s.Fatalf("the run is %s (%s), want %s", v.State.Status, v.State.Reason, want)
	}
	return v
}

func (s *till) wantLedger(want string) {
	s.Helper()
	if got := s.ledger(); got != want {
		s.Fatalf("the ledger is %q, want %q; calls: %s", got, want, s.made())
	}
}

func (s *till) wantCalls(want string) {
	s.Helper()
	if got := s.made(); got != want {
		s.Fatalf("the calls are\n %s, want\n %s", got, want)
	}
}

func (s *till) act(verb machine.Verb, id, step string) error {
	_, err := s.engine.Operate(s.Context(), id, Act{Verb: verb, Step: step, Actor: "ann", Reason: "told so"})
	return err
}

func (s *till) mustAct(verb machine.Verb, id, step string) {
	s.Helper()
	if err := s.act(verb, id, step); err != nil {
		s.Fatal(err)
	}
}

func (s *till) signal(id, step string, refused bool) {
	s.Helper()
	if err := s.engine.Signal(s.Context(), Signal{Run: id, Step: step, Refused: refused}); err != nil {
		s.Fatal(err)
	}
}

// events are the types in the feed.
func (s *till) events() string {
	s.Helper()
	page, err := s.feed.Read(s.Context(), s.store, "", 0)
	if err != nil {
		s.Fatal(err)
	}
	var out []string
	for _, ev := range page.Events {
		out = append(out, ev.Type)
	}
	return strings.Join(out, " ")
}

// settle waits until nothing moves that does not wait for time.
func settle() { synctest.Wait() }

// fourSteps is the checkout of the quickstart.
func fourSteps(o *outside) []*Definition {
	d := New("checkout")
	for _, step := range []string{"loyalty", "voucher", "charge", "order"} {
		d.Step(step, o.act(step), o.undo(step), Check(o.check(step)), SettlesAfter(time.Minute))
	}
	return []*Definition{d}
}

// twoSteps is a charge with more options, and an order.
func twoSteps(opts ...Option) func(*outside) []*Definition {
	return func(o *outside) []*Definition {
		return []*Definition{New("pay").Step("charge", o.act("charge"), o.undo("charge"), opts...).
			Step("order", o.act("order"), nil)}
	}
}

// pass lets time pass in the bubble, and what is due then happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// take is what a call takes.
func take(d time.Duration) { time.Sleep(d) }
