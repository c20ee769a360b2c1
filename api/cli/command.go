package cli

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"onced/api/config"
)

// command is one word of the command line and what it does.
type command struct {
	name    string
	args    string   // how its arguments are written: "ID"
	words   []string // what completion offers for the first argument
	summary string   // one line
	help    string   // more; may be empty
	sub     []*command
	hidden  bool
	least   int // how many arguments it takes
	most    int
	flags   func(*flags)
	run     func(ctx context.Context, c *call) error
}

// call is a command that was called.
type call struct {
	env     Env
	signals *signals
	path    string // "onced config show"
	flags   *flags
	args    []string
}

// flags are the flags of one call. Those of the configuration are texts that
// package config reads.
type flags struct {
	*flag.FlagSet
	config map[string]string   // values of the configuration's flags
	file   string              // --config
	output string              // --output
	docs   []string            // names of the configuration's flags, which help lists apart
	values map[string][]string // what completion offers for a flag
}

func newFlags(c *command) *flags {
	f := &flags{FlagSet: flag.NewFlagSet(c.name, flag.ContinueOnError), config: map[string]string{},
		values: map[string][]string{}}
	f.SetOutput(io.Discard)
	if c.flags != nil {
		c.flags(f)
	}
	return f
}

// addConfig adds --config and a flag for each key.
func (f *flags) addConfig() {
	f.StringVar(&f.file, "config", "",
		"the configuration `FILE` (ONCED_CONFIG, or onced.yaml when it exists)")
	for _, k := range config.Keys() {
		doc := k.Doc
		if k.Secret {
			doc = "`FILE` with: " + doc
		} else if k.Default != "" {
			doc += " (" + k.Default + ")"
		}
		f.docs = append(f.docs, k.Flag())
		f.Func(k.Flag(), doc, func(text string) error {
			f.config[k.Flag()] = text
			return nil
		})
	}
}

func (f *flags) source(env Env) config.Source {
	return config.Source{File: f.file, Environ: env.Environ, Flags: f.config}
}

// outputs are the forms of an answer.
var outputs = []string{"table", "json", "ndjson"}

func (f *flags) addOutput() {
	f.output, f.values["output"] = "table", outputs
	f.Func("output", "`FORM` of the answer: table, json or ndjson", func(text string) error {
		if !slices.Contains(outputs, text) {
			return fmt.Errorf("allowed: %s", strings.Join(outputs, ", "))
		}
		f.output = text
		return nil
	})
}

// dispatch finds the command, reads its flags and runs it.
func dispatch(ctx context.Context, env Env, s *signals) error {
	cmd, path, args := root(), "onced", env.Args
	if len(args) > 0 && slices.Contains([]string{"-v", "-version", "--version"}, args[0]) {
		args = append([]string{"version"}, args[1:]...) // as other programs have it
	}
	for len(cmd.sub) > 0 {
		if len(args) == 0 {
			return noCommand(env, cmd, path)
		}
		word := args[0]
		if isHelp(word) {
			return help(env.Stdout, args[1:], cmd, path)
		}
		next := cmd.find(word)
		if next == nil {
			return unknownCommand(cmd, path, word)
		}
		cmd, path, args = next, path+" "+word, args[1:]
	}
	if slices.ContainsFunc(beforeDashes(args), func(a string) bool { return a != "help" && isHelp(a) }) {
		return help(env.Stdout, nil, cmd, path)
	}
	c := &call{env: env, signals: s, path: path, flags: newFlags(cmd)}
	if err := c.parse(args); err != nil {
		return err
	}
	if n := len(c.args); n < cmd.least || n > cmd.most {
		return usage(fmt.Sprintf("%s takes %s", path, count(cmd)), fmt.Sprintf("there are %d", n),
			strings.TrimSpace(path+" "+cmd.args))
	}
	return cmd.run(ctx, c)
}

func beforeDashes(args []string) []string {
	if i := slices.Index(args, "--"); i >= 0 {
		return args[:i]
	}
	return args
}

func count(cmd *command) string {
	switch {
	case cmd.most == 0:
		return "no arguments"
	case cmd.least == cmd.most:
		return fmt.Sprintf("%d argument(s)", cmd.most)
	}
	return fmt.Sprintf("%d to %d arguments", cmd.least, cmd.most)
}

func (c *command) find(name string) *command {
	for _, s := range c.sub {
		if s.name == name {
			return s
		}
	}
	return nil
}

// names are the commands that are shown.
func (c *command) names() []string {
	var names []string
	for _, s := range c.sub {
		if !s.hidden {
			names = append(names, s.name)
		}
	}
	return names
}

func isHelp(word string) bool {
	return slices.Contains([]string{"help", "-h", "-help", "--help"}, word)
}

func noCommand(env Env, cmd *command, path string) error {
	if path == "onced" {
		return help(env.Stdout, nil, cmd, path)
	}
	return usage(path+" needs one more word", "it can be "+strings.Join(cmd.names(), ", "),
		path+" "+cmd.names()[0])
}

func unknownCommand(cmd *command, path, word string) error {
	names := cmd.names()
	if strings.HasPrefix(word, "-") {
		return usage(fmt.Sprintf("%s does not know the flag %s", path, word), "flags stand after the command",
			path+" "+names[0]+" "+word)
	}
	return unknownWord(path, word, names)
}

// unknownWord says which words there are, and which was most likely meant.
func unknownWord(path, word string, names []string) error {
	try := path + " help"
	if near := config.Nearest(word, names); near != "" {
		try = path + " " + near
	}
	return usage(fmt.Sprintf("%s has no command %q", path, word),
		"the commands are "+strings.Join(names, ", "), try)
}

// parse reads flags and arguments in any order; after -- all are arguments.
func (c *call) parse(args []string) error {
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		if word == "--" {
			c.args = append(c.args, args...)
			return nil
		}
		if len(word) < 2 || word[0] != '-' {
			c.args = append(c.args, word)
			continue
		}
		name, value, hasValue := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(word, "-"), "-"), "=")
		f := c.flags.Lookup(name)
		if f == nil { // --dry_run for --dry-run, and --http.max-body for the key http.max_body
			f = cmp.Or(c.flags.Lookup(strings.ReplaceAll(name, "_", "-")),
				c.flags.Lookup(strings.ReplaceAll(name, "-", "_")))
		}
		if f == nil {
			return c.unknownFlag(name)
		}
		if b, ok := f.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
			if !hasValue {
				value, hasValue = "true", true
			}
		}
		if !hasValue {
			if len(args) == 0 {
				return usage(fmt.Sprintf("the flag --%s needs a value", name),
					"the command line ends after it",
					fmt.Sprintf("%s --%s=VALUE", c.path, name))
			}
			value, args = args[0], args[1:]
		}
		if err := f.Value.Set(value); err != nil {
			return usage(fmt.Sprintf("the flag --%s cannot be %q", name, value), err.Error(),
				c.path+" --help")
		}
	}
	return nil
}

func (c *call) unknownFlag(name string) error {
	var names []string
	c.flags.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	why, try := "it has no such flag", c.path+" --help"
	if near := config.Nearest(name, names); near != "" {
		why, try = "the nearest flag is --"+near, c.path+" --"+near
	}
	for _, file := range []string{name + "-file", name + "_file"} {
		if slices.Contains(names, file) {
			why = "arguments are seen by every process, so a secret is no flag"
			try = fmt.Sprintf("%s --%s=FILE", c.path, file)
		}
	}
	return usage(fmt.Sprintf("%s does not know the flag --%s", c.path, name), why, try)
}
