package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// clockFiles are the only files outside tests that may read the system's clock.
var clockFiles = []string{"kv/clock.go"}

// skipFile holds the one way to leave a test out, by an explicit variable.
const skipFile = "kv/kvtest/system/system.go"

var (
	// constructorName is how functions are called that may take the system's
	// randomness when a Config names none.
	constructorName = regexp.MustCompile(`^([Nn]ew|[Oo]pen|[Ww]ith|default|fill)|Defaults?$`)

	// moneyName matches names of amounts of money.
	moneyName = regexp.MustCompile(`(?i)amount|price|balance|fee(s|$)`)
)

// useOf finds uses of the named functions and variables of a package.
func (m *module) useOf(s *source, imported string, names ...string) (found []*ast.SelectorExpr) {
	local := ""
	for _, spec := range s.ast.Imports {
		if p, _ := strconv.Unquote(spec.Path.Value); p == imported {
			local = imported[strings.LastIndex(imported, "/")+1:]
			if spec.Name != nil {
				local = spec.Name.Name
			}
		}
	}
	if local == "" {
		return nil
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		wanted := len(names) == 0 || slices.Contains(names, sel.Sel.Name)
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == local && wanted {
			found = append(found, sel)
		}
		return true
	})
	return found
}

func checkClock(m *module) (out []violation) {
	for _, s := range m.goFiles() {
		if s.test || slices.Contains(clockFiles, s.path) {
			continue
		}
		for _, sel := range m.useOf(s, "time", "Now", "Since", "Until") {
			out = append(out, m.at(s, sel.Pos(), sel.Sel.Name, fmt.Sprintf(
				"time.%s: ask the injected kv.Clock, or the transaction's Now", sel.Sel.Name)))
		}
	}
	return out
}

// checkSleep lets only tests in a bubble sleep: there it costs no time and
// waits for everything else.
func checkSleep(m *module) (out []violation) {
	for _, s := range m.goFiles() {
		if s.test && slices.ContainsFunc(s.ast.Imports, func(i *ast.ImportSpec) bool {
			return i.Path.Value == `"testing/synctest"`
		}) {
			continue
		}
		for _, sel := range m.useOf(s, "time", "Sleep") {
			out = append(out, m.at(s, sel.Pos(), "Sleep",
				"time.Sleep: wait for the event itself, or for a timer and the context"))
		}
	}
	return out
}

// checkRandom allows crypto/rand only as rand.Reader, and that only where a
// constructor fills in what its Config left open.
func checkRandom(m *module) (out []violation) {
	for _, s := range m.goFiles() {
		if s.support() {
			continue
		}
		for _, sel := range m.useOf(s, "crypto/rand") {
			in := m.enclosing(s, sel)
			if sel.Sel.Name == "Reader" && in != nil && constructorName.MatchString(in.Name.Name) {
				continue
			}
			out = append(out, m.at(s, sel.Pos(), sel.Sel.Name, fmt.Sprintf(
				"rand.%s: take Config.Rand; only New, Open, withDefaults may set it to rand.Reader",
				sel.Sel.Name)))
		}
	}
	return out
}

func checkInit(m *module) (out []violation) {
	for s, fn := range m.funcs() {
		if fn.Name.Name == "init" && fn.Recv == nil {
			out = append(out, m.at(s, fn.Pos(), "init",
				"init: the composition root says what happens at start"))
		}
	}
	return out
}

// checkFloat looks for floats in kv/money, and everywhere for floats whose
// names say that they are money.
func checkFloat(m *module) (out []violation) {
	for _, s := range m.goFiles() {
		isMoney := within(s.pkg(), "onced/kv/money/...")
		ast.Inspect(s.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				if isMoney && (n.Name == "float32" || n.Name == "float64") {
					out = append(out, m.at(s, n.Pos(), n.Name, "a float in kv/money: amounts are exact"))
				}
			case *ast.BasicLit:
				if isMoney && n.Kind == token.FLOAT {
					out = append(out, m.at(s, n.Pos(), n.Value, "a float in kv/money: amounts are exact"))
				}
			case *ast.Field:
				out = append(out, m.floatMoney(s, n.Names, n.Type)...)
			case *ast.ValueSpec:
				out = append(out, m.floatMoney(s, n.Names, n.Type)...)
			}
			return true
		})
	}
	return out
}

func (m *module) floatMoney(s *source, names []*ast.Ident, typ ast.Expr) (out []violation) {
	if t := strings.TrimLeft(exprText(typ), "*[]"); t != "float64" && t != "float32" {
		return nil
	}
	for _, name := range names {
		if moneyName.MatchString(name.Name) {
			out = append(out, m.at(s, name.Pos(), name.Name, name.Name+" is a float: use money.Amount"))
		}
	}
	return out
}

// checkErrorReceiver demands pointer receivers of error types: errors.As finds
// one of the two forms only.
func checkErrorReceiver(m *module) (out []violation) {
	for s, fn := range m.funcs() {
		if s.test || fn.Name.Name != "Error" || fn.Recv == nil || len(fn.Type.Params.List) > 0 {
			continue
		}
		if _, pointer := fn.Recv.List[0].Type.(*ast.StarExpr); !pointer {
			name := funcName(fn)
			out = append(out, m.at(s, fn.Pos(), name, name+" needs a pointer receiver, for errors.As"))
		}
	}
	return out
}

func checkDocs(m *module) (out []violation) {
	for _, s := range m.goFiles() {
		if s.test {
			continue
		}
		for _, decl := range s.ast.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && ast.IsExported(receiver(d)) && d.Doc.Text() == "" {
					out = append(out, m.undocumented(s, d.Pos(), funcName(d)))
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					out = append(out, m.specDocs(s, d, spec)...)
				}
			}
		}
	}
	return out
}

// specDocs wants a comment of its own for each name of a group, above it or at
// the end of its line; the group's comment is enough only for a lone name.
func (m *module) specDocs(s *source, d *ast.GenDecl, spec ast.Spec) (out []violation) {
	lone := ""
	if len(d.Specs) == 1 {
		lone = d.Doc.Text()
	}
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if spec.Name.IsExported() && lone+spec.Doc.Text()+spec.Comment.Text() == "" {
			out = append(out, m.undocumented(s, spec.Pos(), spec.Name.Name))
		}
		if it, ok := spec.Type.(*ast.InterfaceType); ok && spec.Name.IsExported() {
			for _, f := range it.Methods.List {
				if len(f.Names) > 0 && f.Doc.Text()+f.Comment.Text() == "" {
					out = append(out, m.undocumented(s, f.Pos(), spec.Name.Name+"."+f.Names[0].Name))
				}
			}
		}
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			if name.IsExported() && lone+spec.Doc.Text()+spec.Comment.Text() == "" {
				out = append(out, m.undocumented(s, name.Pos(), name.Name))
			}
		}
	}
	return out
}

func (m *module) undocumented(s *source, pos token.Pos, name string) violation {
	return m.at(s, pos, name, name+" is exported and has no comment")
}

func checkPackageDocs(m *module) (out []violation) {
	documented := map[string]int{}
	first := map[string]string{}
	for _, s := range m.goFiles() {
		if s.test {
			continue
		}
		if first[s.pkg()] == "" {
			first[s.pkg()] = s.path
		}
		if s.ast.Doc.Text() != "" {
			documented[s.pkg()]++
		}
	}
	for pkg, file := range first {
		if n := documented[pkg]; n != 1 {
			out = append(out, violation{file: file, name: "package",
				text: fmt.Sprintf("%s has %d package comments; it needs one", pkg, n)})
		}
	}
	return out
}

// checkSkip finds tests that are left out: by Skip, by Short, by a build tag.
func checkSkip(m *module) (out []violation) {
	for _, s := range m.goFiles() {
		if s.path == skipFile {
			continue
		}
		tests := m.testingNames(s)
		ast.Inspect(s.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok || !slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && tests[x.Name] {
				out = append(out, m.at(s, sel.Pos(), sel.Sel.Name,
					"a skipped test: install what it needs, or use system.Need"))
			}
			return true
		})
		for _, sel := range m.useOf(s, "testing", "Short") {
			out = append(out, m.at(s, sel.Pos(), "Short", "testing.Short leaves tests out"))
		}
	}
	return append(out, checkBuildTags(m)...)
}

// platformTags are the build constraints that test files may have.
var platformTags = regexp.MustCompile(`^//go:build( (&&|\|\||!?(linux|unix|darwin|windows|race)))+$`)

func checkBuildTags(m *module) (out []violation) {
	for _, s := range m.goFiles() {
		for _, group := range s.ast.Comments {
			for _, c := range group.List {
				if s.test && strings.HasPrefix(c.Text, "//go:build") && !platformTags.MatchString(c.Text) {
					out = append(out, m.at(s, c.Pos(), "build", c.Text+" hides tests"))
				}
			}
		}
	}
	return out
}

// testingNames are the names of parameters whose types come from testing.
func (m *module) testingNames(s *source) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		f, ok := n.(*ast.Field)
		if ok && strings.HasPrefix(strings.TrimPrefix(exprText(f.Type), "*"), "testing.") {
			for _, name := range f.Names {
				names[name.Name] = true
			}
		}
		return true
	})
	return names
}
