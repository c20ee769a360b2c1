package config

import (
	_ "embed"
	"strings"
)

// sample is the file that "onced config init" writes. Lines that begin with #
// and no space are settings at their defaults; tests hold it to that.
//
//go:embed sample.yaml
var sample string

// Sample returns a file with every key, its meaning and its default, in which
// nothing is set.
func Sample() string { return sample }

// sampleDocs returns the comments of the sample by the path of their key.
func sampleDocs() map[string]string {
	docs := map[string]string{}
	var comment, sections []string
	for line := range strings.Lines(sample) {
		text := strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(text, "# "); ok {
			comment = append(comment, rest)
			continue
		}
		key, _, isKey := strings.Cut(strings.TrimPrefix(text, "#"), ":")
		if isKey { // two spaces for each section around it
			depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
			sections = append(sections[:min(depth, len(sections))], key)
			docs[strings.Join(sections, ".")] = strings.Join(comment, " ")
		}
		comment = nil
	}
	return docs
}
