package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"onced/saga/httpstep"
)

// envPrefix begins the names of our variables.
const envPrefix = "ONCED_"

// field is one key of a section, read off the struct.
type field struct {
	key    string
	index  int
	typ    reflect.Type
	def    string
	min    string
	max    string
	oneof  []string
	reload bool
	path   bool // it names files
}

var (
	secretType   = reflect.TypeFor[Secret]()
	secretsType  = reflect.TypeFor[Secrets]()
	urlType      = reflect.TypeFor[URL]()
	bytesType    = reflect.TypeFor[Bytes]()
	durationType = reflect.TypeFor[time.Duration]()
	instantType  = reflect.TypeFor[Instant]()
	statusesType = reflect.TypeFor[httpstep.Statuses]()
)

// fieldsOf returns the keys of a section in the order of the struct.
func fieldsOf(t reflect.Type) []field {
	fields := make([]field, 0, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		fields = append(fields, field{
			key: f.Tag.Get("key"), index: i, typ: f.Type, def: f.Tag.Get("default"),
			min: f.Tag.Get("min"), max: f.Tag.Get("max"), oneof: strings.Fields(f.Tag.Get("oneof")),
			reload: f.Tag.Get("reload") == "yes", path: f.Tag.Get("path") == "yes",
		})
	}
	return fields
}

// isSection reports whether t is a group of keys and no value.
func isSection(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != secretType && t != urlType && t != instantType &&
		t != statusesType
}

// isSections reports whether t is a list of sections.
func isSections(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && isSection(t.Elem())
}

// isList reports whether t is a list of values, which may be written with commas.
func isList(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && !isSection(t.Elem()) || t == statusesType
}

// leafError says why a text is no value of a field. shown stands for a text that
// may hold a secret.
type leafError struct{ problem, allowed, remedy, shown string }

// parseLeaf reads text into v, which is of the field's type. For lists the
// text is separated by commas.
func (f field) parseLeaf(v reflect.Value, text string) *leafError {
	if isList(v.Type()) {
		v.SetZero()
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			if e := f.appendLeaf(v, part); e != nil {
				return e
			}
		}
		return nil
	}
	return f.parseOne(v, text)
}

func (f field) appendLeaf(v reflect.Value, text string) *leafError {
	if set, ok := reflect.TypeAssert[*httpstep.Statuses](v.Addr()); ok {
		more, err := httpstep.ParseStatuses(text)
		if err != nil {
			return &leafError{problem: "is not a status, a class of them or a range",
				allowed: httpstep.StatusForms}
		}
		*set = set.With(more)
		return nil
	}
	item := reflect.New(v.Type().Elem()).Elem()
	if e := f.parseOne(item, text); e != nil {
		return e
	}
	v.Set(reflect.Append(v, item))
	return nil
}

// parseOne reads one value of a type that has no parts.
func (f field) parseOne(v reflect.Value, text string) *leafError {
	switch v.Type() {
	case secretType:
		v.Set(reflect.ValueOf(NewSecret(text)))
		return nil
	case urlType:
		e := f.assign(v, text, func(s string) (any, error) { return parseURL(s) },
			"for example http://127.0.0.1:9000")
		if e != nil {
			e.shown = shownURL(text)
		}
		return e
	case instantType:
		return f.assign(v, text, func(s string) (any, error) { return parseInstant(s) },
			"for example 2026-12-01T09:30:00Z")
	case bytesType:
		return f.assign(v, text, func(s string) (any, error) { return parseBytes(s) },
			"for example 64KiB, 1MiB, 10MB")
	case durationType:
		e := f.assign(v, text, func(s string) (any, error) { return parseDuration(s) },
			"for example 500ms, 30s, 5m, 24h, 30d")
		if e != nil && e.problem == "has no unit" {
			e.remedy = "did you mean " + text + "s?"
		}
		return e
	}
	return f.parseBasic(v, text)
}

func (f field) parseBasic(v reflect.Value, text string) *leafError {
	switch v.Kind() {
	case reflect.Bool:
		if text != "true" && text != "false" {
			return &leafError{problem: "is not true or false", allowed: "true, false"}
		}
		v.SetBool(text == "true")
	case reflect.Int:
		return f.assign(v, text, func(s string) (any, error) {
			n, err := strconv.Atoi(s)
			if err != nil {
				return nil, errNotNumber
			}
			return n, nil
		}, "a whole number")
	default:
		if len(f.oneof) > 0 && !slices.Contains(f.oneof, text) {
			e := &leafError{problem: "is not known", allowed: strings.Join(f.oneof, ", ")}
			if near := nearest(strings.ToLower(text), f.oneof); near != "" {
				e.remedy = fmt.Sprintf("did you mean %s?", near)
			}
			return e
		}
		if i := strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }); i >= 0 {
			return &leafError{problem: "holds a control character", remedy: "write it on one line"}
		}
		v.SetString(text)
	}
	return nil
}

var errNotNumber = errors.New("is not a whole number")

// assign parses text and checks the bounds.
func (f field) assign(v reflect.Value, text string, parse func(string) (any, error), form string) *leafError {
	got, err := parse(text)
	if err != nil {
		allowed := form
		if bounds := allowedText(f.min, f.max); bounds != "" {
			allowed = bounds + ", " + form
		}
		return &leafError{problem: err.Error(), allowed: allowed}
	}
	value := reflect.ValueOf(got)
	if value.CanInt() {
		if e := f.checkBounds(value.Int(), parse); e != nil {
			return e
		}
	}
	v.Set(value)
	return nil
}

func (f field) checkBounds(n int64, parse func(string) (any, error)) *leafError {
	bound := func(text string) int64 {
		got, _ := parse(text)
		return reflect.ValueOf(got).Int()
	}
	allowed := allowedText(f.min, f.max)
	if f.min != "" && n < bound(f.min) {
		return &leafError{problem: "is too small", allowed: allowed}
	}
	if f.max != "" && n > bound(f.max) {
		return &leafError{problem: "is too large", allowed: allowed}
	}
	return nil
}

// formatLeaf is what parseLeaf would read; secrets are hidden.
func formatLeaf(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Duration:
		return formatDuration(x)
	case fmt.Stringer:
		return x.String()
	case []string:
		return strings.Join(x, ",")
	}
	return fmt.Sprint(v.Interface())
}

// setDefaults gives every field of a section its default.
func setDefaults(v reflect.Value) {
	for _, f := range fieldsOf(v.Type()) {
		switch fv := v.Field(f.index); {
		case isSection(f.typ):
			setDefaults(fv)
		case f.def != "":
			if e := f.parseLeaf(fv, f.def); e != nil {
				panic(fmt.Sprintf("config: default of %s: %s", f.key, e.problem)) // a tag is wrong
			}
		}
	}
}

// Default returns the settings when nothing is said.
func Default() *Config {
	var c Config
	setDefaults(reflect.ValueOf(&c).Elem())
	return &c
}

// DefaultRoute returns a route of which nothing is said; it lacks what every
// route has to say.
func DefaultRoute() Route {
	var r Route
	setDefaults(reflect.ValueOf(&r).Elem())
	return r
}

// Key describes one key outside of lists.
type Key struct {
	// Path is its name with those of its sections: http.max_body. It is also the
	// name of its flag; that of a secret is Path with _file.
	Path string
	// Env is its variable; a secret has one more with _FILE.
	Env string
	// Default is the default as it is written.
	Default string
	// Secret says that the value is never shown, Reload that a running program
	// takes over a change.
	Secret, Reload bool
	// Doc is a text for people.
	Doc string
}

// Flag is the name of the key's flag.
func (k Key) Flag() string {
	if k.Secret {
		return k.Path + fileSuffix
	}
	return k.Path
}

// Keys returns all keys outside of lists in the order of the file. The secrets of
// [Secrets] have names of their own and are not among them.
func Keys() []Key {
	var keys []Key
	docs := sampleDocs()
	eachLeaf(reflect.ValueOf(Default()).Elem(), "", func(path string, f field, v reflect.Value) {
		keys = append(keys, Key{Path: path, Env: envName(path), Default: formatLeaf(v),
			Secret: f.typ == secretType, Reload: f.reload, Doc: docs[path]})
	})
	return keys
}

func envName(path string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// eachLeaf calls fn for each value outside of lists.
func eachLeaf(v reflect.Value, path string, fn func(path string, f field, v reflect.Value)) {
	for _, f := range fieldsOf(v.Type()) {
		p := join(path, f.key)
		switch {
		case isSection(f.typ):
			eachLeaf(v.Field(f.index), p, fn)
		case !isSections(f.typ) && f.typ != secretsType:
			fn(p, f, v.Field(f.index))
		}
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
