package group_test

import (
	"context"
	"testing"

	"onced/kv"
	"onced/kv/group"
)

func TestAViewThatWaitsForACommitCanBeCancelled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := start(t, &disk{gate: make(chan error), publish: true}, group.Options{}, "a", "old")
		write := f.put("a", "new")
		ctx, cancel := context.WithCancel(context.Background())
		read := f.begin(func(*answer) error {
			return f.View(ctx, func(r kv.Reader) error {
				_, err := r.Get(rows, []byte("a"))
				return err
			})
		})
		f.waits("before the commit has ended", write, read)
		cancel()
		f.begin(func(*answer) error { return nil })
		f.ends("the cancelled read", read, context.Canceled)
		f.pass(nil)
		f.ends("the write", write, nil)
		f.close()
	})
}

// An engine whose snapshots run ahead of every commit breaks its contract; a
// View must say so and not wait for a commit that nobody makes.
func TestASnapshotThatNoCommitMadeIsNotAnswered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := &disk{}
		f := start(t, d, group.Options{}, "a", "old")
		d.mu.Lock()
		d.state = &state{version: 99, rows: map[string]string{"a": "from nowhere"}}
		d.mu.Unlock()
		f.ends("the read", f.get("a"), kv.ErrCommitUnknown)
		f.close()
	})
}

func TestASecondCloseWaitsForTheFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := start(t, &disk{}, group.Options{})
		reading := make(chan struct{})
		read := f.begin(func(*answer) error {
			return f.View(context.Background(), func(kv.Reader) error {
				<-reading
				return nil
			})
		})
		first := f.begin(func(*answer) error { return f.Close() })
		second := f.begin(func(*answer) error { return f.Close() })
		f.waits("while a View is open", first, second)
		close(reading)
		f.begin(func(*answer) error { return nil })
		f.ends("the View", read, nil)
		f.ends("the first Close", first, nil)
		f.ends("the second Close", second, nil)
	})
}

func TestAHookThatPanicsStopsNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := start(t, &disk{}, group.Options{})
		var ran []int
		write := f.update(func(w kv.Writer) error {
			w.OnCommit(func() { ran = append(ran, 1) })
			w.OnCommit(func() { panic("boom") })
			w.OnCommit(func() { ran = append(ran, 3) })
			return w.Put(rows, []byte("a"), []byte("1"))
		})
		if write.panic != "boom" || len(ran) != 2 || ran[1] != 3 {
			t.Errorf("hooks %v ran, panic %v; want 1 and 3, and the panic of 2", ran, write.panic)
		}
		if read := f.get("a"); read.got != "1" {
			t.Errorf("read %q, want the commit to stand", read.got)
		}
		f.close()
	})
}
