package config

import (
	"fmt"
	"reflect"
	"slices"
)

// Setting is one value, ready to be shown; a secret is ***.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
	// Env is the key's variable, empty inside of lists.
	Env string `json:"env,omitempty"`
	// Reload says that a running program takes over a change.
	Reload bool   `json:"reload"`
	Doc    string `json:"doc,omitempty"`
}

// Settings returns every value in the order of the file, the secrets, which are hidden,
// and those of routes too.
func (l *Loaded) Settings() []Setting {
	var out []Setting
	for _, k := range Keys() {
		out = append(out, Setting{Key: k.Path, Env: k.Env, Reload: k.Reload, Doc: k.Doc})
	}
	i := 0
	eachLeaf(reflect.ValueOf(l.Config).Elem(), "", func(path string, _ field, v reflect.Value) {
		out[i].Value, out[i].Origin = formatLeaf(v), l.Origin(path).String()
		i++
	})
	for _, name := range l.Config.Secrets.Names() {
		path := secretsPath + "." + name
		out = append(out, Setting{Key: path, Value: l.Config.Secrets[name].String(),
			Origin: l.Origin(path).String(), Env: envName(path), Reload: true})
	}
	for i := range l.Config.Routes {
		out = l.showAll(out, reflect.ValueOf(&l.Config.Routes[i]).Elem(), fmt.Sprintf("routes[%d]", i))
	}
	return out
}

// showAll adds the values of a section inside of a list.
func (l *Loaded) showAll(out []Setting, v reflect.Value, path string) []Setting {
	for _, f := range fieldsOf(v.Type()) {
		p, fv := path+"."+f.key, v.Field(f.index)
		switch {
		case f.typ.Kind() == reflect.Pointer:
			if !fv.IsNil() {
				out = l.showAll(out, fv.Elem(), p)
			}
		case isSection(f.typ):
			out = l.showAll(out, fv, p)
		case isSections(f.typ):
			for i := range fv.Len() {
				out = l.showAll(out, fv.Index(i), fmt.Sprintf("%s[%d]", p, i))
			}
		case f.typ.Kind() == reflect.Map:
			out = append(out, Setting{Key: p, Value: formatMap(fv), Origin: l.Origin(p).String(),
				Reload: true})
		default:
			out = append(out, Setting{Key: p, Value: formatLeaf(fv), Origin: l.Origin(p).String(),
				Reload: true})
		}
	}
	return out
}

func formatMap(v reflect.Value) string {
	texts, _ := reflect.TypeAssert[map[string]string](v)
	names := make([]string, 0, len(texts))
	for name := range texts {
		names = append(names, name)
	}
	slices.Sort(names)
	s := ""
	for _, name := range names {
		if s != "" {
			s += ","
		}
		s += name + "=" + texts[name]
	}
	return s
}
