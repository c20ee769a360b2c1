package tidy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"sort"
	"strings"
)

// modulePath is the module's name in import paths.
const modulePath = "onced"

// maxFileBytes is the largest file that may be committed outside testdata.
const maxFileBytes = 1 << 20

// module is what the rules look at: the files of the work tree and the import
// graph of the library packages.
type module struct {
	fset  *token.FileSet
	files []*source
	deps  map[string][]string // library package → all it pulls in; not main packages
	dirs  []string            // folders of the top level
}

// source is one file. Go files outside testdata are parsed.
type source struct {
	path string // relative to the module, with slashes
	size int64
	text string    // empty when the file is larger than maxFileBytes
	ast  *ast.File // nil when it is no Go file of ours
	test bool      // a _test.go file
}

// pkg is the import path of the package that the file belongs to.
func (s *source) pkg() string { return path.Join(modulePath, path.Dir(s.path)) }

// main tells whether the file belongs to a program.
func (s *source) main() bool { return s.ast != nil && s.ast.Name.Name == "main" }

// support tells whether the file may use testing: it is a test, or belongs to
// a package that exists for tests.
func (s *source) support() bool { return s.test || isTestSupport(s.pkg()) }

func inTestdata(p string) bool { return strings.Contains("/"+p, "/testdata/") }

// add parses and files away one file.
func (m *module) add(p string, size int64, text string) error {
	s := &source{path: p, size: size, text: text, test: strings.HasSuffix(p, "_test.go")}
	m.files = append(m.files, s)
	if !strings.HasSuffix(p, ".go") || inTestdata(p) {
		return nil
	}
	var err error
	s.ast, err = parser.ParseFile(m.fset, p, text, parser.ParseComments|parser.SkipObjectResolution)
	return err
}

// memModule makes a module of the given files, for the rules' own tests.
func memModule(files map[string]string, deps map[string][]string) (*module, error) {
	m := &module{fset: token.NewFileSet(), deps: deps}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
		if dir, _, nested := strings.Cut(name, "/"); nested {
			m.dirs = append(m.dirs, dir)
		}
	}
	sort.Strings(names)
	for _, name := range names {
		if err := m.add(name, int64(len(files[name])), files[name]); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// moduleRoot finds the folder of go.mod above the working directory.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = parent
	}
}

// readModule reads the work tree without what .gitignore names. It walks the
// tree itself instead of asking git, so that the Go tool's cache of test
// results notices a new file.
func readModule(ctx context.Context, root string) (*module, error) {
	ignored, err := readIgnore(filepath.Join(root, ".gitignore"))
	if err != nil {
		return nil, err
	}
	m := &module{fset: token.NewFileSet()}
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a temporary file that went away meanwhile
		}
		if err != nil || name == root {
			return err
		}
		rel, _ := filepath.Rel(root, name)
		rel = filepath.ToSlash(rel)
		switch {
		case ignored(rel) && d.IsDir():
			return fs.SkipDir
		case ignored(rel):
			return nil
		case d.IsDir():
			if !strings.Contains(rel, "/") {
				m.dirs = append(m.dirs, rel)
			}
			return nil
		}
		return m.readFile(name, rel)
	})
	if err != nil {
		return nil, err
	}
	m.deps, err = libraryDeps(ctx, root)
	return m, err
}

func (m *module) readFile(name, rel string) error {
	info, err := os.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	var text []byte
	if info.Size() <= maxFileBytes {
		if text, err = os.ReadFile(name); err != nil {
			return err
		}
	}
	return m.add(rel, info.Size(), string(text))
}

// readIgnore understands the two forms of pattern that our .gitignore uses:
// "/name" or "/name/" at the top, and a base name such as "*.test" anywhere.
func readIgnore(name string) (func(rel string) bool, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	top, base := []string{".git"}, []string{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(strings.TrimSpace(line), "/")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '/' && !strings.Contains(line[1:], "/"):
			top = append(top, line[1:])
		case !strings.Contains(line, "/") && line[0] != '!':
			base = append(base, line)
		default:
			return nil, fmt.Errorf(".gitignore: %q: only /name, /name/ and base names are understood", line)
		}
	}
	return func(rel string) bool { return matchAny(top, rel) || matchAny(base, path.Base(rel)) }, nil
}

func matchAny(patterns []string, name string) bool {
	for _, p := range patterns {
		if ok, _ := path.Match(p, name); ok {
			return true
		}
	}
	return false
}

// libraryDeps asks the Go tool what each library package pulls in.
func libraryDeps(ctx context.Context, root string) (map[string][]string, error) {
	args := []string{"list", "-e", "-json=ImportPath,Name,Deps"}
	for _, dir := range libraryDirs {
		if _, err := os.Stat(filepath.Join(root, dir)); err == nil {
			args = append(args, "./"+dir+"/...")
		}
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	deps := map[string][]string{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath string   `json:"ImportPath"`
			Name       string   `json:"Name"`
			Deps       []string `json:"Deps"`
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return deps, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if p.Name != "main" {
			deps[p.ImportPath] = p.Deps
		}
	}
}
