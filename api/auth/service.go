package auth

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"time"

	"onced/kv"
	"onced/kv/feed"
)

// Config are the settings of a Service. Only Feed is required.
type Config struct {
	// Feed takes the notifications operator.token.*. Use the process's one feed,
	// or its readers are not woken.
	Feed *feed.Feed
	// Clock is for expiry and the counters; nil means the system's clock.
	Clock kv.Clock
	// Rand makes tokens and ids; nil means crypto/rand.Reader.
	Rand io.Reader
	// Logger is told when the last use of a token cannot be written; nil is silent.
	Logger *slog.Logger
	// MaxFailures is how many failures of one address per FailureWindow are
	// answered as such, and later ones as [BlockedError]; 0 means 10.
	MaxFailures int
	// FailureWindow is how long failures count; 0 means a minute.
	FailureWindow time.Duration
}

const (
	cacheSize    = 4096            // live tokens kept in memory
	cacheLife    = time.Minute     // how long a look-up is good for
	maxAddresses = 4096            // addresses whose failures are counted
	usedEvery    = time.Hour       // how coarse LastUsed is
	maxUseDelay  = 2 * time.Second // how long a request waits for LastUsed to be written
)

// Service keeps the tokens of a store. It is safe for concurrent use.
type Service struct {
	store   kv.Store
	feed    *feed.Feed
	clock   kv.Clock
	rand    io.Reader
	log     *slog.Logger
	cache   cache
	limiter limiter
}

// New returns the Service of a store. It fails only on a Config without a feed.
func New(store kv.Store, cfg Config) (*Service, error) {
	if cfg.Feed == nil {
		return nil, &FieldError{Field: "Feed", Problem: "is nil",
			Remedy: "acts on tokens are audited: pass a feed"}
	}
	s := &Service{store: store, feed: cfg.Feed, clock: cfg.Clock, rand: cfg.Rand, log: cfg.Logger}
	if s.clock == nil {
		s.clock = kv.SystemClock()
	}
	if s.rand == nil {
		s.rand = rand.Reader
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if cfg.MaxFailures <= 0 {
		cfg.MaxFailures = 10
	}
	if cfg.FailureWindow <= 0 {
		cfg.FailureWindow = time.Minute
	}
	s.limiter = limiter{limit: cfg.MaxFailures, window: cfg.FailureWindow, size: maxAddresses}
	s.cache = cache{size: cacheSize}
	return s, nil
}

// Identity is who a request comes from.
type Identity struct {
	// TokenID and Name are the token's; both may be logged.
	TokenID, Name string
	// Role says what it may do.
	Role Role
	// Principal is the account it acts for.
	Principal string
}

// Can reports whether the identity has the permission.
func (i Identity) Can(p Permission) bool { return i.Role.Can(p) }

func identity(t Token) Identity {
	return Identity{TokenID: t.ID, Name: t.Name, Role: t.Role, Principal: t.Principal}
}

// Authenticate returns who the secret belongs to. from is the address of the
// peer, whose failures are counted; the zero Addr is an address too. A live token
// is answered however often its address has failed: many clients share an
// address, and nobody guesses 256 bits. A guess costs one read of one row. Errors:
// [ErrRefused], for a failure too many a [BlockedError], or an error of the store,
// after which nothing is known of the token.
func (s *Service) Authenticate(ctx context.Context, secret string, from netip.Addr) (Identity, error) {
	now := s.clock.Now()
	key := sumOf(secret)
	t, fresh := s.cache.get(key, now)
	ok := fresh && t.Live(now)
	if !fresh && plausible(secret) {
		var err error
		if t, ok, err = s.lookup(ctx, key, now); err != nil {
			return Identity{}, err
		}
	}
	if !ok {
		if wait := s.limiter.fail(now, from); wait > 0 {
			return Identity{}, &BlockedError{RetryAfter: wait}
		}
		return Identity{}, ErrRefused
	}
	s.use(ctx, key, t, now)
	return identity(t), nil
}

// lookup reads a live token from the store into the cache.
func (s *Service) lookup(ctx context.Context, key sum, now time.Time) (Token, bool, error) {
	before := s.cache.generation()
	var out Token
	var found bool
	err := s.store.View(ctx, func(rd kv.Reader) error {
		r, ok, err := tokenTable.Get(rd, sumKey(key[:]))
		if err != nil {
			return err
		}
		out, found = r.token(), ok && subtle.ConstantTimeCompare(r.Sum, key[:]) == 1
		return nil
	})
	if err != nil || !found || !out.Live(now) {
		return Token{}, false, err
	}
	s.cache.put(key, cached{token: out, until: now.Add(cacheLife)}, before)
	return out, true, nil
}

// use writes the last use of a token, at most once an hour. It is a courtesy:
// when it cannot be written, the request goes on.
func (s *Service) use(ctx context.Context, key sum, t Token, now time.Time) {
	if now.Sub(t.LastUsed) >= usedEvery && s.cache.touch(key, now) {
		s.writeUse(ctx, key, t, now)
	}
}

func (s *Service) writeUse(ctx context.Context, key sum, t Token, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, maxUseDelay)
	defer cancel()
	err := s.store.Update(ctx, func(w kv.Writer) error {
		r, ok, err := tokenTable.Get(w, sumKey(key[:]))
		if err != nil || !ok || r.LastUsed >= toNano(now) {
			return err
		}
		r.LastUsed = max(toNano(now.Truncate(usedEvery)), r.CreatedAt) // coarse, but not before its time
		return tokenTable.Put(w, sumKey(key[:]), r)
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		s.log.WarnContext(ctx, "the last use of a token was not written", "token_id", t.ID, "error", err)
	}
}
