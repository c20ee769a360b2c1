package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"onced/kv"
	"onced/kv/faultkv"
	"onced/kv/feed"
	"onced/kv/invariant"
	"onced/kv/kvtest/testclock"
	"onced/kv/memkv"
)

func newClock() *testclock.Clock { return testclock.At(time.Date(2026, 5, 4, 12, 30, 0, 0, time.UTC)) }

type rig struct {
	*Service
	t     *testing.T
	clock *testclock.Clock
	disk  *memkv.Disk
	store *faultkv.Store
	feed  *feed.Feed
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, clock: newClock(), disk: memkv.NewDisk(), feed: feed.New(feed.Config{})}
	r.open()
	t.Cleanup(func() { invariant.RequireNow(t, memkv.Open(r.disk, memkv.Options{}), Rules()...) })
	return r
}

// open starts anew on the same disk, as after a crash.
func (r *rig) open(plans ...faultkv.Plan) {
	r.t.Helper()
	r.store = faultkv.New(memkv.Open(r.disk, memkv.Options{Clock: r.clock, Rerun: true}), plans...)
	s, err := New(r.store, Config{Feed: r.feed, Clock: r.clock})
	if err != nil {
		r.t.Fatal(err)
	}
	r.Service = s
}

func (r *rig) create(name string, role Role) (Token, string) {
	r.t.Helper()
	t, secret, err := r.Create(context.Background(), Spec{Name: name, Role: role, Actor: "test"})
	if err != nil {
		r.t.Fatal(err)
	}
	return t, secret
}

var peer = netip.MustParseAddr("192.0.2.1")

func (r *rig) try(secret string) error {
	_, err := r.Authenticate(context.Background(), secret, peer)
	return err
}

func (r *rig) events() []feed.Event {
	r.t.Helper()
	got, err := r.feed.Read(context.Background(), r.store, "", 1000)
	if err != nil {
		r.t.Fatal(err)
	}
	return got.Events
}

func TestTokenIsStoredAsItsSumOnly(t *testing.T) {
	r := newRig(t)
	tok, secret := r.create("shop", Client)
	if !strings.HasPrefix(secret, "onced_") || len(secret) != len("onced_")+52 {
		t.Fatalf("the secret has %d characters", len(secret))
	}
	who, err := r.Authenticate(context.Background(), secret, peer)
	if err != nil || who != (Identity{TokenID: tok.ID, Name: "shop", Role: Client, Principal: "shop"}) {
		t.Fatalf("%+v %v", who, err)
	}
	raw, _ := secretAlphabet.DecodeString(strings.TrimPrefix(secret, Prefix))
	rows := 0
	for _, table := range []kv.TableID{"auth.token", "auth.id", "auth.name", "auth.meta", "feed.entry",
		"feed.meta"} {
		for e, err := range kv.Pages(context.Background(), r.store, table, kv.Range{}, 0) {
			if err != nil {
				t.Fatal(err)
			}
			rows++
			for _, hidden := range []string{secret, secret[len(Prefix):], string(raw)} {
				if strings.Contains(string(e.Key)+string(e.Value), hidden) {
					t.Errorf("a row of %s holds the secret", table)
				}
			}
		}
	}
	if rows < 4 {
		t.Errorf("only %d rows were looked at", rows)
	}
	if b, _ := json.Marshal(tok); strings.Contains(fmt.Sprintf("%+v %s", tok, b), secret[6:]) {
		t.Error("the token shows its secret")
	}
}

func TestTwoTokensDiffer(t *testing.T) {
	r := newRig(t)
	_, a := r.create("a", Viewer)
	_, b := r.create("b", Viewer)
	if a == b {
		t.Error("two tokens are equal")
	}
}

func TestRefusalsLookTheSame(t *testing.T) {
	r := newRig(t)
	_, good := r.create("good", Viewer)
	revoked, gone := r.create("gone", Viewer)
	if _, err := r.Revoke(context.Background(), Revocation{ID: revoked.ID, Actor: "t"}); err != nil {
		t.Fatal(err)
	}
	_, old, err := r.Create(context.Background(), Spec{Name: "old", Role: Viewer, Actor: "t",
		ExpiresIn: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	r.clock.Add(time.Second)
	for name, secret := range map[string]string{
		"empty": "", "short": "onced_x", "long": strings.Repeat("a", 513), "space": good[:57] + " ",
		"unknown": Prefix + strings.Repeat("a", 52), "other case": strings.ToUpper(good),
		"cut": good[:len(good)-1], "longer": good + "a", "revoked": gone, "expired": old,
		"its sum": fmt.Sprintf("%x", sumOf(good)), "binary": strings.Repeat("\x00", 58),
	} {
		r.open()                                     // failures are counted anew
		if err := r.try(secret); err != ErrRefused { //nolint:errorlint // this very value
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := r.try(good); err != nil {
		t.Error(err)
	}
}

func TestExpiryIsSeenThroughTheCache(t *testing.T) {
	r := newRig(t)
	_, secret, err := r.Create(context.Background(), Spec{Name: "a", Role: Viewer, Actor: "t",
		ExpiresIn: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.try(secret); err != nil {
		t.Fatal(err)
	}
	r.clock.Add(10*time.Second - 1)
	if err := r.try(secret); err != nil {
		t.Errorf("an instant too early: %v", err)
	}
	r.clock.Add(1)
	if err := r.try(secret); !errors.Is(err, ErrRefused) {
		t.Errorf("at its end: %v", err)
	}
}

func TestRevokeIsSeenThroughTheCache(t *testing.T) {
	r := newRig(t)
	tok, secret := r.create("a", Viewer)
	if err := r.try(secret); err != nil {
		t.Fatal(err)
	}
	got, err := r.Revoke(context.Background(), Revocation{ID: tok.ID, Actor: "t", Reason: "leaked"})
	if err != nil || got.RevokedAt.IsZero() || got.Version != tok.Version+1 {
		t.Fatalf("%+v %v", got, err)
	}
	if err := r.try(secret); !errors.Is(err, ErrRefused) {
		t.Errorf("after its revocation: %v", err)
	}
	events := len(r.events())
	again, err := r.Revoke(context.Background(), Revocation{ID: tok.ID, Actor: "other"})
	if err != nil || again != got || len(r.events()) != events {
		t.Errorf("once more: %+v %v, %d events", again, err, len(r.events())-events)
	}
	if _, err := r.Revoke(context.Background(), Revocation{ID: "tk_none", Actor: "t"}); !errors.Is(err,
		ErrNotFound) {
		t.Errorf("no such token: %v", err)
	}
}

// A look-up that read the store before a revocation, and comes to the cache
// after it, must not bring the token back.
func TestLateLookupIsNotCached(t *testing.T) {
	r := newRig(t)
	tok, secret := r.create("a", Viewer)
	before := r.cache.generation()
	if _, err := r.Revoke(context.Background(), Revocation{ID: tok.ID, Actor: "t"}); err != nil {
		t.Fatal(err)
	}
	r.cache.put(sumOf(secret), cached{token: tok, until: r.clock.Now().Add(time.Hour)}, before)
	if err := r.try(secret); !errors.Is(err, ErrRefused) {
		t.Errorf("a revoked token came back: %v", err)
	}
}

func TestRevocationThatMayHaveBeenStored(t *testing.T) {
	for _, when := range []faultkv.When{faultkv.Lost, faultkv.Kept} {
		r := newRig(t)
		tok, secret := r.create("a", Viewer)
		if err := r.try(secret); err != nil {
			t.Fatal(err)
		}
		r.store.Arm(faultkv.Plan{When: when})
		if _, err := r.Revoke(context.Background(), Revocation{ID: tok.ID, Actor: "t"}); !errors.Is(err,
			kv.ErrCommitUnknown) {
			t.Fatal(err)
		}
		if err := r.try(secret); (when == faultkv.Kept) != errors.Is(err, ErrRefused) {
			t.Errorf("%v: memory does not follow the store: %v", when, err)
		}
		if _, err := r.Revoke(context.Background(), Revocation{ID: tok.ID, Actor: "t"}); err != nil {
			t.Fatal(err)
		}
		if err := r.try(secret); !errors.Is(err, ErrRefused) {
			t.Errorf("%v: %v", when, err)
		}
		revoked := 0
		for _, e := range r.events() {
			if e.Type == "operator.token.revoked" {
				revoked++
			}
		}
		if revoked != 1 {
			t.Errorf("%v: told %d times", when, revoked)
		}
	}
}

func TestRotation(t *testing.T) {
	r := newRig(t)
	old, oldSecret, err := r.Create(context.Background(), Spec{Name: "shop", Role: Client, Principal: "acme",
		Actor: "t"})
	if err != nil {
		t.Fatal(err)
	}
	rot := Rotation{ID: old.ID, Version: old.Version, Overlap: time.Hour, Actor: "t"}
	next, secret, err := r.Rotate(context.Background(), rot)
	if err != nil {
		t.Fatal(err)
	}
	if next.ID == old.ID || next.Name != "shop" || next.Role != Client || next.Principal != "acme" {
		t.Errorf("%+v", next)
	}
	if _, _, err := r.Rotate(context.Background(), rot); !errors.Is(err, ErrStale) {
		t.Errorf("the same rotation once more: %v", err)
	}
	for _, s := range []string{oldSecret, secret} {
		if who, err := r.Authenticate(context.Background(), s, peer); err != nil || who.Principal != "acme" {
			t.Errorf("in the overlap: %+v %v", who, err)
		}
	}
	r.clock.Add(time.Hour)
	if err := r.try(oldSecret); !errors.Is(err, ErrRefused) {
		t.Errorf("after the overlap: %v", err)
	}
	if err := r.try(secret); err != nil {
		t.Error(err)
	}
	if got, err := r.Get(context.Background(), old.ID); err != nil || got.ReplacedBy != next.ID {
		t.Errorf("%+v %v", got, err)
	}
	if _, _, err := r.Rotate(context.Background(), Rotation{ID: old.ID, Actor: "t"}); !errors.Is(err,
		ErrNotLive) {
		t.Errorf("of an ended token: %v", err)
	}
	if _, _, err := r.Create(context.Background(), Spec{Name: "shop", Role: Client, Actor: "t"}); !errors.Is(
		err, ErrNameTaken) {
		t.Errorf("the name belongs to the new token: %v", err)
	}
}

func TestRotationDoesNotLengthenALife(t *testing.T) {
	r := newRig(t)
	old, secret, err := r.Create(context.Background(), Spec{Name: "a", Role: Viewer, Actor: "t",
		ExpiresIn: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Rotate(context.Background(), Rotation{ID: old.ID, Overlap: time.Hour,
		Actor: "t"}); err != nil {
		t.Fatal(err)
	}
	r.clock.Add(time.Minute)
	if err := r.try(secret); !errors.Is(err, ErrRefused) {
		t.Errorf("the old token outlived its end: %v", err)
	}
}

func TestNamesAreUniqueAmongTheLiving(t *testing.T) {
	r := newRig(t)
	first, _ := r.create("a", Viewer)
	if _, _, err := r.Create(context.Background(), Spec{Name: "a", Role: Admin, Actor: "t"}); !errors.Is(err,
		ErrNameTaken) {
		t.Fatalf("%v", err)
	}
	if _, err := r.Revoke(context.Background(), Revocation{ID: first.ID, Actor: "t"}); err != nil {
		t.Fatal(err)
	}
	r.create("a", Viewer)
}

func TestInvalidSpecs(t *testing.T) {
	r := newRig(t)
	good := Spec{Name: "a", Role: Viewer, Actor: "t"}
	for name, change := range map[string]func(*Spec){
		"name":       func(s *Spec) { s.Name = "" },
		"name ":      func(s *Spec) { s.Name = "a b" },
		"name\n":     func(s *Spec) { s.Name = "a\nb" },
		"name/":      func(s *Spec) { s.Name = "a/b" },
		"name long":  func(s *Spec) { s.Name = strings.Repeat("a", 129) },
		"principal":  func(s *Spec) { s.Principal = "ü" },
		"role":       func(s *Spec) { s.Role = "root" },
		"role none":  func(s *Spec) { s.Role = "" },
		"expires_in": func(s *Spec) { s.ExpiresIn = -1 },
		"actor":      func(s *Spec) { s.Actor = "" },
	} {
		s := good
		change(&s)
		var f *FieldError
		if _, _, err := r.Create(context.Background(), s); !errors.As(err, &f) || !strings.HasPrefix(name,
			f.Field) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := r.store.Count(); got != 0 {
		t.Errorf("%d commits", got)
	}
	if _, err := New(r.store, Config{}); err == nil {
		t.Error("a service without an audit")
	}
}

func TestActsAreAudited(t *testing.T) {
	r := newRig(t)
	tok, s1 := r.create("a", Client)
	next, s2, err := r.Rotate(context.Background(), Rotation{ID: tok.ID, Overlap: time.Minute, Actor: "eve"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Revoke(context.Background(), Revocation{ID: next.ID, Actor: "bob",
		Reason: "leaked"}); err != nil {
		t.Fatal(err)
	}
	events := r.events()
	want := []struct{ typ, subject, actor string }{
		{"operator.token.created", tok.ID, "test"},
		{"operator.token.rotated", next.ID, "eve"},
		{"operator.token.revoked", next.ID, "bob"},
	}
	if len(events) != len(want) {
		t.Fatalf("%d events", len(events))
	}
	ids := map[string]bool{}
	for i, e := range events {
		if e.Type != want[i].typ || e.Subject != want[i].subject || !strings.Contains(string(e.Data),
			`"actor":"`+want[i].actor) {
			t.Errorf("%s", e.JSON())
		}
		for _, s := range []string{s1, s2, fmt.Sprintf("%x", sumOf(s1))} {
			if strings.Contains(string(e.JSON()), strings.TrimPrefix(s, Prefix)) {
				t.Errorf("a secret in %s", e.JSON())
			}
		}
		if ids[e.ID] {
			t.Errorf("the id %s twice", e.ID)
		}
		ids[e.ID] = true
	}
}

func TestGuessingIsSlowed(t *testing.T) {
	r := newRig(t)
	_, lately := r.create("lately", Viewer)
	_, never := r.create("never", Viewer)
	if err := r.try(lately); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if err := r.try(fmt.Sprintf("%s%052d", Prefix, i)); !errors.Is(err, ErrRefused) {
			t.Fatalf("guess %d: %v", i, err)
		}
	}
	r.clock.Add(20 * time.Second)
	var blocked *BlockedError
	guess := Prefix + strings.Repeat("a", 52)
	if err := r.try(guess); !errors.As(err, &blocked) || blocked.RetryAfter != 40*time.Second {
		t.Errorf("a guess too many: %v", err)
	}
	// Good clients behind the same address are none of the guesser's business:
	// neither one that was seen lately, nor one whose look-up is old, nor a new one.
	if err := r.try(lately); err != nil {
		t.Errorf("seen lately: %v", err)
	}
	r.cache.m[sumOf(lately)] = cached{token: r.cache.m[sumOf(lately)].token}
	if err := r.try(lately); err != nil {
		t.Errorf("seen long ago: %v", err)
	}
	if err := r.try(never); err != nil {
		t.Errorf("never seen: %v", err)
	}
	_, err := r.Authenticate(context.Background(), guess, netip.MustParseAddr("192.0.2.2"))
	if !errors.Is(err, ErrRefused) {
		t.Errorf("another address: %v", err)
	}
	r.clock.Add(40 * time.Second)
	if err := r.try(guess); !errors.Is(err, ErrRefused) {
		t.Errorf("after the window: %v", err)
	}
}

// countedStore counts what is asked of a store.
type countedStore struct {
	kv.Store
	views, updates int
}

// View implements kv.Store.
func (c *countedStore) View(ctx context.Context, fn func(kv.Reader) error) error {
	c.views++
	return c.Store.View(ctx, fn)
}

// Update implements kv.Store.
func (c *countedStore) Update(ctx context.Context, fn func(kv.Writer) error) error {
	c.updates++
	return c.Store.Update(ctx, fn)
}

// A guesser gets no more work out of the store than one read for a text that
// could be a token, and none for one that could not.
func TestGuessCostsOneRead(t *testing.T) {
	r := newRig(t)
	store := &countedStore{Store: r.store}
	s, err := New(store, Config{Feed: r.feed, Clock: r.clock})
	if err != nil {
		t.Fatal(err)
	}
	for range 30 {
		_, _ = s.Authenticate(context.Background(), "short", peer)
		_, _ = s.Authenticate(context.Background(), Prefix+strings.Repeat("a", 52), peer)
	}
	if store.views != 30 || store.updates != 0 {
		t.Errorf("60 guesses, of which 30 could be tokens: %d reads, %d writes", store.views, store.updates)
	}
}

func TestGuessesOfOneNetworkCountTogether(t *testing.T) {
	l := limiter{limit: 1, window: time.Minute, size: 8}
	now := newClock().Now()
	l.fail(now, netip.MustParseAddr("2001:db8:1:2::1"))
	l.fail(now, netip.MustParseAddr("2001:db8:1:2:ffff::2"))
	for text, want := range map[string]bool{"2001:db8:1:2::3": true, "2001:db8:1:3::1": false,
		"192.0.2.1": false} {
		if got := l.fail(now, netip.MustParseAddr(text)) > 0; got != want {
			t.Errorf("%s: blocked %v", text, got)
		}
	}
	l.fail(now, netip.MustParseAddr("192.0.2.7"))
	if l.fail(now, netip.MustParseAddr("::ffff:192.0.2.7")) == 0 {
		t.Error("one address in two forms counts as two")
	}
	l.fail(now, netip.Addr{})
	if l.fail(now, netip.Addr{}) == 0 {
		t.Error("a peer without an address is not counted")
	}
}

func TestCountersAreBounded(t *testing.T) {
	l := limiter{limit: 1, window: time.Minute, size: 100}
	now := newClock().Now()
	a := netip.MustParseAddr("10.0.0.0")
	for range 10_000 {
		l.fail(now, a)
		a = a.Next()
	}
	if len(l.m) > 100 {
		t.Errorf("%d addresses are kept", len(l.m))
	}
	if l.fail(now, a.Prev()) == 0 {
		t.Error("the last address was not counted")
	}
}

func TestCacheIsBounded(t *testing.T) {
	c := cache{size: 10}
	for i := range 100 {
		c.put(sumOf(fmt.Sprint(i)), cached{}, c.generation())
	}
	if len(c.m) != 10 {
		t.Errorf("%d tokens are kept", len(c.m))
	}
}

func TestCachedLookupReadsNothing(t *testing.T) {
	r := newRig(t)
	_, secret := r.create("a", Viewer)
	if err := r.try(secret); err != nil {
		t.Fatal(err)
	}
	r.store.Crash() // whatever asks the store now fails
	if err := r.try(secret); err != nil {
		t.Errorf("a cached token needed the store: %v", err)
	}
	r.clock.Add(cacheLife)
	if err := r.try(secret); !errors.Is(err, faultkv.ErrCrashed) {
		t.Errorf("a look-up a minute old: %v", err)
	}
}

func TestStoreFailureIsNoRefusal(t *testing.T) {
	r := newRig(t)
	r.store.Crash()
	if err := r.try(Prefix + strings.Repeat("a", 52)); !errors.Is(err, faultkv.ErrCrashed) {
		t.Errorf("%v", err)
	}
	if len(r.limiter.m) != 0 {
		t.Error("our failure was counted as the caller's")
	}
}

func TestLastUseIsWrittenOnceAnHour(t *testing.T) {
	r := newRig(t)
	tok, secret := r.create("a", Viewer)
	before := r.store.Count()
	for range 50 {
		if err := r.try(secret); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.store.Count() - before; n != 1 {
		t.Errorf("%d commits for 50 uses", n)
	}
	got, err := r.Get(context.Background(), tok.ID)
	// It is coarse, but a token was never used before there was one.
	if err != nil || !got.LastUsed.Equal(tok.CreatedAt) || got.Version != tok.Version {
		t.Errorf("%+v %v", got, err)
	}
	r.open() // a restart forgets the cache, not the use
	if err := r.try(secret); err != nil {
		t.Fatal(err)
	}
	if n := r.store.Count(); n != 0 {
		t.Errorf("%d commits after a restart within the hour", n)
	}
	r.clock.Add(time.Hour)
	if err := r.try(secret); err != nil || r.store.Count() != 1 {
		t.Errorf("an hour later: %v, %d commits", err, r.store.Count())
	}
	if got, err = r.Get(context.Background(), tok.ID); err != nil ||
		!got.LastUsed.Equal(r.clock.Now().Truncate(time.Hour)) {
		t.Errorf("an hour later: %+v %v", got, err)
	}
}

func TestUseGoesOnWhenItCannotBeWritten(t *testing.T) {
	r := newRig(t)
	_, secret := r.create("a", Viewer)
	r.store.Arm(faultkv.Plan{When: faultkv.Lost, Mode: faultkv.Stop})
	if err := r.try(secret); err != nil {
		t.Errorf("a store without writes let nobody in: %v", err)
	}
}

func TestBootstrapShowsOneToken(t *testing.T) {
	r := newRig(t)
	var shown []string
	show := func(s string) error { shown = append(shown, s); return nil }
	for i := range 3 {
		called, err := r.Bootstrap(context.Background(), show)
		if err != nil || called != (i == 0) {
			t.Fatalf("start %d: %v %v", i, called, err)
		}
		r.open()
	}
	if len(shown) != 1 {
		t.Fatalf("%d tokens were shown", len(shown))
	}
	who, err := r.Authenticate(context.Background(), shown[0], peer)
	if err != nil || who.Role != Admin {
		t.Errorf("%+v %v", who, err)
	}
}

func TestBootstrapAfterTokensByHand(t *testing.T) {
	r := newRig(t)
	r.create("mine", Admin)
	for range 2 {
		called, err := r.Bootstrap(context.Background(), func(string) error { return nil })
		if called || err != nil {
			t.Errorf("%v %v", called, err)
		}
	}
}

// At whatever commit the first start dies, the next ones lead to exactly one
// living token, and it is one that was shown.
func TestBootstrapSurvivesEveryCrash(t *testing.T) {
	start := func(r *rig, shown *[]string) error {
		_, err := r.Bootstrap(context.Background(), func(s string) error {
			return r.store.Call("show", func() error { *shown = append(*shown, s); return nil })
		})
		return err
	}
	probe := newRig(t)
	if err := start(probe, new([]string)); err != nil {
		t.Fatal(err)
	}
	points := probe.store.Points()
	if len(points) < 3 {
		t.Fatalf("only %d points", len(points))
	}
	for _, plan := range faultkv.Plans(points) {
		t.Run(plan.String(), func(t *testing.T) {
			r := newRig(t)
			r.open(plan)
			var shown []string
			if err := start(r, &shown); err == nil {
				t.Fatal("the plan did not strike")
			}
			if r.store.Crashed() {
				<-r.store.Down()
			}
			for range 2 {
				r.open()
				if err := start(r, &shown); err != nil {
					t.Fatal(err)
				}
			}
			tokens, _, err := r.List(context.Background(), "", 0)
			if err != nil || len(tokens) != 1 {
				t.Fatalf("%d tokens, %v", len(tokens), err)
			}
			if len(shown) == 0 {
				t.Fatal("nobody was shown a token")
			}
			if err := r.try(shown[len(shown)-1]); err != nil {
				t.Errorf("the token shown last: %v", err)
			}
		})
	}
}

func TestProvide(t *testing.T) {
	r := newRig(t)
	first, second := strings.Repeat("s3cret!", 6), strings.Repeat("0ther?", 6)
	for range 2 {
		if _, err := r.Provide(context.Background(), first); err != nil {
			t.Fatal(err)
		}
	}
	if called, err := r.Bootstrap(context.Background(), nil); called || err != nil {
		t.Errorf("a token is provided and another was made: %v %v", called, err)
	}
	if who, err := r.Authenticate(context.Background(), first, peer); err != nil || who.Role != Admin {
		t.Errorf("%+v %v", who, err)
	}
	if _, err := r.Provide(context.Background(), second); err != nil {
		t.Fatal(err)
	}
	if err := r.try(first); !errors.Is(err, ErrRefused) {
		t.Errorf("the earlier secret: %v", err)
	}
	if err := r.try(second); err != nil {
		t.Errorf("the present secret: %v", err)
	}
	_, viewer := r.create("viewer", Viewer)
	var f *FieldError
	for _, bad := range []string{first, viewer, "tiny-x9", strings.Repeat("a b", 20), strings.Repeat("a",
		513)} {
		if _, err := r.Provide(context.Background(), bad); !errors.As(err, &f) ||
			strings.Contains(err.Error(), bad) {
			t.Errorf("%.10s: %v", bad, err)
		}
	}
}

func TestListPages(t *testing.T) {
	r := newRig(t)
	want := []string{}
	for i := range 7 {
		tok, _ := r.create(fmt.Sprint("t", i), Viewer)
		want = append(want, tok.ID)
		r.clock.Add(time.Second)
	}
	var got []string
	after := ""
	for range 10 {
		page, next, err := r.List(context.Background(), after, 3)
		if err != nil {
			t.Fatal(err)
		}
		for _, tok := range page {
			got = append(got, tok.ID)
		}
		if after = next; next == "" {
			break
		}
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestRoles(t *testing.T) {
	all := []Permission{ClaimsOwn, ClaimsRead, ClaimsContent, ClaimsResolve, TokensManage, MetricsRead,
		RunsOwn, RunsRead, RunsContent, RunsOperate, DefinitionsRead, DefinitionsManage, RequestsSend}
	want := map[Role]string{Metrics: "000001 000000 0", Client: "100000 100010 1",
		Viewer: "010001 010010 0", Operator: "011101 011110 0", Admin: "111111 111111 0",
		"": "000000 000000 0", "root": "000000 000000 0"}
	for role, bits := range want {
		bits = strings.ReplaceAll(bits, " ", "")
		for i, p := range all {
			if role.Can(p) != (bits[i] == '1') {
				t.Errorf("%q and %s: %v", role, p, role.Can(p))
			}
		}
	}
	if len(Roles()) != len(grants) {
		t.Error("Roles leaves one out")
	}
}

func TestBearer(t *testing.T) {
	for _, c := range []struct {
		values []string
		secret string
		ok     bool
		given  bool
	}{
		{nil, "", false, false},
		{[]string{"Bearer abc"}, "abc", true, true},
		{[]string{"bearer abc"}, "abc", true, true},
		{[]string{"Bearer abc", "Bearer abc"}, "", false, true},
		{[]string{"Basic abc"}, "", false, true},
		{[]string{"Bearer"}, "", false, true},
		{[]string{"Bearer "}, "", false, true},
		{[]string{"Bearerabc"}, "", false, true},
		{[]string{""}, "", false, true},
		{[]string{"Bearer " + strings.Repeat("a", 600)}, "", false, true},
	} {
		h := http.Header{}
		for _, v := range c.values {
			h.Add("Authorization", v)
		}
		if s, ok, given := Bearer(h); s != c.secret || ok != c.ok || given != c.given {
			t.Errorf("%q: %q %v %v", c.values, s, ok, given)
		}
	}
}

func TestRequestWithoutTokenIsNoGuess(t *testing.T) {
	r := newRig(t)
	req, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, "/?access_token=x", nil)
	for range 100 {
		if _, err := r.Identify(req, peer); !errors.Is(err, ErrRefused) {
			t.Fatal(err)
		}
	}
	req.Header.Set("Authorization", "Basic eHg=")
	for range 10 {
		if _, err := r.Identify(req, peer); !errors.Is(err, ErrRefused) {
			t.Fatal(err)
		}
	}
	var blocked *BlockedError
	if _, err := r.Identify(req, peer); !errors.As(err, &blocked) {
		t.Errorf("a wrong scheme is a guess: %v", err)
	}
}

func TestOldestDeadTokenMakesRoom(t *testing.T) {
	r := newRig(t)
	dead, _ := r.create("dead", Viewer)
	if _, err := r.Revoke(context.Background(), Revocation{ID: dead.ID, Actor: "t"}); err != nil {
		t.Fatal(err)
	}
	r.clock.Add(time.Second)
	ctx := context.Background()
	for n := 1; n < MaxTokens; {
		err := r.store.Update(ctx, func(w kv.Writer) error {
			for i := n; i < min(n+1000, MaxTokens); i++ {
				key := sumOf(fmt.Sprint(i))
				name := fmt.Sprint("n", i)
				row := row{ID: fmt.Sprintf("tk_z%05d", i), Sum: key[:], Name: name, Role: Viewer,
					Principal: name,
					Version:   1, CreatedAt: 1}
				err := errors.Join(tokenTable.Put(w, sumKey(row.Sum), row), idTable.Put(w, idKey(row.ID),
					idRow{row.Sum}),
					nameTable.Put(w, nameKey(name), nameRow{row.ID}))
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		n = min(n+1000, MaxTokens)
	}
	r.create("one-more", Viewer)
	if _, err := r.Get(ctx, dead.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("the dead token is still there: %v", err)
	}
	if _, _, err := r.Create(ctx, Spec{Name: "too-many", Role: Viewer, Actor: "t"}); !errors.Is(err,
		ErrTooMany) {
		t.Errorf("%v", err)
	}
}
