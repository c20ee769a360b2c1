package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"onced/api/app"
	"onced/api/client"
	"onced/api/config"
	"onced/api/problem"
	"onced/kv"
)

// The exit codes.
const (
	ExitOK      = 0 // it is done
	ExitFailure = 1 // it failed
	ExitUsage   = 2 // the command line or the configuration is wrong
	ExitStore   = 3 // the store is in use, or was written by a newer version
	ExitProblem = 4 // a check found problems
)

// Env is what a command sees of the world.
type Env struct {
	// Args are the arguments without the program's name.
	Args []string
	// Program is what was typed, or the file that was started; empty means "onced".
	Program string
	// Environ is the environment, as os.Environ returns it.
	Environ []string
	// Stdin, Stdout and Stderr are the streams; nil ones are empty or discarded.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Signals delivers signals; nil means that there are none.
	Signals <-chan os.Signal
	// Exit ends the process at once; nil means os.Exit.
	Exit func(code int)
	// Terminal says that Stderr is read by a person.
	Terminal bool
	// App changes the options of the process that serve runs; nil changes
	// nothing. It is for tests.
	App func(*app.Options)
	// Serving is called by serve once it is put together; nil is not called. It
	// is for tests.
	Serving func(*app.App)
}

// OS returns the process's own Env. From then on SIGINT, SIGTERM and SIGHUP no
// longer end the process by themselves.
func OS() Env {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	info, err := os.Stderr.Stat()
	return Env{
		Args: os.Args[1:], Program: os.Args[0], Environ: os.Environ(),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Signals: signals, Exit: os.Exit,
		Terminal: err == nil && info.Mode()&os.ModeCharDevice != 0,
	}
}

func (e Env) withDefaults() Env {
	if e.Stdin == nil {
		e.Stdin = strings.NewReader("")
	}
	if e.Stdout == nil {
		e.Stdout = io.Discard
	}
	if e.Stderr == nil {
		e.Stderr = io.Discard
	}
	if e.Exit == nil {
		e.Exit = os.Exit
	}
	return e
}

// lookup returns a variable of the environment, "" when it is not set.
func (e Env) lookup(name string) string {
	value := ""
	for _, pair := range e.Environ {
		if v, ok := strings.CutPrefix(pair, name+"="); ok {
			value = v // the last one counts, as in os/exec
		}
	}
	return value
}

// Main runs the command that env.Args name and returns the exit code. When ctx
// ends, so does the command, in order.
func Main(ctx context.Context, env Env) int {
	env = env.withDefaults()
	ctx, cancel := context.WithCancel(ctx)
	s := &signals{cancel: cancel, exit: env.Exit, ended: make(chan struct{}), hup: make(chan struct{}, 1)}
	var watching sync.WaitGroup
	watching.Go(func() { s.watch(env.Signals) })
	defer watching.Wait()
	defer close(s.ended)
	defer cancel()

	err := dispatch(ctx, env, s)
	if err != nil {
		report(env, err)
	}
	return exitCode(err)
}

// signals turns signals into what commands understand.
type signals struct {
	cancel context.CancelFunc
	exit   func(int)
	ended  chan struct{}

	mu       sync.Mutex
	reloads  bool // the command reloads on SIGHUP
	hup      chan struct{}
	stopping bool
}

func (s *signals) watch(in <-chan os.Signal) {
	for {
		select {
		case <-s.ended:
			return
		case sig, ok := <-in:
			if !ok {
				return
			}
			s.take(sig)
		}
	}
}

func (s *signals) take(sig os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case sig == syscall.SIGHUP && s.reloads:
		select {
		case s.hup <- struct{}{}:
		default: // one is waiting already and will see the newest file
		}
	case s.stopping:
		s.exit(ExitFailure)
	default:
		s.stopping = true
		s.cancel()
	}
}

// onReload makes SIGHUP a request to reload.
func (s *signals) onReload() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reloads = true
	return s.hup
}

// failure is an error in three lines.
type failure struct {
	what string // onced: what happened
	why  string // the reason; may have several lines
	try  string // what to do
	code int
	err  error // what is behind it; may be nil
}

// Error returns what and why.
func (f *failure) Error() string { return f.what + ": " + f.why }

// Unwrap returns the error behind it.
func (f *failure) Unwrap() error { return f.err }

func usage(what, why, try string) error {
	return &failure{what: what, why: why, try: try, code: ExitUsage}
}

func exitCode(err error) int {
	switch f, ok := errors.AsType[*failure](err); {
	case err == nil:
		return ExitOK
	case ok && f.code != 0:
		return f.code
	case errors.Is(err, config.ErrInvalid):
		return ExitUsage
	case errors.Is(err, kv.ErrLocked), errors.Is(err, kv.ErrNewer):
		return ExitStore
	}
	return ExitFailure
}

// report prints an error as what, why and try.
func report(env Env, err error) {
	f, ok := errors.AsType[*failure](err)
	if !ok {
		f = &failure{what: "it failed", why: err.Error(), try: remedy(err)}
	}
	bad, plain := "", ""
	if env.Terminal && env.lookup("NO_COLOR") == "" && env.lookup("TERM") != "dumb" {
		bad, plain = "\x1b[31m", "\x1b[0m"
	}
	_, _ = fmt.Fprintf(env.Stderr, "%sonced: %s%s\n", bad, f.what, plain)
	for line := range strings.SplitSeq(f.why, "\n") {
		_, _ = fmt.Fprintf(env.Stderr, "  why: %s\n", line)
	}
	if f.try != "" {
		_, _ = fmt.Fprintf(env.Stderr, "  try: %s\n", f.try)
	}
}

// remedy says what to do about errors that have no remedy in their text.
func remedy(err error) string {
	switch {
	case client.Code(err) == problem.Unauthorized:
		return "put a valid token into ONCED_TOKEN, or its file into --token-file"
	case client.Code(err) == problem.Forbidden:
		return "use the token of a role that may"
	case errors.Is(err, kv.ErrLocked):
		return "stop the other process, or use another folder with --data"
	case errors.Is(err, kv.ErrNewer):
		return "run the version of onced that wrote it, or a later one"
	case errors.Is(err, kv.ErrForeign):
		return "use another folder with --data"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "onced serve, or --url for another address"
	case errors.Is(err, syscall.EADDRINUSE):
		return "stop the program that has the address, or choose another with --listen"
	}
	return ""
}
