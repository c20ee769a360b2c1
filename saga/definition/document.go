package definition

import (
	"errors"

	"onced/saga"
)

// Limits of documents.
const (
	// MaxSource is the largest document, in bytes.
	MaxSource = 256 << 10
)

// Options are the settings of [Parse].
type Options struct {
	// File is the name that problems are reported under, or empty.
	File string
	// Secrets are the names of the secrets there are; nil means that they are not
	// known, and then none is reported as missing.
	Secrets []string
}

// Document is a definition that has been read and checked. It is immutable and safe
// for concurrent use.
type Document struct {
	name, title, version string
	source               []byte
	digest               string
	steps                []StepInfo
	secrets, hosts       []string
}

// StepInfo describes a step for people.
type StepInfo struct {
	// Name is its name.
	Name string `json:"name"`
	// Method and URL are those of the call, expressions as they are written; empty for
	// a step that only waits.
	Method string `json:"method,omitempty"`
	URL    string `json:"url,omitempty"`
	// Undo, Check and Await say that the step has one.
	Undo  bool `json:"undo"`
	Check bool `json:"check"`
	Await bool `json:"await"`
	// Pivot, Irreversible and NothingToUndo say what a step without undo means.
	Pivot         bool `json:"pivot,omitempty"`
	Irreversible  bool `json:"irreversible,omitempty"`
	NothingToUndo bool `json:"nothing_to_undo,omitempty"`
}

// Parse reads a document of YAML or JSON and checks it. It returns all that is wrong
// with it at once; the document is nil then. It never panics, and its time and memory
// are bounded, whatever the bytes are.
func Parse(src []byte, o Options) (*Document, Problems) {
	return nil, Problems{{File: o.File, Message: "is not read yet"}}
}

// Name returns the name of the definition.
func (d *Document) Name() string { return d.name }

// Title returns the title for people, or the name when there is none.
func (d *Document) Title() string {
	if d.title == "" {
		return d.name
	}
	return d.title
}

// Version returns the version that the document itself gives, or empty: then a [Book]
// numbers it.
func (d *Document) Version() string { return d.version }

// Source returns the bytes that were parsed. They must not be changed.
func (d *Document) Source() []byte { return d.source }

// Digest stands for the content: documents that differ in comments, layout, quoting or
// the order of keys have the same.
func (d *Document) Digest() string { return d.digest }

// Steps describes the steps in order.
func (d *Document) Steps() []StepInfo { return d.steps }

// Secrets returns the names of the secrets that the document uses, sorted.
func (d *Document) Secrets() []string { return d.secrets }

// Hosts returns the hosts, with port where one is given, that the document calls,
// sorted.
func (d *Document) Hosts() []string { return d.hosts }

// CheckInput checks the input of a run against the declared fields. The error is a
// [saga.InputError] that names the field: it is not there, of another type, or not
// declared. Without declared fields every JSON is good.
func (d *Document) CheckInput(input []byte) error { return errSoon }

// Prepare checks the input of a start and sets the labels that the document declares;
// labels that the request has already stand. Its error is a [saga.InputError].
func (d *Document) Prepare(req *saga.StartRequest) error { return errSoon }

// ReadSignal reads the body of a callback for a step that awaits one. The body is any
// JSON; await.done, await.refused and await.output of the step say how it is read.
// Without them it is {"outcome":"done"|"refused","data":…,"reason":…}.
//
// clear is false when the body says neither that the step is done nor that it is
// refused, such as "pending": there is nothing to signal then, and the sender has done
// its part. The signal names the step and not the run: the caller sets Run. The error
// is a [saga.InputError] that names what is wrong with the body, or the step.
func (d *Document) ReadSignal(step string, body []byte) (s saga.Signal, clear bool, err error) {
	return saga.Signal{}, false, errSoon
}

var errSoon = errors.New("definition: not there yet")
