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

// breakVersion makes a stored version one that this program cannot read.
func (r *rig) breakVersion(name, version string) {
	r.Helper()
	err := r.store.Update(r.Context(), func(w kv.Writer) error {
		row, _, err := versionTable.Get(w, versionKey(name, version))
		if err != nil {
			return err
		}
		row.Source = []byte("name: " + name + "\nsteps: of a later program\n")
		return versionTable.Put(w, versionKey(name, version), row)
	})
	if err != nil {
		r.Fatal(err)
	}
}

// Where the version that new runs use cannot be read after an upgrade, no older one
// stands in for it: it may have other prices.
func TestTheLatestVersionIsNotReplacedByAnOlderOne(t *testing.T) {
	t.Parallel()
	for _, latest := range []string{"10", "8"} { // before and after the other in the order of the store
		r := newRig(t)
		src := func(version, path string) string {
			return fmt.Sprintf("name: a\nversion: %q\nsteps:\n"+
				"- {name: order, call: {url: 'http://HOST/%s'}}\n", version, path)
		}
		r.put(src("9", "old"))
		r.put(src(latest, "new"))
		r.breakVersion("a", latest)
		r.reboot()
		if len(r.load.Failed) != 1 || r.load.Failed[0].Version != latest || r.load.Versions != 1 {
			t.Errorf("loaded %+v", r.load)
		}
		req := saga.StartRequest{Definition: "a", Key: "k"}
		var unusable *UnusableError
		if err := r.book.Prepare(&req); !errors.Is(err, ErrUnusable) || !errors.As(err, &unusable) ||
			unusable.Name != "a" || unusable.Version != latest || !errors.Is(err, ErrInvalid) {
			t.Errorf("a start is prepared: %v", err)
		}
		if st, err := r.engine.StartRun(t.Context(), req); !errors.Is(err, saga.ErrConfig) {
			t.Errorf("a run begins: %+v, %v", st, err)
		}
		req.Version = latest
		if err := r.book.Prepare(&req); !errors.Is(err, ErrUnusable) {
			t.Errorf("a start that names it is prepared: %v", err)
		}
		req.Version = "9"
		if err := r.book.Prepare(&req); err != nil {
			t.Error(err)
		}
		st, err := r.engine.StartRun(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		r.want(r.end(st.Run), machine.Completed, "POST /old")
		r.put(src("11", "newest"))
		r.want(r.end(r.start("a", "k2", "").Run), machine.Completed, "POST /old, POST /newest")
	}
}

// A run that is begun anew under a newer version is checked as any start is.
func TestARerunIsPrepared(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.plan["POST /x"] = []answer{{status: 422}}
	v := r.runs("name: a\nsteps:\n- {name: b, call: {url: 'http://HOST/x'}}\n", `{"order": "o-1"}`)
	r.want(v, machine.Compensated, "POST /x")
	act := saga.Act{Actor: "ann", Reason: "again"}
	const next = "name: a\ninput: {order: string%s}\n" +
		"labels: {order: '${input.order}', v: '${run.version}'}\n" +
		"steps:\n- {name: b, call: {url: 'http://HOST/x'}}\n"
	r.put(fmt.Sprintf(next, ", amount: decimal"))
	var in *saga.InputError
	st, err := r.engine.Rerun(t.Context(), v.Run, act)
	if !errors.As(err, &in) || in.Field != "input.amount" {
		t.Errorf("a rerun begins without what the new version needs: %+v, %v", st, err)
	}
	r.put(fmt.Sprintf(next, ""))
	st, err = r.engine.Rerun(t.Context(), v.Run, act)
	if err != nil {
		t.Fatal(err)
	}
	if v = r.end(st.Run); v.Version != "3" || fmt.Sprint(v.Labels) != "map[order:o-1 v:3]" {
		t.Errorf("the rerun has version %s and the labels %v", v.Version, v.Labels)
	}
}

func TestVersionsFromTheAPIAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	src := func(i int) []byte { return []byte(doc(fmt.Sprint(i))) }
	if _, _, err := r.book.Put(t.Context(), src(0), FromAPI); err != nil {
		t.Fatal(err)
	}
	err := r.store.Update(t.Context(), func(w kv.Writer) error {
		row, _, err := nameTable.Get(w, nameKey("a"))
		if err != nil {
			return err
		}
		row.Count = MaxVersions
		return nameTable.Put(w, nameKey("a"), row)
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.book.Put(t.Context(), src(1), FromAPI); !errors.Is(err, ErrConflict) ||
		!strings.Contains(err.Error(), "1000 versions") {
		t.Errorf("one more is taken: %v", err)
	}
	if _, created, err := r.book.Put(t.Context(), src(0), FromAPI); err != nil || created {
		t.Errorf("the same again: %v, %v", created, err)
	}
	if _, created, err := r.book.Put(t.Context(), src(1), FromFile); err != nil || !created {
		t.Errorf("that of a file: %v, %v", created, err)
	}
}

// Lists are told from memory, and say what a read of the store says.
func TestListsSayWhatTheStoreHas(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put(doc("x"))
	r.put(doc("y"))
	r.breakVersion("a", "1")
	r.reboot()
	versions, _, err := r.book.Versions(t.Context(), "a", 0, 0)
	if err != nil || len(versions) != 2 {
		t.Fatal(versions, err)
	}
	for _, got := range versions {
		want, err := r.book.Get(t.Context(), "a", got.Version)
		if len(want.Source) == 0 {
			t.Error("a version has no source")
		}
		want.Source = nil
		if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("listed\n%+v, stored\n%+v, %v", got, want, err)
		}
	}
	if d := r.book.Document("a", "2"); d == nil || d.Source() != nil {
		t.Error("the text of a version stays in memory")
	}
}
