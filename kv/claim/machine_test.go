package claim

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// The tables below are little plays about one key. Each line is
//
//	instant event arguments -> decision state [try=n] [doubt] [retry=d] [res=x]
//
// where state is the effective state after the event, or
//
//	instant event arguments -> error kind (state)
//
// Tokens are single letters. "restart" opens the store anew.
var plays = map[string]string{
	"IK01 done is replayed": `
		0s  begin A local   -> acquired pending
		1s  done A ok       -> finished done res=ok
		2s  begin B local   -> replay done res=ok
		3s  begin A local   -> replay done res=ok
		4s  restart
		5s  begin C local   -> replay done res=ok
		6s  begin D remote=1m -> replay done res=ok`,

	"IK03 a definite failure is stored": `
		0s begin A local    -> acquired pending
		1s begin B local    -> in_flight pending retry=1s
		2s refused A no     -> finished refused res=no
		3s begin B local    -> replay refused res=no`,

	"IK03 IK13 a failure before the effect frees the key": `
		0s begin A local    -> acquired pending
		1s release A        -> freed absent
		2s release A        -> freed absent
		3s begin B local    -> acquired pending
		4s begin C local    -> in_flight pending retry=1s
		5s release A        -> error fenced (pending)
		6s done B ok        -> finished done res=ok`,

	"IK04 another fingerprint is refused in every state": `
		0s  begin A local        -> acquired pending
		1s  begin B local fp=x   -> mismatch pending
		1s  begin A local fp=x   -> mismatch pending
		2s  unknown A            -> still_unknown unknown doubt
		3s  begin B local fp=x   -> mismatch unknown doubt
		4s  begin B local fp=x takeover -> mismatch unknown doubt
		5s  begin B local takeover -> took_over pending try=2 doubt
		6s  begin C local fp=x   -> mismatch pending try=2 doubt
		7s  done B ok            -> finished done try=2 doubt res=ok
		8s  begin C local fp=x   -> mismatch done try=2 doubt
		9s  restart
		9s  begin C local fp=x   -> mismatch done try=2 doubt`,

	"IK07 IK08 IK09 a dead process leaves an unknown outcome": `
		0s  begin A local          -> acquired pending
		1s  restart
		2s  begin B local          -> in_doubt unknown doubt
		3s  begin B local takeover -> took_over pending try=2 doubt
		4s  begin C local takeover -> in_flight pending try=2 doubt retry=1s
		5s  look B none            -> still_unknown unknown try=2 doubt
		6s  begin C local takeover -> took_over pending try=3 doubt
		7s  look C done=ok         -> finished done try=3 doubt res=ok
		8s  begin D local          -> replay done try=3 doubt res=ok`,

	"IK07 nothing happened before the process died": `
		0s  begin A local          -> acquired pending
		1s  restart
		2s  begin B local takeover -> took_over pending try=2 doubt
		30s look B nothing/30s     -> still_unknown unknown try=2 doubt retry=1s
		31s begin C local takeover -> took_over pending try=3 doubt
		31s look C nothing/30s     -> cleared pending try=3
		32s begin D local takeover -> in_flight pending try=3 retry=1s
		33s done C ok              -> finished done try=3 res=ok`,

	"nobody outside takes over what an owner inside has left": `
		0s  begin A local                -> acquired pending
		1s  unknown A                    -> still_unknown unknown doubt
		2s  begin B remote=1m takeover   -> in_doubt unknown doubt
		3s  restart
		4s  begin B remote=1m takeover   -> in_doubt unknown doubt
		5s  begin B remote=1m takeover localtoo -> took_over pending try=2 doubt
		6s  unknown B                    -> still_unknown unknown try=2 doubt
		7s  begin C remote=1m takeover   -> took_over pending try=3 doubt
		8s  unknown C                    -> still_unknown unknown try=3 doubt
		9s  begin D local takeover       -> took_over pending try=4 doubt`,

	"IK08 the dead process's own token takes nothing over": `
		0s begin A local          -> acquired pending
		1s restart
		2s begin A local          -> in_doubt unknown doubt
		3s begin A local takeover -> error token_reused (unknown)
		4s done A ok              -> finished done doubt res=ok`,

	"IK10 unknown is never freed": `
		0s   begin A local        -> acquired pending
		1s   unknown A            -> still_unknown unknown doubt
		2s   unknown A            -> still_unknown unknown doubt
		3s   release A            -> still_unknown unknown doubt
		4s   refused A no         -> still_unknown unknown doubt
		5s   begin B local        -> in_doubt unknown doubt
		9999h begin B local       -> in_doubt unknown doubt
		9999h sweep               -> keep unknown doubt`,

	"a refusal or release after doubt proves nothing": `
		0s begin A local          -> acquired pending
		1s unknown A              -> still_unknown unknown doubt
		2s begin B local takeover -> took_over pending try=2 doubt
		3s refused B no           -> still_unknown unknown try=2 doubt
		4s begin C local takeover -> took_over pending try=3 doubt
		5s release C              -> still_unknown unknown try=3 doubt
		6s begin D local takeover -> took_over pending try=4 doubt
		7s look D refused=no      -> finished refused try=4 doubt res=no`,

	"after a look-up has cleared the doubt the owner's word counts again": `
		0s  begin A local          -> acquired pending
		1s  unknown A              -> still_unknown unknown doubt
		11s begin B local takeover -> took_over pending try=2 doubt
		11s look B nothing/10s     -> cleared pending try=2
		12s release B              -> freed absent`,

	"cleared once more is never cleared": `
		0s  begin A local          -> acquired pending
		1s  unknown A              -> still_unknown unknown doubt
		11s begin B local takeover -> took_over pending try=2 doubt
		11s look B nothing/10s     -> cleared pending try=2
		99s look B nothing/10s     -> still_unknown unknown try=2 doubt retry=10s`,

	"a first try's own look-up is no proof at once": `
		0s  begin A local      -> acquired pending
		99s look A nothing/10s -> still_unknown unknown doubt retry=10s
		109s look A nothing/10s -> freed absent
		110s begin B local     -> acquired pending`,

	"a look-up that finds nothing is proof after settling, to the instant": `
		0s  begin A local          -> acquired pending
		1s  unknown A              -> still_unknown unknown doubt
		2s  begin B local takeover -> took_over pending try=2 doubt
		3s  look B nothing/10s     -> still_unknown unknown try=2 doubt retry=8s
		10s look B nothing/10s     -> still_unknown unknown try=2 doubt retry=1s
		11s look B nothing/10s     -> freed absent`,

	"a slow look-up says how things stood when it began": `
		0s  begin A local          -> acquired pending
		1s  unknown A              -> still_unknown unknown doubt
		2s  begin B local takeover -> took_over pending try=2 doubt
		99s look B nothing/10s from=10s -> still_unknown unknown try=2 doubt
		99s begin C local takeover -> took_over pending try=3 doubt
		99s look C nothing/10s from=0s -> still_unknown unknown try=3 doubt
		99s begin D local takeover -> took_over pending try=4 doubt
		99s look D nothing/10s from=11s -> cleared pending try=4`,

	"no look-up begins after it has ended": `
		0s  begin A local          -> acquired pending
		1s  unknown A              -> still_unknown unknown doubt
		2s  begin B local takeover -> took_over pending try=2 doubt
		10s look B nothing/10s from=99s -> still_unknown unknown try=2 doubt retry=1s`,

	"a look-up that fails does not move the settling time": `
		0s  begin A local          -> acquired pending
		1s  unknown A              -> still_unknown unknown doubt
		2s  begin B local takeover -> took_over pending try=2 doubt
		9s  look B none            -> still_unknown unknown try=2 doubt
		10s begin C local takeover -> took_over pending try=3 doubt
		11s look C nothing/10s     -> cleared pending try=3`,

	"a send again moves the settling time": `
		0s  begin A local          -> acquired pending
		1s  unknown A              -> still_unknown unknown doubt
		2s  begin B local takeover -> took_over pending try=2 doubt
		3s  repeat B 24h           -> may_resend pending try=2 doubt
		4s  repeat B 24h           -> may_resend pending try=2 doubt
		99s look B nothing/10s     -> still_unknown unknown try=2 doubt retry=10s
		100s begin C local takeover -> took_over pending try=3 doubt
		101s repeat C 24h          -> may_resend pending try=3 doubt
		102s done C ok             -> finished done try=3 doubt res=ok`,

	"sending again has an end": `
		0s  begin A local          -> acquired pending
		1s  repeat A 24h           -> error state (pending)
		2s  unknown A              -> still_unknown unknown doubt
		3s  repeat A 24h           -> error state (unknown)
		24h begin B local takeover -> took_over pending try=2 doubt
		24h repeat B 24h           -> error too_old (pending)
		24h repeat B 24h1ns        -> may_resend pending try=2 doubt
		24h1s repeat B 24h         -> error too_old (pending)
		24h2s repeat B 0s          -> error invalid`,

	"after proof of absence the window begins anew": `
		0s  begin A local           -> acquired pending
		1s  unknown A               -> still_unknown unknown doubt
		30h begin B local takeover  -> took_over pending try=2 doubt
		30h look B nothing/1m       -> cleared pending try=2
		31h unknown B               -> still_unknown unknown try=2 doubt
		32h begin C local takeover  -> took_over pending try=3 doubt
		32h repeat C 24h            -> may_resend pending try=3 doubt`,

	"a clock set back gives no leave to send again": `
		1h  begin A local          -> acquired pending
		1h  restart
		0s  restart
		0s  begin B local takeover -> took_over pending try=2 doubt
		1s  repeat B 24h           -> error too_old (pending)`,

	"IK23 a clock set back at a restart makes no claim young again": `
		12h begin A local          -> acquired pending
		6h  restart
		6h1s recover               -> still_unknown unknown doubt
		6h2s recover               -> keep unknown doubt
		35h begin B local takeover -> took_over pending try=2 doubt
		35h repeat B 24h           -> error too_old (pending)`,

	"IK23 nor where no recovery pass has seen it": `
		12h begin A local          -> acquired pending
		6h  restart
		35h begin B local takeover -> took_over pending try=2 doubt
		35h repeat B 24h           -> error too_old (pending)`,

	"IK23 nor one that was unknown before, until it is proven void": `
		12h begin A local          -> acquired pending
		13h unknown A              -> still_unknown unknown doubt
		6h  restart
		6h  recover                -> still_unknown unknown doubt
		7h  recover                -> keep unknown doubt
		14h begin B local takeover -> took_over pending try=2 doubt
		14h repeat B 24h           -> error too_old (pending)
		14h look B nothing/1m      -> cleared pending try=2
		15h unknown B              -> still_unknown unknown try=2 doubt
		37h begin C local takeover -> took_over pending try=3 doubt
		37h repeat C 24h           -> may_resend pending try=3 doubt`,

	"IK23 nor one of an owner elsewhere": `
		12h begin A remote=1h             -> acquired pending
		12h1m unknown A                   -> still_unknown unknown doubt
		12h2m begin B remote=1h takeover  -> took_over pending try=2 doubt
		12h3m repeat B 24h                -> may_resend pending try=2 doubt
		12h2m30s restart
		12h2m30s recover                  -> extended pending try=2 doubt
		12h2m40s recover                  -> keep pending try=2 doubt
		12h4m repeat B 24h                -> error too_old (pending)`,

	"IK12 a decline is replayed, a second outcome is refused": `
		0s begin A local -> acquired pending
		1s refused A no  -> finished refused res=no
		2s refused A no  -> finished refused res=no
		3s refused A nay -> error terminal (refused)
		4s done A ok     -> error terminal (refused)
		5s done A no     -> error terminal (refused)
		6s release A     -> error terminal (refused)
		7s unknown A     -> error terminal (refused)
		8s look A nothing/1s -> error terminal (refused)
		9s look A done=ok    -> error terminal (refused)
		9s beat A 1m     -> error state (refused)
		9s repeat A 24h  -> error state (refused)
		9s begin B local takeover -> replay refused res=no`,

	"a done claim never changes": `
		0s begin A local -> acquired pending
		1s done A ok     -> finished done res=ok
		2s done A ok     -> finished done res=ok
		3s done A other  -> error terminal (done)
		4s refused A ok  -> error terminal (done)
		5s release A     -> error terminal (done)
		6s unknown A     -> error terminal (done)
		7s look A done=ok -> finished done res=ok
		8s look A none   -> error terminal (done)
		9s resolve free  -> error terminal (done)
		9s done B ok     -> error fenced (done)`,

	"IK14 a stale owner's result is refused": `
		0s  begin A remote=10s          -> acquired pending
		9s  begin B remote=10s takeover -> in_flight pending retry=1s
		10s begin B remote=10s          -> in_doubt unknown
		11s begin B remote=10s takeover -> took_over pending try=2 doubt
		12s done A mine                 -> error fenced (pending)
		13s look B done=ok              -> finished done try=2 doubt res=ok
		14s done A mine                 -> error fenced (done)
		15s refused A no                -> error fenced (done)
		16s unknown A                   -> error fenced (done)
		17s begin C local               -> replay done try=2 doubt res=ok`,

	"IK15 a stale owner's release frees nothing": `
		0s  begin A remote=10s          -> acquired pending
		11s begin B remote=10s takeover -> took_over pending try=2 doubt
		12s release A                   -> error fenced (pending)
		13s beat A 10s                  -> error fenced (pending)
		14s unknown A                   -> error fenced (pending)
		15s look A nothing/1s           -> error fenced (pending)
		16s repeat A 24h                -> error fenced (pending)
		17s begin C local               -> in_flight pending try=2 doubt retry=4s`,

	"IK16 a beating owner keeps its key": `
		0s  begin A remote=10s -> acquired pending
		9s  beat A 10s         -> extended pending
		18s begin B remote=10s takeover -> in_flight pending retry=1s
		18s beat A 1m          -> extended pending
		77s begin B remote=10s takeover -> in_flight pending retry=1s
		77s done A ok          -> finished done res=ok`,

	"an owner silent beyond its lease may go on while nobody took over": `
		0s  begin A remote=10s -> acquired pending
		20s begin B local      -> in_doubt unknown
		21s beat A 10s         -> extended pending
		22s begin B local      -> in_flight pending retry=9s
		40s recover            -> still_unknown unknown
		41s beat A 10s         -> extended pending
		60s recover            -> still_unknown unknown
		61s refused A no       -> finished refused res=no`,

	"a late answer of the owner itself counts": `
		0s  begin A remote=10s -> acquired pending
		20s done A ok          -> finished done res=ok
		21s begin B local      -> replay done res=ok`,

	"a late release of the owner itself counts, with and without the recovery pass": `
		0s  begin A remote=10s -> acquired pending
		20s release A          -> freed absent
		30s begin B remote=10s -> acquired pending
		50s recover            -> still_unknown unknown
		51s release B          -> freed absent`,

	"a lapsed look-up that finds nothing is no proof": `
		0s  begin A remote=10s -> acquired pending
		99s look A nothing/10s -> still_unknown unknown doubt retry=10s`,

	"a reported unknown cannot beat": `
		0s begin A remote=10s -> acquired pending
		1s unknown A          -> still_unknown unknown doubt
		2s beat A 10s         -> error state (unknown)
		3s done A ok          -> finished done doubt res=ok`,

	"a local owner has no lease": `
		0s begin A local  -> acquired pending
		1s beat A 10s     -> error state (pending)`,

	"leases have limits": `
		0s begin A remote=0s     -> error invalid
		0s begin A remote=-1s    -> error invalid
		0s begin A remote=1ns    -> error invalid
		0s begin A remote=999ms  -> error invalid
		0s begin A remote=24h1ns -> error invalid
		0s begin A remote=1s     -> acquired pending
		0s beat A 0s             -> error invalid
		0s beat A 999ms          -> error invalid
		0s beat A 25h            -> error invalid
		0s beat A 24h            -> extended pending`,

	"IK21 only terminal claims expire": `
		0s    begin A local  -> acquired pending
		9999h sweep          -> keep pending
		9999h done A ok      -> finished done res=ok
		10718h sweep         -> keep done res=ok
		10718h begin B local -> replay done res=ok
		10719h begin B local -> acquired pending
		10720h begin C local -> in_flight pending retry=1s`,

	"IK21 the sweep removes what has expired": `
		0s   begin A local -> acquired pending
		0s   refused A no  -> finished refused res=no
		719h59m59s sweep   -> keep refused res=no
		720h sweep         -> freed absent
		720h done A ok     -> error fenced (absent)`,

	"IK23 a clock set back makes no lease endless": `
		1h  begin A remote=10s -> acquired pending
		0s  restart
		1s  begin B local      -> in_flight pending retry=10s
		2s  begin B local      -> in_flight pending retry=9s
		11s begin B local      -> in_doubt unknown`,

	"IK23 the recovery pass shortens an endless lease": `
		1h  begin A remote=10s -> acquired pending
		0s  restart
		1s  recover            -> extended pending
		2s  recover            -> keep pending
		11s recover            -> still_unknown unknown`,

	"IK23 a clock set back expires nothing early": `
		1h  begin A local   -> acquired pending
		1h  done A ok       -> finished done res=ok
		0s  restart
		720h begin B local  -> replay done res=ok
		721h begin B local  -> acquired pending`,

	"IK27 a person says it happened": `
		0s begin A local     -> acquired pending
		1s resolve done=ok   -> error state (pending)
		2s unknown A         -> still_unknown unknown doubt
		3s resolve done=ok stale -> error stale (unknown)
		4s resolve done=ok   -> finished done doubt res=ok
		5s begin B local     -> replay done doubt res=ok
		6s done A other      -> error terminal (done)
		7s resolve refused=no -> error terminal (done)`,

	"IK27 a person says it did not happen": `
		0s begin A local   -> acquired pending
		1s restart
		2s resolve free    -> freed absent
		3s resolve free    -> error stale (absent)
		4s begin B local   -> acquired pending
		5s done A ok       -> error fenced (pending)
		6s begin C local   -> in_flight pending retry=1s`,

	"IK27 a person says it shall not happen": `
		0s begin A remote=10s -> acquired pending
		11s resolve refused=no -> finished refused res=no
		12s begin B local     -> replay refused res=no`,

	"asking again with the same token is safe": `
		0s begin A local          -> acquired pending
		1s begin A local          -> acquired pending
		2s unknown A              -> still_unknown unknown doubt
		3s begin B local takeover -> took_over pending try=2 doubt
		4s begin B local takeover -> took_over pending try=2 doubt
		5s begin B local          -> took_over pending try=2 doubt`,

	"the recovery pass writes down a dead process": `
		0s begin A local  -> acquired pending
		1s recover        -> keep pending
		2s restart
		3s recover        -> still_unknown unknown doubt
		4s recover        -> keep unknown doubt
		5s begin B local takeover -> took_over pending try=2 doubt
		6s restart
		7s begin C local  -> in_doubt unknown try=2 doubt`,

	"an absent claim has no owner": `
		0s done A ok    -> error fenced (absent)
		0s refused A no -> error fenced (absent)
		0s unknown A    -> error fenced (absent)
		0s beat A 10s   -> error fenced (absent)
		0s look A none  -> error fenced (absent)
		0s repeat A 24h -> error fenced (absent)
		0s resolve free -> error stale (absent)
		0s sweep        -> keep absent
		0s recover      -> keep absent`,

	"a look-up must say how long the callee takes to settle": `
		0s begin A local     -> acquired pending
		1s look A nothing/0s -> error invalid`,
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestMachine(t *testing.T) {
	for name, script := range plays {
		t.Run(name, func(t *testing.T) {
			p := &play{m: Machine{Epoch: 1, Opened: start, Retention: DefaultRetention, MaxResult: 1 << 10}}
			for line := range strings.Lines(script) {
				if line = strings.TrimSpace(line); line == "" {
					continue
				}
				event, want, _ := strings.Cut(line, "->")
				got := p.act(t, strings.Fields(event))
				if want = strings.TrimSpace(want); got != want {
					t.Errorf("%s\n got  %s\n want %s", strings.TrimSpace(event), got, want)
				}
				if t.Failed() {
					return
				}
			}
		})
	}
}

// play is one key with the store around it.
type play struct {
	m   Machine
	rec *Record
}

func token(s string) string { return strings.Repeat(s, MinToken) }

var theID = ID{Scope: "op/shop/pay", Key: "order-1"}

func (p *play) act(t *testing.T, f []string) string {
	at, err := time.ParseDuration(f[0])
	if err != nil {
		t.Fatal(err)
	}
	now := start.Add(at)
	if f[1] == "restart" {
		p.m.Epoch++
		p.m.Opened = now
		return ""
	}
	var before Record
	if p.rec != nil {
		before = *p.rec
	}
	s, err := p.event(t, now, f[1:])
	if err != nil {
		return describeError(err)
	}
	switch s.Write {
	case Put:
		if s.Record.Version <= before.Version && before.State != Absent && !before.expired(now) {
			t.Errorf("%v: the version went from %d to %d", f, before.Version, s.Record.Version)
		}
		for _, fault := range s.Record.faults() {
			t.Errorf("%v: %s", f, fault)
		}
		p.rec = &s.Record
	case Remove:
		p.rec = nil
	}
	return p.describe(s, now)
}

func (p *play) event(t *testing.T, now time.Time, f []string) (Step, error) {
	arg := func(i int) string {
		if i < len(f) {
			return f[i]
		}
		return ""
	}
	tok := token(arg(1))
	res := Result{Type: "text", Data: []byte(arg(2))}
	switch f[0] {
	case "begin":
		return p.m.Begin(p.rec, now, request(t, f[1:]))
	case "done":
		return p.m.Done(p.rec, now, tok, res)
	case "refused":
		return p.m.Refused(p.rec, now, tok, res)
	case "release":
		return p.m.Release(p.rec, now, tok)
	case "unknown":
		return p.m.Unknown(p.rec, now, tok, "no answer")
	case "beat":
		return p.m.Heartbeat(p.rec, now, tok, duration(t, arg(2)))
	case "repeat":
		return p.m.Repeat(p.rec, now, tok, duration(t, arg(2)))
	case "look":
		f := finding(t, arg(2))
		if from, ok := strings.CutPrefix(arg(3), "from="); ok {
			f.AskedAt = start.Add(duration(t, from))
		}
		return p.m.LookedUp(p.rec, now, tok, f)
	case "resolve":
		return p.m.Resolve(p.rec, now, p.resolution(t, arg(1), arg(2)))
	case "recover":
		return p.m.Recover(p.rec, now), nil
	case "sweep":
		return p.m.Sweep(p.rec, now), nil
	}
	t.Fatalf("no event %q", f[0])
	return Step{}, nil
}

func duration(t *testing.T, s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func request(t *testing.T, f []string) Request {
	b := Request{ID: theID, Token: token(f[0]), Fingerprint: [32]byte{1}, Intent: []byte("charge")}
	for _, a := range f[1:] {
		name, value, _ := strings.Cut(a, "=")
		switch name {
		case "local":
			b.Owner = LocalOwner()
		case "remote":
			b.Owner = RemoteOwner(duration(t, value))
		case "fp":
			b.Fingerprint = FingerprintOf([]byte(value))
		case "takeover":
			b.TakeOver = true
		case "localtoo":
			b.LocalToo = true
		default:
			t.Fatalf("no argument %q", a)
		}
	}
	return b
}

func finding(t *testing.T, s string) Finding {
	if what, after, ok := strings.Cut(s, "/"); ok && what == "nothing" {
		return Finding{Answer: FoundNothing, SettlesAfter: duration(t, after)}
	}
	what, res, _ := strings.Cut(s, "=")
	f := Finding{Result: Result{Type: "text", Data: []byte(res)}}
	switch what {
	case "done":
		f.Answer = FoundDone
	case "refused":
		f.Answer = FoundRefused
	case "none":
	default:
		t.Fatalf("no finding %q", s)
	}
	return f
}

func (p *play) resolution(t *testing.T, verdict, version string) Resolution {
	v := Resolution{ID: theID, Actor: "ann", Reason: "asked the bank"}
	if p.rec != nil {
		v.Version = p.rec.Version
	}
	if version == "stale" {
		v.Version--
	}
	if verdict == "free" {
		v.Verdict = VerdictFree
		return v
	}
	f := finding(t, verdict)
	v.Result, v.Verdict = f.Result, VerdictDone
	if f.Answer == FoundRefused {
		v.Verdict = VerdictRefused
	}
	return v
}

func (p *play) describe(s Step, now time.Time) string {
	r := Record{Try: 1}
	if p.rec != nil {
		r = p.m.Effective(*p.rec, now)
	}
	kind := s.Decision.Kind.String()
	if s.Decision.Kind == 0 {
		kind = "keep"
	}
	out := kind + " " + r.State.String()
	if r.Try != 1 {
		out += fmt.Sprintf(" try=%d", r.Try)
	}
	if r.Doubt {
		out += " doubt"
	}
	if s.Decision.RetryAfter != 0 {
		out += " retry=" + s.Decision.RetryAfter.String()
	}
	if r.State.Terminal() && s.Decision.Kind != Mismatch { // what the caller is shown
		data := s.Decision.Record.Result.Data
		if s.Decision.Kind == 0 {
			data = r.Result.Data
		}
		out += " res=" + string(data)
	}
	return out
}

var sentinels = map[error]string{ErrFenced: "fenced", ErrTerminal: "terminal", ErrState: "state",
	ErrStale: "stale", ErrTooOld: "too_old", ErrTokenReused: "token_reused"}

func describeError(err error) string {
	if st, ok := errors.AsType[*StateError](err); ok {
		return fmt.Sprintf("error %s (%s)", sentinels[st.Err], st.State)
	}
	if errors.Is(err, ErrInvalid) {
		return "error invalid"
	}
	return "error " + err.Error()
}
