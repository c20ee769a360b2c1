package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"onced/api/auth"
	"onced/saga"
	"onced/saga/machine"
)

// Every operation of sagas succeeds once, within the document.
func TestContractOfSagas(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		def := map[string]any{"name": "doc", "title": "A document"}
		made := r.ask("admin", "POST /v1/definitions", def).want(t, 201, "")
		for _, p := range []string{"", "/doc", "/doc/versions", "/doc/versions/1"} {
			r.ask("viewer", "GET /v1/definitions"+p, nil).want(t, 200, "")
		}
		r.ask("admin", "GET "+made.header.Get("Location"), nil).want(t, 200, "")

		r.set("loyalty", "always", "retry=1h")
		r.ask("acme", "POST /v1/runs", startBody("checkout", "a")).want(t, 201, "")
		r.ask("acme", "POST /v1/runs", startBody("checkout", "a")).want(t, 200, "")
		synctest.Wait()
		runs := r.ask("operator", "GET /v1/runs?state=open&limit=1", nil).want(t, 200, "")
		path := "/v1/runs/" + runs.at("runs").([]any)[0].(map[string]any)["id"].(string)
		r.operate(path, "retry").want(t, 200, "")
		synctest.Wait()
		r.operate(path, "mark_not_done", "step", "loyalty").want(t, 409, "wrong_state")
		r.operate(path, "skip", "step", "loyalty").want(t, 200, "")
		synctest.Wait()
		r.state(path, "completed")
		bulk := map[string]any{"verb": "close", "reason": "x", "all": true}
		r.ask("operator", "POST /v1/runs/bulk", bulk).want(t, 200, "")
		r.operate(path, "rerun").want(t, 201, "")
		other := r.started("pay", "b")
		synctest.Wait()
		r.operate(other, "mark_done", "step", "charge", "output", 1).want(t, 200, "")
		third := r.started("pay", "c")
		synctest.Wait()
		r.operate(third, "mark_not_done", "step", "charge").want(t, 200, "")
		fourth := r.started("pay", "d")
		r.ask("acme", "POST "+fourth+"/signals/charge", map[string]any{"outcome": "done"}).want(t, 202, "")
		r.ask("", "POST "+r.callbackOf(fourth), doneWord).want(t, 200, "")
		r.set("charge", "always", "retry=1h")
		fifth := r.started("pay", "e")
		synctest.Wait()
		r.operate(fifth, "cancel").want(t, 200, "")
		sixth := r.started("pay", "f")
		synctest.Wait()
		r.operate(sixth, "close").want(t, 200, "")
		for _, op := range r.contract.documented() {
			if !r.contract.seen[op] && aboutSagas(op) {
				t.Errorf("%s never succeeded", op)
			}
		}
		for _, rt := range r.server.sagaRoutes() {
			if len(rt.may) > 0 {
				concrete := strings.NewReplacer("{id}", "run_0", "{step}", "x", "{name}", "x", "{version}",
					"x").
					Replace(rt.Path)
				r.ask("", rt.Method+" "+concrete, nil).want(t, 401, "unauthorized")
				r.ask("metrics", rt.Method+" "+concrete, nil).want(t, 403, "forbidden")
			}
		}
	})
}

func TestSG01_ARefusalIsAnsweredWithWhatWasUndone(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		r.set("charge", "refused")
		a := r.ask("acme", "POST /v1/runs", startBody("checkout", "order-1"), "Prefer", "wait=10").
			want(t, 201, "")
		if a.text("state") != "compensated" || a.text("failed_step") != "charge" ||
			a.text("cause") != "refused" ||
			a.header.Get("Preference-Applied") != "wait=10" ||
			!strings.Contains(a.text("reason"), "declined") {
			t.Errorf("%v\n%s", a.header, a.raw)
		}
		if want := "loyalty, voucher, charge, undo voucher, undo loyalty"; r.made() != want {
			t.Errorf("the calls are %s", r.made())
		}
		var notes []string
		for _, h := range r.see("/v1/runs/" + a.text("id")).at("history").([]any) {
			m := h.(map[string]any)
			notes = append(notes, fmt.Sprint(m["what"], " ", m["step"]))
		}
		if i, j := slices.Index(notes, "undone voucher"), slices.Index(notes, "undone loyalty"); i < 0 ||
			j < i ||
			!slices.Contains(notes, "refused charge") {
			t.Errorf("the history is %v", notes)
		}
		r.wantLedger("")
	})
}

func TestSG03_AStartAfterTheEndGetsTheResult(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		first := r.ask("acme", "POST /v1/runs", startBody("checkout", "order-1"), "Prefer", "wait=10").
			want(t, 201, "")
		calls := r.made()
		again := r.ask("acme", "POST /v1/runs", startBody("checkout", "order-1"), "Prefer", "wait=10").
			want(t, 200, "")
		if string(first.raw) != string(again.raw) || again.header.Get("Idempotency-Replayed") != "true" ||
			first.header.Get("Location") != again.header.Get("Location") || r.made() != calls {
			t.Errorf("%v\n%s\n%s", again.header, first.raw, again.raw)
		}
		byHeader := startBody("checkout", "order-1")
		delete(byHeader, "key")
		r.ask("acme", "POST /v1/runs", byHeader, "Idempotency-Key", `"order-1"`).want(t, 200, "")
		// When the run is no longer kept, what is known of its key still is.
		time.Sleep(31 * 24 * time.Hour)
		if n, err := r.engine.SweepRuns(t.Context(), 0); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		gone := r.ask("acme", "POST /v1/runs", startBody("checkout", "order-1"), "Prefer", "wait=1").
			want(t, 200, "")
		if gone.text("state") != "completed" || gone.at("expired") != true || r.made() != calls {
			t.Errorf("%s", gone.raw)
		}
		r.ask("acme", "GET "+first.header.Get("Location"), nil).want(t, 404, "not_found")
	})
}

func TestSG09_WhatIsStuckIsListedAndRetried(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		r.set("charge", "refused")
		r.set("undo voucher", "dropped", "dropped", "dropped")
		a := r.ask("acme", "POST /v1/runs", startBody("checkout", "order-1"), "Prefer", "wait=60").
			want(t, 201, "")
		path := "/v1/runs/" + a.text("id")
		if a.text("state") != "stuck" || strings.Contains(r.made(), "undo loyalty") {
			t.Fatalf("%s\n%s", a.raw, r.made())
		}
		for query, want := range map[string]int{"state=stuck": 1, "state=held,stuck": 1, "state=open": 1,
			"state=held": 0, "state=compensated": 0} {
			if got := r.lists("viewer", query); len(got) != want {
				t.Errorf("%s lists %v", query, got)
			}
		}
		r.operate(path, "retry").want(t, 200, "")
		r.state(path, "compensated")
		r.wantLedger("")
	})
}

func TestSG10_AnUndoneOrderStartsAnewInTheNextRound(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		r.set("charge", "refused")
		first := r.ask("acme", "POST /v1/runs", startBody("checkout", "order-1"), "Prefer", "wait=9").
			want(t, 201, "")
		time.Sleep(time.Second)
		second := r.ask("acme", "POST /v1/runs", startBody("checkout", "order-1", "input", 7), "Prefer",
			"wait=9").
			want(t, 201, "")
		if second.at("round") != 2.0 || second.text("state") != "completed" ||
			second.text("id") == first.text("id") {
			t.Errorf("%s", second.raw)
		}
		r.wantLedger("charge=1 loyalty=1 order=1 voucher=1")
		if got := r.lists("acme", "key=order-1"); !slices.Equal(got, []string{second.text("id"),
			first.text("id")}) {
			t.Errorf("the key has the runs %v", got)
		}
	})
}

func TestSG14_ConcurrentStartsAreOneRun(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		r.set("loyalty", "retry=1m")
		answers := make(chan answer)
		for range 20 {
			go func() {
				answers <- r.ask("acme", "POST /v1/runs", startBody("checkout", "order-1"), "Prefer",
					"wait=60")
			}()
		}
		status, ids := map[int]int{}, map[string]int{}
		for range 20 {
			a := <-answers
			status[a.status]++
			ids[a.text("id")+a.text("state")]++
		}
		if status[201] != 1 || status[200] != 19 || len(ids) != 1 {
			t.Errorf("%v, %v", status, ids)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		r.wantLedger("charge=1 loyalty=1 order=1 voucher=1")
	})
}

func TestAnotherInputUnderTheKeyIsAMismatch(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		path := r.started("pay", "k")
		r.ask("acme", "POST /v1/runs", startBody("pay", "k", "input", map[string]any{"secret": "other"})).
			want(t, 422, "idempotency_mismatch")
		// Spaces are no difference; the labels are none either.
		a := r.ask("acme", "POST /v1/runs", `{"definition":"pay","key":"k","input":{ "secret" :  "input"},
			"labels":{"a":"b"}}`).want(t, 200, "")
		if "/v1/runs/"+a.text("id") != path {
			t.Errorf("%s", a.raw)
		}
	})
}

// A start that is repeated after its definition has changed gets its run.
func TestARepeatedStartIsJoinedBeforeItIsChecked(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		r.started("pay", "k")
		r.docs.wants = "customer"
		r.ask("acme", "POST /v1/runs", startBody("pay", "k")).want(t, 200, "")
		a := r.ask("acme", "POST /v1/runs", startBody("pay", "new")).want(t, 400, "invalid_field")
		if a.problem.Param != "input.customer" {
			t.Errorf("%s", a.raw)
		}
		r.ask("acme", "POST /v1/runs", startBody("pay", "k", "input", 1)).want(t, 422, "idempotency_mismatch")
		if got := r.lists("acme", ""); len(got) != 1 {
			t.Errorf("runs: %v", got)
		}
	})
}

func TestPreferWaitWaitsNoLongerThanItSays(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		for _, c := range []struct {
			prefer, applied string
			took            time.Duration
		}{
			{"", "", 0}, {"respond-async", "", 0}, {"wait=0", "", 0}, {"wait=x", "", 0}, {"wait=-1", "", 0},
			{"wait=3", "wait=3", 3 * time.Second}, {`respond-async, Wait="2"; x=1`, "wait=2",
				2 * time.Second},
			{"wait=100000", "wait=60", time.Minute}, {"wait=99999999999999999999", "wait=60", time.Minute},
		} {
			began := time.Now()
			a := r.ask("acme", "POST /v1/runs", startBody("pay", "k "+c.prefer), "Prefer", c.prefer).want(t,
				201, "")
			if took := time.Since(began); took != c.took || a.header.Get("Preference-Applied") != c.applied ||
				a.text("state") != "running" {
				t.Errorf("%q: %v, %v, %s", c.prefer, took, a.header, a.raw)
			}
			if step := a.at("steps").([]any)[0].(map[string]any); c.took > 0 && step["state"] != "waiting" {
				t.Errorf("%q: it shows the run as it was before the wait: %s", c.prefer, a.raw)
			}
		}
		// It ends when the run has ended.
		path := r.started("pay", "k")
		synctest.Wait()
		done := make(chan answer)
		go func() { done <- r.ask("acme", "GET "+path, nil, "Prefer", "wait=50") }()
		time.Sleep(7 * time.Second)
		began := time.Now()
		r.ask("", "POST "+r.callbackOf(path), doneWord).want(t, 200, "")
		if a := <-done; a.text("state") != "completed" || time.Since(began) != 0 {
			t.Errorf("after %v: %s", time.Since(began), a.raw)
		}
	})
}

// Two principals neither see nor join each other's runs; viewers see no content.
func TestIK05_RunsOfPrincipalsAreApart(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		r.set("charge", "refused")
		mine := r.ask("acme", "POST /v1/runs", startBody("checkout", "order-1", "labels",
			map[string]any{"shop": "x"}), "Prefer", "wait=9").
			want(t, 201, "")
		path := "/v1/runs/" + mine.text("id")
		theirs := r.ask("globex", "POST /v1/runs",
			startBody("checkout", "order-1", "input", "theirs", "labels",
				map[string]any{"shop": "x"}), "Prefer", "wait=9").
			want(t, 201, "")
		if theirs.text("id") == mine.text("id") || theirs.text("state") != "completed" || len(r.keys) != 6 {
			t.Fatalf("%s\n%s\n%d keys", mine.raw, theirs.raw, len(r.keys))
		}
		r.ask("globex", "GET "+path, nil).want(t, 404, "not_found")
		r.ask("globex", "POST "+path+"/signals/charge", map[string]any{"outcome": "done"}).want(t, 404,
			"not_found")
		for _, query := range []string{"", "key=order-1", "label=shop:x", "definition=checkout",
			"state=completed",
			"principal=globex"} {
			if got := r.lists("globex", query); !slices.Equal(got, []string{theirs.text("id")}) {
				t.Errorf("%q lists %v", query, got)
			}
		}
		r.ask("globex", "GET /v1/runs?principal=acme", nil).want(t, 400, "invalid_field")
		cursor := r.ask("viewer", "GET /v1/runs?limit=1", nil).text("next_cursor")
		r.ask("globex", "GET /v1/runs?limit=1&cursor="+cursor, nil).want(t, 400, "invalid_cursor")
		if got := r.lists("viewer", ""); len(got) != 2 {
			t.Errorf("the viewer sees %v", got)
		}
		for as, sees := range map[string]bool{"acme": true, "viewer": false, "operator": true,
			"admin": true} {
			for _, p := range []string{path, "/v1/runs"} {
				a := r.ask(as, "GET "+p, nil).want(t, 200, "")
				has := strings.Contains(string(a.raw), "secret") ||
					strings.Contains(string(a.raw), "was declined")
				if p == "/v1/runs" && strings.Contains(string(a.raw), "output of") {
					t.Errorf("a list shows outputs: %s", a.raw)
				}
				if !sees && has || sees && !has {
					t.Errorf("%s at %s: %s", as, p, a.raw)
				}
			}
		}
		for _, as := range []string{"acme", "viewer"} {
			r.ask(as, "POST "+path+"/close", map[string]any{"reason": "x"}, "If-Match", `"1"`).
				want(t, 403, "forbidden")
			r.ask(as, "POST /v1/runs/bulk", map[string]any{"verb": "close"}).want(t, 403, "forbidden")
		}
		for _, as := range []string{"viewer", "operator"} {
			r.ask(as, "POST /v1/runs", startBody("checkout", "x")).want(t, 403, "forbidden")
		}
	})
}

func TestActsNeedTheETagOfWhatWasSeen(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		path := r.started("pay", "k")
		etag := r.state(path, "running").header.Get("ETag")
		r.ask("acme", "GET "+path, nil, "If-None-Match", etag).want(t, 304, "")
		reason := map[string]any{"reason": "told so"}
		for _, tag := range []string{"", "*"} {
			r.ask("operator", "POST "+path+"/cancel", reason, "If-Match", tag).
				want(t, 428, "precondition_required")
		}
		for _, tag := range []string{`"1"`, `"x"`, "W/" + etag, etag + "," + etag, `"0"`} {
			r.ask("operator", "POST "+path+"/cancel", reason, "If-Match", tag).want(t, 412, "stale")
		}
		for _, why := range []any{nil, "", "  ", "a\x00b", strings.Repeat("x", 1025)} {
			a := r.ask("operator", "POST "+path+"/cancel", map[string]any{"reason": why}, "If-Match", etag).
				want(t, 400, "invalid_field")
			if a.problem.Param != "reason" {
				t.Errorf("%s", a.raw)
			}
		}
		done := r.ask("operator", "POST "+path+"/cancel", reason, "If-Match", etag).want(t, 200, "")
		if done.header.Get("ETag") == etag {
			t.Error("the act left the ETag as it was")
		}
		r.ask("operator", "POST "+path+"/cancel", reason, "If-Match", etag).want(t, 412, "stale")
		r.operate(path, "cancel").want(t, 409, "wrong_state")
		page, err := r.feed.Read(t.Context(), r.store, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		told := 0
		for _, ev := range page.Events {
			if ev.Type == "operator.run.cancel" && strings.Contains(string(ev.Data), `"actor":"operator"`) &&
				strings.Contains(string(ev.Data), `"reason":"told so"`) {
				told++
			}
		}
		if told != 1 {
			t.Errorf("the act is told %d times: %+v", told, page.Events)
		}
	})
}

func TestA2_05_OneCallMakesAllWaitingRunsDue(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		r.set("loyalty", "always", "retry=1h")
		for i := range 120 {
			r.started("checkout", fmt.Sprint(i), "labels", map[string]any{"shop": fmt.Sprint(i % 2)})
		}
		synctest.Wait()
		r.set("loyalty")
		body := map[string]any{"verb": "retry", "reason": "the service is back", "dry_run": true,
			"filter": map[string]any{"state": "running", "definition": "checkout", "label": "shop:1"}}
		dry := r.ask("operator", "POST /v1/runs/bulk", body).want(t, 200, "")
		synctest.Wait()
		if len(dry.at("acted").([]any)) != 60 || dry.at("dry_run") != true || r.ledger() != "" {
			t.Fatalf("%s; %s", dry.raw, r.ledger())
		}
		body["dry_run"], body["all"] = false, true
		delete(body, "filter")
		body["limit"] = 100
		began := time.Now()
		for next := any("x"); next != nil; {
			a := r.ask("operator", "POST /v1/runs/bulk", body).want(t, 200, "")
			next = a.at("next_cursor")
			body["cursor"] = next
			if next == nil {
				delete(body, "cursor")
			}
		}
		synctest.Wait()
		if took := time.Since(began); took != 0 {
			t.Errorf("they went on only after %v", took)
		}
		r.wantLedger("charge=120 loyalty=120 order=120 voucher=120")
	})
}

func TestA2_11_CancelTakesEffectDuringAPause(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		r.set("charge", "always", "retry=1h")
		path := r.started("checkout", "k")
		if r.state(path, "running").at("next") == nil {
			t.Error("it does not say what it wants next")
		}
		began := time.Now()
		r.operate(path, "cancel").want(t, 200, "")
		r.state(path, "compensated")
		if time.Since(began) != 0 {
			t.Errorf("after %v", time.Since(began))
		}
		r.wantLedger("")
	})
}

func TestA2_13_ACallThatHangsIsSeenAndGoesOn(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		r.set("charge", "hang", "refused")
		path := r.started("checkout", "k")
		a := r.state(path, "running")
		if step := a.at("steps").([]any)[2].(map[string]any); step["state"] != "started" ||
			step["tries"] != 1.0 {
			t.Errorf("%v", step)
		}
		time.Sleep(11 * time.Second) // its time-out
		synctest.Wait()
		a = r.see(path)
		if step := a.at("steps").([]any)[2].(map[string]any); step["state"] == "started" {
			t.Errorf("%v", step)
		}
		end := r.ask("acme", "GET "+path, nil, "Prefer", "wait=60").
			want(t, 200, "")
		if end.text("state") != "compensated" {
			t.Errorf("%s", end.raw)
		}
		r.wantLedger("charge=-1") // an undo of what did not happen, which it declares safe
	})
}

func TestA2_14_WhatHasEndedIsRunAgain(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		for i, how := range []string{"", "refused"} {
			r.set("charge", how)
			path := r.started("checkout", fmt.Sprint(i), "labels", map[string]any{"a": "b"})
			r.state(path, map[string]string{"": "completed", "refused": "compensated"}[how])
			r.set("charge")
			a := r.operate(path, "rerun").want(t, 201, "")
			again := r.state(a.header.Get("Location"), "completed")
			if "/v1/runs/"+again.text("parent") != path || again.text("link") != "rerun" ||
				again.at("round") != 2.0 ||
				again.text("input.secret") != "input" || again.text("labels.a") != "b" ||
				again.text("principal") != "acme" {
				t.Errorf("%s", again.raw)
			}
			r.operate(path, "rerun").want(t, 409, "wrong_state") // it is done
			if !slices.Contains(r.lists("acme", ""), again.text("id")) {
				t.Error("its owner does not see it")
			}
		}
		open := r.started("pay", "open")
		synctest.Wait()
		r.operate(open, "rerun").want(t, 409, "wrong_state")
	})
}

func TestA2_45_PagesUnderInsertsShowEachRunOnce(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		const runs = 10_000
		start := func(i int) string {
			st, err := r.engine.StartRun(t.Context(), saga.StartRequest{Definition: "pay", Principal: "acme",
				Key: fmt.Sprint(i), Input: []byte(`1`)})
			if err != nil {
				t.Fatal(err)
			}
			return st.Run
		}
		there := map[string]bool{}
		for i := range runs {
			if there[start(i)] = true; i%100 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		synctest.Wait()
		seen, extra := map[string]int{}, runs
		last := "~"
		for next := "/v1/runs?limit=200"; next != ""; {
			a := r.ask("acme", "GET "+next, nil).want(t, 200, "")
			for _, v := range a.at("runs").([]any) {
				id := v.(map[string]any)["id"].(string)
				if seen[id]++; id >= last {
					t.Fatalf("%s comes after %s", id, last)
				}
				last = id
			}
			next = a.text("next")
			for range 20 { // new ones arrive, and old ones change
				start(extra)
				extra++
			}
			r.ask("", "POST "+r.callbackOf("/v1/runs/"+last), doneWord).want(t, 200, "")
		}
		for id := range there {
			if seen[id] != 1 {
				t.Fatalf("%s came %d times", id, seen[id])
			}
		}
		if len(seen) != runs {
			t.Errorf("%d runs came", len(seen))
		}
	})
}

func TestA2_47_BulkNeitherOffersNorCountsWhatHasEnded(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		for i := range 10 {
			if i == 6 {
				r.set("charge", "always", "retry=1h")
			}
			r.started("checkout", fmt.Sprint(i))
			synctest.Wait()
		}
		body := map[string]any{"verb": "cancel", "reason": "x", "dry_run": true,
			"filter": map[string]any{"definition": "checkout"}}
		for _, dry := range []bool{true, false} {
			body["dry_run"] = dry
			a := r.ask("operator", "POST /v1/runs/bulk", body).want(t, 200, "")
			if len(a.at("acted").([]any)) != 4 || len(a.at("refused").([]any)) != 0 || a.at("more") != false {
				t.Errorf("%s", a.raw)
			}
		}
		synctest.Wait()
		body["filter"] = map[string]any{"state": "completed,compensated"}
		a := r.ask("operator", "POST /v1/runs/bulk", body).want(t, 200, "")
		if len(a.at("acted").([]any))+len(a.at("refused").([]any)) != 0 {
			t.Errorf("%s", a.raw)
		}
		if got := r.commit.runs["compensated"]; got != 4 {
			t.Errorf("%d runs were undone", got)
		}
		r.wantLedger("charge=6 loyalty=6 order=6 voucher=6")
	})
}

// A bulk act says of each run that does not allow it why not, and goes on.
func TestBulkTellsWhatIsRefused(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		r.set("loyalty", "always", "retry=1h")
		waits, pauses := r.started("pay", "1"), r.started("checkout", "2")
		synctest.Wait()
		a := r.ask("operator", "POST /v1/runs/bulk", map[string]any{"verb": "retry", "reason": "x",
			"filter": map[string]any{"principal": "acme"}}).want(t, 200, "")
		refused := a.at("refused").([]any)
		if len(refused) != 1 || len(a.at("acted").([]any)) != 1 ||
			"/v1/runs/"+a.at("acted").([]any)[0].(string) != pauses ||
			"/v1/runs/"+refused[0].(map[string]any)["run"].(string) != waits {
			t.Errorf("%s", a.raw)
		}
		for i, want := range []string{"checkout acme 2", "pay acme 1"} {
			v := a.at("runs").([]any)[i].(map[string]any)
			if got := fmt.Sprint(v["definition"], " ", v["principal"], " ", v["key"]); got != want {
				t.Errorf("the run %d is told as %s, want %s", i, got, want)
			}
		}
	})
}

// wrongRunRequests are requests about the run at path, each by whom, with the name of
// what is wrong in it.
func wrongRunRequests(path string) []struct{ as, what, body, param string } {
	long, start, bulk := strings.Repeat("x", 256), "POST /v1/runs", "POST /v1/runs/bulk"
	return []struct{ as, what, body, param string }{
		{"acme", start, `{"key":"k"}`, "definition"},
		{"acme", start, `{"definition":"nope","key":"k"}`, "definition"},
		{"admin", start, `{"definition":"pay","version":"9","key":"k","principal":"a"}`, "definition"},
		{"acme", start, `{"definition":"pay","key":"k","round":"1"}`, "round"},
		{"acme", start, `{"definition":"pay"}`, "key"},
		{"acme", start, `{"definition":"pay","key":" "}`, "key"},
		{"acme", start, `{"definition":"pay","key":"a\u0000b"}`, "key"},
		{"acme", start, `{"definition":"pay","key":"` + long + `"}`, "key"},
		{"acme", start, `{"definition":"pay","key":"x","keys":1}`, "keys"},
		{"acme", start, `{"definition":"pay","key":"x","Input":1}`, "Input"},
		{"acme", start, `{"definition":"pay","key":"x","input":{"a":1,"b":[{"c":1,"c":2}]}}`, "input"},
		{"acme", start, `{"definition":"pay","key":"x","input":` + strings.Repeat("[", 101) +
			strings.Repeat("]", 101) + `}`, "input"},
		{"acme", start, `{"definition":"pay","key":"x","input":` + strings.Repeat(`{"a":`, 101) + "1" +
			strings.Repeat("}", 101) + `}`, "input"},
		{"acme", start, `{"definition":"pay","key":"x","labels":[1]}`, "labels"},
		{"acme", start, `{"definition":"pay","key":"x","labels":{"a":1}}`, "labels"},
		{"acme", start, `{"definition":"pay","key":"x","labels":{"":"b"}}`, "labels"},
		{"acme", start, `{"definition":"pay","key":"x","labels":{"a":"b","a":"c"}}`, "labels"},
		{"acme", "POST /v1/runs?wait=1", `{"definition":"pay","key":"x"}`, "wait"},
		{"acme", "POST " + path + "/signals/charge", `{"outcome":"perhaps"}`, "outcome"},
		{"acme", "POST " + path + "/signals/charge", `{"outcome":"done","at":"noon"}`, "at"},
		{"acme", "POST " + path + "/signals/charge", `{"outcome":"done","data":{"a":1,"a":2}}`, "data"},
		{"acme", "POST " + path + "/signals/none", `{"outcome":"done"}`, "step"},
		{"operator", "POST " + path + "/skip", `{"reason":"x"}`, "step"},
		{"operator", "POST " + path + "/skip", `{"reason":"x","step":"none"}`, "step"},
		{"operator", "POST " + path + "/cancel", `{"reason":"x","step":"charge"}`, "step"},
		{"operator", "POST " + path + "/skip", `{"reason":"x","step":"charge","output":1}`, "output"},
		{"operator", "POST " + path + "/cancel", `{"reason":"x","why":"x"}`, "why"},
		{"operator", bulk, `{"verb":"rerun","reason":"x","filter":{"state":"held"}}`, "verb"},
		{"operator", bulk, `{"verb":"close","reason":"x"}`, "filter"},
		{"operator", bulk, `{"verb":"close","reason":"x","filter":{}}`, "filter"},
		{"operator", bulk, `{"verb":"close","reason":"x","filter":{"state":"open"}}`, "filter"},
		{"operator", bulk, `{"verb":"close","reason":"x","filter":{"state":"stuck,held,open"}}`, "filter"},
		{"operator", bulk, `{"verb":"close","reason":"x","all":false}`, "filter"},
		{"operator", bulk, `{"verb":"close","reason":"x","all":true,"filter":{"key":"k"}}`, "all"},
		{"operator", bulk, `{"verb":"close","reason":"x","filter":{"stat":"open"}}`, "stat"},
		{"operator", bulk, `{"verb":"close","filter":{"state":"held"}}`, "reason"},
		{"operator", bulk, `{"verb":"close","reason":"x","filter":{"state":"held"},"limit":10001}`,
			"limit"},
		{"operator", bulk, `{"verb":"close","reason":"x","filter":{"state":"held"},"cursor":"x"}`,
			"cursor"},
		{"operator", "GET /v1/runs?state=done", "", "state"},
		{"operator", "GET /v1/runs?state=held,", "", "state"},
		{"operator", "GET /v1/runs?label=shop", "", "label"},
		{"operator", "GET /v1/runs?since=yesterday", "", "since"},
		{"operator", "GET /v1/runs?limit=201", "", "limit"},
		{"operator", "GET /v1/runs?key=" + long, "", "key"},
		{"operator", "GET /v1/runs?states=held", "", "states"},
	}
}

func TestRunRequestsAreStrict(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		path := r.started("pay", "k")
		synctest.Wait()
		etag := r.see(path).header.Get("ETag")
		for _, c := range wrongRunRequests(path) {
			var body any
			if c.body != "" {
				body = c.body
			}
			a := r.ask(c.as, c.what, body, "If-Match", etag)
			if a.status != 400 || a.problem.Param != c.param {
				t.Errorf("%s %s: status %d, param %q, want %q: %s", c.what, c.body, a.status, a.problem.Param,
					c.param, a.raw)
			}
		}
		r.ask("acme", "POST /v1/runs", startBody("pay", "x"), "Idempotency-Key", "y").
			want(t, 400, "invalid_field")
		r.ask("acme", "POST /v1/runs", startBody("pay", "x"), "Idempotency-Key", "a,b").
			want(t, 400, "idempotency_key_invalid")
		if got := r.lists("operator", ""); len(got) != 1 {
			t.Errorf("runs: %v", got)
		}
		r.state(path, "running")
	})
}

// What is of the wrong type is told in words that fit.
func TestTypesAreToldInWords(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		for member, want := range map[string]string{
			`"round":-1`:      "it is the number -1 and must be a whole number from 0",
			`"round":1.5`:     "it is the number 1.5 and must be a whole number from 0",
			`"round":{}`:      "it is an object and must be a whole number from 0",
			`"definition":[]`: "it is an array and must be a string",
			`"key":true`:      "it is a bool and must be a string",
		} {
			a := r.ask("acme", "POST /v1/runs", "{"+member+"}").want(t, 400, "invalid_field")
			if a.problem.Detail != want {
				t.Errorf("%s: %s", member, a.problem.Detail)
			}
		}
	})
}

// An old version is there for its runs: a client starts what is in force now.
func TestOnlyWhoOperatesNamesAVersion(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		old := saga.New("pay").Version("0").Step("charge", r.act, nil)
		latest := saga.New("pay").Version("2").Step("charge", r.act, nil)
		if err := r.engine.Register(old, latest); err != nil {
			t.Fatal(err)
		}
		for _, version := range []string{"0", "2", "9"} {
			a := r.ask("acme", "POST /v1/runs", startBody("pay", "k", "version", version)).
				want(t, 403, "forbidden")
			if a.problem.Param != "version" {
				t.Errorf("%s", a.raw)
			}
		}
		if r.made() != "" {
			t.Errorf("calls: %s", r.made())
		}
		r.issue(t, "boss", auth.Admin, "boss")
		a := r.ask("boss", "POST /v1/runs", startBody("pay", "k", "version", "0", "principal", "boss"),
			"Prefer", "wait=9").want(t, 201, "")
		if a.text("version") != "0" || a.text("state") != "completed" {
			t.Errorf("%s", a.raw)
		}
	})
}

// Keys belong to an account. The order that the shop has paid is new under an admin's, and
// would be charged again there, so an admin says for whom a run is.
func TestAnAdminSaysWhoseRunItIs(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		first := r.ask("acme", "POST /v1/runs", startBody("checkout", "o1"), "Prefer", "wait=9").
			want(t, 201, "")
		a := r.ask("admin", "POST /v1/runs", startBody("checkout", "o1")).want(t, 403, "forbidden")
		if a.problem.Param != "principal" || !strings.Contains(a.problem.Detail, "paid again") ||
			!strings.Contains(a.problem.Detail, "name the account") {
			t.Errorf("it does not say why, or what to do: %s", a.raw)
		}
		body := startBody("checkout", "o1", "principal", "acme")
		for _, as := range []string{"admin", "acme"} { // a client may name its own
			again := r.ask(as, "POST /v1/runs", body).want(t, 200, "")
			if again.text("id") != first.text("id") || again.text("principal") != "acme" {
				t.Errorf("%s: %s", as, again.raw)
			}
		}
		a = r.ask("globex", "POST /v1/runs", body).want(t, 403, "forbidden")
		if a.problem.Param != "principal" || !strings.Contains(a.problem.Detail, "own account") {
			t.Errorf("%s", a.raw)
		}
		r.ask("admin", "POST /v1/runs", startBody("checkout", "o1", "principal", "ac me")).
			want(t, 400, "invalid_field")
		r.wantLedger("charge=1 loyalty=1 order=1 voucher=1")
		other := r.ask("admin", "POST /v1/runs", startBody("checkout", "o2", "principal", "globex"), "Prefer",
			"wait=9").want(t, 201, "")
		r.ask("globex", "GET /v1/runs/"+other.text("id"), nil).want(t, 200, "")
		r.ask("acme", "GET /v1/runs/"+other.text("id"), nil).want(t, 404, "not_found")
		r.ask("acme", "GET /v1/runs/"+strings.Repeat("x", 3000), nil).want(t, 404, "not_found")
	})
}

// What a list is filtered by is combined; the time is that of the start.
func TestListsOfRunsAreFiltered(t *testing.T) {
	inSagas(t, func(t *testing.T, r *sagaRig) {
		var ids []string
		var times []string
		for i := range 6 {
			times = append(times, time.Now().UTC().Format(time.RFC3339))
			p := r.started([]string{"pay", "checkout"}[i%2], fmt.Sprint(i), "labels",
				map[string]any{"n": fmt.Sprint(i / 3)})
			ids = append(ids, strings.TrimPrefix(p, "/v1/runs/"))
			time.Sleep(10 * time.Second)
		}
		for query, want := range map[string][]int{"": {5, 4, 3, 2, 1, 0}, "definition=pay": {4, 2, 0},
			"state=completed": {5, 3, 1}, "state=running": {4, 2, 0}, "label=n:1": {5, 4, 3},
			"label=n:1&definition=pay": {4}, "key=3": {3}, "since=" + times[4]: {5, 4},
			"until=" + times[2]: {1, 0},
			"since=" + times[1] + "&until=" + times[3] + "&limit=1": {2, 1}, "state=held,stuck": nil,
			"state=open&principal=acme": {4, 2, 0}, "principal=ac": nil} {
			var named []string
			for _, i := range want {
				named = append(named, ids[i])
			}
			if got := r.lists("viewer", query); !slices.Equal(got, named) {
				t.Errorf("%q lists %v, want %v", query, got, named)
			}
		}
	})
}

// The states, causes, holds and notes that a run can have are those of the document.
func TestNamesOfRunsAreInTheDocument(t *testing.T) {
	c := loadContract(t)
	enum := func(pointer string) (out []string) {
		m, _ := c.resolve(pointer)
		for _, v := range m["enum"].([]any) {
			out = append(out, v.(string))
		}
		return out
	}
	names := func(n int, name func(int) string) (out []string) {
		for i := 1; i <= n; i++ {
			out = append(out, name(i))
		}
		return out
	}
	run, step := "/components/schemas/Run/properties/", "/components/schemas/Step/properties/"
	for pointer, want := range map[string][]string{
		run + "state": names(7, func(i int) string { return machine.Status(i).String() }),
		run + "cause": names(6, func(i int) string { return machine.Cause(i).String() }),
		run + "hold":  names(7, func(i int) string { return machine.Hold(i).String() }),
		step + "state": append([]string{"pending"},
			names(7, func(i int) string { return machine.StepStatus(i).String() })...),
		step + "undo": names(5, func(i int) string { return machine.UndoStatus(i).String() }),
	} {
		if got := enum(pointer); !slices.Equal(got, want) {
			t.Errorf("%s: the document has %v, the machine %v", pointer, got, want)
		}
	}
}
