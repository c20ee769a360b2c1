package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"onced/api/client"
	"onced/kv"
	"onced/saga"
)

// runStates are what --state takes.
var runStates = []string{"open", "running", "compensating", "held", "stuck", "completed", "compensated",
	"closed", "all"}

func sagaCommands() *command {
	c := &command{
		name: "saga", summary: "check and keep definitions, start runs, look at them and act on them",
		sub: append(definitionCommands(), []*command{
			{
				name: "start", args: "DEFINITION KEY", least: 2, most: 2, run: sagaStart,
				summary: "start a run, or find the one that the key has",
				help: "The same start with the same key is the same run, however often it is repeated,\n" +
					"until that is undone: then the same start begins a new one, in the next round.\n" +
					"So where a start may be sent again by itself, say --round=1: the run that was\n" +
					"undone is then the answer; --round=2 is the next try of the customer.\n" +
					"A key belongs to an account: the same key of another account is another run, and\n" +
					"everything happens again. With the account's own token it is that; with the\n" +
					"token of an admin, say --principal.\n" +
					"With --wait the exit code is 0 when the run has completed, and 1 when it was\n" +
					"undone, needs a person, or goes on after the wait.",
				flags: func(f *flags) {
					f.addRemote()
					f.String("input", "", "`JSON`, @FILE, or - for stdin")
					f.String("labels", "", "for finding it, `NAME:VALUE` with commas between")
					f.String("principal", "",
						"the `ACCOUNT` that the run is for; required with the token of an admin")
					f.String("version", "",
						"`VERSION` of the definition, for an admin; by default the latest")
					f.Int("round", 0, "which run of the key is meant, from 1; 0 does not say")
					f.Duration("wait", 0, "how `LONG` to wait for its end, for example 30s")
				},
			},
			{
				name: "list", summary: "list runs, the newest first", run: sagaList, flags: func(f *flags) {
					f.addRemote()
					f.addRunFilter("all")
					f.Bool("contradicted", false,
						"only those of which a word denies what is known, such as a charge that is called "+
							"back as failed after its order was completed")
					f.Int("limit", 50, "the most that are shown; 0 shows all")
				},
			},
			{
				name: "show", args: "ID", least: 1, most: 1, run: sagaShow,
				summary: "show a run with its steps and all that happened",
				help: "SENDS counts how often the step's call and its undo were sent. DOUBT is yes when a " +
					"send may\n" +
					"have happened and nothing has cleared it. NEXT is when the step goes on by itself; a " +
					"run\n" +
					"that is held or stuck, or has ended, does not. The etag stands for the run as it is " +
					"shown:\n" +
					"an act with --etag is done only if nothing has changed since.\n" +
					"WHAT in the history: sent, done, refused, retry (not done, tried again), unknown (it " +
					"may\n" +
					"have happened), waiting (for its signal), absent and unclear (of a look-up), signal,\n" +
					"conflict, back (the run is being undone), undo_sent, undone, undo_retry, undo_stuck,\n" +
					"held, operator (with the name), end. Times are UTC.",
				flags: func(f *flags) {
					f.addRemote()
					f.Duration("wait", 0, "how `LONG` to wait for its end, for example 30s")
				},
			},
			signalCommand(),
		}...),
	}
	c.sub = append(c.sub, verbCommands()...)
	for _, s := range c.sub {
		s.run = hinted(s.run)
	}
	return c
}

// addRunFilter adds the flags that select runs.
func (f *flags) addRunFilter(state string) {
	f.values["state"] = runStates
	f.String("state", state, "`STATE`: "+strings.Join(runStates, ", ")+"; several with commas")
	f.String("definition", "", "only of the definition of this `NAME`")
	f.String("principal", "", "only of this `ACCOUNT`")
	f.String("key", "", "only of this business `KEY`")
	f.String("label", "", "only with this label, `NAME:VALUE`")
	f.String("since", "", "begun then or later: a `TIME` as 2026-03-01T12:00:00Z, or an age as 24h")
	f.String("until", "", "begun before that `TIME`, or age")
}

// runFilter reads what addRunFilter added.
func (c *call) runFilter() (client.RunFilter, error) {
	f := client.RunFilter{State: c.text("state"), Definition: c.text("definition"),
		Principal: c.text("principal"), Key: c.text("key"), Label: c.text("label")}
	if f.State == "all" {
		f.State = ""
	}
	var err error
	if f.Since, err = c.when("since"); err != nil {
		return f, err
	}
	f.Until, err = c.when("until")
	return f, err
}

// when reads an instant, or an age before now.
func (c *call) when(flag string) (time.Time, error) {
	text := c.text(flag)
	if text == "" {
		return time.Time{}, nil
	}
	if age, err := time.ParseDuration(text); err == nil && age >= 0 {
		return kv.SystemClock().Now().Add(-age), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, usage(fmt.Sprintf("the flag --%s cannot be %q", flag, text),
			"it is a time or an age", c.path+" --"+flag+"=24h")
	}
	return at, nil
}

// jsonFlag reads a flag that is JSON, @FILE or - for stdin; nil is not given.
func (c *call) jsonFlag(name string) (json.RawMessage, error) {
	given := c.text(name)
	if given == "" {
		return nil, nil
	}
	text, from := []byte(given), "the flag --"+name
	var in io.Reader
	if file, ok := strings.CutPrefix(given, "@"); ok {
		f, err := os.Open(file)
		if err != nil {
			return nil, usage("the flag --"+name+" names a file that cannot be read", err.Error(),
				"name a file with JSON, or - for stdin")
		}
		defer f.Close()
		in, from = f, file
	} else if given == "-" {
		in, from = c.env.Stdin, "stdin"
	}
	if in != nil {
		var err error
		if text, err = io.ReadAll(io.LimitReader(in, 4*saga.MaxData)); err != nil {
			return nil, err
		}
	}
	if !json.Valid(text) {
		return nil, usage("the flag --"+name+" is not JSON", fmt.Sprintf("%s holds %d bytes that are none",
			from, len(text)), c.path+" --"+name+`='{"order":"o-1"}', or @FILE`)
	}
	return text, nil
}

// labelsFlag reads name:value,name:value.
func (c *call) labelsFlag() (map[string]string, error) {
	labels := map[string]string{}
	for pair := range strings.SplitSeq(c.text("labels"), ",") {
		if pair == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, ":")
		if !ok || name == "" {
			return nil, usage(fmt.Sprintf("the flag --labels cannot be %q", pair), "a label is NAME:VALUE",
				c.path+" --labels=channel:web,customer:c-7")
		}
		labels[name] = value
	}
	return labels, nil
}

func sagaStart(ctx context.Context, c *call) error {
	input, err := c.jsonFlag("input")
	if err != nil {
		return err
	}
	labels, err := c.labelsFlag()
	if err != nil {
		return err
	}
	round, err := strconv.ParseUint(c.text("round"), 10, 63)
	if err != nil {
		return usage("the flag --round cannot be "+strconv.Quote(c.text("round")), "it is a number from 0",
			c.path+" "+strings.Join(c.args, " ")+" --round=1")
	}
	cl, err := c.loggedIn()
	if err != nil {
		return err
	}
	run, err := cl.StartRun(ctx, client.StartRun{Definition: c.args[0], Key: c.args[1],
		Version: c.text("version"), Principal: c.text("principal"), Input: input,
		Labels: labels, Round: round})
	if err != nil {
		return err
	}
	joined := run.Joined
	waits := c.duration("wait") > 0
	if run, err = c.awaitRun(ctx, cl, run); err != nil {
		return err
	}
	err = c.printOne(run, func(w io.Writer) error {
		how := "started"
		if joined {
			how = "was there before"
		}
		_, err := fmt.Fprintf(w, "run %s %s: %s\n", run.ID, how, run.State)
		return err
	})
	if err != nil || !waits {
		return err
	}
	return ended(run)
}

func (c *call) duration(flag string) time.Duration {
	d, _ := time.ParseDuration(c.text(flag)) // the flag has checked it
	return d
}

// awaitRun waits as long as --wait says until the run has ended or needs a person.
func (c *call) awaitRun(ctx context.Context, cl *client.Client, run *client.Run) (*client.Run, error) {
	clock := kv.SystemClock()
	for until := clock.Now().Add(c.duration("wait")); !run.Ended() && !run.NeedsPerson(); {
		left := until.Sub(clock.Now()).Round(time.Second)
		if left < time.Second {
			break
		}
		next, err := cl.GetRun(ctx, run.ID, min(left, time.Minute))
		if err != nil {
			return nil, err
		}
		run = next
	}
	return run, nil
}

// ended is nil for a run that has completed, and says what to do about another.
func ended(run *client.Run) error {
	f := &failure{what: "run " + run.ID + " is " + run.State, why: orDash(run.Reason),
		try: "onced saga show " + run.ID}
	switch {
	case run.State == "completed":
		return nil
	case run.State == "compensated":
		f.what, f.why = "run "+run.ID+" was undone", orDash(strings.TrimSpace(run.FailedStep+" "+run.Reason))
	case !run.Ended() && !run.NeedsPerson():
		f.why, f.try = "it goes on; the wait is over", "onced saga show "+run.ID+" --wait=30s"
	}
	return f
}

func sagaList(ctx context.Context, c *call) error {
	f, err := c.runFilter()
	if err != nil {
		return err
	}
	limit, err := strconv.Atoi(c.text("limit"))
	if err != nil || limit < 0 {
		return usage("the flag --limit cannot be "+strconv.Quote(c.text("limit")), "it is a number from 0",
			c.path+" --limit=100")
	}
	cl, err := c.loggedIn()
	if err != nil {
		return err
	}
	f.Contradicted = c.text("contradicted") == "true"
	list := newList(c, "ID", "STATE", "DEFINITION", "PRINCIPAL", "KEY", "ROUND", "BEGUN", "CHANGED", "REASON")
	list.member = "runs"
	for shown := 0; ; {
		if limit > 0 {
			f.Limit = min(limit-shown, maxPage)
		}
		page, err := cl.ListRuns(ctx, f)
		if err != nil {
			return err
		}
		for i := range page.Runs {
			one := &page.Runs[i]
			list.add(one, one.ID, one.State, one.Definition, one.Principal, one.Key,
				strconv.FormatUint(one.Round, 10), stamp(one.CreatedAt), stamp(one.UpdatedAt), whyOf(one))
		}
		shown += len(page.Runs)
		if f.Cursor = page.NextCursor; f.Cursor == "" {
			break
		}
		if limit > 0 && shown >= limit {
			_, _ = fmt.Fprintln(c.env.Stderr, "there are more; --limit=0 shows all")
			break
		}
	}
	return list.print()
}

// whyOf says in few words why a run is as it is.
func whyOf(run *client.Run) string {
	words := []string{run.Hold, run.HoldStep}
	if run.Hold == "" {
		words = []string{run.Cause, run.FailedStep}
	}
	why := strings.TrimSpace(strings.Join(words, " "))
	for _, x := range run.Contradictions {
		why = strings.TrimPrefix(why+", contradicted "+x.Step, ", ")
	}
	return why
}

func sagaShow(ctx context.Context, c *call) error {
	cl, err := c.loggedIn()
	if err != nil {
		return err
	}
	run, err := cl.GetRun(ctx, c.args[0], 0)
	if err != nil {
		return err
	}
	if run, err = c.awaitRun(ctx, cl, run); err != nil {
		return err
	}
	return c.printOne(run, func(w io.Writer) error { return printRun(w, run) })
}

// printRun shows all of a run.
func printRun(out io.Writer, run *client.Run) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(cells ...string) {
		for i, cell := range cells {
			cells[i] = printable(cell)
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	fact := func(name, value string) {
		if value != "" {
			row(name, value)
		}
	}
	fact("id", run.ID)
	fact("state", run.State)
	fact("definition", strings.TrimSpace(run.Definition+" "+run.Version))
	fact("principal", run.Principal)
	fact("key", run.Key)
	fact("round", strconv.FormatUint(run.Round, 10))
	for name, value := range sorted(run.Labels) {
		fact("label", name+":"+value)
	}
	fact("begun", exact(run.CreatedAt))
	fact("changed", exact(run.UpdatedAt))
	fact("ended", exact(run.EndedAt))
	fact("undone after", exact(run.DeadlineAt))
	fact("why", whyOf(run))
	fact("reason", cliWords(run.Reason))
	if n := run.Next; n != nil {
		fact("next", fmt.Sprintf("%s of %s, try %d %s", n.Call, n.Step, n.Try, exact(n.At)))
	}
	fact(strings.TrimSpace(run.Link+" of"), run.Parent)
	for _, x := range run.Corrections {
		fact("corrected by", x.Run+" (step "+x.Step+")")
	}
	for _, x := range run.Contradictions {
		said := fmt.Sprintf("the word %s of step %s at %s; the run stays as it is", x.Outcome, x.Step,
			exact(x.At))
		if len(x.Data) > 0 {
			said += "; with it came " + string(x.Data)
		}
		fact("denied by", said)
	}
	fact("input", string(run.Input))
	fact("etag", run.ETag)
	_ = w.Flush()
	_, _ = fmt.Fprintln(out)
	row("STEP", "STATE", "UNDO", "SENDS", "DOUBT", "NEXT", "LAST ERROR")
	for i := range run.Steps {
		s := &run.Steps[i]
		doubt := ""
		if s.InDoubt {
			doubt = "yes"
		}
		row(s.Name, s.State, s.Undo, strconv.Itoa(s.Sends+s.UndoSends), doubt, exact(s.NextAt), s.Error)
	}
	_ = w.Flush()
	if len(run.History) > 0 {
		_, _ = fmt.Fprintln(out)
		row("WHEN", "WHAT", "STEP", "TEXT")
	}
	for _, h := range run.History {
		row(exact(h.At), h.What, h.Step, cliWords(h.Text))
	}
	if run.Dropped > 0 {
		row(fmt.Sprintf("%d entries in the middle are no longer kept", run.Dropped))
	}
	return w.Flush()
}
