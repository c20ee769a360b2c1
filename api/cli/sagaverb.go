package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"onced/api/client"
)

// verb is an act of a person on a run.
type verb struct {
	name    string // of the command; the API has _ for -
	step    bool   // it is about one step
	summary string
	does    string // what it does to the money
}

var verbs = []verb{
	{
		"retry", false, "have what waits go on now",
		"What waits is due now: its call is made again under the same key, or is asked about again.",
	},
	{
		"cancel", false, "have a run undone",
		"No further step begins. What was done is UNDONE: refunds and the like are sent.",
	},
	{
		"mark-done", true, "say that a step, or its undo, happened",
		"The step, or its undo when that is due, counts as done. Nothing is sent for it. The run goes on " +
			"behind it, or is undone: the reason says which.",
	},
	{
		"mark-not-done", true, "say that a step, or its undo, did not happen",
		"The step, or its undo when that is due, counts as not having happened. It may be SENT AGAIN: the " +
			"reason says so.",
	},
	{
		"skip", true, "do without a step, or let its effect stand",
		"The run does without the step. What it has done already STANDS, and is not undone.",
	},
	{
		"close", false, "end a run as it is",
		"The run ends as it is. Nothing more is sent, and whatever happened STANDS.",
	},
	{
		"rerun", false, "run one that has ended again",
		"A new run with the same input begins: every step is SENT with a new key. What still stands of the " +
			"old run happens TWICE.",
	},
}

func (v *verb) api() string { return strings.ReplaceAll(v.name, "-", "_") }

// verbCommands are the acts on one run, and bulk.
func verbCommands() []*command {
	out := make([]*command, 0, len(verbs)+1)
	var names []string
	for i := range verbs {
		v := &verbs[i]
		args, n := "ID", 1
		if v.step {
			args, n = "ID STEP", 2
		}
		out = append(out, &command{
			name: v.name, args: args, least: n, most: n, summary: v.summary,
			help: v.does +
				"\nWithout --yes the run is shown and nothing is done; with it one line tells what became " +
				"of it.\nThe act is kept with name and reason.",
			run: func(ctx context.Context, c *call) error { return sagaAct(ctx, c, v) },
			flags: func(f *flags) {
				f.addRemote()
				f.String("reason", "", "`TEXT` for the audit; required")
				f.String("etag", "",
					"act only if the run is as `ETAG` says, which saga show tells")
				f.Bool("yes", false, "do it; without it, only say what would happen")
				if v.name == "mark-done" {
					f.String("result", "", "what the step gave, with the fields that its definition names "+
						"as its output: `JSON`, @FILE, or - for stdin")
				}
			},
		})
		if v.name != "rerun" {
			names = append(names, v.name)
		}
	}
	return append(out, &command{
		name: "bulk", args: "VERB", least: 1, most: 1, run: sagaBulk, words: names,
		summary: "act on all runs that are selected",
		help: "VERB is " + strings.Join(names, ", ") + ". Runs that have ended are never selected.\n" +
			"Say which runs, or --all for every open run of all definitions and accounts.\n" +
			"The exit code is 1 when all that were selected refused.\n" +
			"Without --yes nothing is done, and it says what would be.",
		flags: func(f *flags) {
			f.addRemote()
			f.addRunFilter("open")
			f.Bool("all", false, "all open runs, of all definitions and accounts, in place of a selector")
			f.String("step", "", "`STEP` that mark-done, mark-not-done and skip are about")
			f.String("reason", "", "`TEXT` for the audit; required")
			f.Int("limit", 0, "the most runs; 0 is all")
			f.Bool("dry-run", false, "only say what would happen; so it does without --yes too")
			f.Bool("yes", false, "do it")
		},
	})
}

// reason is the flag that every act needs.
func (c *call) reason(example string) (string, error) {
	reason := c.text("reason")
	if reason == "" {
		return "", usage(c.path+" needs a reason", "who looks at it later has to know why",
			example+" --reason=TEXT")
	}
	return reason, nil
}

func sagaAct(ctx context.Context, c *call, v *verb) error {
	act := client.Act{ETag: c.text("etag")}
	var err error
	if act.Reason, err = c.reason(c.path + " " + strings.Join(c.args, " ")); err != nil {
		return err
	}
	if v.step {
		act.Step = c.args[1]
	}
	if v.name == "mark-done" {
		if act.Output, err = c.jsonFlag("result"); err != nil {
			return err
		}
	}
	cl, err := c.loggedIn()
	if err != nil {
		return err
	}
	run, err := cl.GetRun(ctx, c.args[0], 0)
	if err != nil {
		return err
	}
	if act.ETag == "" { // what is there now, and nothing later
		act.ETag = run.ETag
	}
	if c.text("yes") != "true" {
		return c.previewAct(v, run, act.ETag)
	}
	after, err := cl.ActOnRun(ctx, run.ID, v.api(), act)
	if err != nil {
		return err
	}
	return c.printOne(after, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "run %s: %s, now %s\n", after.ID, v.name, after.State)
		return err
	})
}

// previewAct shows the run, and what the act would do to it.
func (c *call) previewAct(v *verb, run *client.Run, etag string) error {
	if err := printRun(c.env.Stderr, run); err != nil {
		return err
	}
	switch rerun := v.name == "rerun"; {
	case rerun && !run.Ended():
		return &failure{what: v.name + " does nothing here", why: "the run is " + run.State +
			"; only one that has ended can be run again", try: "onced saga show " + run.ID}
	case !rerun && run.Ended():
		return &failure{what: v.name + " does nothing here", why: "the run is " + run.State +
			": it has ended and never changes",
			try: "onced saga rerun " + run.ID + " --reason=TEXT, which begins a new one"}
	}
	_, err := fmt.Fprintf(c.env.Stderr, "\nnothing was done yet\n  %s: %s\n  to do it: the same with "+
		"--yes --etag='%s'\n", v.name, v.does, etag)
	return err
}

func sagaBulk(ctx context.Context, c *call) error {
	v := findVerb(c.args[0])
	if v == nil || v.name == "rerun" {
		return unknownVerb(c)
	}
	b := client.BulkAct{Verb: v.api(), Step: c.text("step")}
	switch {
	case v.step && b.Step == "":
		return usage(c.path+" "+v.name+" needs --step", "it is about one step of each run",
			c.path+" "+v.name+" --step=STEP --state=held --reason=TEXT")
	case !v.step && b.Step != "":
		return usage(c.path+" "+v.name+" takes no --step", "it is about the run; mark-done, mark-not-done "+
			"and skip are about a step", c.path+" "+v.name+" --state=held --reason=TEXT")
	}
	var err error
	if b.Reason, err = c.reason(c.path + " " + v.name); err != nil {
		return err
	}
	if err := c.bulkSelection(v, &b); err != nil {
		return err
	}
	limit, err := strconv.Atoi(c.text("limit"))
	if err != nil || limit < 0 {
		return usage("the flag --limit cannot be "+strconv.Quote(c.text("limit")), "it is a number from 0",
			c.path+" "+v.name+" --limit=100")
	}
	b.DryRun = c.text("yes") != "true" || c.text("dry-run") == "true"
	cl, err := c.loggedIn()
	if err != nil {
		return err
	}
	return c.bulk(ctx, cl, b, limit)
}

// bulkSelection reads which runs are meant. That none is named is no way to say all.
func (c *call) bulkSelection(v *verb, b *client.BulkAct) (err error) {
	if b.Filter, err = c.runFilter(); err != nil {
		return err
	}
	b.All = c.text("all") == "true"
	some := b.Filter
	if some.State == "open" {
		some.State = ""
	}
	if narrow := some != (client.RunFilter{}); narrow == b.All {
		what, why := " needs a selector", "that is every open run of all definitions and accounts"
		if narrow {
			what, why = " takes --all or a selector", "the one is every open run, the other some"
		}
		return usage(c.path+" "+v.name+what, why, c.path+" "+v.name+
			" --state=held --definition=NAME --reason=TEXT, or --all")
	}
	return nil
}

// maxBulk is the most runs that one request acts on.
const maxBulk = 10_000

// bulk acts page by page, and tells what was done also when it breaks off.
func (c *call) bulk(ctx context.Context, cl *client.Client, b client.BulkAct, limit int) error {
	list := newList(c, "RUN", "DEFINITION", "PRINCIPAL", "KEY", "RESULT")
	list.member, list.more = "runs", map[string]any{"verb": b.Verb, "dry_run": b.DryRun}
	acted, refused, stopped := 0, 0, ""
	done := "done"
	if b.DryRun {
		done = "would be done"
	}
	var failed error
	for {
		if limit > 0 {
			b.Limit = min(limit-acted, maxBulk)
		}
		page, err := cl.ActOnRuns(ctx, b)
		if err != nil {
			failed = err
			break
		}
		which := map[string]client.BulkRun{}
		for _, r := range page.Runs {
			which[r.Run] = r
		}
		for _, id := range page.Acted {
			list.addBulk(bulkRow{Run: id, Acted: true}, which[id], done)
		}
		for _, r := range page.Refused {
			list.addBulk(bulkRow{Run: r.Run, Reason: r.Reason}, which[r.Run], "refused: "+cliWords(r.Reason))
		}
		acted, refused, stopped = acted+len(page.Acted), refused+len(page.Refused), page.Stopped
		if b.Cursor = page.NextCursor; b.Cursor == "" || stopped != "" || limit > 0 && acted >= limit {
			break
		}
	}
	if err := list.print(); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(c.env.Stderr, "%d %s, %d refused\n", acted, done, refused)
	if b.DryRun && acted > 0 {
		_, _ = fmt.Fprintln(c.env.Stderr, "nothing was done yet; to do it: the same with --yes")
	}
	if stopped != "" {
		return &failure{what: "it broke off", why: "the server stopped with the problem " + stopped,
			try: "the same again; what was done is not done twice"}
	}
	if failed == nil && acted == 0 && refused > 0 {
		return &failure{what: "nothing is done", why: "all runs that were selected refuse it",
			try: "onced saga show ID, which says what can be done"}
	}
	return failed
}

// bulkRow is a run that a bulk act was about.
type bulkRow struct {
	Run        string `json:"run"`
	Definition string `json:"definition,omitempty"`
	Principal  string `json:"principal,omitempty"`
	Key        string `json:"key,omitempty"`
	Acted      bool   `json:"acted"`
	Reason     string `json:"reason,omitempty"`
}

// addBulk adds a run of a bulk act, with what is known of it.
func (l *list) addBulk(r bulkRow, of client.BulkRun, result string) {
	r.Definition, r.Principal, r.Key = of.Definition, of.Principal, of.Key
	l.add(r, r.Run, r.Definition, r.Principal, r.Key, result)
}

func findVerb(name string) *verb {
	for i := range verbs {
		if verbs[i].name == strings.ReplaceAll(name, "_", "-") {
			return &verbs[i]
		}
	}
	return nil
}

func unknownVerb(c *call) error {
	var names []string
	for i := range verbs {
		if verbs[i].name != "rerun" {
			names = append(names, verbs[i].name)
		}
	}
	return unknownWord(c.path, c.args[0], names)
}
