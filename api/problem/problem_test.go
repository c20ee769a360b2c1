package problem

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"onced/kv"
	"onced/kv/claim"
)

func TestCatalogueIsComplete(t *testing.T) {
	seen := map[Code]bool{}
	titles := map[string]bool{}
	last := 0
	for _, e := range Catalogue() {
		if seen[e.Code] || titles[e.Title] {
			t.Errorf("%s or its title %q stands twice", e.Code, e.Title)
		}
		seen[e.Code], titles[e.Title] = true, true
		if !regexp.MustCompile(`^[a-z_]+$`).MatchString(string(e.Code)) {
			t.Errorf("%s cannot be a part of a path", e.Code)
		}
		if http.StatusText(e.Status) == "" || e.Status < 400 && e.Code != ResultTooLarge || e.Status < last {
			t.Errorf("%s: status %d is none of an error, or out of order", e.Code, e.Status)
		}
		last = e.Status
		if e.Title == "" || e.Remedy == "" || strings.HasSuffix(e.Title, ".") {
			t.Errorf("%s lacks a title without a full stop, or a remedy", e.Code)
		}
	}
	for _, c := range []Code{TooManyRequests, InFlight, CommitUnknown, StoreFull, StoreStopped, Unavailable} {
		if e, _ := Lookup(c); e.RetryAfter == 0 {
			t.Errorf("%s says not when to come again", c)
		}
	}
	Catalogue()[0].Title = "changed"
	if Catalogue()[0].Title == "changed" {
		t.Error("a caller can change the catalogue")
	}
}

func TestFrom(t *testing.T) {
	state := func(err error) error {
		return fmt.Errorf("outer: %w", &claim.StateError{Op: "done", Err: err, State: claim.Unknown})
	}
	for _, c := range []struct {
		err    error
		code   Code
		status int
		param  string
	}{
		{state(claim.ErrFenced), Fenced, 409, ""},
		{state(claim.ErrTerminal), Settled, 409, ""},
		{state(claim.ErrState), WrongState, 409, ""},
		{state(claim.ErrStale), Stale, 412, ""},
		{state(claim.ErrTooOld), KeyTooOld, 409, ""},
		{state(claim.ErrTokenReused), TokenReused, 409, ""},
		{&claim.InvalidError{Field: "key", Problem: "is blank", Remedy: "send text"}, InvalidField, 400,
			"key"},
		{fmt.Errorf("x: %w", kv.ErrCommitUnknown), CommitUnknown, 503, ""},
		{kv.ErrStopped, StoreStopped, 503, ""},
		{kv.ErrNoSpace, StoreFull, 503, ""},
		{kv.ErrClosed, Unavailable, 503, ""},
		{&kv.LimitError{What: "value", Limit: 5, Unit: "bytes"}, TooLarge, 413, ""},
		{&kv.LimitError{What: "scan", Limit: 5, Unit: "rows"}, LimitExceeded, 400, ""},
		{&kv.LimitError{What: "view", Limit: 5, Unit: "ms"}, Unavailable, 503, ""},
		{&http.MaxBytesError{Limit: 7}, TooLarge, 413, ""},
		{fmt.Errorf("y: %w", New(Stale, "d").At("If-Match")), Stale, 412, "If-Match"},
		{errors.New("dial tcp 10.0.0.7: password hunter2"), Internal, 500, ""},
		{fmt.Errorf("open /var/lib/onced: %w", kv.ErrCorrupt), Internal, 500, ""},
	} {
		p := From(c.err)
		if p.Code != c.code || p.Status != c.status || p.Param != c.param {
			t.Errorf("%v: got %s %d %q; want %s %d %q", c.err, p.Code, p.Status, p.Param, c.code, c.status,
				c.param)
		}
		if p.Code == Internal && p.Detail != "" {
			t.Errorf("%v: an unknown cause leaked: %q", c.err, p.Detail)
		}
	}
	if From(nil) != nil {
		t.Error("no error is a problem")
	}
}

func TestFromShowsNoTextOfTheStore(t *testing.T) {
	for _, sentinel := range []error{kv.ErrCommitUnknown, kv.ErrStopped, kv.ErrNoSpace, kv.ErrClosed,
		kv.ErrCorrupt} {
		p := From(fmt.Errorf("write /secret/path/onced.db: %w", sentinel))
		if b, _ := json.Marshal(p); strings.Contains(string(b), "secret") {
			t.Errorf("%v: %s", sentinel, b)
		}
	}
}

func TestOfDecision(t *testing.T) {
	for _, c := range []struct {
		kind  claim.Kind
		retry time.Duration
		code  Code
		after int
	}{
		{claim.InFlight, 0, InFlight, 1},
		{claim.InFlight, 1500 * time.Millisecond, InFlight, 2},
		{claim.InFlight, time.Nanosecond, InFlight, 1},
		{claim.InDoubt, 0, OutcomeUnknown, 0},
		{claim.Mismatch, 0, Mismatch, 0},
	} {
		p := OfDecision(claim.Decision{Kind: c.kind, RetryAfter: c.retry}, "/v1/claims/x")
		if p == nil || p.Code != c.code || p.RetryAfter != c.after || p.Instance != "/v1/claims/x" {
			t.Errorf("%s after %v: %+v", c.kind, c.retry, p)
		}
	}
	for _, k := range []claim.Kind{claim.Acquired, claim.TookOver, claim.Replay, claim.Finished, claim.Freed,
		claim.StillUnknown, claim.Cleared, claim.Extended, claim.MayResend} {
		if OfDecision(claim.Decision{Kind: k}, "") != nil {
			t.Errorf("%s is a problem", k)
		}
	}
}

func TestWrite(t *testing.T) {
	for _, c := range []struct {
		p     *Problem
		after string
	}{
		{New(InFlight, `a "quoted"`+"\r\nEvil: 1").After(61 * time.Second), "61"},
		{New(Stale, "d").At("If-Match").About("/v1/x"), ""},
		{New(Code("nonsense"), "leak"), ""},
	} {
		w := httptest.NewRecorder()
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Content-Length", "3")
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Retry-After", "999")
		r := httptest.NewRequest(http.MethodPost, "/x", nil)
		Write(w, r.WithContext(WithRequestID(r.Context(), "rq_1")), c.p)
		var got Problem
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if w.Code != c.p.Status || got.Status != w.Code || w.Header().Get("Content-Type") != ContentType {
			t.Errorf("%s: status %d, body %d, type %q", c.p.Code, w.Code, got.Status,
				w.Header().Get("Content-Type"))
		}
		if got.RequestID != "rq_1" || got.Type != "/problems/"+string(got.Code) || got.Detail != c.p.Detail {
			t.Errorf("%s: %+v", c.p.Code, got)
		}
		if h := w.Header().Get("Retry-After"); h != c.after {
			t.Errorf("%s: Retry-After %q, want %q", c.p.Code, h, c.after)
		} else if h != "" && h != strconv.Itoa(got.RetryAfter) {
			t.Errorf("%s: Retry-After %q and retry_after_s %d", c.p.Code, h, got.RetryAfter)
		}
		if w.Header().Get("ETag") != "" || w.Header().Get("Content-Encoding") != "" {
			t.Errorf("%s: headers of another body: %v", c.p.Code, w.Header())
		}
		if n := w.Header().Get("Content-Length"); n != strconv.Itoa(w.Body.Len()) {
			t.Errorf("%s: Content-Length %s of %d", c.p.Code, n, w.Body.Len())
		}
		if c.p.RequestID != "" {
			t.Error("Write changed the problem it was given")
		}
	}
	w := httptest.NewRecorder()
	Write(w, httptest.NewRequest(http.MethodHead, "/x", nil), New(Unauthorized, ""))
	if w.Body.Len() != 0 || w.Header().Get("WWW-Authenticate") == "" {
		t.Errorf("HEAD: %q, %v", w.Body, w.Header())
	}
}

func TestPage(t *testing.T) {
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		Page(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	for _, e := range Catalogue() {
		w := get("/problems/" + string(e.Code))
		if w.Code != 200 || !strings.Contains(w.Body.String(), "<h1>"+strings.ReplaceAll(e.Title, "'",
			"&#39;")) {
			t.Errorf("%s: %d %s", e.Code, w.Code, w.Body)
		}
		if !strings.Contains(get("/problems").Body.String(), "/problems/"+string(e.Code)) {
			t.Errorf("%s is not in the list", e.Code)
		}
	}
	if w := get("/problems/%3Cscript%3E"); w.Code != 404 || strings.Contains(w.Body.String(), "script") {
		t.Errorf("an unknown code: %d %s", w.Code, w.Body)
	}
}
