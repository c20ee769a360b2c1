package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"
	"text/tabwriter"
)

// list is an answer of many rows, in the form of --output.
type list struct {
	out    io.Writer
	form   string
	member string         // the name of the list in JSON, as in the API; "" for a bare list
	more   map[string]any // what else stands beside it
	titles []string
	values []any
	rows   [][]string
}

func newList(c *call, titles ...string) *list {
	return &list{out: c.env.Stdout, form: c.flags.output, titles: titles, values: []any{}}
}

// add adds a row: the value for programs, and its cells for people.
func (l *list) add(value any, cells ...string) {
	l.values = append(l.values, value)
	l.rows = append(l.rows, cells)
}

func (l *list) print() error {
	enc := json.NewEncoder(l.out)
	enc.SetEscapeHTML(false)
	switch l.form {
	case "json":
		enc.SetIndent("", "  ")
		if l.member == "" {
			return enc.Encode(l.values)
		}
		whole := map[string]any{l.member: l.values}
		maps.Copy(whole, l.more)
		return enc.Encode(whole)
	case "ndjson":
		for _, v := range l.values {
			if err := enc.Encode(v); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(l.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, strings.Join(l.titles, "\t"))
	for _, row := range l.rows {
		for i, cell := range row {
			row[i] = printable(cell)
		}
		_, _ = fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// printable keeps a text on one line of the terminal and in its column.
func printable(text string) string {
	if text == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, text)
}

// printOne prints one value: as JSON, or as the lines that text writes.
func (c *call) printOne(value any, text func(io.Writer) error) error {
	if c.flags.output == "table" {
		return text(c.env.Stdout)
	}
	enc := json.NewEncoder(c.env.Stdout)
	enc.SetEscapeHTML(false)
	if c.flags.output == "json" {
		enc.SetIndent("", "  ")
	}
	return enc.Encode(value)
}
