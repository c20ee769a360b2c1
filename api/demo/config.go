package demo

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"onced/api/demo/callee"
	"onced/kv"
)

// The defaults of [Config].
const (
	DefaultData    = "./onced-demo"  // Config.Data
	DefaultPort    = 3000            // Config.Port
	DefaultClients = 50              // Config.Clients
	DefaultLimit   = 5 * time.Minute // Config.Limit
)

// maxOrders bounds what a demo keeps, maxClients who asks at a time.
const (
	maxOrders  = 100_000
	maxClients = 1000
)

// Config says what to demonstrate. Service and Data are required.
type Config struct {
	// Service is the command that runs the child; the path of a configuration
	// file is put after it.
	Service []string
	// Command is how the person who is told of it runs the demo; empty means
	// "onced demo".
	Command string
	// Environ is the child's environment; variables that begin with ONCED_ are
	// left out.
	Environ []string
	// Data is the folder that everything is kept in. It is made when it is not
	// there, and refused when it holds something else. Each kind of demo, with
	// orders or without, protected or not, keeps its books in a folder of its own
	// below; a run with orders empties that at its start.
	Data string
	// Port on loopback; 0 takes a free one.
	Port int

	// Orders is how many orders to place by itself, and then to end; 0 waits for
	// people instead. Clients place them, at most Limit long.
	Orders  int
	Clients int
	Limit   time.Duration
	// Faults are on from the start.
	Faults Faults
	// Seed decides which call meets which fault.
	Seed uint64
	// Unprotected leaves the service out: the shop calls the gateway itself.
	Unprotected bool

	// JSON prints the proof as JSON only.
	JSON bool
	// Stdout gets the proof, Stderr the progress. Terminal says that a person
	// reads Stderr.
	Stdout, Stderr io.Writer
	Terminal       bool
	// Clock is the one clock; nil means the system's.
	Clock kv.Clock
	// Rand makes the token that the shop calls the service with; nil means
	// crypto/rand.Reader.
	Rand io.Reader
	// Ready is called with the URL once the demo answers; nil is not called. It
	// is for tests.
	Ready func(url string)
}

func (c Config) withDefaults() Config {
	if c.Stdout == nil {
		c.Stdout = io.Discard
	}
	if c.Stderr == nil {
		c.Stderr = io.Discard
	}
	if c.Clock == nil {
		c.Clock = kv.SystemClock()
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	return c
}

// ErrConfig means that a Config says what cannot be.
var ErrConfig = errors.New("demo: it cannot run so")

func (c Config) validate() error {
	var problem string
	switch {
	case len(c.Service) == 0 && !c.Unprotected:
		problem = "Config.Service names no command"
	case c.Data == "":
		problem = "--data is empty; use for example --data=" + DefaultData
	case c.Orders < 0 || c.Orders > maxOrders:
		problem = fmt.Sprintf("--orders is %d; 0 to %d are allowed", c.Orders, maxOrders)
	case c.Clients < 1 || c.Clients > maxClients:
		problem = fmt.Sprintf("--clients is %d; 1 to %d are allowed", c.Clients, maxClients)
	case c.Port < 0 || c.Port > 65535:
		problem = fmt.Sprintf("--port is %d; 0 to 65535 are allowed, 0 takes a free one", c.Port)
	case c.Unprotected && c.Orders > 0 && !c.Faults.harmful():
		problem = "--unprotected with these --faults shows nothing: a shop can deal with them by itself; " +
			"use for example --faults=all"
	case c.Limit < time.Second || c.Limit > 24*time.Hour:
		problem = fmt.Sprintf("--limit is %s; 1s to 24h are allowed", c.Limit)
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", ErrConfig, problem)
}

// Faults are switches that are on from the start. Keys is no fault.
type Faults struct {
	// Delay, Lose, Error and Refuse: see the demo's page. With orders they are on at
	// every service.
	Delay, Lose, Error, Refuse bool
	// Duplicate, Drop and Early are about callbacks.
	Duplicate, Drop, Early bool
	// Crash kills the service. Keys lets every service honour idempotency keys.
	Crash, Keys bool
}

// faultNames are what ParseFaults takes.
var faultNames = []string{"all", "delay", "lose", "error", "refuse", "duplicate", "drop", "early", "crash",
	"keys"}

// ParseFaults reads none, or names with commas between them. The name all is every
// fault; keys is none of them, and has to be named.
func ParseFaults(text string) (Faults, error) {
	if text == "none" || text == "" {
		return Faults{}, nil
	}
	var f Faults
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(faultNames, name) {
			return Faults{}, fmt.Errorf("%q is no fault; allowed: none, or some of %s", name,
				strings.Join(faultNames, ","))
		}
		for one, set := range map[string]*bool{"delay": &f.Delay, "lose": &f.Lose, "error": &f.Error,
			"refuse": &f.Refuse, "duplicate": &f.Duplicate, "drop": &f.Drop, "early": &f.Early,
			"crash": &f.Crash} {
			*set = *set || name == one || name == "all"
		}
		f.Keys = f.Keys || name == "keys"
	}
	return f, nil
}

// switches are the faults by the names of their switches, but crash.
func (f Faults) switches() map[string]bool {
	return map[string]bool{callee.Delay: f.Delay, callee.Lose: f.Lose, callee.Fail: f.Error,
		callee.Refuse: f.Refuse, callee.Duplicate: f.Duplicate, callee.Drop: f.Drop, callee.Early: f.Early,
		callee.Keys: f.Keys}
}

// harmful reports that the faults do harm to a shop without onced.
func (f Faults) harmful() bool {
	return f.Delay || f.Lose || f.Error || f.Duplicate || f.Drop || f.Crash
}
