package sendonce

import (
	"bufio"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestIdleTimeout: a connection is idle for no longer than that, and for half of it at
// least.
func TestIdleTimeout(t *testing.T) {
	const limit = 4 * time.Second
	for wait := time.Duration(0); wait < limit; wait += 250 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			gone := make(chan time.Time, 1)
			tr, _ := piped(func(n int, c net.Conn, r *bufio.Reader) {
				echo(n, c, r)
				if n == 2 {
					gone <- time.Now()
				}
			}, Config{IdleTimeout: limit})
			for _, url := range []string{"http://first/", "http://second/"} {
				if _, _, err := tr.get(t.Context(), request(t, "GET", url, ""), false); err != nil {
					t.Fatal(err)
				}
				if url == "http://first/" {
					time.Sleep(wait) // the sweeps go on from there
				}
			}
			began := time.Now()
			time.Sleep(2 * limit)
			if took := (<-gone).Sub(began); took < limit/2 || took > limit {
				t.Errorf("after %v it was idle for %v", wait, took)
			}
			tr.mu.Lock()
			defer tr.mu.Unlock()
			if len(tr.idle) != 0 || tr.count != 0 || tr.sweep != nil {
				t.Errorf("%d hosts, %d connections and a sweep %v are left", len(tr.idle), tr.count, tr.sweep)
			}
		})
	}
}

// TestIdleIsUsed: one that is used in time stays, and of several the one that was used last
// is used again, so that the others end.
func TestIdleIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var together sync.WaitGroup
		together.Add(3)
		tr, p := piped(func(n int, c net.Conn, r *bufio.Reader) {
			if req, body, err := readRequest(r); err == nil {
				together.Done()
				together.Wait()
				own(c, req, body)
			}
			echo(n, c, r)
		}, Config{})
		defer tr.Close()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if _, _, err := tr.get(t.Context(), request(t, "GET", "http://h/", ""), false); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for range 20 {
			time.Sleep(time.Second)
			if _, _, err := tr.get(t.Context(), request(t, "GET", "http://h/", ""), false); err != nil {
				t.Error(err)
			}
		}
		if p.dialed.Load() != 3 || tr.idles() != 1 {
			t.Errorf("%d connections were made, %d are idle; want 3, 1", p.dialed.Load(), tr.idles())
		}
	})
}

// TestIdleBounds: per host, of all hosts, and by their scheme and port.
func TestIdleBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each = 5
		var together sync.WaitGroup
		tr, p := piped(func(n int, c net.Conn, r *bufio.Reader) {
			if req, body, err := readRequest(r); err == nil {
				together.Done()
				together.Wait()
				own(c, req, body)
			}
			echo(n, c, r)
		}, Config{MaxIdlePerHost: 2, MaxIdle: 5})
		defer tr.Close()
		for i, want := range []int{2, 4, 5, 5} {
			together.Add(each)
			var all sync.WaitGroup
			for range each {
				all.Go(func() {
					r := request(t, "GET", fmt.Sprintf("http://h:%d/", i+1), "")
					if _, _, err := tr.get(t.Context(), r, false); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if got := tr.idles(); got != want || int(p.dialed.Load()) != (i+1)*each {
				t.Errorf("%d hosts: %d idle, want %d; %d connections", i+1, got, want, p.dialed.Load())
			}
		}
	})
}

// TestClose: the idle connections end, and those under way when they have their answer.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		var ended sync.WaitGroup
		tr, p := piped(func(n int, c net.Conn, r *bufio.Reader) {
			defer ended.Done()
			if n == 2 {
				<-answer
			}
			echo(n, c, r)
		}, Config{})
		ended.Add(3)
		send := func(host string) {
			r := request(t, "GET", "http://"+host+"/", "")
			if _, got, err := tr.get(t.Context(), r, false); err != nil {
				t.Error(got, err)
			}
		}
		send("idle")
		var way sync.WaitGroup
		way.Go(func() { send("under.way") })
		synctest.Wait()
		if tr.idles() != 1 {
			t.Errorf("%d idle connections", tr.idles())
		}
		tr.Close()
		tr.Close() // twice is fine
		if tr.idles() != 0 {
			t.Errorf("%d idle connections", tr.idles())
		}
		close(answer)
		way.Wait()
		send("later")
		if p.dialed.Load() != 3 || tr.idles() != 0 {
			t.Errorf("%d connections, %d are idle", p.dialed.Load(), tr.idles())
		}
		ended.Wait()
		time.Sleep(time.Hour)
		if tr.sweep != nil {
			t.Error("it sweeps on")
		}
	})
}
