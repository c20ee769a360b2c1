package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"unicode/utf8"
)

// The limits. They are hard; 40 lines a function and 300 a file are better.
const (
	maxFuncLines = 70
	maxFileLines = 500
	maxColumns   = 110
	tabColumns   = 4
	maxParams    = 4
	maxInterface = 5
)

// notCounted are the types of parameters that every function of a kind takes
// and that no caller mixes up: the context, the transaction or the store it
// will run on, and the test.
var notCounted = []string{
	"context.Context", "kv.Reader", "kv.Writer", "kv.Store",
	"testing.TB", "*testing.T", "*testing.B", "*testing.F",
}

func checkFuncLines(m *module) (out []violation) {
	for s, fn := range m.funcs() {
		from, to := m.line(fn.Pos()), m.line(fn.End())
		if n := to - from + 1; n > maxFuncLines {
			name := funcName(fn)
			out = append(out, m.at(s, fn.Pos(), name, fmt.Sprintf(
				"%s has %d lines; the limit is %d: give a part of it a name", name, n, maxFuncLines)))
		}
	}
	return out
}

func checkFileLines(m *module) (out []violation) {
	for _, s := range m.goFiles() {
		if n := strings.Count(s.text, "\n"); n > maxFileLines && !s.test {
			out = append(out, violation{file: s.path, line: n,
				text: fmt.Sprintf("%d lines; the limit is %d outside tests", n, maxFileLines)})
		}
	}
	return out
}

// checkColumns counts a tab as four columns. It leaves out directives, which
// cannot be broken, and the inside of raw strings, which is data.
func checkColumns(m *module) (out []violation) {
	for _, s := range m.goFiles() {
		raw := m.rawLines(s)
		n := 0
		for line := range strings.Lines(s.text) {
			n++
			line = strings.TrimRight(line, "\r\n")
			width := utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
			if width > maxColumns && !raw[n] && !strings.HasPrefix(line, "//go:") {
				out = append(out, violation{file: s.path, line: n,
					text: fmt.Sprintf("%d columns; the limit is %d", width, maxColumns)})
			}
		}
	}
	return out
}

// rawLines are the lines that belong to raw strings of several lines.
func (m *module) rawLines(s *source) map[int]bool {
	lines := map[int]bool{}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING || lit.Value[0] != '`' || !strings.Contains(lit.Value, "\n") {
			return true
		}
		first := m.line(lit.Pos())
		for i := range strings.Count(lit.Value, "\n") + 1 {
			lines[first+i] = true
		}
		return true
	})
	return lines
}

func checkParams(m *module) (out []violation) {
	for _, s := range m.goFiles() {
		ast.Inspect(s.ast, func(n ast.Node) bool {
			name, typ := "", (*ast.FuncType)(nil)
			switch n := n.(type) {
			case *ast.FuncDecl:
				name, typ = funcName(n), n.Type
			case *ast.Field: // a method of an interface
				if ft, ok := n.Type.(*ast.FuncType); ok && len(n.Names) == 1 {
					name, typ = n.Names[0].Name, ft
				}
			}
			if typ == nil {
				return true
			}
			if got := countParams(s, typ); got > maxParams {
				out = append(out, m.at(s, n.Pos(), name, fmt.Sprintf(
					"%s takes %d parameters after context and transaction; the limit is %d",
					name, got, maxParams)))
			}
			return true
		})
	}
	return out
}

func countParams(s *source, typ *ast.FuncType) (n int) {
	for _, f := range typ.Params.List {
		t := exprText(f.Type)
		if s.ast.Name.Name == "kv" && !strings.Contains(t, ".") {
			t = "kv." + t
		}
		if !slices.Contains(notCounted, t) {
			n += max(1, len(f.Names))
		}
	}
	return n
}

// checkInterfaces counts the methods written in an exported interface. One that
// it embeds is a part with its own name and its own limit.
func checkInterfaces(m *module) (out []violation) {
	for s, spec := range m.types() {
		it, ok := spec.Type.(*ast.InterfaceType)
		if !ok || !spec.Name.IsExported() || s.test {
			continue
		}
		n := 0
		for _, f := range it.Methods.List {
			n += len(f.Names)
		}
		if n > maxInterface {
			out = append(out, m.at(s, spec.Pos(), spec.Name.Name,
				fmt.Sprintf("interface %s has %d methods; the limit is %d", spec.Name.Name, n, maxInterface)))
		}
	}
	return out
}

func checkFileSize(m *module) (out []violation) {
	for _, s := range m.files {
		if inTestdata(s.path) {
			continue
		}
		if s.size > maxFileBytes {
			text := fmt.Sprintf("%d bytes; the limit is %d", s.size, maxFileBytes)
			out = append(out, violation{file: s.path, text: text})
		}
		picture := slices.ContainsFunc([]string{".png", ".ico", ".woff2"}, func(ext string) bool {
			return strings.HasPrefix(s.path, "web/") && strings.HasSuffix(s.path, ext)
		})
		if strings.Contains(s.text, "\x00") && !picture {
			text := "a binary file; build it, or keep it in testdata"
			out = append(out, violation{file: s.path, text: text})
		}
	}
	return out
}
