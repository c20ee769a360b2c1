package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"

	"onced/api/app"
	"onced/api/config"
	"onced/saga/definition"
)

// checked is what saga check says of one file.
type checked struct {
	File     string               `json:"file"`
	Valid    bool                 `json:"valid"`
	Name     string               `json:"name,omitempty"`
	Title    string               `json:"title,omitempty"`
	Steps    int                  `json:"steps"`
	Secrets  []string             `json:"secrets"`
	Hosts    []string             `json:"hosts"`
	Problems []definition.Problem `json:"problems"`
	// Warnings are no problems, and may be meant.
	Warnings []string `json:"warnings"`
	// Notes are what is seldom meant in the document.
	Notes []definition.Problem `json:"notes"`
}

// noCallbackURL warns of callback URLs that nobody outside may reach.
const noCallbackURL = "it gives out callback URLs, and the configuration has no public_url: they name the " +
	"address that onced listens at; set public_url to a URL that callees reach, and keep it"

// sagaCheck checks files without a running onced.
func sagaCheck(_ context.Context, c *call) error {
	conf, err := c.configNamed()
	if err != nil {
		return err
	}
	var secrets []string // nil: not known
	if conf != nil {
		secrets = append([]string{}, conf.Secrets.Names()...)
	}
	files, err := filesOf(c.args)
	if err != nil {
		return err
	}
	list := newList(c, "FILE", "NAME", "STEPS", "PROBLEMS")
	list.member = "files"
	var problems definition.Problems
	wrong := 0
	for _, name := range files {
		text, err := c.readSource(name)
		if err != nil {
			return err
		}
		doc, found := definition.Parse(text, definition.Options{File: name, Secrets: secrets})
		r := checked{File: name, Valid: len(found) == 0, Secrets: []string{}, Hosts: []string{},
			Problems: []definition.Problem{}, Warnings: []string{}, Notes: []definition.Problem{}}
		if r.Valid {
			if conf != nil && conf.PublicURL == "" && doc.UsesCallback() {
				r.Warnings = append(r.Warnings, noCallbackURL)
			}
			r.Notes = append(r.Notes, doc.Remarks()...)
			r.Name, r.Title, r.Steps = doc.Name(), doc.Title(), len(doc.Steps())
			r.Secrets, r.Hosts = append(r.Secrets, doc.Secrets()...), append(r.Hosts, doc.Hosts()...)
		} else {
			r.Problems, wrong = append(r.Problems, found...), wrong+1
		}
		problems = append(problems, found...)
		for _, w := range r.Warnings {
			_, _ = fmt.Fprintf(c.env.Stderr, "warning: %s: %s\n", name, w)
		}
		for _, note := range r.Notes {
			_, _ = fmt.Fprintf(c.env.Stderr, "note: %s\n", note)
		}
		list.add(r, r.File, r.Name, strconv.Itoa(r.Steps), strconv.Itoa(len(found)))
	}
	if err := list.print(); err != nil || wrong == 0 {
		return err
	}
	return &failure{what: fmt.Sprintf("%d of %d definitions are not valid", wrong, len(files)),
		why: problems.Error(),
		try: "correct it, then: " + c.path + " again", code: ExitProblem, err: problems}
}

// filesOf are the files that are named, and those in the folders that are.
func filesOf(args []string) (files []string, err error) {
	for _, name := range args {
		info, err := os.Stat(name)
		if err != nil || !info.IsDir() {
			files = append(files, name) // reading it says what is wrong
			continue
		}
		inside, err := app.DefinitionsIn(name)
		if err == nil && len(inside) == 0 {
			err = fmt.Errorf("%s has no *.yaml, *.yml or *.json", name)
		}
		if err != nil {
			return nil, usage("the folder has no definitions that can be read", err.Error(),
				"name a file with one definition, or a folder of them")
		}
		files = append(files, inside...)
	}
	return files, nil
}

// configNamed is the configuration, if one is named, without the texts of its secrets;
// else nil.
func (c *call) configNamed() (*config.Config, error) {
	if c.flags.file == "" && c.env.lookup(config.EnvFile) == "" {
		return nil, nil
	}
	return c.loadPlace("correct the configuration, or check without it")
}

// readSource reads the file of a definition, or stdin for -.
func (c *call) readSource(name string) ([]byte, error) {
	in := c.env.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, usage("the definition cannot be read", err.Error(),
				"name a file with one definition, or - for stdin")
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, definition.MaxSource+1))
	if err != nil {
		return nil, usage("the definition cannot be read", err.Error(),
			"name a file with one definition, or - for stdin")
	}
	return text, nil
}
