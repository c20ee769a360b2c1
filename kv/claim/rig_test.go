package claim

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"onced/kv"
	"onced/kv/boltkv"
	"onced/kv/feed"
	"onced/kv/group"
	"onced/kv/invariant"
	"onced/kv/kvtest/testclock"
	"onced/kv/memkv"
)

// rig is a store that can be restarted, with a Book on it.
type rig struct {
	*testing.T
	clock   *testclock.Clock
	open    func() kv.Store
	cfg     Config
	store   kv.Store
	book    *Book
	feed    *feed.Feed
	commits atomic.Int64 // commits that wrote something
	full    atomic.Bool  // the disk is nearly full
}

func (r *rig) count(c group.Commit) {
	if c.Changes > 0 {
		r.commits.Add(1)
	}
}

// eachEngine runs test on every engine; closures run twice where they can.
func eachEngine(t *testing.T, test func(*rig)) {
	t.Run("memkv", func(t *testing.T) {
		t.Parallel()
		test(newRig(t))
	})
	t.Run("boltkv", func(t *testing.T) {
		t.Parallel()
		r := bareRig(t)
		path := filepath.Join(t.TempDir(), "store")
		r.open = func() kv.Store {
			s, err := boltkv.Open(context.Background(), path,
				&boltkv.Options{Clock: r.clock, Observer: r.count, MinFree: -1})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		r.start()
		test(r)
	})
}

func bareRig(t *testing.T) *rig {
	r := &rig{T: t, clock: testclock.At(start), feed: feed.New(feed.Config{})}
	r.cfg.Feed = r.feed
	t.Cleanup(func() {
		if r.store == nil {
			return
		}
		invariant.RequireNow(t, r.store, Rules()...)
		if err := r.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// newRig is a rig on memkv, every closure run twice.
func newRig(t *testing.T) *rig {
	r := bareRig(t)
	r.memkv(memkv.Options{Clock: r.clock, Rerun: true})
	return r
}

func (r *rig) memkv(opt memkv.Options) {
	disk := memkv.NewDisk()
	opt.Observer = r.count
	opt.Admit = func() error {
		if r.full.Load() {
			return kv.ErrNoSpace
		}
		return nil
	}
	r.open = func() kv.Store { return memkv.Open(disk, opt) }
	r.start()
}

func (r *rig) start() {
	r.Helper()
	r.store = r.open()
	b, err := New(r.Context(), r.store, r.cfg)
	if err != nil {
		r.Fatal(err)
	}
	r.book = b
}

// restart is the end of the process and the start of the next.
func (r *rig) restart() {
	r.Helper()
	if err := r.store.Close(); err != nil {
		r.Fatal(err)
	}
	r.start()
}

// ask is a request of a local owner, of which the options change something.
func ask(tok string, change ...func(*Request)) Request {
	b := Request{ID: theID, Token: token(tok), Fingerprint: FingerprintOf([]byte("body")),
		Intent: []byte("charge 10.00"), Owner: LocalOwner()}
	for _, c := range change {
		c(&b)
	}
	return b
}

func takeOver(b *Request) { b.TakeOver = true }

func remote(d time.Duration) func(*Request) { return func(b *Request) { b.Owner = RemoteOwner(d) } }

func withID(scope, key string) func(*Request) {
	return func(b *Request) { b.ID = ID{Scope: scope, Key: key} }
}

func text(s string) Result { return Result{Type: "text/plain", Data: []byte(s)} }

func ref(tok string) Ref { return ask(tok).Ref() }

// want fails unless a decision has been made, and is k.
func (r *rig) want(k Kind) func(Decision, error) Decision {
	r.Helper()
	return func(d Decision, err error) Decision {
		r.Helper()
		if err != nil {
			r.Fatalf("want %v, got error %v", k, err)
		}
		if d.Kind != k {
			r.Fatalf("want %v, got %v (%v)", k, d.Kind, d.Record.State)
		}
		return d
	}
}

func (r *rig) begin(b Request) (Decision, error) { return r.book.Begin(r.Context(), b) }

func (r *rig) done(tok, res string) (Decision, error) {
	return r.book.Done(r.Context(), ref(tok), text(res))
}

// wantErr fails unless the error is e.
func (r *rig) wantErr(e error) func(Decision, error) {
	r.Helper()
	return func(d Decision, err error) {
		r.Helper()
		if !errors.Is(err, e) {
			r.Fatalf("want %v, got %v, %v", e, d.Kind, err)
		}
	}
}
