package definition

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"onced/saga/machine"
)

// guideText is the definition of the guide, which readers copy, over the services of the
// test and with short times. No callback comes.
func (r *rig) guideText() string {
	r.Helper()
	text, err := os.ReadFile("../../api/GUIDE.md")
	if err != nil {
		r.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```yaml\n(name: .*?)```").FindSubmatch(text)
	if found == nil {
		r.Fatal("the guide has no definition")
	}
	out := string(found[1])
	for _, c := range [][2]string{{"https://shop.example", "http://HOST"},
		{"https://gateway.example", "http://HOST"}, {"for: 30m", "for: 20ms"},
		{"settles_after: 2m", "settles_after: 1ms\n    retry: {first: 1ms, most: 5ms}"}} {
		if !strings.Contains(out, c[0]) {
			r.Fatalf("the definition of the guide has no %s", c[0])
		}
		out = strings.ReplaceAll(out, c[0], c[1])
	}
	return out
}

// The callback of the charge is lost, and the look-up finds it: also the refund of it
// knows which charge it is about.
func TestTheDefinitionOfTheGuideWithoutItsCallback(t *testing.T) {
	t.Parallel()
	const input = `{"order": "o1", "amount": "12.50"}`
	for _, c := range []struct {
		data   string // what the look-up finds, any order of tries
		order  int    // the status of the last step
		status machine.Status
		refund string
	}{
		{`[{"id":"ch_2","status":"succeeded"}]`, 200, machine.Completed, ""},
		{`[{"id":"ch_1","status":"failed"},{"id":"ch_2","status":"succeeded"}]`, 200, machine.Completed, ""},
		{`[{"id":"ch_2","status":"succeeded"}]`, 422, machine.Compensated, `{"charge":"ch_2"}`},
		{`[{"id":"ch_1","status":"failed"},{"id":"ch_2","status":"succeeded"}]`, 422, machine.Compensated,
			`{"charge":"ch_2"}`},
		{`[{"id":"ch_1","status":"failed"}]`, 200, machine.Compensated, ""},
		{`[{"id":"ch_1","status":"failed"},{"id":"ch_2","status":"pending"}]`, 200, machine.Held, ""},
		{`[]`, 200, machine.Compensated, ""},
	} {
		r := newRig(t)
		r.secrets["shop"] = "shop-secret"
		r.plan["POST /vouchers/o1/reserve"] = []answer{{body: `{"id": "v_1", "state": "reserved"}`}}
		r.plan[callCharge] = []answer{{status: 202, body: `{"state": "begun"}`, before: func() {
			_, key, _ := strings.Cut(r.sent(callCharge)[0], "key=")
			key, _, _ = strings.Cut(key, " ")
			r.answers("GET /charges?key="+key, answer{body: `{"data": ` + c.data + `}`})
		}}}
		r.plan[callOrder] = []answer{{status: c.order}}
		s := r.put(r.guideText())
		v := r.end(r.start(s.Name, "o1", input).Run)
		if v.State.Status != c.status {
			t.Errorf("the look-up finds %s: the run is %s (%s)\n%s", c.data, v.State.Status, v.State.Reason,
				history(v))
		}
		got := strings.Join(r.sent(callRefund), "\n")
		if c.refund == "" && got != "" || !strings.HasSuffix(got, c.refund) {
			t.Errorf("the look-up finds %s: the refund is %s", c.data, got)
		}
	}
}
