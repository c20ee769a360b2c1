package definition

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"onced/kv"
	"onced/saga"
	"onced/saga/machine"
)

const small = "name: a # %s\nsteps:\n- {name: b, call: {url: 'https://one.example/%s'}}\n"

// putAs puts a document and returns what came of it in short.
func (r *rig) putAs(from Origin, src string) string {
	r.Helper()
	s, created, err := r.book.Put(r.Context(), []byte(src), from)
	if err != nil {
		if !errors.Is(err, ErrConflict) {
			r.Fatal(err)
		}
		return err.Error()
	}
	return fmt.Sprintf("%s %s %v", s.Version, s.Origin, created)
}

func doc(path string) string { return fmt.Sprintf(small, "", path) }

func versioned(version, path string) string { return "version: " + version + "\n" + doc(path) }

func TestVersionsOfADocument(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i, c := range []struct {
		from      Origin
		src, want string
	}{
		{FromAPI, doc("x"), "1 api true"},
		{FromAPI, doc("x"), "1 api false"},
		{FromAPI, fmt.Sprintf(small, "a remark", "x") + "title:   \"A\"\n", "2 api true"},
		{FromAPI, "title: A\n" + doc("x"), "2 api false"}, // the same content in another form
		{FromAPI, doc("x"), "3 api true"},                 // back again is a new version
		{FromAPI, versioned("blue", "y"), "blue api true"},
		{FromAPI, versioned("blue", "y"), "blue api false"},
		{FromAPI, versioned("blue", "z"),
			`definition "a" version "blue" is there with other content; give the document ` +
				`another version`},
		{FromAPI, doc("x"), "4 api true"},
		{FromAPI, versioned("blue", "y"), "blue api false"}, // which makes it the latest again
		{FromAPI, versioned("5", "y"), "5 api true"},
		{FromAPI, doc("q"), "6 api true"}, // 5 is taken
		// the same content from a file has other rights, so it is another version
		{FromFile, versioned("blue", "y"),
			`definition "a" version "blue" is there from another origin (api), with other ` +
				`rights; give the document another version`},
		{FromFile, doc("q"), "7 file true"},
		{FromFile, doc("q"), "7 file false"},
		// what a file says is the operator's
		{FromAPI, doc("q"),
			`definition "a" is given by a file of the configuration; change the file, or post it under ` +
				`another name`},
	} {
		if got := r.putAs(c.from, c.src); got != c.want {
			t.Errorf("put %d is %s, want %s", i+1, got, c.want)
		}
	}
	r.wantVersions("7* 6 5 4 blue 3 2 1")
	r.reboot() // now without that file
	r.wantVersions("7* 6 5 4 blue 3 2 1")
	if r.load.Names != 1 || r.load.Versions != 8 || len(r.load.Failed) != 0 {
		t.Errorf("loaded %+v", r.load)
	}
	if got := r.book.latest("a"); got != "7" {
		t.Errorf("the latest after the start is %s", got)
	}
	if got := r.putAs(FromAPI, doc("q")); got != "8 api true" {
		t.Errorf("the put after the start is %s", got)
	}
	if got := r.book.latest("a"); got != "8" {
		t.Errorf("the latest is %s", got)
	}
}

// wantVersions reads the list of versions two at a time; * is the latest.
func (r *rig) wantVersions(want string) {
	r.Helper()
	var got []string
	before := uint64(0)
	for {
		page, next, err := r.book.Versions(r.Context(), "a", before, 2)
		if err != nil {
			r.Fatal(err)
		}
		for _, s := range page {
			v := s.Version
			if s.Latest {
				v += "*"
			}
			got = append(got, v)
		}
		if before = next; next == 0 {
			break
		}
	}
	if strings.Join(got, " ") != want {
		r.Errorf("the versions are %q, want %q", got, want)
	}
}

func TestGetAndList(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, name := range []string{"ab", "a", "b"} {
		r.putAs(FromAPI, strings.Replace(doc("x"), "name: a ", "name: "+name+" ", 1))
	}
	r.putAs(FromAPI, doc("y"))
	all := ""
	after := ""
	for {
		page, err := r.book.List(t.Context(), after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, s := range page {
			all += s.Name + s.Version + " "
			if s.Source != nil || len(s.Steps) != 1 || s.CreatedAt.IsZero() || s.Title != s.Name ||
				!s.Latest {
				t.Errorf("%+v", s)
			}
		}
		after = page[len(page)-1].Name
	}
	if all != "a2 ab1 b1 " {
		t.Errorf("the list is %s", all)
	}
	s, err := r.book.Get(t.Context(), "a", "1")
	if err != nil || string(s.Source) != doc("x") || s.Latest || s.Digest == "" {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err = r.book.Get(t.Context(), "a", ""); err != nil || s.Version != "2" || !s.Latest {
		t.Errorf("%+v, %v", s, err)
	}
	for _, c := range [][2]string{{"c", ""}, {"a", "3"}, {"", ""}} {
		if _, err := r.book.Get(t.Context(), c[0], c[1]); !errors.Is(err, ErrNotFound) {
			t.Errorf("%v gives %v", c, err)
		}
	}
	if _, _, err := r.book.Versions(t.Context(), "c", 0, 0); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

func TestCheckStoresNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 2 {
		s, created, err := r.book.Check(t.Context(), []byte(doc("x")), FromAPI)
		if err != nil || !created || s.Version != "1" || s.Name != "a" {
			t.Fatal(s, created, err)
		}
	}
	if _, err := r.book.Get(t.Context(), "a", ""); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	r.putAs(FromAPI, doc("x"))
	if s, created, err := r.book.Check(t.Context(), []byte(doc("x")),
		FromAPI); err != nil || created || s.Version != "1" {
		t.Error(s, created, err)
	}
	if _, _, err := r.book.Check(t.Context(), []byte("name: 1"), FromAPI); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

func TestSecretsThatAreNotConfiguredAreProblems(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.book.cfg.Secrets = func() []string { return []string{"gateway"} }
	src := "name: a\nsteps:\n- {name: b, call: {url: 'https://h/', headers: {A: '${secrets.gatewya}'}}}\n"
	if _, _, err := r.book.Put(t.Context(), []byte(src), FromFile); err == nil ||
		!strings.Contains(err.Error(), "3:63: steps[0].call.headers.A: secrets.gatewya is not known; did "+
			"you mean gateway?") {
		t.Error(err)
	}
	r.book.cfg.Secrets = func() []string { return nil }
	if _, err := r.book.PutAll(t.Context(), []Source{{File: "a.yaml", Text: []byte(src)}}); err == nil ||
		!strings.Contains(err.Error(), "a.yaml:3:63: ") || !strings.Contains(err.Error(), "the "+
		"configuration has none") {
		t.Error(err)
	}
}

// SG-17 and row 35 of the reports: a run goes on by the version that it began with, also
// after a restart, whatever is put meanwhile.
func TestSG17_Report35_RunsKeepTheirVersion(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const src = "name: a\nsteps:\n- {name: charge, await: {}}\n- {name: STEP, call: {url: " +
		"'http://HOST/STEP'}}\n"
	r.put(strings.ReplaceAll(src, "STEP", "old"))
	before := r.start("a", "o-1", "").Run
	r.reach(before, waiting("charge"))
	if s := r.put(strings.ReplaceAll(src, "STEP", "new")); s.Version != "2" {
		t.Fatal(s.Version)
	}
	r.reboot()
	after := r.start("a", "o-2", "").Run
	r.callback(before, `{"outcome": "done"}`)
	v := r.end(before)
	r.want(v, machine.Completed, "POST /old")
	if v.Version != "1" {
		t.Errorf("the run has version %s", v.Version)
	}
	r.callback(after, `{"outcome": "done"}`)
	r.want(r.end(after), machine.Completed, "POST /old, POST /new")
}

// A run whose document cannot be read any more is held, and goes on when it can.
func TestAVersionThatCannotBeReadIsReported(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("name: a\nsteps:\n- {name: charge, await: {}}\n- {name: order, call: {url: " +
		"'http://HOST/orders'}}\n")
	r.put("name: b\nsteps:\n- {name: order, call: {url: 'http://HOST/orders'}}\n")
	run := r.start("a", "o-1", "").Run
	r.reach(run, waiting("charge"))
	err := r.store.Update(t.Context(), func(w kv.Writer) error {
		row, _, err := versionTable.Get(w, versionKey("a", "1"))
		if err != nil {
			return err
		}
		row.Source = []byte("name: a\nsteps: of a later program\n")
		return versionTable.Put(w, versionKey("a", "1"), row)
	})
	if err != nil {
		t.Fatal(err)
	}
	r.reboot()
	if r.load.Names != 1 || r.load.Versions != 1 || len(r.load.Failed) != 1 || r.load.Failed[0].Name != "a" ||
		!errors.Is(r.load.Failed[0].Err, ErrInvalid) {
		t.Errorf("loaded %+v", r.load)
	}
	if r.book.Document("a", "1") != nil || r.book.Document("b", "") == nil {
		t.Error("the documents are not those that were loaded")
	}
	if s, err := r.book.Get(t.Context(), "a", ""); err != nil || s.Steps != nil || s.Version != "1" {
		t.Errorf("%+v, %v", s, err)
	}
}

// declared has an input with every type.
const declared = `name: a
input: {order: string, n: int, amount: decimal, paid: bool?, tags: list, o: object, x: any}
labels: {order: "${input.order}", paid: "${input.paid ?? nil}", key: "${run.key}", fixed: 1}
steps:
- {name: b, await: {}}
`

// goodInput is an input for it in which one field has another value; "" leaves it out.
func goodInput(field, value string) string {
	fields := map[string]string{"order": `"o"`, "n": "3", "amount": "1.50", "tags": "[]", "o": "{}",
		"x": "null"}
	fields[field] = value
	parts := []string{}
	for _, k := range sortedKeys(fields) {
		if fields[k] != "" {
			parts = append(parts, fmt.Sprintf("%q:%s", k, fields[k]))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func TestInputIsCheckedAtTheStart(t *testing.T) {
	t.Parallel()
	d := parsed(t, declared)
	for _, c := range []struct{ field, value, want string }{
		{"order", `"o"`, ""}, {"amount", `"12.50"`, ""}, {"amount", `-7`, ""}, {"paid", `true`, ""},
		{"paid", `null`, ""}, {"x", ``, ""}, {"x", `[1]`, ""},
		{"order", ``, "order is missing; it is text"},
		{"order", `null`, "order is missing; it is text"},
		{"order", `1`, "order is a number; it must be text"},
		{"n", `-0`, "n is no whole number; write it as 12"},
		{"n", `1.0`, "n is no whole number; write it as 12"},
		{"n", `1e3`, "n is no whole number; write it as 12"},
		{"n", `"1"`, "n is text; it must be a whole number"},
		{"amount", `"1,50"`, "amount is no decimal; write it as 12.50 or \"12.50\""},
		{"amount", `"1e3"`, "amount is no decimal; write it as 12.50 or \"12.50\""},
		{"amount", `1e3`, "amount is no decimal without an exponent; write it as 12.50"},
		{"amount", `true`, "amount is true or false; it must be a decimal, as a number or as text"},
		{"amount", strings.Repeat("9", 201), "amount has more than 200 digits"},
		{"amount", `"` + strings.Repeat("9", 201) + `"`, "amount has more than 200 digits"},
		{"paid", `"yes"`, "paid is text; it must be true or false"},
		{"tags", `{}`, "tags is an object; it must be a list"},
		{"o", `[]`, "o is a list; it must be an object"},
		{"ordr", `1`, "ordr is not declared; did you mean order?; the definition declares amount, n, o, " +
			"order, paid, tags, x"},
	} {
		err := d.CheckInput([]byte(goodInput(c.field, c.value)))
		if c.want == "" && err == nil {
			continue
		}
		if err == nil || err.Error() != "saga: input."+c.want || !errors.Is(err, saga.ErrInput) {
			t.Errorf("%s = %s gives %v, want %s", c.field, c.value, err, c.want)
		}
	}
	for in, want := range map[string]string{
		`{"amout": 1, "n": 1.5, "paid": true, "order": "o", "o": {}, "tags": []}`: "input.amount is " +
			"missing; it is a number; and input.n is no whole number; write it as 12; and input.amout is " +
			"not declared; did you mean amount?; the definition declares amount, n, o, order, paid, tags, x",
		"[]": "input is a list; it must be an object",
		"{":  "input is not JSON", "{} {}": "input is more than one JSON value",
	} {
		if err := d.CheckInput([]byte(in)); err == nil || err.Error() != "saga: "+want {
			t.Errorf("%q gives %v, want %s", in, err, want)
		}
	}
}

func TestAStartIsPrepared(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put(declared)
	req := saga.StartRequest{Definition: "a", Key: "k-1", Input: []byte(goodInput("order", `"o-9"`)),
		Labels: map[string]string{"fixed": "mine"}}
	if err := r.book.Prepare(&req); err != nil || req.Version != "1" ||
		fmt.Sprint(req.Labels) != "map[fixed:mine key:k-1 order:o-9]" {
		t.Errorf("%+v, %v", req, err)
	}
	req = saga.StartRequest{Definition: "a", Key: "k", Input: []byte(`{"order": 1}`)}
	if err := r.book.Prepare(&req); !errors.Is(err, saga.ErrInput) {
		t.Error(err)
	}
	long := `"` + strings.Repeat("o", 256) + `"`
	req = saga.StartRequest{Definition: "a", Key: "k", Input: []byte(goodInput("order", long))}
	err := r.book.Prepare(&req)
	if err == nil || !strings.Contains(err.Error(), "gives the label order more than") {
		t.Error(err)
	}
	req = saga.StartRequest{Definition: "elsewhere", Key: "k"}
	if err := r.book.Prepare(&req); err != nil || req.Version != "" {
		t.Errorf("%+v, %v", req, err)
	}
}

func TestABookNeedsItsParts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, cfg := range []BookConfig{{}, {Engine: r.engine}, {Deps: r.book.cfg.Deps}} {
		if _, err := NewBook(r.store, cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
	if _, err := parsed(t, doc("x")).Compile(Target{Version: "1"}, Deps{}); err == nil {
		t.Error("a document is compiled without a caller")
	}
	if _, err := parsed(t, doc("x")).Compile(Target{Version: "a b"}, r.book.cfg.Deps); err == nil {
		t.Error("a version that is no name is taken")
	}
}
