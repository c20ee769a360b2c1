package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"onced/api/problem"
)

// cliWords writes the names of acts as the commands have them; in the API they have _.
func cliWords(text string) string {
	return strings.NewReplacer("mark_done", "mark-done", "mark_not_done", "mark-not-done").Replace(text)
}

// exact is an instant with milliseconds, for what happens within a second.
func exact(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// hinted adds to what the server refuses which command tells more, in the words of the
// commands.
func hinted(run func(context.Context, *call) error) func(context.Context, *call) error {
	return func(ctx context.Context, c *call) error {
		err := run(ctx, c)
		p, ok := errors.AsType[*problem.Problem](err)
		if _, told := errors.AsType[*failure](err); !ok || told {
			return err
		}
		f := &failure{what: "it failed", why: cliWords(err.Error()), try: remedy(err), err: err}
		if hint := hintOf(c, p); hint != "" {
			f.try = hint
		}
		return f
	}
}

// hintOf names the command that helps.
func hintOf(c *call, p *problem.Problem) string {
	about := ""
	if len(c.args) > 0 {
		about = c.args[0]
	}
	definition := strings.HasSuffix(c.path, " definitions")
	switch {
	case p.Code == problem.InvalidField && p.Param == "definition", p.Code == problem.NotFound && definition:
		return "onced saga definitions"
	case p.Code == problem.NotFound && strings.HasPrefix(about, "run_"):
		return "onced saga list"
	case p.Code == problem.NotFound && about != "":
		return "onced saga list --key=" + about + ", which shows the id of the run"
	case p.Code == problem.Forbidden && p.Param == "principal":
		return "the same with --principal=ACCOUNT, which onced token list shows, or with that account's token"
	case p.Code == problem.Stale:
		return "onced saga show " + about
	}
	return ""
}
