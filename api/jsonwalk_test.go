package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"onced/api/problem"
)

// memberCases are bodies for a struct with the members a, b and c.
func memberCases() []string {
	many := make([]string, 3*fewNames)
	for i := range many {
		many[i] = fmt.Sprintf(`"m%d":[{"x":%d}]`, i, i)
	}
	large := "{" + strings.Join(many, ",") + "}"
	return []string{`{}`, ` { } `, `null`, `[]`, `1`, `"a"`, `"a":1`, `{"a":1}`, `{"a":1,"b":{"a":2,"d":3}}`,
		`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"\u0061":1}`, `{"A":1}`, `{"d":1}`, `{"d":tru}`,
		`{"a":tru,"d":1}`,
		`{"a":1}{}`, `{"a":1} x`, `{"a":1`, `{"a"`, `{`, ``, ` `, `{"a":"}{\"","b":[":",{":":":"}]}`,
		`{"a" : 1 , "b" :"c"}`, "{\"a\"\t:\n{\"c\" :[]\r}}", `{"":1}`, `{"a":1,"":1}`, `{"a":{"b":1,"b":2}}`,
		`{"a":[{"b":1},{"b":2}]}`, `{"a":{"b":{"c":1},"c":{"b":1}},"b":[[],{}]}`, `{"a":"\\","b":"\\\""}`,
		`{"a":` + large + `}`, `{"a":` + large[:len(large)-1] + `,"m47":1}}`,
		`{"a":` + large[:len(large)-1] + `,"m0":1}}`, `{"a":{"\"":1,"\u0022":2}}`, `{"a":{"é":1,"\u00e9":2}}`,
		`{"a":` + strings.Repeat("[", maxNested+5) + strings.Repeat("]", maxNested+5) + `}`,
		`{"a":` + strings.Repeat(`{"a":`, maxNested) + `1` + strings.Repeat("}", maxNested) + `}`}
}

// doubledByTokens is doubled in the words of encoding/json.
func doubledByTokens(raw []byte) (member string, twice bool, deepest int) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var open []map[string]bool // of an array nil
	isName := true
	for {
		t, err := d.Token()
		if err != nil {
			return "", false, deepest
		}
		in := len(open) > 0 && open[len(open)-1] != nil
		if text, ok := t.(string); ok && in && isName {
			if open[len(open)-1][text] {
				return text, true, deepest
			}
			open[len(open)-1][text] = true
			isName = false
			continue
		}
		switch t {
		case json.Delim('{'):
			open = append(open, map[string]bool{})
		case json.Delim('['):
			open = append(open, nil)
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		}
		isName = true
		if deepest = max(deepest, len(open)); deepest > maxNested {
			return "", false, deepest
		}
	}
}

// FuzzMembers: what is read in one pass is what the decoder of the standard library sees.
func FuzzMembers(f *testing.F) {
	for _, text := range memberCases() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		raw := []byte(text)
		if !json.Valid(raw) || !utf8.Valid(raw) {
			return
		}
		known := []string{"a", "b", "c"}
		wrong, seen := checkBroken(raw, known), checkMembers(raw, known)
		want, isProblem := errors.AsType[*problem.Problem](wrong)
		got, _ := errors.AsType[*problem.Problem](seen)
		if (wrong != nil) != isProblem || (wrong != nil) != (seen != nil) {
			t.Fatalf("%s: %v, want %v", text, seen, wrong)
		}
		if !reflect.DeepEqual(want, got) {
			t.Fatalf("%s: %+v, want %+v", text, got, want)
		}
		member, twice, deepest, spaced := doubled(raw)
		member2, twice2, deepest2 := doubledByTokens(raw)
		if member != member2 || twice != twice2 || deepest != deepest2 {
			t.Fatalf("%s: %q %v %d, want %q %v %d", text, member, twice, deepest, member2, twice2, deepest2)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, raw); err != nil {
			t.Fatal(err)
		}
		if done := !twice && deepest <= maxNested; done && spaced == (compact.Len() == len(raw)) {
			t.Fatalf("%s: spaced is %v", text, spaced)
		}
	})
}
