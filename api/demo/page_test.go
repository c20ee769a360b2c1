package demo_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestPageWorksWithoutScript(t *testing.T) {
	t.Parallel()
	d := start(t, t.TempDir())
	const html, form = "text/html,application/xhtml+xml", "application/x-www-form-urlencoded"
	for _, step := range []struct{ path, body string }{
		{"/toggle/duplicate?to=on", ""},
		{"/toggle/duplicate?to=on", ""}, // a double click changes nothing
		{"/checkout", url.Values{"orderId": {"ord_A"}}.Encode()},
	} {
		code, answer := d.request(http.MethodPost, step.path, step.body, "Accept", html, "Content-Type", form,
			"Sec-Fetch-Site", "same-origin")
		if code != http.StatusSeeOther || answer != "to /" {
			t.Errorf("%s: %d %s", step.path, code, answer)
		}
	}
	d.atRest(1)
	_, page := d.get("/")
	for _, part := range []string{"no real money", `<noscript><p class="hint"><a href="/">Refresh</a>`,
		"ord_A",
		"charged once", "<span>points</span> spent", "<span>vouchers</span> redeemed",
		"<span>charges</span> made", "<span>orders</span> made",
		`action="/toggle/refuse?at=loyalty&amp;to=on"`,
		`action="/toggle/duplicate?to=off"`, `action="/toggle/crash?to=on"`,
		`action="/toggle/reset"`,
		"Nobody was charged twice", "The customer ordered."} {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %s", part)
		}
	}
	for _, part := range []string{"<style", "style=", "onclick", "http-equiv"} {
		if strings.Contains(page, part) {
			t.Errorf("the page needs more than its policy allows, or discards what is typed: %s", part)
		}
	}
}

func TestOnlyThisMachineAndThisPage(t *testing.T) {
	t.Parallel()
	d := start(t, t.TempDir())
	for _, c := range []struct {
		name   string
		header []string
		want   int
	}{
		{"another page's form", []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		{"another page's script", []string{"Origin", "https://example.com"}, http.StatusForbidden},
		{"a name that leads here", []string{"Host", "rebound.example"}, http.StatusMisdirectedRequest},
		{"curl", nil, http.StatusOK},
		{"the address", []string{"Host", "127.0.0.1:3000"}, http.StatusOK},
		{"the other address", []string{"Host", "[::1]:3000"}, http.StatusOK},
	} {
		if code, answer := d.request(http.MethodPost, "/toggle/keys", "", c.header...); code != c.want {
			t.Errorf("%s: %d %s, want %d", c.name, code, answer, c.want)
		}
	}
	if d.stats().Toggles["keys"] != true {
		t.Error("a refused request flipped a switch")
	}
}

func TestWrongRequests(t *testing.T) {
	t.Parallel()
	d := start(t, t.TempDir())
	for _, c := range []struct {
		path, body string
		want       int
	}{
		{"/toggle/gravity", "", http.StatusNotFound},
		{"/toggle/delay?to=maybe", "", http.StatusBadRequest},
		{"/toggle/delay?at=after-charge", "", http.StatusBadRequest},
		{"/toggle/crash?at=lunch", "", http.StatusBadRequest},
		{"/toggle/drop?at=charge", "", http.StatusBadRequest},
		{"/toggle/refuse?at=crash", "", http.StatusBadRequest},
		{"/checkout", "", http.StatusBadRequest},
		{"/checkout", "{", http.StatusBadRequest},
		{"/checkout", `{"orderId":""}`, http.StatusBadRequest},
		{"/checkout", `{"orderId":"../x"}`, http.StatusBadRequest},
		{"/checkout", `{"orderId":"<script>"}`, http.StatusBadRequest},
		{"/checkout", `{"orderId":"` + strings.Repeat("x", 65) + `"}`, http.StatusBadRequest},
		{"/checkout", strings.Repeat(" ", 5000), http.StatusBadRequest},
	} {
		code, answer := d.post(c.path, c.body)
		if code != c.want || answer["error"] == "" {
			t.Errorf("%s %.40s: %d %v, want %d", c.path, c.body, code, answer, c.want)
		}
	}
	if s := d.stats(); s.DistinctOrders != 0 {
		t.Errorf("a refused order was placed: %+v", s)
	}
}
