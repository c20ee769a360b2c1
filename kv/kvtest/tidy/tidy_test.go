package tidy

import (
	"fmt"
	"go/ast"
	"go/printer"
	"go/token"
	"iter"
	"slices"
	"strings"
	"testing"
)

// rule is one thing that is checked. Its samples are in samples_test.go.
type rule struct {
	name  string
	check func(*module) []violation
}

// rules is all that this package checks.
var rules = []rule{
	// Who may import whom.
	{"layers", eachImport(layerComplaint)},
	{"engines", eachImport(engineComplaint)},
	{"test-support", eachImport(supportComplaint)},
	{"third-party", eachImport(thirdPartyComplaint)},
	{"std-imports", eachImport(stdComplaint)},
	{"deps", checkDeps},

	// Sizes.
	{"func-lines", checkFuncLines},
	{"file-lines", checkFileLines},
	{"columns", checkColumns},
	{"params", checkParams},
	{"interface-methods", checkInterfaces},
	{"file-size", checkFileSize},

	// Documentation.
	{"docs", checkDocs},
	{"package-docs", checkPackageDocs},
	{"titles", checkTitles},

	// What code may do.
	{"clock", checkClock},
	{"sleep", checkSleep},
	{"random", checkRandom},
	{"init", checkInit},
	{"money-floats", checkFloat},
	{"error-receivers", checkErrorReceiver},
	{"skips", checkSkip},

	// What files may say, and where they stand.
	{"unfinished", checkWords(unfinished, "finish it, or file it elsewhere")},
	{"workplace", checkWords(workplace, "a path of one machine")},
	{"registries", checkWords(registries, "the Go tool's own settings say where modules come from")},
	{"top-level", checkTop},
}

// violation is one place that breaks a rule.
type violation struct {
	file string // see exception
	line int
	name string
	text string
}

func (v violation) String() string {
	if v.line == 0 {
		return v.file + ": " + v.text
	}
	return fmt.Sprintf("%s:%d: %s", v.file, v.line, v.text)
}

// TestTidy checks the module by every rule.
func TestTidy(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	m, err := readModule(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	if files := len(m.goFiles()); files < 10 || len(m.deps) == 0 {
		t.Fatalf("read %d Go files and %d library packages: that is not the module", files, len(m.deps))
	}
	used := make([]bool, len(exceptions))
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, v := range r.check(m) {
				if i := exceptionFor(r.name, v); i >= 0 {
					used[i] = true
					continue
				}
				t.Error(v)
			}
		})
	}
	for i, e := range exceptions {
		if e.why == "" {
			t.Errorf("the exception %+v gives no reason", e)
		}
		if !used[i] {
			t.Errorf("nothing needs the exception %+v any more: remove it", e)
		}
	}
}

func exceptionFor(rule string, v violation) int {
	return slices.IndexFunc(exceptions, func(e exception) bool {
		return e.rule == rule && e.file == v.file && e.name == v.name
	})
}

// TestRulesFire runs every rule on sources that break it and on near misses.
func TestRulesFire(t *testing.T) {
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			bad, good := 0, 0
			for _, s := range samples[r.name] {
				m, err := memModule(s.files, s.deps)
				if err != nil {
					t.Fatalf("sample %q: %v", s.what, err)
				}
				found := r.check(m)
				switch {
				case s.bad:
					bad++
					if len(found) != 1 {
						t.Errorf("%s: found %d violations, want 1: %v", s.what, len(found), found)
					}
				default:
					good++
					if len(found) != 0 {
						t.Errorf("%s: fired, and should not: %v", s.what, found)
					}
				}
			}
			if bad == 0 || good == 0 {
				t.Errorf("%d bad and %d good samples; it needs both", bad, good)
			}
		})
	}
	for name := range samples {
		if !slices.ContainsFunc(rules, func(r rule) bool { return r.name == name }) {
			t.Errorf("samples for %q, which is no rule", name)
		}
	}
}

// goFiles are the parsed files.
func (m *module) goFiles() []*source {
	return slices.DeleteFunc(slices.Clone(m.files), func(s *source) bool { return s.ast == nil })
}

// funcs are the functions and methods of all files.
func (m *module) funcs() iter.Seq2[*source, *ast.FuncDecl] {
	return func(yield func(*source, *ast.FuncDecl) bool) {
		for _, s := range m.goFiles() {
			for _, d := range s.ast.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && !yield(s, fn) {
					return
				}
			}
		}
	}
}

// types are the types declared outside functions.
func (m *module) types() iter.Seq2[*source, *ast.TypeSpec] {
	return func(yield func(*source, *ast.TypeSpec) bool) {
		for _, s := range m.goFiles() {
			for _, d := range s.ast.Decls {
				gen, ok := d.(*ast.GenDecl)
				if !ok {
					continue
				}
				for _, spec := range gen.Specs {
					if ts, ok := spec.(*ast.TypeSpec); ok && !yield(s, ts) {
						return
					}
				}
			}
		}
	}
}

// enclosing is the function in which n stands, or nil.
func (m *module) enclosing(s *source, n ast.Node) *ast.FuncDecl {
	for _, d := range s.ast.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Pos() <= n.Pos() && n.End() <= fn.End() {
			return fn
		}
	}
	return nil
}

func (m *module) at(s *source, pos token.Pos, name, text string) violation {
	return violation{file: s.path, line: m.line(pos), name: name, text: text}
}

func (m *module) line(pos token.Pos) int { return m.fset.PositionFor(pos, false).Line }

// funcName is "Func" or "Type.Method".
func funcName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	return receiver(fn) + "." + fn.Name.Name
}

// receiver is the name of the type a method belongs to; of a function it is
// "F", which is exported.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return "F"
	}
	name, _, _ := strings.Cut(strings.TrimLeft(exprText(fn.Recv.List[0].Type), "*("), "[")
	return name
}

// exprText prints a type as it is written.
func exprText(e ast.Expr) string {
	if e == nil {
		return ""
	}
	var b strings.Builder
	if err := printer.Fprint(&b, token.NewFileSet(), e); err != nil {
		return ""
	}
	return b.String()
}
