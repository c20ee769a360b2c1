package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"onced/api/app"
	"onced/api/demo"
)

// demoServiceName is the hidden command that the demo runs as its child: serve,
// with the demo's hooks.
const demoServiceName = "__demo-service"

const demoHelp = `A shop on localhost:3000 whose checkout is a saga of four steps at four services: points are spent, a
voucher is redeemed, the card is charged (the gateway calls back), the order is made. onced runs it, and
switches break each part. Without --orders it waits for you and says what to try. With --orders it places
them by itself, prints the proof from the services' own ledgers as a table and as JSON, and ends: with
exit code 0 when of every order all four steps stand once, or none, with 4 when not. It ends within
--limit, and some ten seconds more at the worst. Ctrl-C prints what there is until then, with exit code 1.
Everything is kept in the folder --data, and nothing elsewhere. Each kind of demo has its own books
there: interactive, load, interactive-unprotected and load-unprotected. Without --orders it continues
with its own books of an earlier demo; the page's reset empties those. With --orders it empties its own
at the start.
--unprotected leaves onced out, to show what it is for: then customers are charged twice, orders are
shipped twice, and others stay half done. With --orders it needs a fault that does harm: refuse, early
and keys alone do none.
A checkout waits for its end; with the header "Prefer: wait=0" it is answered at once: 202 while the
order is under way, 503 with Retry-After while onced is down.
`

// demoCommand is the command "demo".
func demoCommand() *command {
	var d demo.Config
	faults := ""
	return &command{
		name: "demo", summary: "break everything, and prove that nobody is charged twice; no real money",
		help: demoHelp + exitHelp,
		flags: func(f *flags) {
			d, faults = demo.Config{}, ""
			f.addOutput()
			f.StringVar(&d.Data, "data", demo.DefaultData,
				"the `FOLDER` of the demo; by default "+demo.DefaultData)
			f.IntVar(&d.Port, "port", demo.DefaultPort, fmt.Sprintf(
				"the `PORT` on localhost; 0 takes a free one; by default %d", demo.DefaultPort))
			f.IntVar(&d.Orders, "orders", 0, "place `N` orders and end; 0, the default, waits for you")
			f.IntVar(&d.Clients, "clients", demo.DefaultClients, fmt.Sprintf(
				"`N` clients place the orders; by default %d", demo.DefaultClients))
			f.StringVar(&faults, "faults", "", "what to break from the start: none, or some of "+
				"all,delay,lose,error,refuse,duplicate,drop,early,crash,keys, where all is every fault but "+
				"keys, which makes every service honour keys; by default all with --orders, else none")
			f.Uint64Var(&d.Seed, "seed", 1,
				"`NUMBER` that decides which call meets which fault; by default 1")
			f.DurationVar(&d.Limit, "limit", demo.DefaultLimit, fmt.Sprintf(
				"the `TIME` after which a run with --orders ends; by default %s", demo.DefaultLimit))
			f.BoolVar(&d.Unprotected, "unprotected", false,
				"leave onced out: the shop calls the gateway itself")
		},
		run: func(ctx context.Context, c *call) error { return runDemo(ctx, c, d, faults) },
	}
}

func runDemo(ctx context.Context, c *call, d demo.Config, faults string) error {
	if faults == "" && d.Orders > 0 {
		faults = "all"
	}
	var err error
	if d.Faults, err = demo.ParseFaults(faults); err != nil {
		return usage("the flag --faults cannot be used", err.Error(), c.path+" --orders=1000 --faults=all")
	}
	program, err := os.Executable()
	if err != nil {
		return &failure{what: "the demo could not find its own program", why: err.Error(), err: err}
	}
	d.Service = []string{program, demoServiceName, "--config"}
	d.Command = typed(c.env.Program) + " demo"
	d.Environ, d.JSON = c.env.Environ, c.flags.output != "table"
	d.Stdout, d.Stderr, d.Terminal = c.env.Stdout, c.env.Stderr, c.env.Terminal
	return demoFailure(demo.Run(ctx, d))
}

// typed is what a person types to run the program again. "go run ." starts a file
// in a folder of go's, which is gone afterwards.
func typed(program string) string {
	switch {
	case program == "":
		return "onced"
	case slices.ContainsFunc(strings.Split(filepath.ToSlash(program), "/"), func(folder string) bool {
		return strings.HasPrefix(folder, "go-build")
	}):
		return "go run ."
	case strings.ContainsAny(program, " \t'\"$\\"):
		return "onced"
	}
	return program
}

// demoFailure says what to do about the demo's errors.
func demoFailure(err error) error {
	port, taken := errors.AsType[*demo.PortError](err)
	switch {
	case err == nil:
		return nil
	case taken:
		return &failure{what: "the demo could not start", why: port.Error(), try: port.Remedy(), err: err}
	case errors.Is(err, demo.ErrConfig):
		return usage("the demo cannot run so", strings.TrimPrefix(err.Error(), demo.ErrConfig.Error()+": "),
			"onced demo --help")
	case errors.Is(err, demo.ErrStopped):
		return &failure{what: "the run was stopped before its end", why: "it was interrupted; " +
			"what is above is no proof", err: err}
	case errors.Is(err, demo.ErrProof):
		why := strings.TrimPrefix(err.Error(), demo.ErrProof.Error()+": ")
		return &failure{what: "the proof failed", why: why, code: ExitProblem, err: err}
	}
	return &failure{what: "the demo ended with an error", why: err.Error(), try: remedy(err), err: err}
}

// demoServiceCommand is what the demo runs as its child.
func demoServiceCommand() *command {
	return &command{
		name: demoServiceName, hidden: true, summary: "the service of the demo", run: demoService,
		flags: func(f *flags) { f.addConfig() },
	}
}

// demoService is serve with the demo's hooks: it may be told where to stop to be
// killed, and it ends when its stdin is closed.
func demoService(ctx context.Context, c *call) error {
	child := demo.NewChild(c.env.Stdin, c.env.Stdout, c.env.Exit)
	c.env.Stdout = io.Discard // the parent reads it; what serve says there is for people
	c.env.App = func(o *app.Options) { o.Wrap = child.Wrap }
	c.env.Serving = func(a *app.App) { child.Ready(a.Addr("api").String()) }
	return serve(ctx, c)
}
