package config

import (
	"strings"
	"time"
)

// Config are all settings. The tags are its schema: key is the name in the
// file, default the value when nothing is said, min, max and oneof bound it,
// reload says that a running program takes over a change, path that a relative
// one is seen from the folder of the file that it stands in. Treat it as read only.
type Config struct {
	// Listen is the address of the API, host:port. Without a host it is every
	// address of the machine.
	Listen string `default:"127.0.0.1:8080" key:"listen"`
	// Data is the folder of the store; it is made when it is not there. A relative
	// one, and the default, is in the folder of the configuration file, so that it is
	// the same wherever the program is started; one of a variable or a flag, and
	// without a file, in the working directory.
	Data string `default:"./onced-data" key:"data" path:"yes"`
	// PublicURL is the base under which others reach the API: callback URLs begin
	// with it. Empty means http:// and the address that is listened at; see
	// [Config.Base].
	PublicURL string `key:"public_url"`

	Log     Log     `key:"log"`
	Store   Store   `key:"store"`
	Claims  Claims  `key:"claims"`
	Sagas   Sagas   `key:"sagas"`
	HTTP    HTTP    `key:"http"`
	Auth    Auth    `key:"auth"`
	Metrics Metrics `key:"metrics"`
	// Secrets are what definitions of sagas may put into their calls, by name; see
	// [Secrets].
	Secrets Secrets `key:"secrets" reload:"yes"`
	// Routes of the idempotent proxy. Their order does not matter.
	Routes []Route `key:"routes" reload:"yes"`
}

// Log says what is logged to stderr and how.
type Log struct {
	// Level is the least that is logged: error means that someone must act, warn
	// that onced will try again.
	Level string `default:"info" key:"level" oneof:"debug info warn error" reload:"yes"`
	// Format is auto for text on a terminal and json elsewhere.
	Format string `default:"auto" key:"format" oneof:"auto text json"`
}

// Store are the limits of the store.
type Store struct {
	// MinFree is the free space on the disk below which new work is refused while
	// outcomes are still recorded; 0 means no mark.
	MinFree Bytes `default:"64MiB" key:"min_free" min:"0"`
}

// Claims are the limits of idempotency keys.
type Claims struct {
	// Retention is how long a finished key is kept and its result replayed. It is
	// published to clients.
	Retention time.Duration `default:"720h" key:"retention" max:"87600h" min:"1h"`
	// MaxResult is the largest result that is kept; of a larger one only the
	// outcome is.
	MaxResult Bytes `default:"8MiB" key:"max_result" max:"15MiB" min:"1KiB"`
	// Sweep is how often expired keys are removed and dead owners recorded.
	Sweep time.Duration `default:"1m" key:"sweep" max:"24h" min:"1s"`
}

// Sagas are the settings of definitions and their runs.
type Sagas struct {
	// Definitions are files with definitions, or folders with files that end in
	// .yaml, .yml or .json. They are trusted: their calls may go to any host.
	Definitions []string `key:"definitions" path:"yes" reload:"yes"`
	// Retention is how long a run is kept after its end. Its business key stays
	// taken for ever.
	Retention time.Duration `default:"720h" key:"retention" max:"87600h" min:"1h"`
	// MaxCalls bounds the calls under way at a time, MaxCallsPerDefinition those of
	// one definition, 0 for MaxCalls, and MaxCallsPerHost those to one host, 0 for three
	// quarters of MaxCalls, so that a host that hangs does not take them all.
	MaxCalls              int `default:"1024" key:"max_calls"                max:"100000" min:"1"`
	MaxCallsPerDefinition int `default:"0"    key:"max_calls_per_definition" max:"100000" min:"0"`
	MaxCallsPerHost       int `default:"0"    key:"max_calls_per_host"       max:"100000" min:"0"`
	// AllowHosts are the hosts, addresses and networks to which definitions that came
	// by the API may send although they are not public, as egress.Config has them.
	AllowHosts []string `key:"allow_hosts"`
	// Restored is when the data were restored from a copy, empty for never. What was sent
	// since the copy was made is not known: for as long as callees know those keys the first
	// send of a step with a look-up is preceded by it. Leave it there after that.
	Restored Instant `key:"restored"`
	// TLS is what calls show and trust.
	TLS SagasTLS `key:"tls"`
}

// SagasTLS are files in PEM for the calls of sagas.
type SagasTLS struct {
	// CAFile holds certificates of authorities that are trusted beside the system's.
	CAFile string `key:"ca_file" path:"yes"`
	// CertFile and KeyFile are the certificate that calls of definitions from files show;
	// both or none.
	CertFile string `key:"cert_file" path:"yes"`
	KeyFile  string `key:"key_file"  path:"yes"`
}

// HTTP are the limits of the servers, the same for each address.
type HTTP struct {
	// HeaderTimeout bounds the reading of a request's header, ReadTimeout that of
	// all of it, WriteTimeout each write of the answer, IdleTimeout the pause
	// between two requests of a connection.
	HeaderTimeout time.Duration `default:"5s"  key:"header_timeout" max:"5m" min:"100ms"`
	ReadTimeout   time.Duration `default:"30s" key:"read_timeout"   max:"1h" min:"100ms"`
	WriteTimeout  time.Duration `default:"30s" key:"write_timeout"  max:"1h" min:"100ms"`
	IdleTimeout   time.Duration `default:"2m"  key:"idle_timeout"   max:"1h" min:"1s"`
	// DrainDelay is how long new connections are still accepted after the signal to
	// stop, while /readyz already answers 503: what a load balancer needs to notice.
	DrainDelay time.Duration `default:"0s" key:"drain_delay" max:"5m" min:"0s"`
	// DrainTimeout is how long requests under way may take after that. Routes whose
	// timeout is longer are warned of.
	DrainTimeout time.Duration `default:"25s" key:"drain_timeout" max:"10m" min:"0s"`
	// MaxHeader and MaxBody bound a request; routes may set their own MaxBody.
	MaxHeader Bytes `default:"64KiB" key:"max_header" max:"1MiB"  min:"4KiB"`
	MaxBody   Bytes `default:"1MiB"  key:"max_body"   max:"12MiB" min:"1KiB"`
	// MaxGuarded bounds the requests with a key that are under way at a time, and
	// MaxGuardedBytes the bytes of their bodies and of the answers to them: what does
	// not fit is answered 503 before anything is claimed. Memory for a moment is about
	// three times that. It has to hold the largest body of any route.
	MaxGuarded      int   `default:"1024"   key:"max_guarded"       max:"1000000" min:"1"`
	MaxGuardedBytes Bytes `default:"128MiB" key:"max_guarded_bytes" min:"1MiB"`
	// MaxConnections bounds the connections open at a time, of each address.
	MaxConnections int `default:"4096" key:"max_connections" max:"1000000" min:"1"`
	// TrustedProxies are the networks (10.0.0.0/8) or addresses whose
	// X-Forwarded-For is believed.
	TrustedProxies []string `key:"trusted_proxies"`
}

// Auth is about tokens.
type Auth struct {
	// MaxFailures wrong tokens of one address within FailureWindow are answered
	// with 401, more with 429 until the window has passed. A right one always works.
	MaxFailures   int           `default:"20" key:"max_failures"   max:"100000" min:"1"`
	FailureWindow time.Duration `default:"1m" key:"failure_window" max:"24h"    min:"1s"`
}

// Metrics is about the numbers for Prometheus.
type Metrics struct {
	// Listen is an address of their own, on which they need no token; empty means
	// that they are at /metrics of the API, for tokens with the role metrics.
	Listen string `key:"listen"`
}

// Base returns the base of callback URLs, without / at the end. Addr is the
// address that is listened at, for a configuration that names none.
func (c *Config) Base(addr string) string {
	if c.PublicURL != "" {
		return strings.TrimRight(c.PublicURL, "/")
	}
	return BaseURL(addr)
}
