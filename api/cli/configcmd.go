package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"onced/api/app"
	"onced/api/config"
)

func configInit(_ context.Context, c *call) error {
	name := config.DefaultFile
	if len(c.args) > 0 {
		name = c.args[0]
	}
	if name == "-" {
		_, err := io.WriteString(c.env.Stdout, config.Sample())
		return err
	}
	mode := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if c.flags.Lookup("force").Value.String() == "true" {
		mode = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(name, mode, 0o600) // it may come to hold secrets
	if errors.Is(err, fs.ErrExist) {
		return usage(name+" was not written", "it exists",
			"onced config init OTHER, or --force to replace it")
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, config.Sample())
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.env.Stderr, "%s is written; onced reads it when it starts in this folder\n", name)
	return err
}

func configCheck(_ context.Context, c *call) error {
	loaded, err := c.loadConfig()
	if err != nil {
		return err
	}
	definitions, err := app.CheckDefinitions(loaded)
	if err != nil {
		return &failure{what: "the definitions are not valid", why: err.Error(),
			try: "correct them, then: onced config check", code: ExitUsage, err: err}
	}
	for _, w := range loaded.Warnings {
		_, _ = fmt.Fprintln(c.env.Stderr, "warning:", w)
	}
	for _, n := range loaded.Notes {
		_, _ = fmt.Fprintln(c.env.Stderr, "note:", n)
	}
	name := loaded.File
	if name == "" {
		name = "no file"
	}
	parts := fmt.Sprintf("%s, %d routes", name, len(loaded.Config.Routes))
	if definitions > 0 {
		parts += fmt.Sprintf(", %d definitions", definitions)
	}
	_, err = fmt.Fprintf(c.env.Stdout, "the configuration is valid (%s)\n", parts)
	return err
}

func configShow(_ context.Context, c *call) error {
	loaded, err := c.loadConfig()
	if err != nil {
		return err
	}
	list := newList(c, "KEY", "VALUE", "ORIGIN")
	for _, s := range loaded.Settings() {
		list.add(s, s.Key, s.Value, s.Origin)
	}
	return list.print()
}
