package config

import "time"

// Config are all settings. The tags are its schema: key is the name in the
// file, default the value when nothing is said, min, max and oneof bound it,
// reload says that a running program takes over a change. Treat it as read
// only.
type Config struct {
	// Listen is the address of the API, host:port. Without a host it is every
	// address of the machine.
	Listen string `key:"listen" default:"127.0.0.1:8080"`
	// Data is the folder of the store; it is made when it is not there.
	Data string `key:"data" default:"./onced-data"`

	Log     Log     `key:"log"`
	Store   Store   `key:"store"`
	Claims  Claims  `key:"claims"`
	HTTP    HTTP    `key:"http"`
	Auth    Auth    `key:"auth"`
	Metrics Metrics `key:"metrics"`
	// Routes of the idempotent proxy. Their order does not matter.
	Routes []Route `key:"routes" reload:"yes"`
}

// Log says what is logged to stderr and how.
type Log struct {
	// Level is the least that is logged: error means that someone must act, warn
	// that onced will try again.
	Level string `key:"level" default:"info" oneof:"debug info warn error" reload:"yes"`
	// Format is auto for text on a terminal and json elsewhere.
	Format string `key:"format" default:"auto" oneof:"auto text json"`
}

// Store are the limits of the store.
type Store struct {
	// MinFree is the free space on the disk below which new work is refused while
	// outcomes are still recorded; 0 means no mark.
	MinFree Bytes `key:"min_free" default:"64MiB" min:"0"`
}

// Claims are the limits of idempotency keys.
type Claims struct {
	// Retention is how long a finished key is kept and its result replayed. It is
	// published to clients.
	Retention time.Duration `key:"retention" default:"720h" min:"1h" max:"87600h"`
	// MaxResult is the largest result that is kept; of a larger one only the
	// outcome is.
	MaxResult Bytes `key:"max_result" default:"8MiB" min:"1KiB" max:"15MiB"`
	// Sweep is how often expired keys are removed and dead owners recorded.
	Sweep time.Duration `key:"sweep" default:"1m" min:"1s" max:"24h"`
}

// HTTP are the limits of the servers, the same for each address.
type HTTP struct {
	// HeaderTimeout bounds the reading of a request's header, ReadTimeout that of
	// its body, WriteTimeout each write of the answer, IdleTimeout the pause
	// between two requests of a connection.
	HeaderTimeout time.Duration `key:"header_timeout" default:"5s" min:"100ms" max:"5m"`
	ReadTimeout   time.Duration `key:"read_timeout" default:"30s" min:"100ms" max:"1h"`
	WriteTimeout  time.Duration `key:"write_timeout" default:"30s" min:"100ms" max:"1h"`
	IdleTimeout   time.Duration `key:"idle_timeout" default:"2m" min:"1s" max:"1h"`
	// DrainTimeout is how long requests under way may take after the signal to
	// stop.
	DrainTimeout time.Duration `key:"drain_timeout" default:"25s" min:"0s" max:"10m"`
	// MaxHeader and MaxBody bound a request; routes may set their own MaxBody.
	MaxHeader Bytes `key:"max_header" default:"64KiB" min:"4KiB" max:"1MiB"`
	MaxBody   Bytes `key:"max_body" default:"1MiB" min:"1KiB" max:"12MiB"`
	// MaxConnections bounds the connections open at a time, of each address.
	MaxConnections int `key:"max_connections" default:"4096" min:"1" max:"1000000"`
	// TrustedProxies are the networks (10.0.0.0/8) or addresses whose
	// X-Forwarded-For is believed.
	TrustedProxies []string `key:"trusted_proxies"`
}

// Auth is about tokens.
type Auth struct {
	// MaxFailures wrong tokens of one address within FailureWindow are answered;
	// more are refused unseen until the window has passed.
	MaxFailures   int           `key:"max_failures" default:"20" min:"1" max:"100000"`
	FailureWindow time.Duration `key:"failure_window" default:"1m" min:"1s" max:"24h"`
}

// Metrics is about the numbers for Prometheus.
type Metrics struct {
	// Listen is an address of their own, on which they need no token; empty means
	// that they are at /metrics of the API, for tokens with the role metrics.
	Listen string `key:"listen"`
}
