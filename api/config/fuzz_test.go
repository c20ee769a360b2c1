package config

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// FuzzLoad: whatever the file says, there is a valid Config or an error with a
// place, the same each time, and no secret is shown.
func FuzzLoad(f *testing.F) {
	f.Add(Sample())
	f.Add(uncommented())
	for _, text := range []string{problems, routeProblems, sagaProblems} {
		for _, e := range table(text) {
			f.Add(e[0])
			f.Add("routes:\n- " + e[0])
		}
	}
	f.Add("secrets: {a: {value: QQhushQQ}, b: QQhushQQ}\n")
	f.Add("a: &a [*a]")
	f.Add("? {a: b}\n: c")
	f.Add("--- a\n--- b")
	f.Add("routes:\n- headers: [{value: QQhushQQ}]\n")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := load(text)
		again, err2 := load(text)
		if (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() {
			t.Fatalf("not the same again: %v, %v", err, err2)
		}
		if err != nil {
			e, ok := errors.AsType[*Error](err)
			if !ok || len(e.Problems) == 0 || l != nil {
				t.Fatalf("error %T %v", err, err)
			}
			for _, p := range e.Problems {
				if p.Text == "" || p.Origin.String() == "" ||
					strings.ContainsAny(p.String(), "\n\r\x00\x1b") {
					t.Errorf("problem %q", p)
				}
			}
			return
		}
		if !reflect.DeepEqual(l.Config, again.Config) {
			t.Fatal("another Config")
		}
		if m, restart, err := Merge(l.Config, again.Config); err != nil || len(restart) > 0 ||
			!reflect.DeepEqual(m, l.Config) {
			t.Fatalf("merge with itself: %q, %v", restart, err)
		}
		for _, r := range l.Config.Routes {
			if !r.Pattern().valid || r.Name == "" || r.Upstream.Host == "" {
				t.Errorf("route %+v", r)
			}
		}
		l.Settings()
	})
}
