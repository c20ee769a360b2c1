package api

import (
	"testing"
	"time"

	"onced/api/problem"
)

// What a look-up did not show counts from the instant of asking: one that takes long
// is no proof by its own slowness.
func TestIK09_LookUpCountsFromItsBeginning(t *testing.T) {
	for _, c := range []struct {
		name    string
		asked   time.Duration // after the try ended unknown; -1 is not said
		outcome string
	}{
		{"not said", -1, "cleared"},
		{"late enough", 60 * time.Second, "cleared"},
		{"too soon", 59 * time.Second, "still_unknown"},
		{"before the takeover", 0, "still_unknown"},
	} {
		r := newRig(t)
		r.clock.Add(10 * time.Millisecond)
		path, _ := r.unknownClaim("k")
		ended := r.clock.Now()
		r.clock.Add(50 * time.Second)
		r.ask("acme", "POST /v1/claims", claimBody("k", "take_over", true, "token", tokenB, "lease_s", 600)).
			want(t, 200, "")
		r.clock.Add(20 * time.Second) // the look-up answers at last
		body := map[string]any{"token": tokenB, "answer": "nothing", "settles_after_s": 60}
		if c.asked >= 0 {
			body["asked_at"] = ended.Add(c.asked).Format(time.RFC3339Nano)
		}
		a := r.ask("acme", "POST "+path+"/looked_up", body).want(t, 200, "")
		if a.text("outcome") != c.outcome {
			t.Errorf("%s: %s", c.name, a.raw)
		}
	}
}

func TestAskedAtIsChecked(t *testing.T) {
	r := newRig(t)
	r.clock.Add(1234567 * time.Nanosecond) // more than an answer shows
	path, _ := r.unknownClaim("k")
	taken := r.ask("acme", "POST /v1/claims", claimBody("k", "take_over", true, "token", tokenB)).
		want(t, 200, "")
	created := taken.at("claim").(map[string]any)["created_at"].(string)
	r.clock.Add(5 * time.Second)
	made, err := time.Parse(time.RFC3339, created)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(asked any, answer string) answer {
		return r.ask("acme", "POST "+path+"/looked_up", map[string]any{"token": tokenB, "answer": answer,
			"settles_after_s": 3600, "asked_at": asked})
	}
	for _, asked := range []any{"", "soon", "2026-01-31", "2026-01-31 12:00:00Z", made.Unix(),
		r.clock.Now().Add(time.Millisecond).Format(time.RFC3339Nano),
		made.Add(-time.Millisecond).Format(time.RFC3339Nano)} {
		for _, verdict := range []string{"nothing", "done"} {
			a := ask(asked, verdict)
			if a.status != 400 || a.problem.Param != "asked_at" {
				t.Errorf("%v: %s", asked, a.raw)
			}
		}
	}
	if a := r.ask("acme", "GET "+path, nil).want(t, 200, ""); a.text("state") != "pending" {
		t.Errorf("what was refused changed something: %s", a.raw)
	}
	// The instants of answers are right, and so are those of other time zones.
	in := r.clock.Now().In(time.FixedZone("", 7200)).Format(time.RFC3339Nano)
	for _, asked := range []string{created, in} {
		ask(asked, "nothing").want(t, 200, "")
	}
	ask(in, "done").want(t, 200, "")
	other := "/v1/claims/cl_" + "AAAA"
	r.ask("acme", "POST "+other+"/looked_up", map[string]any{"token": tokenB, "answer": "done",
		"asked_at": in}).want(t, 404, problem.NotFound)
}
