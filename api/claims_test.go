package api

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"onced/api/problem"
	"onced/kv"
	"onced/kv/claim"
	"onced/kv/faultkv"
	"onced/saga/idemhttp"
)

func own(extra ...any) map[string]any {
	b := map[string]any{"token": tokenA}
	for i := 0; i < len(extra); i += 2 {
		b[extra[i].(string)] = extra[i+1]
	}
	return b
}

func TestIK01_FinishedKeyIsReplayed(t *testing.T) {
	r := newRig(t)
	a := r.ask("acme", "POST /v1/claims", claimBody("k")).want(t, 201, "")
	path := "/v1/claims/" + a.text("claim.id")
	if a.text("outcome") != "acquired" || a.at("earlier_outcome_unknown") != false ||
		a.header.Get("Location") != path ||
		a.text("downstream_key") != claim.DownstreamKey(claim.ScopeOf("acme", "charge"), "k") {
		t.Errorf("%s", a.raw)
	}
	r.ask("acme", "POST "+path+"/done", own("result", map[string]any{"charge": "ch_1"})).want(t, 200, "")
	b := r.ask("acme", "POST /v1/claims", claimBody("k", "token", tokenB)).want(t, 200, "")
	if b.text("outcome") != "replay" || b.text("claim.result.charge") != "ch_1" ||
		b.text("claim.state") != "done" ||
		b.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%s %v", b.raw, b.header)
	}
}

func TestIK02_OneOwnerAmongMany(t *testing.T) {
	r := newRig(t)
	results := make(chan answer, 50)
	for i := range 50 {
		go func() {
			results <- r.ask("acme", "POST /v1/claims", claimBody("k", "token",
				fmt.Sprintf("token-number-%08d", i)))
		}()
	}
	owners := 0
	for range 50 {
		a := <-results
		switch {
		case a.status == 201:
			owners++
		case a.problem.Code != problem.InFlight || a.header.Get("Retry-After") != "30":
			t.Errorf("%d %s", a.status, a.raw)
		}
	}
	if owners != 1 {
		t.Errorf("%d owners", owners)
	}
}

func TestIK04_OtherPayloadIsRefused(t *testing.T) {
	r := newRig(t)
	path := r.acquire("k")
	other := claimBody("k", "payload", "200 EUR", "token", tokenB)
	a := r.ask("acme", "POST /v1/claims", other).want(t, 422, problem.Mismatch) // while it runs
	if a.problem.Instance != path {
		t.Errorf("the problem is about %q", a.problem.Instance)
	}
	r.ask("acme", "POST "+path+"/done", own("result", "first")).want(t, 200, "")
	r.ask("acme", "POST /v1/claims", other).want(t, 422, problem.Mismatch)
	if b := r.ask("acme", "POST /v1/claims", claimBody("k")).want(t, 200,
		""); b.text("claim.result") != "first" {
		t.Errorf("%s", b.raw)
	}
}

func TestIK05_PrincipalsAreSeparate(t *testing.T) {
	r := newRig(t)
	path := r.acquire("k")
	r.ask("acme", "POST "+path+"/done", own("result", "secret of acme")).want(t, 200, "")
	if a := r.ask("globex", "POST /v1/claims", claimBody("k", "payload", "other")).want(t, 201,
		""); strings.Contains(string(a.raw), "secret") {
		t.Errorf("%s", a.raw)
	}
	// For a stranger the claim does not exist, in the very words of one that does not.
	absent := "/v1/claims/" + claimID(claim.ID{Scope: claim.ScopeOf("acme", "charge"), Key: "never"})
	for _, p := range []string{path, absent} {
		a := r.ask("globex", "GET "+p, nil).want(t, 404, problem.NotFound)
		if a.problem.Detail != "there is no claim of this id" || a.problem.Instance != "" {
			t.Errorf("%s: %s", p, a.raw)
		}
		for _, verb := range []string{"done", "refused", "release", "unknown"} {
			r.ask("globex", "POST "+p+"/"+verb, own()).want(t, 404, problem.NotFound)
		}
		r.ask("globex", "POST "+p+"/heartbeat", own("lease_s", 5)).want(t, 404, problem.NotFound)
	}
	// Another token of the same principal is the same account.
	r.ask("acme2", "GET "+path, nil).want(t, 200, "")
	if a := r.ask("acme2", "POST /v1/claims", claimBody("k")).want(t, 200,
		""); a.text("outcome") != "replay" {
		t.Errorf("%s", a.raw)
	}
	list := r.ask("globex", "GET /v1/claims", nil).want(t, 200, "")
	if len(list.at("claims").([]any)) != 1 || strings.Contains(string(list.raw), "acme") {
		t.Errorf("%s", list.raw)
	}
	r.ask("globex", "GET /v1/claims?principal=acme", nil).want(t, 400, problem.InvalidField)
}

func TestIK06_OperationsAreSeparate(t *testing.T) {
	r := newRig(t)
	r.acquire("k")
	r.acquire("k", "operation", "refund")
	r.acquire("k", "operation", "charge/eu")
}

func TestRolesSeeWhatTheyMay(t *testing.T) {
	r := newRig(t)
	path := r.acquire("k", "intent", map[string]any{"card": "4242"})
	for _, c := range []struct {
		as      string
		content bool
	}{{"acme", true}, {"operator", true}, {"admin", true}, {"viewer", false}} {
		a := r.ask(c.as, "GET "+path, nil).want(t, 200, "")
		if got := a.text("claim.intent.card")+a.text("intent.card") == "4242"; got != c.content {
			t.Errorf("%s sees the intent: %v", c.as, got)
		}
		if got := a.text("fingerprint") != ""; got != c.content {
			t.Errorf("%s sees the fingerprint: %v", c.as, got)
		}
		if strings.Contains(string(a.raw), tokenA) {
			t.Errorf("%s sees the owner's token", c.as)
		}
	}
	r.ask("acme", "POST "+path+"/done", own("result_b64", "c2VjcmV0", "content_type", "text/x-secret")).
		want(t, 200, "")
	for _, as := range []string{"viewer", "acme"} {
		a := r.ask(as, "GET "+path, nil).want(t, 200, "")
		if strings.Contains(string(a.raw), "secret") != (as == "acme") || a.at("result_size") != 6.0 {
			t.Errorf("%s: %s", as, a.raw)
		}
	}
	r.ask("metrics", "GET "+path, nil).want(t, 403, problem.Forbidden)
	r.ask("viewer", "POST /v1/claims", claimBody("x")).want(t, 403, problem.Forbidden)
	r.ask("operator", "POST "+path+"/done", own()).want(t, 403, problem.Forbidden)
	r.ask("admin", "POST "+path+"/release", own()).want(t, 403, problem.Forbidden)
	for _, as := range []string{"acme", "viewer"} {
		r.ask(as, "POST "+path+"/resolve", map[string]any{"verdict": "free", "reason": "x"}, "If-Match",
			`"1.unknown"`).
			want(t, 403, problem.Forbidden)
	}
	for _, as := range []string{"acme", "viewer", "operator", "metrics"} {
		r.ask(as, "GET /v1/tokens", nil).want(t, 403, problem.Forbidden)
		r.ask(as, "POST /v1/tokens", map[string]any{"name": "x", "role": "admin"}).want(t, 403,
			problem.Forbidden)
	}
}

// Each verb is repeated after an answer that was lost, with the commit made or
// not, and the outcome is the same as without the loss.
func TestLostAnswersAreRepeated(t *testing.T) {
	type act struct {
		name  string
		setup func(r *rig, key string) string // returns the path of the call
		body  func(key string) map[string]any
		after string // outcome
		code  int
	}
	takenOver := func(r *rig, key string) string {
		path, _ := r.unknownClaim(key)
		r.ask("acme", "POST /v1/claims", claimBody(key, "take_over", true, "token", tokenB)).want(r.t, 200,
			"")
		return path
	}
	plain := func(verb string) func(r *rig, key string) string {
		return func(r *rig, key string) string { return r.acquire(key) + "/" + verb }
	}
	doubt := func(verb string) func(r *rig, key string) string {
		return func(r *rig, key string) string { return takenOver(r, key) + "/" + verb }
	}
	with := func(b map[string]any) func(string) map[string]any {
		return func(string) map[string]any { return b }
	}
	b := func(extra ...any) map[string]any {
		m := own(extra...)
		m["token"] = tokenB
		return m
	}
	for _, c := range []act{
		{"claim", func(*rig, string) string { return "/v1/claims" },
			func(key string) map[string]any { return claimBody(key) }, "acquired", 201},
		{"take over", func(r *rig, key string) string { r.unknownClaim(key); return "/v1/claims" },
			func(key string) map[string]any { return claimBody(key, "take_over", true, "token", tokenB) },
			"took_over", 200},
		{"heartbeat", plain("heartbeat"), with(own("lease_s", 60)), "extended", 200},
		{"done", plain("done"), with(own("result", []int{1, 2})), "finished", 200},
		{"done with bytes", plain("done"), with(own("result_b64", "AAH/", "content_type", "a/b")), "finished",
			200},
		{"refused", plain("refused"), with(own("result", "no")), "finished", 200},
		{"release", plain("release"), with(own()), "freed", 200},
		{"unknown", plain("unknown"), with(own("reason", "timed out")), "still_unknown", 200},
		{"refused in doubt", doubt("refused"), with(b("result", "no")), "still_unknown", 200},
		{"release in doubt", doubt("release"), with(b()), "still_unknown", 200},
		{"repeat", doubt("repeat"), with(b("key_valid_for_s", 3600)), "may_resend", 200},
		{"looked up done", doubt("looked_up"), with(b("answer", "done", "result", 7)), "finished", 200},
		{"looked up refused", doubt("looked_up"), with(b("answer", "refused")), "finished", 200},
		{"looked up none", doubt("looked_up"), with(b("answer", "none")), "still_unknown", 200},
	} {
		for _, when := range []faultkv.When{faultkv.Lost, faultkv.Kept} {
			t.Run(c.name+" "+when.String(), func(t *testing.T) {
				r := newRig(t)
				path := c.setup(r, "k")
				before := r.store.Count()
				r.store.Arm(faultkv.Plan{When: when})
				a := r.ask("acme", "POST "+path, c.body("k")).want(t, 503, problem.CommitUnknown)
				if a.header.Get("Retry-After") != "1" || r.store.Count() != before+1 {
					t.Fatalf("Retry-After %q, %d commits", a.header.Get("Retry-After"),
						r.store.Count()-before)
				}
				for range 2 {
					a = r.ask("acme", "POST "+path, c.body("k")).want(t, c.code, "")
					if a.text("outcome") != c.after {
						t.Errorf("%s", a.raw)
					}
				}
			})
		}
	}
}

// Reporting something else after the outcome is stored changes nothing.
func TestSettledIsSettled(t *testing.T) {
	r := newRig(t)
	path := r.acquire("k")
	r.ask("acme", "POST "+path+"/done", own("result", 1)).want(t, 200, "")
	for verb, body := range map[string]map[string]any{
		"done": own("result", 2), "refused": own("result", 1), "release": own(), "unknown": own(),
	} {
		a := r.ask("acme", "POST "+path+"/"+verb, body).want(t, 409, problem.Settled)
		if a.problem.Instance != path {
			t.Errorf("%s: about %q", verb, a.problem.Instance)
		}
	}
	r.ask("acme", "POST "+path+"/heartbeat", own("lease_s", 5)).want(t, 409, problem.WrongState)
	if a := r.ask("acme", "GET "+path, nil).want(t, 200, ""); a.at("result") != 1.0 {
		t.Errorf("%s", a.raw)
	}
}

func TestIK14_StaleOwnerIsFenced(t *testing.T) {
	r := newRig(t)
	path := r.acquire("k")
	r.clock.Add(31 * time.Second)
	r.ask("acme", "POST /v1/claims", claimBody("k", "token", tokenB)).want(t, 409, problem.OutcomeUnknown)
	a := r.ask("acme", "POST /v1/claims", claimBody("k", "token", tokenB, "take_over", true)).want(t, 200,
		"")
	if a.text("outcome") != "took_over" || a.at("earlier_outcome_unknown") != true ||
		a.at("claim.try") != 2.0 {
		t.Errorf("%s", a.raw)
	}
	for verb, body := range map[string]map[string]any{"done": own("result", "mine"), "refused": own(),
		"release": own(), "unknown": own(), "heartbeat": own("lease_s", 9)} {
		r.ask("acme", "POST "+path+"/"+verb, body).want(t, 409, problem.Fenced)
	}
	b := own("result", "second")
	b["token"] = tokenB
	r.ask("acme", "POST "+path+"/done", b).want(t, 200, "")
	if a := r.ask("acme", "GET "+path, nil).want(t, 200, ""); a.text("result") != "second" {
		t.Errorf("%s", a.raw)
	}
}

func TestIK15_StaleReleaseFreesNothing(t *testing.T) {
	r := newRig(t)
	path := r.acquire("k")
	r.clock.Add(31 * time.Second)
	r.ask("acme", "POST /v1/claims", claimBody("k", "token", tokenB, "take_over", true)).want(t, 200, "")
	r.ask("acme", "POST "+path+"/release", own()).want(t, 409, problem.Fenced)
	if a := r.ask("acme", "GET "+path, nil).want(t, 200, ""); a.text("state") != "pending" {
		t.Errorf("%s", a.raw)
	}
}

func TestIK16_BeatingOwnerKeepsItsKey(t *testing.T) {
	r := newRig(t)
	path := r.acquire("k")
	for range 5 {
		r.clock.Add(25 * time.Second)
		r.ask("acme", "POST "+path+"/heartbeat", own("lease_s", 30)).want(t, 200, "")
		r.ask("acme", "POST /v1/claims", claimBody("k", "token", tokenB, "take_over", true)).want(t, 409,
			problem.InFlight)
	}
}

// The waiter is answered by the commit of the owner, not by time.
func TestIK17_WaiterIsWoken(t *testing.T) {
	r := newRig(t)
	path := r.acquire("k")
	got := make(chan answer, 1)
	read := make(chan answer, 1)
	go func() { got <- r.ask("acme", "POST /v1/claims", claimBody("k", "token", tokenB, "wait_s", 10)) }()
	go func() { read <- r.ask("acme", "GET "+path+"?wait_s=10", nil) }()
	r.ask("acme", "POST "+path+"/done", own("result", "late")).want(t, 200, "")
	if a := (<-got).want(t, 200, ""); a.text("outcome") != "replay" || a.text("claim.result") != "late" {
		t.Errorf("%s", a.raw)
	}
	if a := (<-read).want(t, 200, ""); a.text("state") != "done" {
		t.Errorf("%s", a.raw)
	}
}

// A wait that ends without an outcome is 409 with a hint. In a bubble its ten
// seconds take no time.
func TestIK17_WaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBubble(t)
		r.call("acme", "/v1/claims", claimBody("k")).want(t, 201, "")
		start := time.Now()
		a := r.call("acme", "/v1/claims", claimBody("k", "token", tokenB, "wait_s", 10)).want(t, 409,
			problem.InFlight)
		if took := time.Since(start); took != 10*time.Second || a.header.Get("Retry-After") != "30" {
			t.Errorf("waited %v, Retry-After %q", took, a.header.Get("Retry-After"))
		}
	})
}

func TestIK19_ResultsOfEveryKind(t *testing.T) {
	r := newRig(t)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for i, c := range []struct {
		in    map[string]any
		bytes string
		typ   string
	}{
		{map[string]any{}, "", ""},
		{map[string]any{"result": nil}, "null", "application/json"},
		{map[string]any{"result": ""}, `""`, "application/json"},
		{map[string]any{"result": map[string]any{"a": "<&>\u2028é"}}, `{"a":"<&>\u2028é"}`,
			"application/json"},
		{map[string]any{"result_b64": ""}, "", ""},
		{map[string]any{"result_b64": base64.StdEncoding.EncodeToString(all),
			"content_type": "application/octet-stream"},
			string(all), "application/octet-stream"},
		{map[string]any{"result_b64": "bm90IGpzb24=", "content_type": "application/json"}, "not json",
			"application/json"},
		{map[string]any{"result_b64": base64.StdEncoding.EncodeToString(make([]byte, 900_000))},
			string(make([]byte, 900_000)), ""},
	} {
		path := r.acquire(fmt.Sprint("k", i))
		in := own()
		maps.Copy(in, c.in)
		r.ask("acme", "POST "+path+"/done", in).want(t, 200, "")
		a := r.ask("acme", "POST /v1/claims", claimBody(fmt.Sprint("k", i))).want(t, 200, "")
		if got := string(resultOf(t, a)); got != c.bytes && !(c.typ == "application/json" && jsonEqual(got,
			c.bytes)) {
			t.Errorf("%d: %.80q, want %.80q", i, got, c.bytes)
		}
		if a.text("claim.content_type") != c.typ || a.at("claim.result_size") == nil {
			t.Errorf("%d: %.200s", i, a.raw)
		}
	}
}

func TestIK19_ResultAboveTheLimit(t *testing.T) {
	r := newRig(t)
	path := r.acquire("k")
	big := base64.StdEncoding.EncodeToString(make([]byte, 1<<20+1))
	for range 2 { // and once more after a lost answer
		r.ask("acme", "POST "+path+"/done", own("result_b64", big)).want(t, 200, "")
	}
	a := r.ask("acme", "POST /v1/claims", claimBody("k", "token", tokenB)).want(t, 200, "")
	if a.text("outcome") != "replay" || a.at("claim.result_omitted") != true ||
		a.at("claim.result_size") != float64(1<<20+1) ||
		len(a.text("claim.result_sha256")) != 64 {
		t.Errorf("%.300s", a.raw)
	}
}

func TestIK20_Keys(t *testing.T) {
	r := newRig(t)
	for name, c := range map[string]struct {
		key string
		ok  bool
	}{
		"empty":           {"", false},
		"blank":           {"   ", false},
		"one":             {"k", true},
		"255 bytes":       {strings.Repeat("k", 255), true},
		"256 bytes":       {strings.Repeat("k", 256), false},
		"255 bytes of é":  {strings.Repeat("é", 128), false},
		"10 kB":           {strings.Repeat("k", 10<<10), false},
		"newline":         {"a\nb", false},
		"return":          {"a\rb", false},
		"tab":             {"a\tb", false},
		"zero":            {"a\x00b", false},
		"delete":          {"a\x7fb", false},
		"C1 control":      {"a\u0085b", false},
		"text":            {"Bestellung № 7 🙂", true},
		"slash and dots":  {"../../v1", true},
		"separator":       {"op/acme/charge", true},
		"quoted is other": {`"k"`, true},
	} {
		a := r.ask("acme", "POST /v1/claims", claimBody(c.key))
		if c.ok {
			a.want(t, 201, "")
			if a.text("claim.key") != c.key {
				t.Errorf("%s: the key came back as %q", name, a.text("claim.key"))
			}
			if b := r.ask("acme", "GET /v1/claims/"+a.text("claim.id"), nil); b.status != 200 {
				t.Errorf("%s: its claim cannot be read: %d", name, b.status)
			}
			continue
		}
		if a.want(t, 400, problem.InvalidField); a.problem.Param != "key" {
			t.Errorf("%s: at %q", name, a.problem.Param)
		}
	}
}

// What decoders commonly read as one another must not become one key.
func TestIK20_SmuggledKeys(t *testing.T) {
	r := newRig(t)
	rest := `,"operation":"charge","token":"` + tokenA + `","payload":"x","lease_s":30}`
	for name, c := range map[string]struct {
		body string
		code problem.Code
	}{
		"twice":             {`{"key":"a","key":"b"` + rest, problem.InvalidJSON},
		"twice, escaped":    {`{"key":"a","\u006bey":"b"` + rest, problem.InvalidJSON},
		"other case":        {`{"KEY":"a"` + rest, problem.UnknownField},
		"other case beside": {`{"key":"a","Key":"b"` + rest, problem.UnknownField},
		"not UTF-8":         {"{\"key\":\"a\xff\"" + rest, problem.InvalidJSON},
		"half a character":  {`{"key":"a\ud800"` + rest, problem.InvalidJSON},
		"the other half":    {`{"key":"\udc00a"` + rest, problem.InvalidJSON},
		"two first halves":  {`{"key":"\ud83d\ud83d"` + rest, problem.InvalidJSON},
		"escaped zero":      {`{"key":"a\u0000b"` + rest, problem.InvalidField},
		"number":            {`{"key":7` + rest, problem.InvalidField},
		"array":             {`{"key":["a"]` + rest, problem.InvalidField},
		"null":              {`{"key":null` + rest, problem.InvalidField},
		"missing":           {`{` + rest[1:], problem.InvalidField},
		"unknown":           {`{"key":"a","idempotency_key":"b"` + rest, problem.UnknownField},
		"second object":     {`{"key":"a"` + rest + `{"key":"b"}`, problem.InvalidJSON},
		"trailing text":     {`{"key":"a"` + rest + ` x`, problem.InvalidJSON},
		"array of objects":  {`[{"key":"a"` + rest + `]`, problem.InvalidJSON},
		"nothing":           {``, problem.InvalidJSON},
		"null alone":        {`null`, problem.InvalidJSON},
		"cut":               {`{"key":"a"`, problem.InvalidJSON},
		"byte order mark":   {"\ufeff{\"key\":\"a\"" + rest, problem.InvalidJSON},
		"comment":           {`{/**/"key":"a"` + rest, problem.InvalidJSON},
		"depth": {`{"intent":` + strings.Repeat("[", 20_000) + strings.Repeat("]",
			20_000) + `,"key":"a"` + rest, problem.InvalidJSON},
		"a whole pair is a text": {`{"key":"\ud83d\ude42"` + rest, ""},
		"escaped backslash":      {`{"key":"\\ud800"` + rest, ""},
	} {
		a := r.ask("acme", "POST /v1/claims", c.body)
		if a.problem.Code != c.code {
			t.Errorf("%s: %d %s", name, a.status, a.raw)
		}
	}
	list := r.ask("acme", "GET /v1/claims", nil).want(t, 200, "")
	if got := len(list.at("claims").([]any)); got != 2 {
		t.Errorf("%d claims came into being", got)
	}
}

func TestInvalidClaims(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		member string
		value  any
	}{
		{"operation", ""}, {"operation", "a b"}, {"operation", strings.Repeat("o", 129)}, {"operation",
			"a\nb"},
		{"token", "short"}, {"token", strings.Repeat("t", 129)}, {"token", "a-token-with-a-\x00-zero"},
		{"token", nil},
		{"fingerprint", "abc"}, {"fingerprint", strings.Repeat("g", 64)}, {"fingerprint", strings.Repeat("a",
			66)},
		{"lease_s", 0}, {"lease_s", nil}, {"lease_s", -1}, {"lease_s", 86401}, {"lease_s", "30"}, {"lease_s",
			1.5},
		{"lease_s", int64(9223372036854775807)},
		{"wait_s", -1}, {"wait_s", 11}, {"wait_s", int64(1) << 62},
		{"intent", strings.Repeat("i", 64<<10)}, {"take_over", "yes"}, {"payload", 5},
	} {
		body := claimBody("k", c.member, c.value)
		if c.member == "fingerprint" {
			delete(body, "payload")
		}
		a := r.ask("acme", "POST /v1/claims", body).want(t, 400, problem.InvalidField)
		if a.problem.Param != c.member {
			t.Errorf("%s %.20v: at %q: %s", c.member, c.value, a.problem.Param, a.raw)
		}
	}
	both := claimBody("k", "fingerprint", strings.Repeat("a", 64))
	r.ask("acme", "POST /v1/claims", both).want(t, 400, problem.InvalidField)
	neither := claimBody("k", "payload", nil)
	r.ask("acme", "POST /v1/claims", neither).want(t, 400, problem.InvalidField)
	r.ask("acme", "POST "+r.acquire("k")+"/done", own("result", 1, "result_b64", "AA==")).want(t, 400,
		problem.InvalidField)
	r.ask("acme", "POST "+r.acquire("l")+"/done", own("result_b64", "AA")).want(t, 400, problem.InvalidField)
}

// What comes along with an outcome is made fit: refusing it would lose the
// outcome.
func TestOutcomesAreNotRefusedForTheirTexts(t *testing.T) {
	r := newRig(t)
	path := r.acquire("k")
	r.ask("acme", "POST "+path+"/done", own("result_b64", "AA==", "content_type", "a\r\nb: c")).want(t, 200,
		"")
	if a := r.ask("acme", "GET "+path, nil).want(t, 200, ""); a.text("content_type") != "a  b: c" {
		t.Errorf("%s", a.raw)
	}
	path = r.acquire("l")
	long := "line\n" + strings.Repeat("é", 600)
	for range 2 {
		r.ask("acme", "POST "+path+"/unknown", own("reason", long)).want(t, 200, "")
	}
	if got := r.ask("acme", "GET "+path, nil).want(t, 200, "").text("reason"); len(got) > 1024 ||
		!strings.HasPrefix(got, "line é") || strings.Contains(got, "\ufffd") {
		t.Errorf("%q", got)
	}
}

func TestFingerprintAndPayloadAreTheSame(t *testing.T) {
	r := newRig(t)
	r.acquire("k")
	digest := fmt.Sprintf("%X", sha([]byte("100 EUR")))
	a := r.ask("acme", "POST /v1/claims", claimBody("k", "payload", nil, "fingerprint", digest)).want(t,
		201, "")
	if a.text("outcome") != "acquired" {
		t.Errorf("%s", a.raw)
	}
}

func TestIK27_OperatorResolves(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		verdict, result string
		then            string
		status          int
	}{{"done", "paid", "replay", 200}, {"refused", "no", "replay", 200}, {"free", "", "acquired", 201}} {
		path, etag := r.unknownClaim(c.verdict)
		body := map[string]any{"verdict": c.verdict, "reason": "seen in the provider's books"}
		if c.result != "" {
			body["result"] = c.result
		}
		r.ask("operator", "POST "+path+"/resolve", body).want(t, 428, problem.PreconditionRequired)
		r.ask("operator", "POST "+path+"/resolve", body, "If-Match", "*").want(t, 428,
			problem.PreconditionRequired)
		for _, old := range []string{`"1.unknown"`, `W/` + etag, etag + `, "2"`, "2", `""`,
			strings.Replace(etag, "unknown", "pending", 1)} {
			r.ask("operator", "POST "+path+"/resolve", body, "If-Match", old).want(t, 412, problem.Stale)
		}
		r.ask("operator", "POST "+path+"/resolve", map[string]any{"verdict": c.verdict, "reason": " "},
			"If-Match", etag).want(t, 400, problem.InvalidField)
		r.ask("operator", "POST "+path+"/resolve", body, "If-Match", etag).want(t, 200, "")
		if c.verdict != "free" {
			r.ask("operator", "POST "+path+"/resolve", body, "If-Match", etag).want(t, 200,
				"") // a lost answer
			r.ask("admin", "POST "+path+"/resolve", body, "If-Match", etag).want(t, 409, problem.Settled)
		}
		a := r.ask("acme", "POST /v1/claims", claimBody(c.verdict, "token", tokenB)).want(t, c.status, "")
		if a.text("outcome") != c.then || a.text("claim.result") != c.result {
			t.Errorf("%s: %s", c.verdict, a.raw)
		}
	}
	page, err := r.feed.Read(t.Context(), r.store, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	audited := 0
	for _, e := range page.Events {
		if e.Type == claim.EventResolved && strings.Contains(string(e.Data), `"actor":"operator"`) &&
			strings.Contains(string(e.Data), "books") {
			audited++
		}
	}
	if audited != 3 {
		t.Errorf("%d acts are audited", audited)
	}
}

// Two operators look at the same claim; only one acts.
func TestSecondOperatorIsStale(t *testing.T) {
	r := newRig(t)
	path, etag := r.unknownClaim("k")
	r.ask("acme", "POST /v1/claims", claimBody("k", "token", tokenB, "take_over", true)).want(t, 200, "")
	r.ask("operator", "POST "+path+"/resolve", map[string]any{"verdict": "free", "reason": "x"}, "If-Match",
		etag).
		want(t, 412, problem.Stale)
}

func TestETagFollowsTheState(t *testing.T) {
	r := newRig(t)
	path := r.acquire("k")
	first := r.ask("acme", "GET "+path, nil).want(t, 200, "").header.Get("ETag")
	for _, h := range []string{first, "W/" + first, `"x", ` + first, "*"} {
		if a := r.ask("acme", "GET "+path, nil, "If-None-Match", h); a.status != 304 || len(a.raw) > 0 ||
			a.header.Get("ETag") != first {
			t.Errorf("If-None-Match %s: %d", h, a.status)
		}
	}
	r.clock.Add(31 * time.Second) // unknown now, without a write
	a := r.ask("acme", "GET "+path, nil, "If-None-Match", first).want(t, 200, "")
	if a.text("state") != "unknown" || a.text("cause") != "lease_ended" || a.header.Get("ETag") == first {
		t.Errorf("%s %s", a.raw, a.header.Get("ETag"))
	}
	r.ask("operator", "POST "+path+"/resolve", map[string]any{"verdict": "free", "reason": "x"}, "If-Match",
		a.header.Get("ETag")).want(t, 200, "")
	r.ask("acme", "GET "+path, nil, "If-None-Match", "*").want(t, 404, problem.NotFound)
}

func TestInstantsAreUTCToTheMillisecond(t *testing.T) {
	r := newRig(t)
	if a := r.ask("acme", "GET "+r.acquire("k"), nil).want(t, 200,
		""); a.text("created_at") != "2026-05-04T12:30:00.123Z" ||
		a.text("owner.lease_ends_at") != "2026-05-04T12:30:30.123Z" {
		t.Errorf("%s", a.raw)
	}
}

func TestForeignIDs(t *testing.T) {
	r := newRig(t)
	good := strings.TrimPrefix(r.acquire("k"), "/v1/claims/")
	enc := func(k kv.Key) string { return "cl_" + idEncoding.EncodeToString(k) }
	scope := claim.ScopeOf("acme", "charge")
	for name, id := range map[string]string{
		"no prefix": good[3:], "other prefix": "tk_" + good[3:], "cut": good[:len(good)-2], "longer": good +
			"AA",
		"empty": "cl_", "too long": "cl_" + strings.Repeat("A", 4000), "one part": enc(kv.Key{}.String(
			scope)),
		"three parts": enc(kv.Key{}.String(scope).String("k").String("x")), "empty key": enc(kv.Key{}.String(
			scope).String("")),
		"control": enc(kv.Key{}.String(scope).String("a\nb")), "escape of the scope": enc(kv.Key{}.String(
			"op/acme%2Fx").String("k")),
		"bytes": enc(kv.Key{}.Bytes([]byte(scope)).String("k")),
	} {
		if a := r.ask("acme", "GET /v1/claims/"+id, nil); a.status != 404 {
			t.Errorf("%s: %d", name, a.status)
		}
	}
}

// A principal whose name begins like another's, or holds its separator, is
// another.
func TestPrincipalsThatResemble(t *testing.T) {
	r := newRig(t)
	r.token("acme-eu", "client", "acme-eu")
	r.token("acm", "client", "acm")
	path := r.acquire("k")
	for _, as := range []string{"acme-eu", "acm"} {
		r.ask(as, "GET "+path, nil).want(t, 404, problem.NotFound)
		if a := r.ask(as, "GET /v1/claims", nil).want(t, 200, ""); len(a.at("claims").([]any)) != 0 {
			t.Errorf("%s: %s", as, a.raw)
		}
	}
}

// routeClaim makes a claim as the proxy does for a person of acme.
func (r *rig) routeClaim(key, token string) claim.ID {
	r.t.Helper()
	id := claim.ID{Scope: claim.RouteScopeOf("acme", "charges"), Key: key}
	d, err := r.deps.Book.Begin(r.t.Context(), claim.Request{ID: id, Token: token,
		Fingerprint: sha([]byte("100 EUR")), Owner: claim.LocalOwner(),
		Intent: []byte(`{"path":"/charges"}`)})
	if err != nil || d.Kind != claim.Acquired {
		r.t.Fatalf("%v %v", d, err)
	}
	return id
}

// What the proxy holds for a person is seen by the tokens of its principal, and
// changed by none, even with the secret of the owner; an operator resolves it.
func TestClaimsOfRoutesAreTheProxysOwn(t *testing.T) {
	r := newRig(t)
	id := r.routeClaim("k", tokenA)
	path := claimPath(id)
	verbs := map[string]map[string]any{"heartbeat": own("lease_s", 5), "done": own("result", 1),
		"refused": own(), "release": own(), "unknown": own(), "repeat": own("key_valid_for_s", 60),
		"looked_up": own("answer", "nothing", "settles_after_s", 1)}
	for verb, body := range verbs {
		r.ask("acme", "POST "+path+"/"+verb, body).want(t, 403, problem.Forbidden)
		r.ask("globex", "POST "+path+"/"+verb, body).want(t, 404, problem.NotFound)
	}
	r.ask("acme", "POST /v1/claims", claimBody("k", "operation", "charges", "take_over", true)).
		want(t, 201, "") // another key altogether
	if _, err := r.deps.Book.Unknown(t.Context(), claim.Ref{ID: id, Token: tokenA}, "timed out"); err != nil {
		t.Fatal(err)
	}
	for verb, body := range verbs {
		r.ask("acme", "POST "+path+"/"+verb, body).want(t, 403, problem.Forbidden)
	}
	a := r.ask("acme", "GET "+path, nil).want(t, 200, "")
	if a.text("kind") != "route" || a.text("operation") != "charges" || a.text("principal") != "acme" ||
		a.text("intent.path") != "/charges" {
		t.Errorf("%s", a.raw)
	}
	r.ask("globex", "GET "+path, nil).want(t, 404, problem.NotFound)
	r.ask("operator", "POST "+path+"/resolve",
		map[string]any{"verdict": "done", "reason": "seen", "result": 1}, "If-Match",
		a.header.Get("ETag")).want(t, 200, "")
}

// An operator says which response a route replays.
func TestResolveWithAStatus(t *testing.T) {
	r := newRig(t)
	for i, c := range []struct {
		more   map[string]any
		status int
		param  string
	}{
		{map[string]any{"verdict": "done", "status": 201, "result": map[string]any{"id": "ch_1"}}, 200, ""},
		{map[string]any{"verdict": "refused", "status": 402, "result_b64": "bm8=",
			"content_type": "text/plain"}, 200, ""},
		{map[string]any{"verdict": "done", "status": 204}, 200, ""},
		{map[string]any{"verdict": "done", "status": 204, "result": 1}, 400, "status"},
		{map[string]any{"verdict": "done", "status": 199}, 400, "status"},
		{map[string]any{"verdict": "done", "status": 600}, 400, "status"},
		{map[string]any{"verdict": "free", "status": 200}, 400, "result"},
	} {
		id := r.routeClaim(fmt.Sprint("k", i), tokenA)
		if _, err := r.deps.Book.Unknown(t.Context(), claim.Ref{ID: id, Token: tokenA}, ""); err != nil {
			t.Fatal(err)
		}
		etag := r.ask("operator", "GET "+claimPath(id), nil).header.Get("ETag")
		c.more["reason"] = "seen"
		a := r.ask("operator", "POST "+claimPath(id)+"/resolve", c.more, "If-Match", etag)
		if a.status != c.status || a.problem.Param != c.param {
			t.Errorf("%v: %d %s", c.more, a.status, a.raw)
		}
		got, _, err := r.deps.Book.Get(t.Context(), id)
		if err != nil || c.status == 200 != got.Record.State.Terminal() ||
			c.status == 200 && got.Record.Result.Type != idemhttp.TypeResponse {
			t.Errorf("%v: %v %v", c.more, got, err)
		}
	}
	path, etag := r.unknownClaim("op")
	a := r.ask("operator", "POST "+path+"/resolve", map[string]any{"verdict": "done", "reason": "x",
		"status": 200}, "If-Match", etag).want(t, 400, problem.InvalidField)
	if a.problem.Param != "status" {
		t.Errorf("%s", a.raw)
	}
}

// Nobody outside takes over what an owner inside the process left unknown, also
// not by waiting for it.
func TestRemoteOwnersTakeOverNothingLocal(t *testing.T) {
	r := newRig(t)
	for _, state := range []string{"unknown before", "unknown while it waits"} {
		t.Run(state, func(t *testing.T) {
			id := claim.ID{Scope: claim.ScopeOf("acme", "charge"), Key: state}
			if _, err := r.deps.Book.Begin(t.Context(), claim.Request{ID: id, Token: tokenA,
				Fingerprint: sha([]byte("100 EUR")), Owner: claim.LocalOwner()}); err != nil {
				t.Fatal(err)
			}
			giveUp := func() {
				_, err := r.deps.Book.Unknown(t.Context(), claim.Ref{ID: id, Token: tokenA}, "")
				if err != nil {
					t.Error(err)
				}
			}
			wait := 0
			if state == "unknown before" {
				giveUp()
			} else {
				wait = 10
				go giveUp()
			}
			body := claimBody(state, "token", tokenB, "take_over", true, "wait_s", wait)
			r.ask("acme", "POST /v1/claims", body).want(t, 409, problem.OutcomeUnknown)
		})
	}
}

func TestListingShowsRoutes(t *testing.T) {
	r := newRig(t)
	for i := range 3 {
		r.acquire(fmt.Sprint("op", i))
		r.routeClaim(fmt.Sprint("route", i), tokenA)
	}
	other := claim.ID{Scope: claim.EventScopeOf("psp", "hook"), Key: "evt"}
	if _, err := r.deps.Book.Begin(t.Context(), claim.Request{ID: other, Token: tokenA,
		Owner: claim.LocalOwner()}); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"":                  "op0 op1 op2 route0 route1 route2",
		"state=open":        "op0 op1 op2 route0 route1 route2",
		"operation=charges": "route0 route1 route2",
		"operation=charge":  "op0 op1 op2",
		"state=done":        "",
		"principal=acme":    "op0 op1 op2 route0 route1 route2",
		"operation=nothing": "",
		"state=pending":     "op0 op1 op2 route0 route1 route2",
	} {
		for _, limit := range []string{"", "&limit=1", "&limit=3", "&limit=4"} {
			if got := r.listAll("acme", "/v1/claims?"+query+limit); got != want {
				t.Errorf("%s%s: %q, want %q", query, limit, got, want)
			}
		}
	}
	if got := r.listAll("globex", "/v1/claims"); got != "" {
		t.Errorf("globex sees %q", got)
	}
	kinds := map[string]int{}
	all := r.ask("viewer", "GET /v1/claims", nil).want(t, 200, "")
	for _, c := range all.at("claims").([]any) {
		kinds[c.(map[string]any)["kind"].(string)]++
	}
	if kinds["operation"] != 3 || kinds["route"] != 3 || kinds["other"] != 1 {
		t.Errorf("%v", kinds)
	}
}

func TestStoreTroubleIsNamed(t *testing.T) {
	r := newRig(t)
	path := r.acquire("k")
	r.store.Arm(faultkv.Plan{When: faultkv.Before})
	a := r.ask("acme", "POST "+path+"/done", own()).want(t, 500, problem.Internal)
	if strings.Contains(string(a.raw), "inject") || !strings.Contains(r.log.String(), "injected failure") {
		t.Errorf("%s\n%s", a.raw, r.log)
	}
	r.store.Arm(faultkv.Plan{When: faultkv.Lost, Mode: faultkv.Stop})
	r.ask("acme", "POST "+path+"/done", own()).want(t, 503, problem.CommitUnknown)
	a = r.ask("acme", "POST "+path+"/done", own()).want(t, 503, problem.StoreStopped)
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	r.ask("acme", "GET "+path, nil).want(t, 200, "") // reads go on
}

func TestListing(t *testing.T) {
	r := newRig(t)
	for i := range 9 {
		r.acquire(fmt.Sprint("k", i))
		r.clock.Add(time.Second)
	}
	r.acquire("other", "operation", "charge2")
	r.ask("acme", "POST /v1/claims/"+claimID(claim.ID{Scope: claim.ScopeOf("acme", "charge"),
		Key: "k3"})+"/done", own()).
		want(t, 200, "")
	r.ask("globex", "POST /v1/claims", claimBody("k0")).want(t, 201, "")
	for query, want := range map[string]string{
		"operation=charge":                 "k0 k1 k2 k3 k4 k5 k6 k7 k8",
		"operation=charge&state=done":      "k3",
		"operation=charge&state=pending":   "k0 k1 k2 k4 k5 k6 k7 k8",
		"operation=charge2&state=open":     "other",
		"state=refused":                    "",
		"state=unknown":                    "",
		"operation=char":                   "",
		"principal=acme&operation=charge2": "other",
	} {
		for _, limit := range []string{"", "&limit=1", "&limit=3"} {
			if got := r.listAll("acme", "/v1/claims?"+query+limit); got != want {
				t.Errorf("%s%s: %q, want %q", query, limit, got, want)
			}
		}
	}
	if got := r.listAll("viewer",
		"/v1/claims?operation=charge&limit=2"); got != "k0 k1 k2 k3 k4 k5 k6 k7 k8 k0" {
		t.Errorf("the viewer sees %q", got)
	}
	if got := r.listAll("viewer", "/v1/claims?principal=globex"); got != "k0" {
		t.Errorf("of globex: %q", got)
	}
	r.clock.Add(time.Minute)
	if got := r.listAll("viewer",
		"/v1/claims?state=unknown&limit=4&principal=acme&operation=charge"); got !=
		"k0 k1 k2 k4 k5 k6 k7 k8" {
		t.Errorf("unknown: %q", got)
	}
}

// listAll follows the pages, by body and by Link, and returns the keys.
func (r *rig) listAll(as, path string) string {
	r.t.Helper()
	var keys []string
	for range 50 {
		a := r.ask(as, "GET "+path, nil).want(r.t, 200, "")
		for _, c := range a.at("claims").([]any) {
			keys = append(keys, c.(map[string]any)["key"].(string))
		}
		next := a.text("next")
		link := ""
		if next != "" {
			link = "<" + next + `>; rel="next"`
		}
		if a.header.Get("Link") != link || (next == "") != (a.text("next_cursor") == "") {
			r.t.Errorf("Link %q and next %q", a.header.Get("Link"), next)
		}
		if path = next; next == "" {
			return strings.Join(keys, " ")
		}
	}
	r.t.Error("the listing has no end")
	return ""
}

func TestCursorOfAnotherListing(t *testing.T) {
	r := newRig(t)
	for i := range 3 {
		r.acquire(fmt.Sprint("k", i))
	}
	cursor := r.ask("acme", "GET /v1/claims?limit=1", nil).want(t, 200, "").text("next_cursor")
	for _, c := range []struct{ as, path string }{
		{"acme", "/v1/claims?state=done&cursor=" + cursor},
		{"acme", "/v1/claims?operation=charge&cursor=" + cursor},
		{"globex", "/v1/claims?cursor=" + cursor},
		{"viewer", "/v1/claims?cursor=" + cursor},
		{"admin", "/v1/tokens?cursor=" + cursor},
		{"acme", "/v1/claims?cursor=garbage"},
		{"acme", "/v1/claims?cursor=" + cursor[:len(cursor)-2]},
		{"acme", "/v1/claims?cursor=" + flipped(cursor)},
	} {
		a := r.ask(c.as, "GET "+c.path, nil).want(t, 400, problem.InvalidCursor)
		if a.problem.Param != "cursor" {
			t.Errorf("%s %s: %s", c.as, c.path, a.raw)
		}
	}
}

// flipped changes one bit in the middle of a cursor.
func flipped(cursor string) string {
	b, _ := idEncoding.DecodeString(cursor)
	b[len(b)/2] ^= 1
	return idEncoding.EncodeToString(b)
}

// A listing may go on after a row of somebody else. The cursor tells nothing of
// it, not even how long its names are.
func TestCursorHidesForeignRows(t *testing.T) {
	r := newRig(t)
	lengths := map[int]bool{}
	for i, secret := range []string{"secret-order-", strings.Repeat("secret-order-", 8)} {
		r.ask("globex", "POST /v1/claims", claimBody(fmt.Sprint(secret, i))).want(t, 201, "")
		r.acquire(fmt.Sprint("mine", i))
		position := ""
		for { // to where the walk stands at that row, as after a bounded look
			page, err := r.deps.Book.ListOpen(t.Context(), claim.Query{Position: position, Limit: 1})
			if err != nil || len(page.Claims) == 0 {
				t.Fatalf("%v %v", page, err)
			}
			if position = page.Next; strings.HasPrefix(page.Claims[0].ID.Key, secret) {
				break
			}
		}
		sealed, err := r.server.cursors.seal("0:"+position, "f")
		if err != nil {
			t.Fatal(err)
		}
		b, _ := idEncoding.DecodeString(sealed)
		inner, _ := base64.RawURLEncoding.DecodeString(position)
		if !strings.Contains(string(inner), secret) {
			t.Fatalf("the position does not name the row: %q", inner)
		}
		if strings.Contains(sealed, position) || strings.Contains(string(b), secret) ||
			strings.Contains(string(b), position) {
			t.Errorf("the cursor shows %q", b)
		}
		lengths[len(sealed)] = true
	}
	if len(lengths) != 1 {
		t.Errorf("the cursor is as long as what it hides: %v", lengths)
	}
}

// A cursor outlives the process, and is worth nothing in another store.
func TestCursorsSurviveARestart(t *testing.T) {
	keyOf := func(r *rig) []byte {
		key, err := CursorKey(t.Context(), r.store, rand.Reader)
		if err != nil || len(key) != cursorKeySize {
			t.Fatalf("%x %v", key, err)
		}
		return key
	}
	r := newRig(t)
	a, err := newCursors(keyOf(r), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := a.seal("0:here", "f")
	if err != nil {
		t.Fatal(err)
	}
	again, _ := newCursors(keyOf(r), rand.Reader)
	if got, err := again.open(text, "f"); err != nil || got != "0:here" {
		t.Errorf("after a restart: %q %v", got, err)
	}
	elsewhere, _ := newCursors(keyOf(newRig(t)), rand.Reader)
	if got, err := elsewhere.open(text, "f"); err == nil {
		t.Errorf("in another store: %q", got)
	}
	if _, err := newCursors([]byte("short"), rand.Reader); err == nil {
		t.Error("any key will do")
	}
}

func TestListingParameters(t *testing.T) {
	r := newRig(t)
	for path, code := range map[string]problem.Code{
		"/v1/claims?limit=0": problem.InvalidField, "/v1/claims?limit=201": problem.InvalidField,
		"/v1/claims?limit=-1": problem.InvalidField, "/v1/claims?limit=1e2": problem.InvalidField,
		"/v1/claims?limit=99999999999999999999":            problem.InvalidField,
		"/v1/claims?limit=1&limit=2":                       problem.InvalidField,
		"/v1/claims?Limit=1":                               problem.UnknownField,
		"/v1/claims?page=1":                                problem.UnknownField,
		"/v1/claims?state=absent":                          problem.InvalidField,
		"/v1/claims?operation=a%20b":                       problem.InvalidField,
		"/v1/claims?a=1;b=2":                               problem.BadRequest,
		"/v1/claims?limit=%zz":                             problem.BadRequest,
		"/v1/claims?principal=" + strings.Repeat("p", 200): problem.InvalidField,
		"/v1/claims?access_token=" + r.secrets["admin"]:    problem.UnknownField,
		"/v1/claims/cl_x?limit=1":                          problem.UnknownField,
		"/v1/claims/" + claimID(claim.ID{}) + "?wait_s=11": problem.NotFound,
		r.acquire("k") + "?wait_s=11":                      problem.InvalidField,
	} {
		a := r.ask("acme", "GET "+path, nil)
		if a.problem.Code != code {
			t.Errorf("%s: %d %s", path, a.status, a.raw)
		}
	}
	if strings.Contains(r.log.String(), r.secrets["admin"]) {
		t.Error("the log holds a token that came in a query")
	}
	if a := r.ask("", "GET /v1/claims?access_token="+r.secrets["admin"],
		nil); a.status != http.StatusUnauthorized {
		t.Errorf("a token in the query lets in: %d", a.status)
	}
}
