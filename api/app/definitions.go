package app

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"onced/api/config"
	"onced/saga/definition"
)

// maxDefinitions bounds the files with definitions.
const maxDefinitions = 1000

// definitionFile is a file with a definition that has been checked.
type definitionFile struct {
	name string
	doc  *definition.Document
}

// CheckDefinitions reads the files of sagas.definitions and checks them, without
// any effect, and returns how many there are. Its error is a [*config.Error] with
// all problems of all files.
func CheckDefinitions(l *config.Loaded) (int, error) {
	files, err := readDefinitions(l)
	return len(files), err
}

// readDefinitions reads and checks all files of a configuration.
func readDefinitions(l *config.Loaded) (files []definitionFile, err error) {
	const key = "sagas.definitions"
	var problems []config.Problem
	names, found := definitionNames(l.Config.Sagas.Definitions)
	for _, p := range found {
		p.Origin, p.Key = l.Origin(key), key
		problems = append(problems, p)
	}
	if len(names) > maxDefinitions {
		return nil, &config.Error{Problems: []config.Problem{{Origin: l.Origin(key), Key: key,
			Text:    fmt.Sprintf("has %d files", len(names)),
			Allowed: fmt.Sprintf("at most %d", maxDefinitions)}}}
	}
	first := map[string]string{} // the file of a definition
	for _, name := range names {
		doc, bad := readDefinition(name, l.Config.Secrets.Names())
		if problems = append(problems, bad...); len(bad) > 0 {
			continue
		}
		if other := first[doc.Name()]; other != "" {
			problems = append(problems, config.Problem{Origin: inFile(name, 0, 0), Key: "name",
				Value: doc.Name(),
				Text:  "is defined in " + other + " too", Remedy: "give each definition a name of its own"})
			continue
		}
		first[doc.Name()] = name
		files = append(files, definitionFile{name: name, doc: doc})
	}
	if len(problems) > 0 {
		return nil, &config.Error{Problems: problems}
	}
	return files, nil
}

// readDefinition reads and checks one file.
func readDefinition(name string, secrets []string) (*definition.Document, []config.Problem) {
	text, err := readSource(name)
	if err != nil {
		return nil, []config.Problem{{Origin: inFile(name, 0, 0), Text: "cannot be read: " + cause(err),
			Remedy: "make the file readable, or take it out of sagas.definitions"}}
	}
	doc, found := definition.Parse(text, definition.Options{File: name,
		Secrets: append([]string{}, secrets...)})
	var problems []config.Problem
	for _, p := range found {
		problems = append(problems, config.Problem{Origin: inFile(name, p.Line, p.Column), Key: p.Field,
			Text: p.Message})
	}
	return doc, problems
}

func inFile(name string, line, column int) config.Origin {
	return config.Origin{Kind: config.FromFile, Name: name, Line: line, Column: column}
}

// readSource reads one byte more than a definition may have, so that the reader of
// definitions complains of a longer one.
func readSource(name string) ([]byte, error) {
	f, err := config.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, definition.MaxSource+1))
}

// definitionNames returns the files that the entries name: those of folders in the
// order of their names, each file once.
func definitionNames(entries []string) (names []string, problems []config.Problem) {
	add := func(name string) {
		if name = filepath.Clean(name); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, entry := range entries {
		info, err := os.Stat(entry)
		if err == nil && !info.IsDir() {
			add(entry)
			continue
		}
		var inside []string
		if err == nil {
			inside, err = DefinitionsIn(entry)
		}
		if err != nil {
			problems = append(problems, config.Problem{Value: entry, Text: "cannot be read: " + cause(err),
				Remedy: "name a file or a folder that can"})
			continue
		}
		for _, name := range inside {
			add(name)
		}
	}
	return names, problems
}

// DefinitionsIn returns the files of a folder that sagas.definitions takes from it, in
// the order of their names.
func DefinitionsIn(folder string) (names []string, err error) {
	inside, err := os.ReadDir(folder)
	for _, e := range inside {
		if !e.IsDir() && isDefinition(e.Name()) {
			names = append(names, filepath.Join(folder, e.Name()))
		}
	}
	return names, err
}

// isDefinition reports whether a file in a folder counts. Hidden ones do not: editors
// and clusters keep copies in them.
func isDefinition(name string) bool {
	return !strings.HasPrefix(name, ".") &&
		slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(name)))
}

// cause is an error without the name of the file.
func cause(err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err.Error()
	}
	return err.Error()
}
