package cli

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"onced/api/config"
)

// The scripts only ask onced itself, with what has been written so far.
var completions = map[string]string{
	"bash": `# bash completion for onced
_onced() {
  local IFS=$'\n'
  COMPREPLY=($(onced __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
}
complete -o default -F _onced onced
`,
	"zsh": `#compdef onced
_onced() {
  local -a found
  found=(${(f)"$(onced __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( ${#found} )); then compadd -S '' -q -- $found; else _files; fi
}
(( $+functions[compdef] )) && compdef _onced onced
`,
	"fish": `# fish completion for onced
function __onced_complete
  set -l words (commandline -opc) (commandline -ct)
  onced __complete -- $words[2..-1] 2>/dev/null
end
complete -c onced -a '(__onced_complete)'
`,
}

// shells are those that there is a script for.
var shells = []string{"bash", "zsh", "fish"}

func completion(_ context.Context, c *call) error {
	shell := c.args[0]
	script, ok := completions[shell]
	if !ok {
		try := "bash"
		if near := config.Nearest(shell, shells); near != "" {
			try = near
		}
		return usage("there is no completion for "+printable(shell), "there is one for bash, zsh and fish",
			"onced completion "+try)
	}
	_, err := io.WriteString(c.env.Stdout, script)
	return err
}

// complete prints what the last word can become, one a line.
func complete(_ context.Context, c *call) error {
	if len(c.args) == 0 {
		return nil
	}
	cmd, words := root(), c.args[:len(c.args)-1]
	for _, word := range words {
		if next := cmd.find(word); next != nil {
			cmd = next
		}
	}
	for _, text := range candidates(cmd, words, c.args[len(c.args)-1]) {
		if _, err := fmt.Fprintln(c.env.Stdout, text); err != nil {
			return err
		}
	}
	return nil
}

func candidates(cmd *command, words []string, last string) []string {
	f := newFlags(cmd)
	name, value, ok := flagBefore(words, last)
	var all []string
	switch {
	case len(cmd.sub) > 0:
		all = append(cmd.names(), "help")
	case ok && f.values[name] != nil:
		// A shell that takes --role=x for one word wants all of it.
		prefix := strings.TrimSuffix(last, value)
		if prefix == "=" {
			prefix = ""
		}
		for _, v := range f.values[name] {
			if strings.HasPrefix(v, value) {
				all = append(all, prefix+v)
			}
		}
		return all
	case strings.HasPrefix(last, "-") && !strings.Contains(last, "="):
		f.VisitAll(func(f *flag.Flag) {
			name := "--" + f.Name
			if b, ok := f.Value.(interface{ IsBoolFlag() bool }); !ok || !b.IsBoolFlag() {
				name += "="
			}
			all = append(all, name)
		})
	case len(words) > 0 && words[len(words)-1] == cmd.name:
		all = cmd.words
	}
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !strings.HasPrefix(s, last) })
}

// flagBefore returns the flag whose value is being written, and what there is of
// it. Bash takes "--role=x" apart at the =, the other shells do not.
func flagBefore(words []string, last string) (name, value string, ok bool) {
	before := func(n int) string {
		if len(words) < n {
			return ""
		}
		return words[len(words)-n]
	}
	word := before(1)
	switch {
	case strings.HasPrefix(last, "--") && strings.Contains(last, "="):
		word, value, _ = strings.Cut(last, "=")
	case last == "=":
	case word == "=":
		word, value = before(2), last
	default:
		value = last
	}
	name, ok = strings.CutPrefix(word, "--")
	return name, value, ok
}
