package callee

import (
	"context"
	"hash/fnv"
	"net/http"
	"sync"
	"time"

	"onced/api/demo/book"
	"onced/kv"
)

// The times of the services, short so that a demo is lively.
const (
	// CallTimeout is how long who calls them should wait.
	CallTimeout = time.Second
	// SettlesAfter is how long after a send a look-up that finds nothing is to be
	// trusted.
	SettlesAfter = 3500 * time.Millisecond
	// BookBy is how long after it was asked a service may still do something. What it
	// could not do by then it never does.
	BookBy = 1800 * time.Millisecond
)

// How late a delayed call is done and answered, counted from its arrival. All lie
// beyond CallTimeout and, as to what is done, below BookBy.
const (
	belatedFrom, belatedTo = 1100 * time.Millisecond, 1500 * time.Millisecond
	answerFrom, answerTo   = 1200 * time.Millisecond, 1600 * time.Millisecond
)

// The faults that can be switched on.
const (
	Delay     = "delay"     // answers too late, effects too late, calls lost
	Lose      = "lose"      // answers lost after the effect
	Fail      = "error"     // 500 after the effect
	Refuse    = "refuse"    // refusals
	Duplicate = "duplicate" // callbacks and calls that come again
	Drop      = "drop"      // callbacks that never come
	Early     = "early"     // callbacks before the answer
	Keys      = "keys"      // no fault: gateway and vouchers honour idempotency keys
)

// The paths at which a crash can be armed, besides those of the process itself.
// Before and After come before the name of a service; an undo has UndoPoint for its
// name. After AcceptPoint the gateway has taken a charge on and not answered.
const (
	Before      = "before-" // a call is in hand, and nothing has happened
	After       = "after-"  // it has happened, and its caller does not know
	UndoPoint   = "undo"    // of any service
	AcceptPoint = "accept"  // of the gateway
)

// Env is what the services are told by. All of it is required.
type Env struct {
	// Ctx ends with the services.
	Ctx    context.Context
	Clock  kv.Clock
	Plan   Plan
	Client *http.Client
	// On reports whether a fault is switched on at a service.
	On func(fault string, at book.Service) bool
	// Crash is passed with a call in hand, and reports that its caller has just been
	// killed.
	Crash func(point, order string) bool
	// Tell gets in plain words what happened to an order.
	Tell func(order, text string)
}

// Services are the four. They are safe for concurrent use.
type Services struct {
	all     map[book.Service]*service
	gateway *gateway
}

// New makes the services over their ledgers, one for each.
func New(env Env, ledgers map[book.Service]*book.Ledger) *Services {
	s := &Services{all: map[book.Service]*service{}}
	for _, name := range book.Services() {
		s.all[name] = &service{Env: env, name: name, ledger: ledgers[name], attempts: map[string]int{}}
	}
	s.gateway = newGateway(s.all[book.Charge])
	return s
}

// Handler answers for all four.
func (s *Services) Handler() http.Handler {
	mux := http.NewServeMux()
	s.loyalty(mux)
	s.voucher(mux)
	s.gateway.routes(mux)
	s.order(mux)
	return mux
}

// Idle reports whether no call is under way that could still do or tell something.
func (s *Services) Idle() bool {
	for _, one := range s.all {
		if !one.idle() {
			return false
		}
	}
	return true
}

// Sent is how many deliveries of callbacks were tried.
func (s *Services) Sent() int { return s.gateway.deliveries() }

// Wait returns when all that the services do by themselves has ended.
func (s *Services) Wait() {
	for _, one := range s.all {
		one.work.Wait()
	}
}

// service is what the four have in common.
type service struct {
	Env
	name   book.Service
	ledger *book.Ledger
	work   sync.WaitGroup
	locks  [64]sync.Mutex // by reference: what a service does for one, it does one by one

	mu       sync.Mutex
	attempts map[string]int // by operation and reference
	active   int            // calls and callbacks under way, whoever has gone
}

func (s *service) on(fault string) bool { return s.On(fault, s.name) }

// keyed reports that the service honours idempotency keys.
func (s *service) keyed() bool {
	return s.name == book.Loyalty || s.name == book.Order || s.on(Keys)
}

// lock keeps others from the reference until unlock.
func (s *service) lock(reference string) (unlock func()) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(reference))
	mu := &s.locks[h.Sum32()%uint32(len(s.locks))]
	mu.Lock()
	return mu.Unlock
}

func (s *service) activity(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active += n
}

func (s *service) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active == 0
}

// attempt counts the calls of an operation for a reference, from 1 on.
func (s *service) attempt(operation, reference string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts[operation+" "+reference]++
	return s.attempts[operation+" "+reference]
}

// until waits for an instant; a service goes on when its caller has gone.
func (s *service) until(at time.Time) { Pause(s.Ctx, at.Sub(s.Clock.Now())) }

// Pause waits for d or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(max(0, d))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
