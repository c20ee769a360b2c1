package config

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"onced/saga/httpstep"
)

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30d": 720 * time.Hour, "1d12h": 36 * time.Hour, "0s": 0, "1.5h": 90 * time.Minute,
		"500ms":  500 * time.Millisecond,
		"1h1m1s": time.Hour + time.Minute + time.Second,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"": "is not a duration", "10": "has no unit", "1.5": "has no unit", "d": "is not a duration",
		"-1d":  "is not a duration",
		"1.5d": "is not a duration", "1d-3h": "is not a duration", "99999d": "is not a duration",
		"1h2d":       "is not a duration",
		"1d2562047h": "is not a duration", "1e3s": "is not a duration",
	} {
		if got, err := parseDuration(text); fmt.Sprint(err) != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for d, want := range map[time.Duration]string{
		720 * time.Hour: "720h", time.Minute: "1m", 90 * time.Minute: "1h30m", 10 * time.Second: "10s",
		0:                      "0s",
		100 * time.Millisecond: "100ms", 10 * time.Minute: "10m", 20 * time.Hour: "20h", time.Hour +
			time.Second: "1h0m1s",
	} {
		got := formatDuration(d)
		if back, err := parseDuration(got); got != want || err != nil || back != d {
			t.Errorf("%v: %s (%v, %v), want %s", d, got, back, err, want)
		}
	}
}

func TestBytes(t *testing.T) {
	for text, want := range map[string]Bytes{
		"0": 0, "1024": 1024, "1KiB": 1 << 10, "64 MiB": 64 << 20, "2GiB": 2 << 30, "10MB": 10e6, "5kB": 5e3,
		"7B": 7,
	} {
		if got, err := parseBytes(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1.5MiB", "9999999999TiB", "99999999999999999999", "1mib",
		"0x10", "1_0"} {
		if got, err := parseBytes(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
	for b, want := range map[Bytes]string{0: "0", 1: "1", 1 << 10: "1KiB", 1 << 20: "1MiB", 1<<20 +
		1: "1048577", 3 << 30: "3GiB"} {
		if got := b.String(); got != want {
			t.Errorf("%d: %s, want %s", int64(b), got, want)
		}
	}
}

func TestStatuses(t *testing.T) {
	var f field
	set, _ := httpstep.ParseStatuses("599") // what is written takes the place of the default
	for text, want := range map[string]string{"200": "200", "404, 2xx,,402-405": "2xx,402-405", "": "",
		"5XX,498": "498,5xx"} {
		if e := f.parseLeaf(reflect.ValueOf(&set).Elem(), text); e != nil || set.String() != want {
			t.Errorf("%q is %s (%+v), want %s", text, set, e, want)
		}
	}
	for _, text := range []string{"99", "200,1xx", "405-402"} {
		if e := f.parseLeaf(reflect.ValueOf(&set).Elem(), text); e == nil ||
			e.allowed != httpstep.StatusForms {
			t.Errorf("%q is %s: %+v", text, set, e)
		}
	}
}

func TestURLs(t *testing.T) {
	for _, text := range []string{"http://h", "https://h:1/base/", "http://[::1]:9000",
		"http://127.0.0.1:9000/v1"} {
		if u, err := parseURL(text); err != nil || u.String() != text {
			t.Errorf("%s: %v, %v", text, u, err)
		}
	}
	for _, text := range []string{"", "h", "//h", "http://", "http:///x", "http://h:", "http://h:0",
		"http://h:70000", "http://h:x",
		"http://u@h", "http://h?x", "http://h#x", "file:///etc", "http://h/../x", "http://:80",
		"http://h/%zz"} {
		if u, err := parseURL(text); err == nil {
			t.Errorf("%q is %v", text, u)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"listen", "data", "log", "http.max_body", "serve"}
	for text, want := range map[string]string{
		"lisen": "listen", "lsiten": "listen", "Data": "data", "serv": "serve", "srve": "serve",
		"http.max_bdoy": "http.max_body",
		"completely":    "", "": "", "xyz": "",
	} {
		if got := nearest(text, names); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if d := distance("abcd", "abdc"); d != 1 {
		t.Errorf("two letters swapped are %d", d)
	}
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern string
		yes, no []string
	}{
		{"/charges", []string{"/charges"}, []string{"/charges/", "/charges/1", "/Charges", "/", "//charges",
			"/%63harges", "charges"}},
		{"/o/{id}/pay", []string{"/o/1/pay", "/o/a%2Fb/pay"}, []string{"/o//pay", "/o/1/2/pay", "/o/pay",
			"/o/1/pay/"}},
		{"/p/*", []string{"/p/", "/p/1", "/p/1/2"}, []string{"/p", "/px/1", "/"}},
		{"/*", []string{"/", "/a", "/a/b"}, []string{"", "a"}},
		{"/", []string{"/"}, []string{"/a", ""}},
		{"/a/{x}/*", []string{"/a/1/2", "/a/1/"}, []string{"/a/1", "/a//2"}},
	} {
		p, err := ParsePattern(c.pattern)
		if err != nil {
			t.Fatalf("%s: %v", c.pattern, err)
		}
		for _, path := range c.yes {
			if !p.Match(path) {
				t.Errorf("%s does not match %s", c.pattern, path)
			}
		}
		for _, path := range c.no {
			if p.Match(path) {
				t.Errorf("%s matches %s", c.pattern, path)
			}
		}
	}
	for _, text := range []string{"", "a", "//", "/a/", "/a//b", "/a/../b", "/.", "/a b", "/a/{", "/a/{b",
		"/a/{b}c", "/a/*b", "/a/*/b",
		"/a?b", "/a#b", "/a%20b", "/a/{b-c}", "/a\\b", "/ü"} {
		if _, err := ParsePattern(text); err == nil {
			t.Errorf("%q is a pattern", text)
		}
	}
	if (Pattern{}).Match("/") {
		t.Error("the zero pattern matches")
	}
}

func TestPatternsThatSayMoreComeFirst(t *testing.T) {
	want := []string{"/a/b/c", "/a/b/*", "/a/b", "/a/{x}/c", "/a/{x}", "/a/*", "/{x}/b", "/{x}", "/*"}
	var all []Pattern
	for _, text := range want {
		p, err := ParsePattern(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	got := slices.Clone(all)
	slices.Reverse(got)
	slices.SortStableFunc(got, Pattern.Compare)
	paths := []string{"/a/b/c", "/a/b/d", "/a/b", "/a/z/c", "/a/z", "/a/z/q", "/q/b", "/q", "/q/r"}
	for i, path := range paths {
		first := slices.IndexFunc(got, func(p Pattern) bool { return p.Match(path) })
		if first < 0 || got[first].Compare(all[i]) != 0 {
			t.Errorf("%s goes to %v, want %s", path, got[first], want[i])
		}
	}
	for i, p := range all {
		for j, q := range all {
			if (p.Compare(q) == 0) != (i == j) || (p.Compare(q) < 0) != (q.Compare(p) > 0) {
				t.Errorf("%s and %s: %d, %d", want[i], want[j], p.Compare(q), q.Compare(p))
			}
		}
	}
}
