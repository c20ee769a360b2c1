package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"onced/api/client"
	"onced/api/problem"
)

// definitionCommands are those of definitions.
func definitionCommands() []*command {
	return []*command{
		{
			name: "check", args: "FILE|FOLDER…", least: 1, most: 1000, run: sagaCheck,
			summary: "check definitions without a running onced, and tell all problems at once",
			help: "- is stdin; of a folder all *.yaml, *.yml and *.json. With --config, or\n" +
				"ONCED_CONFIG, it also tells of secrets that the configuration does not\n" +
				"name, and warns of callback URLs without a public_url.\n" +
				"Exit code 4 means that there are problems; warnings and notes are none.",
			flags: func(f *flags) {
				f.addOutput()
				f.StringVar(&f.file, "config", "", "the configuration `FILE`, for the names of its secrets")
			},
		},
		{
			name: "put", args: "FILE", least: 1, most: 1, run: sagaPut,
			summary: "keep a definition; new runs use it, runs under way keep theirs",
			help: "- is stdin. The same content again is the same version. A definition that is put\n" +
				"here calls public hosts and those of sagas.allow_hosts only; one in a file of\n" +
				"sagas.definitions calls any.",
			flags: func(f *flags) {
				f.addRemote()
				f.Bool("dry-run", false, "only say what would happen")
			},
		},
		{
			name: "definitions", args: "[NAME]", most: 1, run: sagaDefinitions,
			summary: "list definitions, or the versions of one",
			flags: func(f *flags) {
				f.addRemote()
				f.Bool("source", false, "print the text of NAME")
				f.String("version", "", "that of this `VERSION`; by default the latest")
			},
		},
	}
}

func sagaPut(ctx context.Context, c *call) error {
	source, err := c.readSource(c.args[0])
	if err != nil {
		return err
	}
	cl, err := c.loggedIn()
	if err != nil {
		return err
	}
	dry := c.text("dry-run") == "true"
	d, err := cl.PutDefinition(ctx, source, dry)
	if err != nil {
		return invalid(err, c.args[0])
	}
	for _, n := range d.Notes {
		_, _ = fmt.Fprintln(c.env.Stderr, printable(fmt.Sprintf("note: %s:%d:%d: %s: %s", c.args[0], n.Line,
			n.Column, n.Field, n.Message)))
	}
	return c.printOne(d, func(w io.Writer) error {
		what := "is there already as version " + d.Version
		switch {
		case dry && d.New:
			what = "would be a new version"
		case d.New:
			what = "is the new version " + d.Version
		}
		_, err := fmt.Fprintf(w, "definition %s %s, %d steps\n", d.Name, what, len(d.Steps))
		return err
	})
}

// invalid shows all problems of a document that was refused, with the file's name.
func invalid(err error, file string) error {
	p, ok := errors.AsType[*problem.Problem](err)
	if !ok || len(p.Problems) == 0 {
		return err
	}
	lines := make([]string, len(p.Problems))
	for i, x := range p.Problems {
		lines[i] = file
		if x.Line > 0 {
			lines[i] += fmt.Sprintf(":%d:%d", x.Line, x.Column)
		}
		if lines[i] += ": "; x.Field != "" {
			lines[i] += x.Field + ": "
		}
		lines[i] += x.Message
	}
	try := "correct it, then: onced saga check " + file
	if !slices.ContainsFunc(p.Problems, func(x problem.Place) bool {
		return !strings.Contains(x.Message, "sagas.allow_hosts")
	}) { // the document is as it should be, and a check finds nothing wrong with it
		try = "add the host to sagas.allow_hosts in onced.yaml, restart onced and put it again; or name " +
			"the file in sagas.definitions there, which a SIGHUP has read"
	}
	return &failure{what: "the definition is not valid; nothing was kept", why: strings.Join(lines, "\n"),
		try: try, code: ExitProblem, err: err}
}

func sagaDefinitions(ctx context.Context, c *call) error {
	cl, err := c.loggedIn()
	if err != nil {
		return err
	}
	wantsOne := c.text("source") == "true" || c.text("version") != ""
	switch {
	case len(c.args) == 0 && wantsOne:
		return usage(c.path+" needs a name", "--source and --version are about one definition",
			c.path+" NAME --source")
	case wantsOne:
		return c.showDefinition(ctx, cl)
	}
	var all []client.Definition
	if len(c.args) > 0 {
		all, err = cl.ListVersions(ctx, c.args[0])
	} else {
		all, err = listDefinitions(ctx, cl)
	}
	if err != nil {
		return err
	}
	list := newList(c, "NAME", "VERSION", "LATEST", "ORIGIN", "STEPS", "CREATED", "TITLE")
	list.member = "definitions"
	for _, d := range all {
		latest := ""
		if d.Latest {
			latest = "yes"
		}
		list.add(d, d.Name, d.Version, latest, d.Origin, strconv.Itoa(len(d.Steps)), stamp(d.CreatedAt),
			d.Title)
	}
	return list.print()
}

func listDefinitions(ctx context.Context, cl *client.Client) (all []client.Definition, err error) {
	for cursor := ""; ; {
		page, err := cl.ListDefinitions(ctx, cursor, 0)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Definitions...)
		if cursor = page.NextCursor; cursor == "" {
			return all, nil
		}
	}
}

// showDefinition prints one version, in the table form its source.
func (c *call) showDefinition(ctx context.Context, cl *client.Client) error {
	d, err := cl.GetDefinition(ctx, c.args[0], c.text("version"))
	if err != nil {
		return err
	}
	return c.printOne(d, func(w io.Writer) error {
		if d.Source == "" {
			return usage("the source is not shown", "this token may not see it",
				"use the token of an operator")
		}
		_, err := io.WriteString(w, strings.TrimRight(d.Source, "\n")+"\n")
		return err
	})
}

// sorted yields the pairs in the order of their names.
func sorted(m map[string]string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if !yield(name, m[name]) {
				return
			}
		}
	}
}
