package definition

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"onced/kv"
)

// sourcesOf are files with a small definition each; args are pairs of name and path.
func sourcesOf(args ...string) (out []Source) {
	for i := 0; i < len(args); i += 2 {
		text := strings.Replace(doc(args[i+1]), "name: a", "name: "+args[i], 1)
		out = append(out, Source{File: args[i] + ".yaml", Text: []byte(text)})
	}
	return out
}

// latest says which version of each name new runs use, by the store and by the book.
func (r *rig) latest() string {
	r.Helper()
	all, err := r.book.List(r.Context(), "", 0)
	if err != nil {
		r.Fatal(err)
	}
	var out []string
	for _, s := range all {
		out = append(out, s.Name+s.Version)
		if got := r.book.latest(s.Name); got != s.Version {
			r.Errorf("of %s the store has %s, the book %s", s.Name, s.Version, got)
		}
	}
	return strings.Join(out, " ")
}

// All files are taken, or none: a conflict, or a transaction that fails, of the last one
// leaves the first ones as they were.
func TestFilesArePutTogether(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	puts, err := r.book.PutAll(t.Context(), sourcesOf("a", "x", "b", "x"))
	if err != nil || len(puts) != 2 || !puts[0].Created || puts[1].Stored.Name != "b" {
		t.Fatal(puts, err)
	}
	bad := append(sourcesOf("a", "y"), Source{File: "b.yaml", Text: []byte("version: \"1\"\n" +
		strings.Replace(doc("y"), "name: a", "name: b", 1))})
	var at *SourceError
	if _, err := r.book.PutAll(t.Context(), bad); !errors.Is(err, ErrConflict) || !errors.As(err, &at) ||
		at.File != "b.yaml" {
		t.Errorf("%v", err)
	}
	if got := r.latest(); got != "a1 b1" {
		t.Errorf("after the conflict: %s", got)
	}
	twice := append(sourcesOf("a", "z"), Source{File: "again.yaml", Text: []byte(doc("z"))})
	if _, err := r.book.PutAll(t.Context(), twice); !errors.Is(err, ErrConflict) {
		t.Errorf("%v", err)
	}
	r.book.cfg.Told = func(_ kv.Writer, c Change) error {
		if c.Stored.Name == "b" {
			return errors.New("no room")
		}
		return nil
	}
	if _, err := r.book.PutAll(t.Context(), sourcesOf("a", "y", "b", "y")); err == nil {
		t.Error("it was put though it could not be told")
	}
	if got := r.latest(); got != "a1 b1" {
		t.Errorf("after the failure: %s", got)
	}
	r.book.cfg.Told = nil
	if puts, err := r.book.PutAll(t.Context(), sourcesOf("b", "y", "a", "x")); err != nil || puts[1].Created {
		t.Errorf("%+v, %v", puts, err)
	}
	if got := r.latest(); got != "a1 b2" {
		t.Errorf("at last: %s", got)
	}
}

// A name that no file gives any more can be posted.
func TestANameIsFreeWhenItsFileIsGone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := r.book.PutAll(t.Context(), sourcesOf("a", "x", "b", "x")); err != nil {
		t.Fatal(err)
	}
	if got := r.putAs(FromAPI, doc("y")); !strings.Contains(got, "is given by a file") {
		t.Error(got)
	}
	if _, err := r.book.PutAll(t.Context(), sourcesOf("b", "x")); err != nil {
		t.Fatal(err)
	}
	if got := r.putAs(FromAPI, doc("y")); got != "2 api true" {
		t.Error(got)
	}
}

// Who has made new runs use another version is told with it, once, and nothing else is.
func TestChangesAreTold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	told := map[string]int{}
	r.book.cfg.Told = func(_ kv.Writer, c Change) error {
		told[fmt.Sprint(c.Stored.Name, c.Stored.Version, " after ", c.Previous, " by ", c.Actor, c.File, " ",
			c.Stored.Origin, " ", c.Created)] = 1
		return nil
	}
	put := func(src string) {
		t.Helper()
		if _, _, err := r.book.PutBy(t.Context(), "anna", []byte(src), FromAPI); err != nil {
			t.Fatal(err)
		}
	}
	put(versioned("v1", "x"))
	put(versioned("v1", "x"))
	put(doc("y"))
	put(versioned("v1", "x"))
	if _, err := r.book.PutAll(t.Context(), sourcesOf("a", "z")); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"av1 after  by anna api true": 1, "a1 after v1 by anna api true": 1,
		"av1 after 1 by anna api false": 1, "a2 after v1 by a.yaml file true": 1}
	if !maps.Equal(told, want) {
		t.Errorf("told %v", told)
	}
}

func TestADocumentTellsWhatIsDeclared(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"input: {a: string, b: int?, c: decimal, d: any, e: \"list?\", f: any?}\n": "map[a:string b:int? " +
			"c:decimal d:any e:list? f:any?]", "": "map[]"} {
		d, problems := Parse([]byte(src+doc("x")), Options{})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if got := fmt.Sprint(d.Input()); got != want || d.UsesCallback() {
			t.Errorf("%s, want %s", got, want)
		}
	}
	d, problems := Parse([]byte("name: a\nsteps:\n- {name: b, await: {}, call: {url: 'https://h/', "+
		"query: {u: '${lower(callback_url)}'}}}\n"), Options{})
	if len(problems) > 0 || !d.UsesCallback() {
		t.Errorf("%v: a callback_url is not seen", problems)
	}
}
