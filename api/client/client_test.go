package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"onced/api"
	"onced/api/auth"
	"onced/api/client"
	"onced/api/problem"
	"onced/kv/claim"
	"onced/kv/feed"
	"onced/kv/memkv"
)

// serve starts a server over a store in memory, and returns its address and an
// admin's token.
func serve() (url, admin string, stop func(), err error) {
	ctx := context.Background()
	store, events := memkv.New(memkv.Options{}), feed.New(feed.Config{})
	book, err := claim.New(ctx, store, claim.Config{Feed: events})
	if err != nil {
		return "", "", nil, err
	}
	tokens, err := auth.New(store, auth.Config{Feed: events})
	if err != nil {
		return "", "", nil, err
	}
	_, admin, err = tokens.Create(ctx, auth.Spec{Name: "admin", Role: auth.Admin, Actor: "test"})
	if err != nil {
		return "", "", nil, err
	}
	h, err := api.New(api.Deps{Book: book, Auth: tokens})
	if err != nil {
		return "", "", nil, err
	}
	ts := httptest.NewServer(h)
	return ts.URL, admin, ts.Close, nil
}

func newClients(t *testing.T) (admin, shop *client.Client) {
	t.Helper()
	url, secret, stop, err := serve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	admin = mustClient(t, url, secret)
	made, err := admin.CreateToken(t.Context(), client.TokenSpec{Name: "shop", Role: "client"})
	if err != nil {
		t.Fatal(err)
	}
	return admin, mustClient(t, url, made.Secret)
}

func mustClient(t *testing.T, url, token string) *client.Client {
	t.Helper()
	c, err := client.New(url, client.Config{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const owner = "owner-token-0001"

func request(key string) client.ClaimRequest {
	payload := "100 EUR"
	return client.ClaimRequest{Operation: "charge", Key: key, Token: owner, Payload: &payload, LeaseS: 30}
}

func acquire(t *testing.T, c *client.Client, key string) client.Ref {
	t.Helper()
	a, err := c.Claim(t.Context(), request(key))
	if err != nil || a.Outcome != "acquired" || a.Claim == nil {
		t.Fatalf("%+v %v", a, err)
	}
	return client.Ref{ID: a.Claim.ID, Token: owner}
}

func TestEveryCallOfAnOwner(t *testing.T) {
	_, shop := newClients(t)
	ctx := t.Context()
	ref := acquire(t, shop, "k1")
	if a, err := shop.Heartbeat(ctx, ref, 60); err != nil || a.Outcome != "extended" ||
		a.Claim.Owner.LeaseS != 60 {
		t.Errorf("heartbeat: %+v %v", a, err)
	}
	if a, err := shop.Done(ctx, ref, client.Result{JSON: json.RawMessage(`{"id":"<1>"}`)}); err != nil ||
		a.Outcome != "finished" {
		t.Errorf("done: %+v %v", a, err)
	}
	if a, err := shop.Claim(ctx, request("k1")); err != nil || a.Outcome != "replay" ||
		string(a.Claim.ResultBytes()) != `{"id":"<1>"}` {
		t.Errorf("replay: %+v %v", a, err)
	}
	all := bytes.Repeat([]byte{0, 1, 255}, 5)
	ref = acquire(t, shop, "k2")
	if a, err := shop.Refused(ctx, ref, client.Result{Bytes: all, ContentType: "a/b"}); err != nil ||
		a.Outcome != "finished" {
		t.Errorf("refused: %+v %v", a, err)
	}
	if c, err := shop.GetClaim(ctx, ref.ID, time.Second); err != nil || c.State != "refused" ||
		c.ContentType != "a/b" ||
		!bytes.Equal(c.ResultBytes(), all) || c.ETag == "" || c.CreatedAt.IsZero() {
		t.Errorf("get: %+v %v", c, err)
	}
	if a, err := shop.Release(ctx, acquire(t, shop, "k3")); err != nil || a.Outcome != "freed" ||
		a.Claim != nil {
		t.Errorf("release: %+v %v", a, err)
	}
	ref = acquire(t, shop, "k4")
	if a, err := shop.Unknown(ctx, ref, "timed out"); err != nil || a.Outcome != "still_unknown" ||
		a.Claim.Reason != "timed out" {
		t.Errorf("unknown: %+v %v", a, err)
	}
	again := request("k4")
	again.Token, again.TakeOver, again.Intent = "owner-token-0002", true, json.RawMessage(`1`)
	took, err := shop.Claim(ctx, again)
	if err != nil || took.Outcome != "took_over" || !took.EarlierOutcomeUnknown || took.DownstreamKey == "" {
		t.Fatalf("take over: %+v %v", took, err)
	}
	ref.Token = again.Token
	if a, err := shop.Repeat(ctx, ref, 3600); err != nil || a.Outcome != "may_resend" {
		t.Errorf("repeat: %+v %v", a, err)
	}
	a, err := shop.LookedUp(ctx, ref, client.Finding{Answer: "nothing", SettlesAfterS: 3600, Reason: "empty",
		AskedAt: took.Claim.UpdatedAt})
	if err != nil || a.Outcome != "still_unknown" || a.RetryAfterS != 3600 {
		t.Errorf("looked up: %+v %v", a, err)
	}
	_, err = shop.LookedUp(ctx, ref, client.Finding{Answer: "nothing", SettlesAfterS: 1,
		AskedAt: took.Claim.CreatedAt.Add(-time.Second)})
	if p, ok := errors.AsType[*problem.Problem](err); !ok || p.Param != "asked_at" {
		t.Errorf("a look-up before the claim: %v", err)
	}
	if a, err := shop.LookedUp(ctx, ref, client.Finding{Answer: "done",
		Result: client.Result{JSON: json.RawMessage(`2`)}}); err != nil || a.Outcome != "finished" {
		t.Errorf("looked up: %+v %v", a, err)
	}
}

func TestOperatorAndTokens(t *testing.T) {
	admin, shop := newClients(t)
	ctx := t.Context()
	ref := acquire(t, shop, "k1")
	if _, err := shop.Unknown(ctx, ref, ""); err != nil {
		t.Fatal(err)
	}
	acquire(t, shop, "k2")
	page, err := admin.ListClaims(ctx, client.ClaimFilter{State: "unknown", Operation: "charge",
		Principal: "shop", Limit: 1})
	if err != nil || len(page.Claims) != 1 || page.Claims[0].Key != "k1" {
		t.Fatalf("%+v %v", page, err)
	}
	if page.NextCursor != "" {
		if _, err := admin.ListClaims(ctx, client.ClaimFilter{State: "unknown", Operation: "charge",
			Principal: "shop",
			Cursor:    page.NextCursor}); err != nil {
			t.Error(err)
		}
	}
	c, err := admin.GetClaim(ctx, ref.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	res := client.Resolution{ETag: c.ETag, Verdict: "done", Reason: "seen",
		Result: client.Result{JSON: json.RawMessage(`1`)}}
	if a, err := admin.Resolve(ctx, ref.ID, res); err != nil || a.Outcome != "finished" ||
		a.Claim.ResolvedBy != "admin" {
		t.Errorf("%+v %v", a, err)
	}
	res.ETag = `"1.unknown"`
	if _, err := admin.Resolve(ctx, acquire(t, shop, "k3").ID, res); client.Code(err) != problem.Stale {
		t.Errorf("%v", err)
	}
	list, err := admin.ListTokens(ctx, 1, "")
	if err != nil || len(list.Tokens) != 1 || list.NextCursor == "" {
		t.Fatalf("%+v %v", list, err)
	}
	rest, err := admin.ListTokens(ctx, 0, list.NextCursor)
	both := slices.Concat(list.Tokens, rest.Tokens)
	// Those of one millisecond are in any order.
	i := slices.IndexFunc(both, func(t client.Token) bool { return t.Name == "shop" })
	if err != nil || len(both) != 2 || i < 0 {
		t.Fatalf("%+v %v", both, err)
	}
	tok, err := admin.GetToken(ctx, both[i].ID)
	if err != nil || !tok.Live || tok.Role != "client" {
		t.Fatalf("%+v %v", tok, err)
	}
	next, err := admin.RotateToken(ctx, tok.ID, client.TokenRotation{ETag: tok.ETag(), OverlapS: 60})
	if err != nil || next.Secret == "" || next.Token.Principal != "shop" {
		t.Fatalf("%+v %v", next, err)
	}
	if _, err := admin.RotateToken(ctx, tok.ID, client.TokenRotation{ETag: tok.ETag()}); client.Code(
		err) != problem.Stale {
		t.Errorf("%v", err)
	}
	if got, err := admin.RevokeToken(ctx, tok.ID, "rotated"); err != nil || got.Live {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := shop.ListClaims(ctx, client.ClaimFilter{}); client.Code(err) != problem.Unauthorized {
		t.Errorf("%v", err)
	}
}

func TestErrorsAreTyped(t *testing.T) {
	_, shop := newClients(t)
	acquire(t, shop, "k")
	other := request("k")
	other.Token = "owner-token-0002"
	_, err := shop.Claim(t.Context(), other)
	var p *problem.Problem
	if !errors.As(err, &p) || p.Code != problem.InFlight || p.RetryAfter != 30 || p.RequestID == "" ||
		p.Status != 409 {
		t.Errorf("%+v", err)
	}
	payload := "other"
	other.Payload = &payload
	if _, err := shop.Claim(t.Context(), other); client.Code(err) != problem.Mismatch {
		t.Errorf("%v", err)
	}
	if _, err := shop.GetClaim(t.Context(), "cl_none/../../x?y", 0); client.Code(err) == "" {
		t.Errorf("a strange id: %v", err)
	}
	if client.Code(errors.New("x")) != "" {
		t.Error("any error has a code")
	}
}

func TestHealth(t *testing.T) {
	admin, _ := newClients(t)
	if h, err := admin.Livez(t.Context()); err != nil || h.Status != "ok" {
		t.Errorf("%+v %v", h, err)
	}
	if h, err := admin.Readyz(t.Context()); err != nil || h.Status != "ready" {
		t.Errorf("%+v %v", h, err)
	}
}

// What a stranger at the address answers is told from an answer of onced, and
// learns nothing more than it was sent.
func TestStrangersAtTheAddress(t *testing.T) {
	var elsewhere bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter,
		*http.Request) {
		elsewhere = true
	}))
	defer other.Close()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		status int
	}{
		"a page": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, 200},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL,
				http.StatusFound)
		}, 302},
		"a failure": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusBadGateway)
			fmt.Fprint(w, `{"title":"of another program"}`)
		}, 502},
		"unready by another": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no", http.StatusServiceUnavailable)
		}, 503},
	} {
		ts := httptest.NewServer(c.answer)
		_, err := mustClient(t, ts.URL, "t").Readyz(t.Context())
		var s *client.StatusError
		if !errors.As(err, &s) || s.Status != c.status {
			t.Errorf("%s: %v", name, err)
		}
		ts.Close()
	}
	if elsewhere {
		t.Error("a redirect was followed, with the token")
	}
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for range 33 {
			_, _ = w.Write(bytes.Repeat([]byte(" "), 1<<20))
		}
	}))
	defer ts.Close()
	if _, err := mustClient(t, ts.URL, "").Livez(t.Context()); err == nil || !strings.Contains(err.Error(),
		"larger than") {
		t.Errorf("an endless answer: %v", err)
	}
}

func TestAddressesAndTokensThatCannotBe(t *testing.T) {
	for _, base := range []string{"", "127.0.0.1:8080", "ftp://x", "http://", "http://u:p@x", "http://x?y",
		"http://x#y", "http://\n"} {
		if _, err := client.New(base, client.Config{}); err == nil || strings.Contains(err.Error(), "u:p") {
			t.Errorf("%q: %v", base, err)
		}
	}
	if _, err := client.New("http://x", client.Config{Token: "secret\n"}); err == nil ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}
