package saga

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"onced/kv/claim"
	"onced/kv/faultkv"
	"onced/kv/invariant"
	"onced/kv/memkv"
)

// settling is what the gateway of the schedules promises: whatever was sent has
// been booked, or never will be, before that.
const settling = 10 * time.Second

// schedule is a random history of callers, crashes and a truthful gateway that
// answers late, or not at all, and books late.
type schedule struct {
	*testing.T
	honours bool // the gateway honours keys, and nobody looks up
	disk    *memkv.Disk

	mu     sync.Mutex
	rnd    *rand.Rand
	ledger []receipt
	now    process
	ended  map[string]int // answers, by their text
}

// process is one life of the program.
type process struct {
	store *memkv.Store
	fault *faultkv.Store
	op    *Operation[order, receipt]
}

func (s *schedule) n(n int) int { return int(s.upTo(time.Duration(n))) }

func (s *schedule) upTo(most time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.rnd.Int64N(int64(most)))
}

// pause sleeps for up to most.
func (s *schedule) pause(most time.Duration) { time.Sleep(s.upTo(most)) }

func (s *schedule) boot() {
	p := process{store: memkv.Open(s.disk, memkv.Options{})}
	p.fault = faultkv.New(p.store)
	book, err := claim.New(s.Context(), p.fault, claim.Config{})
	if err != nil {
		s.Fatal(err)
	}
	how := Check(func(ctx context.Context, _ order, d Doubt) (receipt, bool, error) { return s.lookUp(p, d) })
	if s.honours {
		how = Repeatable(claim.DefaultKeyValidFor)
	}
	p.op, err = NewOperation(book, "charge", func(ctx context.Context, o order) (receipt, error) {
		return s.pay(ctx, p, o)
	}, Key(orderID), SettlesAfter(settling), Timeout(5*time.Second), Wait(2*time.Second), how)
	if err != nil {
		s.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = p
}

func (s *schedule) process() process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// crash ends the process and starts the next one.
func (s *schedule) crash() {
	p := s.process()
	p.fault.Crash()
	<-p.fault.Down()
	s.boot()
}

func (s *schedule) pay(ctx context.Context, p process, o order) (receipt, error) {
	s.pause(time.Second)
	fate := s.n(10)
	if fate == 0 {
		return receipt{}, NotDone(errors.New("no connection"))
	}
	booked := make(chan receipt, 1)
	err := p.fault.Call("send", func() error {
		switch fate {
		case 1:
			if r, ok := s.booked(); ok { // it honours the key
				booked <- r
				return nil
			}
			return Refused(errors.New("no funds")) // what is still to be booked will be
		case 2: // lost on its way
		default:
			late := s.upTo(settling)
			if fate > 5 {
				late = s.upTo(time.Second)
			}
			time.AfterFunc(late, func() { booked <- s.book(o, DownstreamKey(ctx)) })
		}
		return nil
	})
	if err != nil {
		return receipt{}, err
	}
	select {
	case r := <-booked:
		if fate == 9 {
			panic("after the charge")
		}
		return r, nil
	case <-ctx.Done():
		return receipt{}, ctx.Err()
	}
}

// booked is what a gateway that honours keys answers to a key that it knows.
func (s *schedule) booked() (r receipt, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.honours || len(s.ledger) == 0 {
		return r, false
	}
	return s.ledger[0], true
}

func (s *schedule) book(o order, key string) receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.honours && len(s.ledger) > 0 {
		return s.ledger[0]
	}
	s.ledger = append(s.ledger, receipt{Order: o.ID, Key: key, No: len(s.ledger) + 1})
	return s.ledger[len(s.ledger)-1]
}

// lookUp is truthful about one instant, and may be slower than it takes to
// settle.
func (s *schedule) lookUp(p process, d Doubt) (r receipt, found bool, err error) {
	s.pause(time.Second)
	err = p.fault.Call("look up", func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, have := range s.ledger {
			if have.Key == d.DownstreamKey {
				r, found = have, true
			}
		}
		return nil
	})
	if s.n(3) == 0 {
		s.pause(4 * time.Second)
		if s.n(2) == 0 {
			return r, false, errTimeout
		}
	}
	return r, found, err
}

// caller calls until it gets an answer, a number of times.
func (s *schedule) caller(tries int) (known bool) {
	for range tries {
		res, err := s.process().op.Do(s.Context(), theOrder)
		var refused *RefusedError
		if err == nil || errors.As(err, &refused) {
			s.mu.Lock()
			s.ended[mustJSON(res.Value)+fmt.Sprint(err)]++
			s.mu.Unlock()
			return true
		}
		s.pause(6 * time.Second)
	}
	return false
}

func (s *schedule) run() {
	s.boot()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s.pause(3 * time.Second)
			s.caller(4)
		})
	}
	for range s.n(4) {
		s.pause(8 * time.Second)
		s.crash()
	}
	wg.Wait()
	if !s.caller(500) {
		s.Error("the outcome never became known")
	}
	time.Sleep(2 * settling) // for what was sent and not booked yet
	s.judge()
}

func (s *schedule) judge() {
	p := s.process()
	invariant.RequireNow(s.T, p.store, claim.Rules()...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ledger) > 1 {
		s.Errorf("%d charges: %+v", len(s.ledger), s.ledger)
	}
	if len(s.ended) != 1 {
		s.Errorf("the callers got different answers: %v", s.ended)
	}
	for text := range s.ended {
		want := mustJSON(receipt{}) + "refused: no funds"
		if len(s.ledger) == 1 {
			want = mustJSON(s.ledger[0]) + "<nil>"
		}
		if text != want {
			s.Errorf("they got %s, the truth is %s", text, want)
		}
	}
}

func TestRandomSchedulesChargeAtMostOnce(t *testing.T) {
	t.Parallel()
	for _, honours := range []bool{false, true} {
		for seed := range uint64(150) {
			t.Run(fmt.Sprintf("honours=%v/%d", honours, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &schedule{T: t, honours: honours, disk: memkv.NewDisk(), ended: map[string]int{},
						rnd: rand.New(rand.NewPCG(seed, 1))}
					s.run()
				})
			})
		}
	}
}
