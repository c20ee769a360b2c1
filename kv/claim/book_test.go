package claim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"onced/kv"
	"onced/kv/feed"
)

var foundPaid = Finding{Answer: FoundDone, Result: text("paid")}

func TestIK01_DoneIsReplayedAcrossRestarts(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(r *rig) {
		r.want(Acquired)(r.begin(ask("A")))
		r.want(Finished)(r.done("A", "paid"))
		before := r.commits.Load()
		for range 2 {
			d := r.want(Replay)(r.begin(ask("B")))
			if string(d.Record.Result.Data) != "paid" || d.Record.Result.Type != "text/plain" {
				r.Errorf("replayed %+v", d.Record.Result)
			}
			if d.Record.TokenSum != [32]byte{} || d.Record.Intent != nil {
				r.Error("a replay shows the owner's token or intent")
			}
			r.restart()
		}
		if n := r.commits.Load() - before; n > 2 { // the openings of boltkv count the epoch
			r.Errorf("replays cost %d commits", n)
		}
	})
}

func TestIK04_MismatchChangesNothingAndShowsNothing(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(r *rig) {
		other := func(b *Request) { b.Fingerprint = FingerprintOf([]byte("other body")) }
		r.want(Acquired)(r.begin(ask("A")))
		r.want(Mismatch)(r.begin(ask("B", other)))
		r.want(Mismatch)(r.book.BeginWait(r.Context(), ask("B", other), time.Hour))
		r.want(Finished)(r.done("A", "paid"))
		d := r.want(Mismatch)(r.begin(ask("B", other, takeOver)))
		if d.Record.Result.Data != nil || d.Record.TokenSum != [32]byte{} || d.Record.Intent != nil {
			r.Errorf("a mismatch shows %+v", d.Record)
		}
		r.want(Replay)(r.begin(ask("C")))
	})
}

func TestIK05_IK06_PrincipalsAndOperationsAreApart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ids := []string{ScopeOf("shop1", "pay"), ScopeOf("shop2", "pay"), ScopeOf("shop1", "refund"),
		ScopeOf("shop1/pay", ""), EventScopeOf("shop1", "pay")}
	for i, scope := range ids {
		b := ask("A", withID(scope, "k"))
		b.Fingerprint[0] = byte(i)
		r.want(Acquired)(r.begin(b))
		r.want(Finished)(r.book.Done(r.Context(), b.Ref(), text(scope)))
	}
	for i, scope := range ids {
		b := ask("B", withID(scope, "k"))
		b.Fingerprint[0] = byte(i)
		if d := r.want(Replay)(r.begin(b)); string(d.Record.Result.Data) != scope {
			r.Errorf("%s got the answer of %s", scope, d.Record.Result.Data)
		}
	}
}

func TestIK07_IK08_IK09_DeadProcessLeavesUnknown(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(r *rig) {
		r.want(Acquired)(r.begin(ask("A")))
		r.clock.Add(time.Minute)
		r.restart()
		opened := r.clock.Now()
		r.clock.Add(time.Second)
		d := r.want(InDoubt)(r.begin(ask("B")))
		if d.Record.TokenSum != [32]byte{} || d.Record.Intent != nil || d.Record.Cause != CauseProcessEnded {
			r.Errorf("in doubt shows %+v", d.Record)
		}
		d = r.want(TookOver)(r.begin(ask("B", takeOver)))
		if !d.Record.LastSendBefore.Equal(opened) || !d.Record.FirstAt.Equal(start) ||
			!d.Record.UnknownSince.Equal(opened) || string(d.Record.Intent) != "charge 10.00" {
			r.Errorf("the new owner is told %+v", d.Record)
		}
		r.want(StillUnknown)(r.book.LookedUp(r.Context(), ref("B"), Finding{Reason: "bank is down"}))
		r.want(InDoubt)(r.begin(ask("C")))
		r.want(TookOver)(r.begin(ask("C", takeOver)))
		r.want(Finished)(r.book.LookedUp(r.Context(), ref("C"), foundPaid))
		r.want(Replay)(r.begin(ask("D")))
	})
}

func TestIK14_IK15_StaleOwnerIsFenced(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(r *rig) {
		r.want(Acquired)(r.begin(ask("A", remote(10*time.Second))))
		r.clock.Add(10 * time.Second)
		r.want(InDoubt)(r.begin(ask("B")))
		d := r.want(TookOver)(r.begin(ask("B", takeOver)))
		if !d.Record.LastSendBefore.Equal(r.clock.Now()) || d.Record.Cause != CauseLeaseEnded {
			r.Errorf("the new owner is told %+v", d.Record)
		}
		before := r.commits.Load()
		r.wantErr(ErrFenced)(r.done("A", "mine"))
		r.wantErr(ErrFenced)(r.book.Release(r.Context(), ref("A")))
		r.wantErr(ErrFenced)(r.book.Heartbeat(r.Context(), ref("A"), time.Minute))
		r.wantErr(ErrFenced)(r.book.Refused(r.Context(), ref("A"), text("no")))
		r.wantErr(ErrFenced)(r.book.Unknown(r.Context(), ref("A"), ""))
		r.wantErr(ErrFenced)(r.book.Repeat(r.Context(), ref("A"), time.Hour))
		if n := r.commits.Load() - before; n != 0 {
			r.Errorf("a stale owner wrote %d times", n)
		}
		r.want(Finished)(r.book.LookedUp(r.Context(), ref("B"), foundPaid))
		r.wantErr(ErrFenced)(r.done("A", "mine"))
		var st *StateError
		if _, err := r.done("A", "mine"); !errors.As(err, &st) || st.State != Done || st.Op != "done" {
			r.Errorf("the error does not say the state: %v", err)
		}
		if d := r.want(Replay)(r.begin(ask("C"))); string(d.Record.Result.Data) != "paid" {
			r.Errorf("replay is %s", d.Record.Result.Data)
		}
	})
}

func TestIK19_ResultsAreReplayedByteForByte(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(r *rig) {
		big := bytes.Repeat([]byte{0, 0xff, 'x', '\n'}, 5<<20/4)
		for i, res := range []Result{{}, {Type: "null"}, {Type: "application/json", Data: []byte("null")},
			{Data: []byte{}}, {Type: "x", Data: []byte{0, 1, 0xfe, 0xff}}, {Type: "big", Data: big},
			{Type: "<&>\u2028", Data: []byte("\xff\xfe not UTF-8")}} {
			b := ask("A", withID("s", fmt.Sprint(i)))
			r.want(Acquired)(r.begin(b))
			r.want(Finished)(r.book.Done(r.Context(), b.Ref(), res))
			b.Token = token("B")
			d := r.want(Replay)(r.begin(b))
			if d.Record.Result.Type != res.Type || !bytes.Equal(d.Record.Result.Data, res.Data) ||
				d.Record.ResultSize != int64(len(res.Data)) || d.Record.Omitted {
				r.Errorf("result %d is replayed as %q, %d bytes", i,
					d.Record.Result.Type, d.Record.ResultSize)
			}
		}
	})
}

func TestIK19_ResultAboveTheLimitIsDoneAllTheSame(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.MaxResult = 10
	r.restart()
	r.want(Acquired)(r.begin(ask("A")))
	for range 2 { // again after a lost answer
		d := r.want(Finished)(r.done("A", "eleven byte"))
		if !d.Record.Omitted || d.Record.ResultSize != 11 {
			r.Errorf("stored %+v", d.Record)
		}
	}
	r.wantErr(ErrTerminal)(r.done("A", "other bytes"))
	d := r.want(Replay)(r.begin(ask("B", takeOver)))
	if !d.Record.Omitted || d.Record.ResultSize != 11 || len(d.Record.Result.Data) != 0 {
		r.Errorf("replayed %+v", d.Record)
	}
}

func TestIK20_KeysScopesAndTokensHaveLimits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	long := func(n int) string { return strings.Repeat("k", n) }
	for _, c := range []struct {
		scope, key, token string
		want              string // part of the error; "" when it is accepted
	}{
		{"s", long(255), token("A"), ""},
		{long(512), long(255), token("A"), ""},
		{"s", "a \u00e9 \u4e16", token("A"), ""},
		{"s", "", token("A"), "key is empty, it has 1 to 255 bytes"},
		{"s", " \u00a0 ", token("A"), "key is blank"},
		{"s", long(256), token("A"), "key is 256 bytes long, the limit is 255"},
		{"s", "a\tb", token("A"), "key holds the control character U+0009"},
		{"s", "a\x00b", token("A"), "key holds the control character U+0000"},
		{"s", "a\u0085b", token("A"), "key holds the control character U+0085"},
		{"s", "a\xffb", token("A"), "key is not valid UTF-8"},
		{"", "k", token("A"), "scope is empty"},
		{long(513), "k", token("A"), "scope is 513 bytes long, the limit is 512"},
		{"s", "k", "", "token is 0 bytes long, it has 16 to 128"},
		{"s", "k", long(15), "token is 15 bytes long"},
		{"s", "k", long(129), "token is 129 bytes long"},
	} {
		b := ask("A", withID(c.scope, c.key))
		b.Token = c.token
		_, err := r.begin(b)
		_, errTx := r.book.BeginWait(r.Context(), b, time.Hour)
		if c.want == "" {
			if err != nil || errTx != nil {
				r.Errorf("%.20q: %v, %v", c.key, err, errTx)
			}
			continue
		}
		for _, err := range []error{err, errTx} {
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				r.Errorf("%.20q %.20q: got %v, want %s", c.scope, c.key, err, c.want)
			}
		}
	}
	if _, _, err := r.book.Get(r.Context(), ID{"s", ""}); !errors.Is(err, ErrInvalid) {
		r.Errorf("get: %v", err)
	}
	r.wantErr(ErrInvalid)(r.book.Done(r.Context(), Ref{ID{"s", ""}, token("A")}, Result{}))
	tooBig := ask("A")
	tooBig.Intent = make([]byte, MaxIntent+1)
	r.wantErr(ErrInvalid)(r.begin(tooBig))
	tooBig.Intent = tooBig.Intent[1:]
	r.want(Acquired)(r.begin(tooBig))
	for range 2 { // an outcome is never refused for its looks
		d := r.want(Finished)(r.book.Done(r.Context(), ref("A"), Result{Type: long(253) + "\xff\u00e9"}))
		if d.Record.Result.Type != long(253)+"??" && d.Record.Result.Type != long(253)+"?" {
			r.Errorf("type %q", d.Record.Result.Type)
		}
	}
}

func TestIK20_OwnerMustBeNamed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.wantErr(ErrInvalid)(r.begin(ask("A", func(b *Request) { b.Owner = Owner{} })))
	r.wantErr(ErrInvalid)(r.begin(ask("A", func(b *Request) { b.Owner.Lease = time.Minute })))
	r.wantErr(ErrInvalid)(r.begin(ask("A", remote(time.Millisecond))))
}

func TestIK25_FingerprintIsOfRawBytes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	body := func(s string) func(*Request) {
		return func(b *Request) { b.Fingerprint = FingerprintOf([]byte("POST"), []byte("/pay"), []byte(s)) }
	}
	r.want(Acquired)(r.begin(ask("A", body(`{"a":1,"b":2}`))))
	r.want(Mismatch)(r.begin(ask("B", body(`{"a": 1, "b": 2}`))))
	r.want(Mismatch)(r.begin(ask("B", body(`{"b":2,"a":1}`))))
	r.want(InFlight)(r.begin(ask("B", body(`{"a":1,"b":2}`))))
	if FingerprintOf([]byte("ab"), []byte("c")) == FingerprintOf([]byte("a"), []byte("bc")) {
		t.Error("moving a byte between parts is not seen")
	}
}

func TestIK27_ResolutionIsAuditedInTheSameTransaction(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(r *rig) {
		for i, v := range []Verdict{VerdictDone, VerdictRefused, VerdictFree} {
			b := ask("A", withID("s/with \"quotes\"", fmt.Sprint("key ", i)))
			r.want(Acquired)(r.begin(b))
			r.want(StillUnknown)(r.book.Unknown(r.Context(), b.Ref(), "timeout"))
			c, _, err := r.book.Get(r.Context(), b.ID)
			if err != nil {
				r.Fatal(err)
			}
			res := Resolution{ID: b.ID, Version: c.Record.Version, Verdict: v, Result: text("by hand"),
				Actor: "ann", Reason: "asked the bank"}
			stale := res
			stale.Version++
			r.wantErr(ErrStale)(r.book.Resolve(r.Context(), stale))
			anonymous := res
			anonymous.Actor = " "
			r.wantErr(ErrInvalid)(r.book.Resolve(r.Context(), anonymous))
			d, err := r.book.Resolve(r.Context(), res)
			if err != nil || d.Record.TokenSum != [32]byte{} {
				r.Fatalf("%v: %+v, %v", v, d, err)
			}
			b.Token = token("B")
			if v == VerdictFree {
				r.want(Freed)(r.book.Resolve(r.Context(), res)) // again after a lost answer
				other := res
				other.Actor = "bob"
				r.wantErr(ErrStale)(r.book.Resolve(r.Context(), other))
				r.want(Acquired)(r.begin(b))
				continue
			}
			r.want(Finished)(r.book.Resolve(r.Context(), res))
			d = r.want(Replay)(r.begin(b))
			if string(d.Record.Result.Data) != "by hand" || d.Record.Actor != "ann" ||
				d.Record.State.String() != v.String() {
				r.Errorf("replayed %+v", d.Record)
			}
		}
		r.checkAudit()
	})
}

func (r *rig) checkAudit() {
	r.Helper()
	p, err := r.feed.Read(r.Context(), r.store, "", 10)
	if err != nil {
		r.Fatal(err)
	}
	if len(p.Events) != 3 {
		r.Fatalf("%d notifications for 3 acts", len(p.Events))
	}
	for i, e := range p.Events {
		var data resolved
		if err := json.Unmarshal(e.Data, &data); err != nil {
			r.Fatal(err)
		}
		if e.Type != EventResolved || data.Actor != "ann" || data.Reason != "asked the bank" ||
			data.Verdict != Verdict(i+1).String() || data.Key != fmt.Sprint("key ", i) || data.Try != 1 {
			r.Errorf("notification %d is %s %s", i, e.Type, e.Data)
		}
		if bytes.Contains(e.Data, []byte(token("A"))) {
			r.Error("the notification shows a token")
		}
	}
}

func TestIK27_ResolveNeedsAFeed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.Feed = nil
	r.restart()
	r.want(Acquired)(r.begin(ask("A")))
	d := r.want(StillUnknown)(r.book.Unknown(r.Context(), ref("A"), ""))
	r.wantErr(ErrNoFeed)(r.book.Resolve(r.Context(), Resolution{ID: theID, Version: d.Record.Version,
		Verdict: VerdictFree, Actor: "ann", Reason: "why not"}))
	r.want(InDoubt)(r.begin(ask("B")))
}

func TestIK27_AnOldVersionNeverFitsTheNextClaim(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.want(Acquired)(r.begin(ask("A")))
	first := r.want(StillUnknown)(r.book.Unknown(r.Context(), ref("A"), ""))
	v := Resolution{ID: theID, Version: first.Record.Version, Verdict: VerdictFree,
		Actor: "ann", Reason: "r"}
	r.want(Freed)(r.book.Resolve(r.Context(), v))
	for _, tok := range []string{"B", "A"} { // also when the token is used twice
		r.clock.Add(time.Second)
		r.want(Acquired)(r.begin(ask(tok)))
		next := r.want(StillUnknown)(r.book.Unknown(r.Context(), ref(tok), ""))
		other := v
		other.Verdict, other.Result = VerdictDone, text("paid")
		r.wantErr(ErrStale)(r.book.Resolve(r.Context(), other))
		r.want(Freed)(r.book.Resolve(r.Context(), v)) // it was, once; nothing changes
		r.want(InDoubt)(r.begin(ask("C")))
		again := v
		again.Version = next.Record.Version
		r.want(Freed)(r.book.Resolve(r.Context(), again))
	}
}

// What was freed is known from the feed, for as long as it keeps that.
func TestIK27_FreedTwiceIsAnsweredTheSame(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(r *rig) {
		r.want(Acquired)(r.begin(ask("A")))
		d := r.want(StillUnknown)(r.book.Unknown(r.Context(), ref("A"), ""))
		v := Resolution{ID: theID, Version: d.Record.Version, Verdict: VerdictFree,
			Actor: "ann", Reason: "asked the bank"}
		r.want(Freed)(r.book.Resolve(r.Context(), v))
		r.restart()
		before := r.commits.Load()
		d = r.want(Freed)(r.book.Resolve(r.Context(), v))
		if d.Record.State != Absent || r.commits.Load() != before {
			r.Errorf("record %+v, %d commits", d.Record, r.commits.Load()-before)
		}
		r.clock.Add(time.Hour)
		n, err := r.feed.Trim(r.Context(), r.store, feed.Retention{MaxAge: time.Minute})
		if n != 1 || err != nil {
			r.Fatal(n, err)
		}
		_, err = r.book.Resolve(r.Context(), v)
		if !errors.Is(err, ErrStale) || !strings.Contains(err.Error(), "may have freed the key") {
			r.Errorf("when nobody knows any more: %v", err)
		}
	})
}

func TestNoSpaceRefusesNewKeysOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.want(Acquired)(r.begin(ask("A")))
	r.full.Store(true)
	r.wantErr(kv.ErrNoSpace)(r.begin(ask("B", withID("s", "new"))))
	r.wantErr(kv.ErrNoSpace)(r.book.BeginWait(r.Context(), ask("B", withID("s", "new")), time.Hour))
	r.want(StillUnknown)(r.book.Unknown(r.Context(), ref("A"), ""))
	r.want(TookOver)(r.begin(ask("B", takeOver)))
	r.want(Finished)(r.done("B", "paid"))
	r.want(Replay)(r.begin(ask("C")))
}

func TestTxVariantsCommitWithTheCaller(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(r *rig) {
		ctx := r.Context()
		boom := errors.New("boom")
		err := r.store.Update(ctx, func(w kv.Writer) error {
			if _, err := r.book.BeginTx(w, ask("A")); err != nil {
				return err
			}
			return boom
		})
		if !errors.Is(err, boom) {
			r.Fatal(err)
		}
		r.want(Acquired)(r.begin(ask("B"))) // nothing was left behind
		err = r.store.Update(ctx, func(w kv.Writer) error {
			if _, err := r.book.UnknownTx(w, ref("B"), "x"); err != nil {
				return err
			}
			if _, err := r.book.BeginTx(w, ask("C", takeOver)); err != nil {
				return err
			}
			_, err := r.book.RepeatTx(w, ref("C"), time.Hour)
			return err
		})
		if err != nil {
			r.Fatal(err)
		}
		c, ok, err := r.book.Get(ctx, theID)
		if err != nil || !ok || c.Record.Try != 2 || !c.Record.LastSendBefore.IsZero() ||
			c.Record.TokenSum != [32]byte{} {
			r.Errorf("got %+v, %v, %v", c, ok, err)
		}
	})
}

func TestConfigNamesTheField(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for field, cfg := range map[string]Config{
		"Retention": {Retention: -1}, "MaxResult": {MaxResult: MaxMaxResult + 1},
	} {
		var inv *InvalidError
		if _, err := New(r.Context(), r.store, cfg); !errors.As(err, &inv) || inv.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := New(r.Context(), r.store, Config{MaxResult: -1}); !errors.Is(err, ErrInvalid) {
		t.Errorf("negative MaxResult: %v", err)
	}
	ctx, cancel := context.WithCancel(r.Context())
	cancel()
	if _, err := New(ctx, r.store, Config{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// noEpoch is a store that cannot promise one process.
type noEpoch struct{ kv.Store }

func (noEpoch) Epoch() uint64 { return 0 }

func TestLocalOwnersNeedAnEpoch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b, err := New(r.Context(), noEpoch{r.store}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	r.wantErr(ErrNoEpoch)(b.Begin(r.Context(), ask("A")))
	r.want(Acquired)(b.Begin(r.Context(), ask("A", remote(time.Minute))))
}

type observed struct{ got []string }

func (o *observed) ClaimDecided(op string, k Kind) { o.got = append(o.got, op+" "+k.String()) }

func TestObserverIsToldOnceAndAfterTheCommit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	o := &observed{}
	r.cfg.Observer = o
	r.restart()
	r.want(Acquired)(r.begin(ask("A")))
	r.want(InFlight)(r.begin(ask("B")))
	boom := errors.New("boom")
	err := r.store.Update(r.Context(), func(w kv.Writer) error {
		_, _ = r.book.DoneTx(w, ref("A"), text("never"))
		return boom
	})
	if !errors.Is(err, boom) {
		t.Fatal(err)
	}
	r.want(Finished)(r.done("A", "paid"))
	r.want(Finished)(r.done("A", "paid"))
	r.want(Replay)(r.begin(ask("B")))
	want := "begin acquired, begin in_flight, done finished, done finished, begin replay"
	if got := strings.Join(o.got, ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestReasonsAreCutToText(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.want(Acquired)(r.begin(ask("A")))
	d := r.want(StillUnknown)(r.book.Unknown(r.Context(), ref("A"), strings.Repeat("\u00e9\xff", MaxReason)))
	c, _, err := r.book.Get(r.Context(), theID)
	if err != nil || c.Record.Reason != d.Record.Reason || len(c.Record.Reason) > 3*MaxReason {
		t.Errorf("stored %d bytes, told %d: %v", len(c.Record.Reason), len(d.Record.Reason), err)
	}
}

func TestDownstreamKeyIsDerived(t *testing.T) {
	t.Parallel()
	const want = "oc_" // then 32 characters
	k := DownstreamKey("op/shop/pay", "order-1")
	if !strings.HasPrefix(k, want) || len(k) != 35 || k != strings.ToLower(k) {
		t.Errorf("key %q", k)
	}
	if k != DownstreamKey("op/shop/pay", "order-1") || k == DownstreamKey("op/shop/payo", "rder-1") {
		t.Error("the key is not a function of scope and key, or not injective")
	}
}

func TestEventAndFeedLimitsFit(t *testing.T) {
	t.Parallel()
	id := ID{Scope: strings.Repeat("\u00e9", MaxScope/2), Key: strings.Repeat("\u4e16", MaxKey/3)}
	ev, err := resolvedEvent(Resolution{ID: id, Verdict: VerdictFree, Actor: "a",
		Reason: strings.Repeat("<", MaxReason)}, Record{})
	if err != nil || len(ev.ID) > feed.MaxID || len(ev.Subject) > feed.MaxName ||
		len(ev.Data) > feed.MaxData {
		t.Errorf("%d %d %d %v", len(ev.ID), len(ev.Subject), len(ev.Data), err)
	}
}

// The years after 2262 cannot be told in nanoseconds since 1970: an expiry there
// must not come out as one that has long passed.
func TestIK21_LongRetentionNeverExpiresEarly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, d := range []time.Duration{math.MaxInt64, MaxRetention + 1} {
		var inv *InvalidError
		_, err := New(r.Context(), r.store, Config{Retention: d})
		if !errors.As(err, &inv) || inv.Field != "Retention" ||
			!strings.Contains(err.Error(), MaxRetention.String()) {
			t.Errorf("%v: %v", d, err)
		}
	}
	if MaxRetention < 36525*24*time.Hour {
		t.Errorf("%v are no hundred years", MaxRetention)
	}
	r.cfg.Retention = MaxRetention
	for i, at := range []time.Time{start, start.AddDate(200, 0, 0)} {
		r.clock.Add(at.Sub(r.clock.Now()))
		r.restart()
		b := ask("A", withID("op/shop/pay", at.String()))
		r.want(Acquired)(r.begin(b))
		r.want(Finished)(r.book.Done(r.Context(), b.Ref(), text("paid")))
		r.clock.Add(time.Second)
		b.Token = token("B")
		r.want(Replay)(r.begin(b))
		r.wantSwept(i) // those before it
	}
}

// Whoever gets a copy of the store, a backup for example, gets no token with it.
func TestIK14_TokensAreNotInTheStore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.want(Acquired)(r.begin(ask("A")))
	r.want(Acquired)(r.begin(ask("R", numbered(1), remote(time.Hour))))
	r.want(StillUnknown)(r.book.Unknown(r.Context(), ref("A"), "timeout"))
	r.want(TookOver)(r.begin(ask("B", takeOver)))
	for _, table := range []kv.TableID{recordTable.ID(), openTable, expiryTable} {
		for e, err := range kv.Pages(r.Context(), r.store, table, kv.Range{}, 0) {
			if err != nil {
				t.Fatal(err)
			}
			for _, tok := range []string{"A", "B", "R"} {
				if bytes.Contains(e.Value, []byte(token(tok))) || bytes.Contains(e.Key, []byte(token(tok))) {
					t.Errorf("%s holds a token: %q", table, e.Value)
				}
			}
		}
	}
	r.want(MayResend)(r.book.Repeat(r.Context(), ref("B"), time.Hour))
	sum := tokenSum(token("B"))
	if _, err := r.book.Done(r.Context(), Ref{theID, string(sum[:])}, text("x")); err == nil {
		t.Error("the sum of the token is as good as the token")
	}
	r.wantErr(ErrFenced)(r.book.Done(r.Context(), ref("A"), text("x")))
	r.want(Finished)(r.done("B", "paid"))
}

// TestPeekAnswersAsBegin: without a token, and never where something has to be written.
func TestPeekAnswersAsBegin(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	peek := func(want Kind, known bool, opts ...func(*Request)) {
		t.Helper()
		req := ask("", opts...)
		req.Token, req.Intent = "", nil
		d, ok, err := r.book.Peek(r.Context(), req)
		if err != nil || ok != known || ok && d.Kind != want {
			t.Errorf("it answers %v, %v, %v; want %v, %v", d.Kind, ok, err, want, known)
		}
	}
	other := func(b *Request) { b.Fingerprint = FingerprintOf([]byte("other body")) }
	peek(0, false)
	r.want(Acquired)(r.book.BeginNew(r.Context(), ask("A")))
	peek(InFlight, true)
	peek(Mismatch, true, other)
	r.want(InFlight)(r.book.BeginNew(r.Context(), ask("B")))
	r.restart() // the owner is dead
	peek(InDoubt, true)
	peek(0, false, takeOver)
	r.want(TookOver)(r.book.BeginNew(r.Context(), ask("C", takeOver)))
	r.want(Finished)(r.done("C", "paid"))
	before := r.commits.Load()
	peek(Replay, true)
	peek(Replay, true, takeOver)
	if n := r.commits.Load() - before; n != 0 {
		t.Errorf("looking cost %d commits", n)
	}
	bad := ask("A")
	bad.ID.Key = ""
	if _, _, err := r.book.Peek(r.Context(), bad); !errors.Is(err, ErrInvalid) {
		t.Errorf("a key that is none: %v", err)
	}
	if _, err := r.book.BeginNew(r.Context(), ask("")); !errors.Is(err, ErrInvalid) {
		t.Errorf("no token: %v", err)
	}
}
