package cli

import (
	"context"
	"fmt"
	"io"

	"onced/api/client"
)

// outcomes are what a signal can say.
var outcomes = []string{"done", "refused"}

// signalCommand is saga signal. It has no outcome by default: a word that was not
// meant moves money.
func signalCommand() *command {
	return &command{
		name: "signal", args: "ID STEP", least: 2, most: 2, run: sagaSignal,
		summary: "say what became of a step that waits for a word of its callee",
		help: "Find out at the callee first. The step counts as what is said, and a word that\n" +
			"contradicts it later holds the run. With --outcome=done, --data is what the definition\n" +
			"names in await.output: the steps behind and the undo read it.\n" +
			"Without --yes the run is shown and nothing is done.",
		flags: func(f *flags) {
			f.addRemote()
			f.values["outcome"] = outcomes
			f.String("outcome", "", "done or refused; required")
			f.String("data", "", "what came with it: `JSON`, @FILE, or - for stdin")
			f.String("reason", "", "`TEXT` that says why it was refused")
			f.Bool("yes", false, "do it; without it, only say what would happen")
		},
	}
}

func sagaSignal(ctx context.Context, c *call) error {
	id, step, outcome := c.args[0], c.args[1], c.text("outcome")
	if outcome != "done" && outcome != "refused" {
		what := c.path + " needs an outcome"
		if outcome != "" {
			what = fmt.Sprintf("the flag --outcome cannot be %q", outcome)
		}
		return usage(what, "it is done or refused, as the callee says", c.path+" "+id+" "+step+
			" --outcome=done --data=JSON")
	}
	data, err := c.jsonFlag("data")
	if err != nil {
		return err
	}
	cl, err := c.loggedIn()
	if err != nil {
		return err
	}
	if c.text("yes") != "true" {
		return c.previewSignal(ctx, cl, outcome)
	}
	answered, err := cl.SignalRun(ctx, id, step, client.Signal{Outcome: outcome, Data: data,
		Reason: c.text("reason")})
	if err != nil {
		return err
	}
	answer := struct {
		Run      string `json:"run"`
		Step     string `json:"step"`
		Outcome  string `json:"outcome"`
		Repeated bool   `json:"repeated"`
		Answer   string `json:"answer"`
	}{id, step, outcome, answered == client.SignalRepeated, answered}
	return c.printOne(answer, func(w io.Writer) error {
		how := "taken"
		switch answered {
		case client.SignalRepeated:
			how = "known already"
		case client.SignalContradicts:
			how = "which contradicts the end of the run: that stays as it is, so look at it with " +
				"onced saga show " + id
		}
		_, err := fmt.Fprintf(w, "step %s of run %s: %s, %s\n", step, id, outcome, how)
		return err
	})
}

// previewSignal shows the run, and what the signal would do.
func (c *call) previewSignal(ctx context.Context, cl *client.Client, outcome string) error {
	run, err := cl.GetRun(ctx, c.args[0], 0)
	if err != nil {
		return err
	}
	if err := printRun(c.env.Stderr, run); err != nil {
		return err
	}
	does := "counts as done, and the run goes on behind it"
	if outcome == "refused" {
		does = "counts as not having happened, and what was done before it is UNDONE"
	}
	if run.Ended() {
		does = "has ended with its run, which stays as it is: a done of what was undone begins a run that " +
			"undoes it, and a word that denies the end is kept beside it"
	}
	_, err = fmt.Fprintf(c.env.Stderr, "\nnothing was done yet\n  signal: the step %s %s.\n"+
		"  to do it: the same with --yes\n", printable(c.args[1]), does)
	return err
}
