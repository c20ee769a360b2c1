package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"onced/api/client"
)

// tokensVia tries the token commands, with words that say how they reach the
// tokens.
func tokensVia(t *testing.T, via func(words ...string) result) {
	t.Helper()
	secret := regexp.MustCompile(`^onced_[a-z0-9]{40,}\n$`)
	made := via("token", "create", "shop", "--role=client", "--principal", "acme")
	if made.code != 0 || !secret.MatchString(made.out) || !strings.Contains(made.errors, "only now") {
		t.Fatalf("create: %+v", made)
	}
	if again := via("token", "create", "shop"); again.code != ExitFailure ||
		!strings.Contains(again.errors, "onced: a live token has the name shop\n") ||
		!strings.Contains(again.errors, "  try: onced token rotate shop, when its secret is lost; "+
			"or onced token create shop-2 --principal acme, for one more machine of the same account\n") {
		t.Errorf("the same name: %+v", again)
	}
	if !strings.Contains(made.errors, "of shop (client, of the account acme)") {
		t.Errorf("create does not say of which account: %+v", made)
	}
	if bad := via("token", "create", "x", "--role=king"); bad.code != ExitUsage ||
		!strings.Contains(bad.errors, "role") {
		t.Errorf("a role that is none: %+v", bad)
	}
	next := via("token", "rotate", "shop", "--overlap=1h", "--output=json")
	var fresh client.NewToken
	if err := json.Unmarshal([]byte(next.out), &fresh); err != nil || fresh.Secret+"\n" == made.out ||
		fresh.Token.Name != "shop" || fresh.Token.Principal != "acme" {
		t.Fatalf("rotate: %+v", next)
	}
	ended := via("token", "revoke", fresh.Token.ID, "--reason=over")
	if ended.code != 0 || !strings.Contains(ended.out, "is revoked") {
		t.Errorf("revoke: %+v", ended)
	}
	if none := via("token", "revoke", "nobody"); none.code != ExitFailure ||
		!strings.Contains(none.errors, "try: onced token list") {
		t.Errorf("revoke of none: %+v", none)
	}
	var page client.TokenPage
	listed := via("token", "list", "--output=json")
	if err := json.Unmarshal([]byte(listed.out), &page); err != nil {
		t.Fatalf("list: %v %+v", err, listed)
	}
	states := map[string]int{}
	for _, one := range page.Tokens {
		if one.Name == "shop" {
			states[strings.Fields(tokenState(one))[0]]++
		}
	}
	if states["live"] != 1 || states["revoked"] != 1 || strings.Contains(listed.out, "onced_") {
		t.Errorf("list: %v %s", states, listed.out)
	}
	if table := via("token", "list"); table.code != 0 || !strings.Contains(table.out, "PRINCIPAL") ||
		!strings.Contains(table.out, "acme") {
		t.Errorf("list: %+v", table)
	}
}

func TestTokensOfARunningService(t *testing.T) {
	s := startService(t, "")
	tokensVia(t, s.cli)
	file := filepath.Join(t.TempDir(), "token")
	os.WriteFile(file, []byte(s.token+"\n"), 0o600)
	if got := run(t, "token", "list", "--url", s.url, "--token_file", file); got.code != 0 {
		t.Errorf("--token_file: %+v", got)
	}
	if got := run(t, "ONCED_TOKEN_FILE="+file, "token", "list", "--url="+s.url); got.code != 0 {
		t.Errorf("ONCED_TOKEN_FILE: %+v", got)
	}
	bad := run(t, "ONCED_TOKEN=onced_x", "token", "list", "--url="+s.url)
	if bad.code != ExitFailure || !strings.Contains(bad.errors, "try: put a valid token into ONCED_TOKEN") {
		t.Errorf("a wrong token: %+v", bad)
	}
	locked := run(t, "token", "list", "--data", s.data)
	if locked.code != ExitStore || !strings.Contains(locked.errors, "onced is running and holds the store") {
		t.Errorf("without a token: %+v", locked)
	}
}

// TestTokensOfAStoppedService is the way back in when all tokens are lost.
func TestTokensOfAStoppedService(t *testing.T) {
	s := startService(t, "")
	s.stop()
	tokensVia(t, func(words ...string) result { return run(t, append(words, "--data="+s.data)...) })
	made := run(t, "token", "create", "--role=admin", "--data", s.data)
	if made.code != 0 || !strings.Contains(made.errors, "admin-") {
		t.Fatalf("%+v", made)
	}
}

// post calls the API.
func (s *serving) post(path, token, body string) (int, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+path,
		bytes.NewReader([]byte(body)))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text)
}

// unknownClaim makes a claim whose outcome is unknown and returns its id.
func (s *serving) unknownClaim(token, key string) string {
	s.t.Helper()
	status, text := s.post("/v1/claims", token, `{"operation":"charge","key":"`+key+
		`","token":"0123456789abcdef0123","payload":"x","lease_s":60}`)
	var a client.Answer
	if err := json.Unmarshal([]byte(text), &a); err != nil || status/100 != 2 || a.Claim == nil {
		s.t.Fatalf("claim: %d %s", status, text)
	}
	status, text = s.post("/v1/claims/"+a.Claim.ID+"/unknown", token,
		`{"token":"0123456789abcdef0123","reason":"no answer"}`)
	if status/100 != 2 {
		s.t.Fatalf("unknown: %d %s", status, text)
	}
	return a.Claim.ID
}

func TestClaimCommands(t *testing.T) {
	s := startService(t, "")
	shop := strings.TrimSpace(s.cli("token", "create", "shop").out)
	id := s.unknownClaim(shop, "order-1")
	other := s.unknownClaim(shop, "order-2")

	list := s.cli("claim", "list")
	if list.code != 0 || !strings.Contains(list.out, "operation  charge") ||
		!strings.Contains(list.out, id) || !strings.Contains(list.out, "order-2") ||
		!strings.Contains(list.out, "no answer") {
		t.Errorf("list: %+v", list)
	}
	if one := s.cli("claim", "list", "--limit=1"); strings.Count(one.out, "order-") != 1 ||
		!strings.Contains(one.errors, "there are more") {
		t.Errorf("--limit: %+v", one)
	}
	var page client.ClaimPage
	if err := json.Unmarshal([]byte(s.cli("claim", "list", "--output=json", "--principal=shop").out),
		&page); err != nil || len(page.Claims) != 2 {
		t.Errorf("json: %v %+v", err, page)
	}
	if lines := strings.Count(s.cli("claim", "list", "--output=ndjson").out, "\n"); lines != 2 {
		t.Errorf("ndjson has %d lines", lines)
	}
	show := s.cli("claim", "show", id)
	if show.code != 0 || !regexp.MustCompile(`(?m)^state +unknown$`).MatchString(show.out) ||
		!strings.Contains(show.out, "etag") {
		t.Errorf("show: %+v", show)
	}

	dry := s.cli("claim", "resolve", id, "--verdict=free", "--reason=bank says no")
	if dry.code != ExitOK || !strings.Contains(dry.errors, "SENT AGAIN") ||
		!strings.Contains(dry.errors, "--yes --etag=") {
		t.Errorf("without --yes: %+v", dry)
	}
	if after := s.cli("claim", "show", id); after.out != show.out {
		t.Errorf("it did something: %s", after.out)
	}
	if stale := s.cli("claim", "resolve", id, "--verdict=free", "--reason=x", "--yes",
		`--etag="nonsense"`); stale.code != ExitFailure {
		t.Errorf("another etag: %+v", stale)
	}
	done := s.cli("claim", "resolve", id, "--verdict=free", "--reason=bank says no", "--yes")
	if done.code != 0 || !strings.Contains(done.errors, "order-1") || !strings.Contains(done.errors, "etag") {
		t.Errorf("free, and it shows of what: %+v", done)
	}
	file := filepath.Join(t.TempDir(), "result.json")
	os.WriteFile(file, []byte(`{"paid":true}`), 0o600)
	done = s.cli("claim", "resolve", other, "--verdict=done", "--reason=bank says yes", "--yes", "--result",
		file)
	if done.code != 0 {
		t.Errorf("done: %+v", done)
	}
	if show := s.cli("claim", "show", other, "--output=json"); !strings.Contains(show.out, `"paid": true`) ||
		!strings.Contains(show.out, `"state": "done"`) {
		t.Errorf("after it: %+v", show)
	}
	os.WriteFile(file, []byte(`{`), 0o600)
	if bad := s.cli("claim", "resolve", other, "--verdict=done", "--reason=x", "--result",
		file); bad.code != ExitUsage {
		t.Errorf("a result that is no JSON: %+v", bad)
	}
	if none := s.cli("claim", "show", "nonsense"); none.code != ExitFailure || none.out != "" {
		t.Errorf("a claim that is none: %+v", none)
	}
}

func TestStatusOfAResolution(t *testing.T) {
	s := startService(t, "")
	id := s.unknownClaim(strings.TrimSpace(s.cli("token", "create", "shop").out), "order-1")
	resolve := []string{"claim", "resolve", id, "--verdict=done", "--reason=x", "--yes"}
	if bad := s.cli(append(resolve, "--status=201")...); bad.code != ExitFailure ||
		!strings.Contains(bad.errors, "only the claims of routes") {
		t.Errorf("of a claim that is no response: %+v", bad)
	}
	if bad := s.cli(append(resolve, "--status=99")...); bad.code != ExitUsage {
		t.Errorf("that is none: %+v", bad)
	}
}

// The folder that was meant is another one: nothing is made in it.
func TestTokensOfNoStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "onced-data")
	for _, words := range [][]string{{"token", "list"}, {"token", "create", "x"}, {"token", "revoke", "x"}} {
		got := run(t, append(words, "--data="+dir)...)
		if got.code != ExitUsage || !strings.Contains(got.errors, "there is no store in "+dir) ||
			!strings.Contains(got.errors, "try: --data") {
			t.Errorf("%v: %+v", words, got)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder was made")
	}
}

// The mistake in the command comes before the state of the store.
func TestRoleIsCheckedFirst(t *testing.T) {
	s := startService(t, "")
	got := run(t, "token", "create", "x", "--role=amdin", "--data", s.data)
	if got.code != ExitUsage || !strings.Contains(got.errors, "--role=admin") ||
		strings.Contains(got.errors, "holds the store") {
		t.Errorf("%+v", got)
	}
}

// Who looks from outside has neither the service's secrets nor its file.
func TestClientCommandsNeedNoSecretsOfTheService(t *testing.T) {
	s := startService(t, "")
	_, port, _ := strings.Cut(strings.TrimPrefix(s.url, "http://"), ":")
	file := filepath.Join(t.TempDir(), "onced.yaml")
	os.WriteFile(file, []byte("listen: 127.0.0.1:"+port+"\n"+
		"routes: [{path: /a, upstream: 'http://h', headers: ["+
		"{name: A, value_env: NOT_SET}, {name: B, value_file: /not/there}]}]\n"), 0o600)
	for _, words := range [][]string{{"claim", "list"}, {"token", "list"}, {"healthcheck"}} {
		got := run(t, append(append([]string{"ONCED_TOKEN=" + s.token}, words...), "--config", file)...)
		if got.code != 0 {
			t.Errorf("%v: %+v", words, got)
		}
	}
	if got := run(t, "config", "check", "--config", file); got.code != ExitUsage {
		t.Errorf("the service would start: %+v", got)
	}
	os.WriteFile(file, []byte("listn: x\n"), 0o600)
	for _, words := range [][]string{{"claim", "list"}, {"token", "list"}, {"healthcheck"}} {
		got := run(t, append(append([]string{"ONCED_TOKEN=" + s.token}, words...), "--config", file)...)
		if got.code != ExitUsage || !strings.Contains(got.errors, "try: --url=") {
			t.Errorf("%v: %+v", words, got)
		}
	}
}
