package config

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Secrets are texts by name that definitions of sagas may put into their calls. In
// the file each is a section with one of three keys: env names a variable, file a
// file, value is the text itself. ONCED_SECRETS_X and ONCED_SECRETS_X_FILE win
// over the file. However it is printed, no text is shown.
type Secrets map[string]Secret

// Names returns the names in order.
func (s Secrets) Names() []string { return slices.Sorted(maps.Keys(s)) }

const (
	// secretsPath is the key of [Secrets], secretsEnvPrefix begins their variables.
	secretsPath      = "secrets"
	secretsEnvPrefix = envPrefix + "SECRETS_"

	// maxSecrets bounds the secrets of a configuration.
	maxSecrets = 1000
)

// secretName is what a name may be: what stands after "secrets." in expressions,
// and is a variable in capitals.
var secretName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

const allowedNames = "1 to 63 lower-case letters, digits and _, a letter first, not ending in _file"

func isSecretName(name string) bool {
	return secretName.MatchString(name) && !strings.HasSuffix(name, fileSuffix)
}

// secretKeys are the keys of one secret, by what they stand for.
var secretKeys = map[string]string{"value": "", "env": envSuffix, "file": fileSuffix}

// secrets reads the section of the secrets.
func (l *loader) secrets(n *yaml.Node, v reflect.Value, path string) {
	if isNull(n) || !l.usable(n, yaml.MappingNode, path) {
		return
	}
	all, lines := Secrets{}, map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		p := join(path, quoteKey(key.Value))
		if !l.usable(key, yaml.ScalarNode, p) {
			continue
		}
		switch first := lines[key.Value]; {
		case first > 0:
			l.add(Problem{Origin: l.at(key), Key: p, Text: fmt.Sprintf("stands here again, first in line %d",
				first), Remedy: "remove one of the two"})
			continue
		case !isSecretName(key.Value):
			l.add(Problem{Origin: l.at(key), Key: p, Text: "is not a name", Allowed: allowedNames})
			continue
		case len(all) == maxSecrets:
			l.add(Problem{Origin: l.at(key), Key: path, Text: "has too many entries",
				Allowed: fmt.Sprintf("at most %d", maxSecrets)})
			return
		}
		lines[key.Value] = key.Line
		l.origins[p] = l.at(key) // problems of an unfinished one have a place
		if secret, ok := l.oneSecret(value, p); ok {
			all[key.Value] = secret
		}
	}
	v.Set(reflect.ValueOf(all))
}

// oneSecret reads the section of one secret. What stands in its place is never
// shown: it may be the secret itself.
func (l *loader) oneSecret(n *yaml.Node, path string) (s Secret, ok bool) {
	how := Problem{Origin: l.at(n), Key: path, Remedy: "for example {env: GATEWAY_KEY} or " +
		"{file: /run/secrets/gateway}"}
	if n.Kind == yaml.ScalarNode && n.Anchor == "" {
		how.Text = "has no key that says where the secret is"
		l.add(how)
		return s, false
	}
	if !l.usable(n, yaml.MappingNode, path) {
		return s, false
	}
	if len(n.Content) == 0 {
		how.Text = "is empty"
		l.add(how)
		return s, false
	}
	given := ""
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		source, known := secretKeys[key.Value]
		switch {
		case !known:
			l.add(l.unknownSecretKey(key, path))
			return s, false
		case given != "":
			l.add(Problem{Origin: l.at(key), Key: join(path, key.Value),
				Text:   "is one too many, after " + given,
				Remedy: "leave one of env, file and value"})
			return s, false
		}
		given = key.Value
		s, ok = l.secretText(value, path, key.Value, source)
	}
	return s, ok
}

func (l *loader) unknownSecretKey(key *yaml.Node, path string) Problem {
	p := Problem{Origin: l.at(key), Key: join(path, quoteKey(key.Value)), Text: "is not a key",
		Allowed: "env, file, value"}
	near := nearest(strings.ToLower(key.Value), []string{"env", "file", "value"})
	if key.Kind == yaml.ScalarNode && near != "" {
		p.Remedy = "did you mean " + near + "?"
	}
	if !secretName.MatchString(key.Value) { // whatever this is, it may be the secret
		p.Key = path
	}
	return p
}

// secretText reads the value of one of the three keys.
func (l *loader) secretText(n *yaml.Node, path, key, source string) (s Secret, ok bool) {
	written := join(path, key)
	if isNull(n) || n.Kind == yaml.ScalarNode && n.Value == "" {
		l.add(Problem{Origin: l.at(n), Key: written, Text: "is empty",
			Remedy: "name where the secret is, or remove it"})
		return s, false
	}
	if !l.usable(n, yaml.ScalarNode, written) {
		return s, false
	}
	return l.setSecret(given{path: path, at: l.at(n), source: source, text: n.Value}, written)
}

// setSecret reads what was given for a secret. Problems name it as it was written.
func (l *loader) setSecret(g given, written string) (s Secret, ok bool) {
	before := len(l.problems)
	l.set(reflect.ValueOf(&s).Elem(), field{typ: secretType}, g)
	for i := before; i < len(l.problems); i++ {
		l.problems[i].Key = written
	}
	return s, len(l.problems) == before
}

// secretsEnv takes secrets from the environment and returns the names of their
// variables, so that they count as known.
func (l *loader) secretsEnv() (known []string) {
	fields := fieldsOf(l.root.Type())
	i := slices.IndexFunc(fields, func(f field) bool { return f.typ == secretsType })
	if i < 0 {
		return nil // a test with other keys
	}
	v := l.root.Field(fields[i].index)
	all, _ := reflect.TypeAssert[Secrets](v)
	if all = maps.Clone(all); all == nil {
		all = Secrets{}
	}
	var names []string
	for name := range l.env {
		if strings.HasPrefix(name, secretsEnvPrefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	from := map[string]string{}
	for _, variable := range names {
		name := strings.ToLower(strings.TrimPrefix(variable, secretsEnvPrefix))
		name, isFile := strings.CutSuffix(name, fileSuffix)
		at, path := Origin{Kind: FromEnv, Name: variable}, join(secretsPath, name)
		known = append(known, variable)
		switch other := from[name]; {
		case !isSecretName(name) || variable != strings.ToUpper(variable):
			l.add(Problem{Origin: at, Text: "does not name a secret", Allowed: secretsEnvPrefix +
				"NAME or " + secretsEnvPrefix + "NAME_FILE; a name has " + allowedNames})
			continue
		case other != "":
			l.add(Problem{Origin: at, Key: path, Text: "is given twice",
				Remedy: fmt.Sprintf("unset %s or %s", other, variable)})
			continue
		case l.env[variable] == "":
			l.add(Problem{Origin: at, Key: path, Text: "is empty", Remedy: "unset it, or set the secret"})
			continue
		}
		from[name] = variable
		source := ""
		if isFile {
			source = fileSuffix
		}
		g := given{path: path, at: at, source: source, text: l.env[variable]}
		if secret, ok := l.setSecret(g, path); ok {
			all[name] = secret
		}
	}
	if len(from) > 0 {
		v.Set(reflect.ValueOf(all))
	}
	return known
}
