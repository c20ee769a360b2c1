package group

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// Somebody who takes the turn again whenever it is free does not starve those
// who wait, and they come in the order of asking.
func TestTurnStarvesNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tr turn
		var mu sync.Mutex
		var order []int
		tr.take(nil)
		for i := range 5 {
			go func() {
				tr.take(nil)
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				tr.pass()
			}()
			synctest.Wait()
		}
		rounds := 0
		for ; len(order) < 5 && rounds < 1000; rounds++ {
			tr.pass()
			tr.take(nil) // ahead of those who wait, as long as it is let
			synctest.Wait()
		}
		tr.pass()
		if !slices.Equal(order, []int{0, 1, 2, 3, 4}) {
			t.Errorf("%v had the turn in %d rounds", order, rounds)
		}
		if rounds > 5*(patience+2) {
			t.Errorf("it took %d rounds", rounds)
		}
	})
}

// A waiter that gives up in the moment it is given the turn hands it on.
func TestTurnIsNotLostByOneWhoGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for range 300 {
			var tr turn
			tr.take(nil)
			stop := make(chan struct{})
			first, second := make(chan bool, 1), make(chan bool, 1)
			go func() { first <- tr.take(stop) }()
			synctest.Wait()
			go func() { second <- tr.take(nil) }()
			synctest.Wait()
			close(stop) // both at once
			tr.pass()
			if <-first {
				tr.pass()
			}
			if !<-second { // stands still for ever when the turn is lost
				t.Fatal("the second did not get the turn")
			}
			tr.pass()
		}
	})
}

// The same for one that was passed over so often that the turn is its own.
func TestTurnHandedOverIsNotLostByOneWhoGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for range 300 {
			var tr turn
			tr.take(nil)
			stop := make(chan struct{})
			first, second := make(chan bool, 1), make(chan bool, 1)
			go func() { first <- tr.take(stop) }()
			synctest.Wait()
			go func() { second <- tr.take(nil) }()
			synctest.Wait()
			for range patience {
				tr.pass()
				tr.take(nil)
				synctest.Wait()
			}
			close(stop)
			tr.pass() // to the first, if it has not left yet
			if <-first {
				tr.pass()
			}
			if !<-second {
				t.Fatal("the second did not get the turn")
			}
			tr.pass()
		}
	})
}

func TestTurnExcludes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tr turn
		n, inside := 0, 0
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				for range 200 {
					stop := make(chan struct{})
					go close(stop)
					if !tr.take(stop) {
						continue
					}
					if inside++; inside != 1 {
						t.Error("two have the turn")
					}
					n++ // the race detector watches too
					inside--
					tr.pass()
				}
			})
		}
		wg.Wait()
		if n == 0 || !tr.take(nil) {
			t.Error("nobody had the turn")
		}
	})
}
