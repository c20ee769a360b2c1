package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"

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
}

// sagaCheck checks files without a running onced.
func sagaCheck(_ context.Context, c *call) error {
	secrets, err := c.secretNames()
	if err != nil {
		return err
	}
	list := newList(c, "FILE", "NAME", "STEPS", "PROBLEMS")
	list.member = "files"
	var problems definition.Problems
	wrong := 0
	for _, name := range c.args {
		text, err := c.readSource(name)
		if err != nil {
			return err
		}
		doc, found := definition.Parse(text, definition.Options{File: name, Secrets: secrets})
		r := checked{File: name, Valid: len(found) == 0, Secrets: []string{}, Hosts: []string{},
			Problems: []definition.Problem{}}
		if r.Valid {
			r.Name, r.Title, r.Steps = doc.Name(), doc.Title(), len(doc.Steps())
			r.Secrets, r.Hosts = append(r.Secrets, doc.Secrets()...), append(r.Hosts, doc.Hosts()...)
		} else {
			r.Problems, wrong = append(r.Problems, found...), wrong+1
		}
		problems = append(problems, found...)
		list.add(r, r.File, r.Name, strconv.Itoa(r.Steps), strconv.Itoa(len(found)))
	}
	if err := list.print(); err != nil || wrong == 0 {
		return err
	}
	return &failure{what: fmt.Sprintf("%d of %d definitions are not valid", wrong, len(c.args)),
		why: problems.Error(),
		try: "correct it, then: " + c.path + " again", code: ExitProblem, err: problems}
}

// secretNames are the names of the secrets of the configuration, if one is named;
// nil means that they are not known.
func (c *call) secretNames() ([]string, error) {
	if c.flags.file == "" && c.env.lookup(config.EnvFile) == "" {
		return nil, nil
	}
	conf, err := c.loadPlace("correct the configuration, or check without it")
	if err != nil {
		return nil, err
	}
	return append([]string{}, conf.Secrets.Names()...), nil
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
