package cli

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// help describes the command that words name below cmd.
func help(out io.Writer, words []string, cmd *command, path string) error {
	for _, word := range words {
		next := cmd.find(word)
		if next == nil {
			return unknownCommand(cmd, path, word)
		}
		cmd, path = next, path+" "+word
	}
	var b strings.Builder
	if len(cmd.sub) > 0 {
		helpGroup(&b, cmd, path)
	} else {
		helpCommand(&b, cmd, path)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func helpGroup(b *strings.Builder, cmd *command, path string) {
	fmt.Fprintf(b, "%s: %s\n\nUsage: %s COMMAND\n\n", path, cmd.summary, path)
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, s := range cmd.sub {
		if !s.hidden {
			_, _ = fmt.Fprintf(w, "  %s\t%s\n", s.name, s.summary)
		}
	}
	_ = w.Flush()
	if cmd.help != "" {
		fmt.Fprintf(b, "\n%s\n", strings.TrimSpace(cmd.help))
	}
	fmt.Fprintf(b, "\n%s help COMMAND tells more.\n", path)
}

func helpCommand(b *strings.Builder, cmd *command, path string) {
	usage := path
	if cmd.flags != nil {
		usage += " [FLAGS]"
	}
	fmt.Fprintf(b, "%s: %s\n\nUsage: %s\n", path, cmd.summary, strings.TrimSpace(usage+" "+cmd.args))
	if cmd.help != "" {
		fmt.Fprintf(b, "\n%s\n", strings.TrimSpace(cmd.help))
	}
	f := newFlags(cmd)
	helpFlags(b, "Flags:", f, func(name string) bool { return !slices.Contains(f.docs, name) })
	helpFlags(b, "Settings (each has a variable too: http.max_body is ONCED_HTTP_MAX_BODY):", f,
		func(name string) bool { return slices.Contains(f.docs, name) })
}

func helpFlags(b *strings.Builder, title string, f *flags, wanted func(string) bool) {
	f.VisitAll(func(fl *flag.Flag) {
		if !wanted(fl.Name) {
			return
		}
		if title != "" {
			fmt.Fprintf(b, "\n%s\n", title)
			title = ""
		}
		value, doc := flag.UnquoteUsage(fl)
		if value != "" {
			value = "=" + strings.ToUpper(value)
		}
		fmt.Fprintf(b, "  --%s%s\n", fl.Name, value)
		for line := range strings.SplitSeq(wrap(doc, 72), "\n") {
			fmt.Fprintf(b, "      %s\n", line)
		}
	})
}

// wrap breaks a text into lines of at most width bytes where it has words.
func wrap(text string, width int) string {
	var b strings.Builder
	n := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case n == 0:
		case n+1+len(word) > width:
			b.WriteByte('\n')
			n = 0
		default:
			b.WriteByte(' ')
			n++
		}
		b.WriteString(word)
		n += len(word)
	}
	return b.String()
}
