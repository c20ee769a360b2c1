package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// DefaultFile is read from the working directory when no file is named. It need
// not exist.
const DefaultFile = "onced.yaml"

// EnvFile is the variable that names the file.
const EnvFile = envPrefix + "CONFIG"

// otherEnv are variables with our prefix that are no keys.
var otherEnv = []string{
	EnvFile,
	envPrefix + "URL", envPrefix + "TOKEN", envPrefix + "TOKEN_FILE", // read by the client commands
	envPrefix + "SKIP_SYSTEM", // read by the tests of onced
}

// clusterEnv matches what a cluster sets for a service that is called onced.
var clusterEnv = regexp.MustCompile(`^ONCED_(SERVICE_(HOST|PORT)|PORT$|PORT_\d+_(TCP|UDP))`)

// Source is what a configuration is made from.
type Source struct {
	// File names the YAML file; empty takes that of ONCED_CONFIG, and then
	// DefaultFile, which may be missing.
	File string
	// Environ is the environment, as os.Environ returns it.
	Environ []string
	// Flags are values by the name of their flag; see [Key.Flag].
	Flags map[string]string
	// ReadFile reads a file; nil means the file system. It is for tests.
	ReadFile func(name string) ([]byte, error)
	// NoSecrets leaves the files and variables of secrets unread and puts *** into
	// the Config for each. It is for commands that only want to know where the
	// service is and may not have what the service has.
	NoSecrets bool
}

// Loaded is a Config and how it came to be.
type Loaded struct {
	Config *Config
	// File is the file that was read, empty when there was none. Relative paths in it
	// have been resolved against its folder.
	File string
	// Origins are where values come from, by their path; what is not there is a
	// default.
	Origins map[string]Origin
	// Warnings are no errors but should be seen.
	Warnings []Problem
	// Notes are right as they are, but good to know for whoever checks the file.
	Notes []Problem
}

// Origin returns where the value of a key comes from.
func (l *Loaded) Origin(path string) Origin {
	if o, ok := l.Origins[path]; ok {
		return o
	}
	return Origin{Kind: FromDefault}
}

// Load makes a Config. Its error is an [*Error] with all problems. It has no
// effect, and may be called again for a reload.
func Load(src Source) (*Loaded, error) {
	c := Default()
	l := newLoader(reflect.ValueOf(c).Elem())
	l.gather(src)
	l.readPort(c)
	l.validate(c)
	if err := l.problems.err(); err != nil {
		return nil, err
	}
	return &Loaded{Config: c, File: l.file, Origins: l.origins, Warnings: l.warnings, Notes: l.notes}, nil
}

// gather reads all sources, from the weakest to the strongest.
func (l *loader) gather(src Source) {
	l.read, l.noSecrets = src.ReadFile, src.NoSecrets
	if l.read == nil {
		l.read = readFile
	}
	for _, pair := range src.Environ {
		if name, value, ok := strings.Cut(pair, "="); ok {
			l.env[name] = value
		}
	}
	l.readConfigFile(src.File)
	l.readEnv()
	l.readFlags(src.Flags)
	l.resolvePaths()
}

// loader collects a Config and its problems.
type loader struct {
	root     reflect.Value // the Config, with its defaults; tests have others
	origins  map[string]Origin
	problems problemList
	failed   map[string]bool // the keys of problems
	warnings []Problem
	notes    []Problem

	file string // the file's name, once there is one
	near string // a file that may have been meant, when none was named
	env  map[string]string
	read func(name string) ([]byte, error)
	// noSecrets is [Source.NoSecrets].
	noSecrets bool
}

func newLoader(root reflect.Value) *loader {
	return &loader{root: root, origins: map[string]Origin{}, env: map[string]string{},
		failed: map[string]bool{}}
}

// add notes a problem. Nothing that was given for a secret may be its value.
func (l *loader) add(p Problem) {
	p.Value = withoutCredentials(p.Value)
	l.failed[p.Key] = true
	l.problems = append(l.problems, p)
}

func (l *loader) readConfigFile(name string) {
	at, optional := Origin{Kind: FromFlag, Name: "config"}, false
	if name == "" {
		name, at = l.env[EnvFile], Origin{Kind: FromEnv, Name: EnvFile}
	}
	if name == "" {
		name, at, optional = DefaultFile, Origin{Kind: FromFile, Name: DefaultFile}, true
	}
	text, err := l.readFile(name)
	if optional {
		l.near = l.nearFile()
	}
	switch {
	case optional && errors.Is(err, fs.ErrNotExist):
	case err != nil:
		l.add(Problem{Origin: at, Value: name, Text: "cannot be read: " + reason(err),
			Remedy: "name a file that can, or make one with: onced config init"})
	default:
		l.parseFile(name, text)
	}
}

// nearFiles are names that people give to what should be called [DefaultFile].
var nearFiles = []string{
	"onced.yml", "onced.yaml.txt", ".onced.yaml", "onced.json", "config.yaml", "config.yml",
}

// nearFile is a file beside the default one that may have been meant.
func (l *loader) nearFile() string {
	for _, name := range nearFiles {
		if _, err := l.read(name); err == nil {
			return name
		}
	}
	return ""
}

// beside is a path of the file as it is seen from the working directory.
func (l *loader) beside(name string) string {
	dir := filepath.Dir(l.file)
	if name == "" || dir == "." || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

// resolvePaths makes relative paths, of the file and of defaults, those from the
// folder of the file. Whoever starts onced elsewhere with the same file would get
// another, empty store otherwise.
func (l *loader) resolvePaths() {
	eachLeaf(l.root, "", func(path string, f field, v reflect.Value) {
		if kind := l.originOf(path).Kind; !f.path || kind != FromFile && kind != FromDefault {
			return
		}
		switch v.Kind() {
		case reflect.String:
			v.SetString(l.beside(v.String()))
		default:
			for i := range v.Len() {
				v.Index(i).SetString(l.beside(v.Index(i).String()))
			}
		}
	})
}

// readFile reads a file with the limit on its size.
func (l *loader) readFile(name string) ([]byte, error) {
	text, err := l.read(name)
	if err == nil && len(text) > maxFile {
		return nil, fmt.Errorf("it is longer than %s", Bytes(maxFile))
	}
	return text, err
}

func readFile(name string) ([]byte, error) {
	f, err := OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

// reason is an error without the name of the file, which stands before it.
func reason(err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err.Error()
	}
	return err.Error()
}

// readEnv takes values from the environment and complains of variables with our
// prefix that nobody reads.
func (l *loader) readEnv() {
	known := slices.Clone(otherEnv)
	eachLeaf(l.root, "", func(path string, f field, v reflect.Value) {
		name := envName(path)
		known = append(known, name)
		text, set := l.env[name]
		if set {
			l.set(v, f, given{path: path, at: Origin{Kind: FromEnv, Name: name}, text: text})
		}
		if f.typ != secretType {
			return
		}
		file := name + strings.ToUpper(fileSuffix)
		known = append(known, file)
		if text, ok := l.env[file]; ok {
			at := Origin{Kind: FromEnv, Name: file}
			if set {
				l.add(Problem{Origin: at, Key: path, Text: "is given twice",
					Remedy: fmt.Sprintf("unset %s or %s", name, file)})
				return
			}
			l.set(v, f, given{path: path, at: at, source: fileSuffix, text: text})
		}
	})
	l.unknownEnv(append(known, l.secretsEnv()...))
}

func (l *loader) unknownEnv(known []string) {
	var unknown []string
	for name := range l.env {
		if strings.HasPrefix(name, envPrefix) && !slices.Contains(known, name) &&
			!clusterEnv.MatchString(name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		p := Problem{Origin: Origin{Kind: FromEnv, Name: name}, Text: "is not a variable of onced",
			Remedy: "unset it; onced config show --output json lists all keys"}
		if near := nearest(name, known); near != "" {
			p.Remedy = "did you mean " + near + "?"
		}
		l.add(p)
	}
}

func (l *loader) readFlags(flags map[string]string) {
	eachLeaf(l.root, "", func(path string, f field, v reflect.Value) {
		name, source := path, ""
		if f.typ == secretType {
			name, source = path+fileSuffix, fileSuffix
		}
		if text, ok := flags[name]; ok {
			l.set(v, f, given{path: path, at: Origin{Kind: FromFlag, Name: name}, source: source, text: text})
		}
	})
}

// readPort takes the port, and nothing else, from PORT, which platforms set,
// unless the address was given by flag or by its own variable.
func (l *loader) readPort(c *Config) {
	port, ok := l.env["PORT"]
	if kind := l.origins["listen"].Kind; !ok || kind == FromEnv || kind == FromFlag {
		return
	}
	at := Origin{Kind: FromEnv, Name: "PORT"}
	if !isPort(port) {
		l.add(Problem{Origin: at, Key: "listen", Value: port, Text: "is not a port", Allowed: "1 to 65535",
			Remedy: "or set " + envName("listen")})
		return
	}
	if host, ok := hostOf(c.Listen); ok {
		c.Listen = joinAddress(host, port)
		l.origins["listen"] = at
	}
}
