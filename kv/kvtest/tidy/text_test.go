package tidy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// topDirs and topFiles are what may stand at the top of the repository.
var (
	topDirs  = []string{".ci", "api", "kv", "saga", "watcher", "web"}
	topFiles = []string{
		".dockerignore", ".gitattributes", ".gitignore", ".golangci.yml",
		"CHANGELOG.md", "CONTRIBUTING.md", "Dockerfile", "LICENSE", "Makefile", "README.md", "SECURITY.md",
		"go.mod", "go.sum", "main.go",
	}
)

// The words are put together here, so that this file does not hold them.
var (
	unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME)\b`)
	workplace  = regexp.MustCompile(`/wo` + `rk/|bash_` + `jobs|/tmp/br` + `ief`)
	registries = regexp.MustCompile(`(proxy|sum)\.gol` + `ang\.org|registry\.np` + `mjs\.|deb\.deb` + `ian\.`)
)

// checkWords reports every line of a text file in which the words stand.
func checkWords(words *regexp.Regexp, text string) func(*module) []violation {
	return func(m *module) (out []violation) {
		for _, s := range m.files {
			if strings.HasSuffix(s.path, "go.sum") {
				continue
			}
			n := 0
			for line := range strings.Lines(s.text) {
				n++
				if found := words.FindString(line); found != "" {
					out = append(out, violation{file: s.path, line: n, name: found,
						text: fmt.Sprintf("%q: %s", found, text)})
				}
			}
		}
		return out
	}
}

func checkTitles(m *module) (out []violation) {
	for _, s := range m.files {
		if !strings.HasSuffix(s.path, ".md") || inTestdata(s.path) {
			continue
		}
		titles, fenced := 0, false
		for line := range strings.Lines(s.text) {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced = !fenced
			}
			if !fenced && strings.HasPrefix(line, "# ") {
				titles++
			}
		}
		if titles != 1 {
			text := fmt.Sprintf("%d titles (# …); a document has one", titles)
			out = append(out, violation{file: s.path, text: text})
		}
	}
	return out
}

func checkTop(m *module) (out []violation) {
	for _, dir := range m.dirs {
		if !slices.Contains(topDirs, dir) {
			text := fmt.Sprintf("a folder at the top; there are only %q", topDirs)
			out = append(out, violation{file: dir, text: text})
		}
	}
	for _, s := range m.files {
		if !strings.Contains(s.path, "/") && !slices.Contains(topFiles, s.path) {
			text := fmt.Sprintf("a file at the top; there are only %q", topFiles)
			out = append(out, violation{file: s.path, text: text})
		}
	}
	return out
}
