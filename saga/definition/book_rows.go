package definition

import (
	"fmt"
	"strconv"
	"time"

	"onced/kv"
	"onced/kv/invariant"
)

// MaxVersions is the most versions of a name that are taken from the API: each is kept
// for ever, and in memory. Files, which are the operator's, may have more.
const MaxVersions = 1000

// nameRow is what is known of a name: which version new runs use, how many there are,
// and the number of the last one that was numbered.
type nameRow struct {
	Latest string
	Count  uint64
	Number uint64
}

// versionRow is one version. It is written once.
type versionRow struct {
	Origin  Origin
	Created time.Time
	Digest  string
	Seq     uint64 // counts the versions of the name from 1
	Title   string
	Source  []byte `json:"-"`
}

// orderRow says which version was stored at a place.
type orderRow struct{ Version string }

var (
	nameTable    = kv.NewTable[nameRow]("definition.name", 1)
	versionTable = kv.NewTable("definition.version", 1, kv.TableOptions[versionRow]{
		Blob: func(r *versionRow) *[]byte { return &r.Source }})
	orderTable = kv.NewTable[orderRow]("definition.order", 1)
)

func nameKey(name string) kv.Key              { return kv.Key{}.String(name) }
func versionKey(name, version string) kv.Key  { return kv.Key{}.String(name).String(version) }
func orderKey(name string, seq uint64) kv.Key { return kv.Key{}.String(name).Uint(seq) }

// plan is what a put would do.
type plan struct {
	name    nameRow
	version string
	row     versionRow
	create  bool // a new version
	move    bool // another version becomes the one that new runs use
}

// decide finds out what putting the document means. Nothing is written.
func decide(rd kv.Reader, d *Document, from Origin) (p plan, err error) {
	if p.name, _, err = nameTable.Get(rd, nameKey(d.name)); err != nil {
		return p, err
	}
	p.version = d.version
	if p.version == "" {
		p.version = p.name.Latest
	}
	there := false
	if p.version != "" {
		if p.row, there, err = versionTable.Get(rd, versionKey(d.name, p.version)); err != nil {
			return p, err
		}
	}
	same := there && p.row.Digest == d.digest && p.row.Origin == from
	switch {
	case same:
		p.move = p.name.Latest != p.version
		return p, nil
	case there && d.version != "" && p.row.Digest != d.digest:
		return p, &ConflictError{Name: d.name, Version: d.version,
			Problem: "is there with other content; give the document another version"}
	case there && d.version != "":
		return p, &ConflictError{Name: d.name, Version: d.version, Problem: fmt.Sprintf(
			"is there from another origin (%s), with other rights; give the document another version",
			p.row.Origin)}
	case d.version == "":
		if p.version, err = p.name.number(rd, d.name); err != nil {
			return p, err
		}
	}
	if from != FromFile && p.name.Count >= MaxVersions {
		return p, &ConflictError{Name: d.name, Problem: fmt.Sprintf("has %d versions, which is the most; "+
			"give it another name, or let a file of the configuration have it", p.name.Count)}
	}
	p.create, p.move = true, true
	p.name.Count++
	p.row = versionRow{Origin: from, Created: rd.Now(), Digest: d.digest, Seq: p.name.Count, Title: d.Title(),
		Source: d.source}
	return p, nil
}

// number finds the next number that no version has for its name.
func (r *nameRow) number(rd kv.Reader, name string) (string, error) {
	for {
		r.Number++
		version := strconv.FormatUint(r.Number, 10)
		_, there, err := versionTable.Get(rd, versionKey(name, version))
		if err != nil || !there {
			return version, err
		}
	}
}

// write does what was decided.
func (p *plan) write(w kv.Writer, name string) error {
	if p.create {
		if err := kv.AdmitIntent(w); err != nil {
			return err
		}
		if err := versionTable.Put(w, versionKey(name, p.version), p.row); err != nil {
			return err
		}
		if err := orderTable.Put(w, orderKey(name, p.row.Seq), orderRow{Version: p.version}); err != nil {
			return err
		}
	}
	if !p.create && !p.move {
		return nil
	}
	p.name.Latest = p.version
	return nameTable.Put(w, nameKey(name), p.name)
}

// Rules returns what is true of the definitions of a store at every commit.
func Rules() []invariant.Rule {
	return []invariant.Rule{
		{Name: "definition.name", Why: "new runs could use a version that is not there",
			Check: invariant.Rows(nameTable, checkName)},
		{Name: "definition.version", Why: "a run could lose the version that it keeps to",
			Check: invariant.Rows(versionTable, checkVersion)},
		{Name: "definition.order", Why: "a version could be missing in the list",
			Check: invariant.Rows(orderTable, checkOrder)},
	}
}

func checkName(rd kv.Reader, row kv.Row[nameRow]) ([]string, error) {
	d := kv.DecodeKey(row.Key)
	name := d.String()
	_, ok, err := versionTable.Get(rd, versionKey(name, row.Value.Latest))
	if err == nil && !ok {
		return []string{fmt.Sprintf("its latest version %q is not there", row.Value.Latest)}, nil
	}
	return nil, err
}

func checkVersion(rd kv.Reader, row kv.Row[versionRow]) ([]string, error) {
	d := kv.DecodeKey(row.Key)
	name, version := d.String(), d.String()
	v := row.Value
	var found []string
	if v.Origin != FromFile && v.Origin != FromAPI {
		found = append(found, "it has no origin")
	}
	if v.Created.IsZero() || v.Digest == "" || len(v.Source) == 0 {
		found = append(found, "it has no time or no content")
	}
	n, _, err := nameTable.Get(rd, nameKey(name))
	if err != nil {
		return nil, err
	}
	if v.Seq == 0 || v.Seq > n.Count {
		found = append(found, fmt.Sprintf("its place is %d of %d", v.Seq, n.Count))
	}
	o, ok, err := orderTable.Get(rd, orderKey(name, v.Seq))
	if err != nil {
		return nil, err
	}
	if !ok || o.Version != version {
		found = append(found, "another version is at its place")
	}
	return found, nil
}

func checkOrder(rd kv.Reader, row kv.Row[orderRow]) ([]string, error) {
	d := kv.DecodeKey(row.Key)
	name, seq := d.String(), d.Uint()
	v, ok, err := versionTable.Get(rd, versionKey(name, row.Value.Version))
	if err == nil && (!ok || v.Seq != seq) {
		return []string{fmt.Sprintf("version %q is not there, or has another place", row.Value.Version)}, nil
	}
	return nil, err
}
