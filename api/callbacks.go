package api

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"onced/kv"
)

var callbackRow = kv.Key{}.String("callback")

// CallbackKey returns the store's key for [NewCallbacks], and makes one when there
// is none yet: with it callback URLs survive a restart. random makes it.
func CallbackKey(ctx context.Context, store kv.Store, random io.Reader) ([]byte, error) {
	return storedKey(ctx, store, random, callbackRow)
}

// Callbacks makes the URLs under which callees report what became of a step, and
// opens their tokens. A token is derived from the run, the step and the round: every
// try of a call sends the same one, also after a restart. Nobody can make one
// without the key. It can do one thing, and that only as long as the run is kept.
// It is safe for concurrent use.
type Callbacks struct {
	key  []byte
	base string
}

// NewCallbacks returns the Callbacks for a key of [CallbackKey] and the URL under
// which callees reach this server, for example "https://pay.example.org". It fails
// on a key or a URL that is none.
func NewCallbacks(key []byte, publicURL string) (*Callbacks, error) {
	if len(key) != cursorKeySize {
		return nil, fmt.Errorf("api: the key of callbacks has %d bytes; use one of CallbackKey", len(key))
	}
	u, err := url.Parse(publicURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil ||
		u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("api: the public URL must be like https://pay.example.org, " +
			"without user, query and fragment")
	}
	return &Callbacks{key: key, base: strings.TrimSuffix(publicURL, "/")}, nil
}

// callbackPath is where callbacks arrive.
const callbackPath = "/v1/callbacks/"

// URL returns the callback URL of a step of a run. It is a secret that can be used
// for that step only: give it to the callee, and keep it out of logs.
func (c *Callbacks) URL(run, step string, round uint64) string {
	return c.base + callbackPath + c.token(callback{run, step, round})
}

// callback is what a token stands for.
type callback struct {
	run, step string
	round     uint64
}

func (c *Callbacks) token(b callback) string {
	name := kv.Key{}.String(b.run).String(b.step).Uint(b.round)
	return idEncoding.EncodeToString(append(c.sum(name), name...))
}

func (c *Callbacks) sum(name []byte) []byte {
	h := hmac.New(sha256.New, c.key)
	h.Write([]byte("onced callback 1\x00"))
	h.Write(name)
	return h.Sum(nil)
}

// maxCallbackToken bounds a token: a name of a step has 64 bytes, an id 30.
const maxCallbackToken = 512

// open returns what a token stands for. Every token that is none costs the same as
// one that is, and is told apart from it at the end only.
func (c *Callbacks) open(token string) (callback, bool) {
	raw, err := idEncoding.DecodeString(token[:min(len(token), maxCallbackToken)])
	whole := err == nil && len(token) <= maxCallbackToken && len(raw) > sha256.Size
	if !whole {
		raw = make([]byte, sha256.Size+48)
	}
	given, name := raw[:sha256.Size], raw[sha256.Size:]
	if same := hmac.Equal(given, c.sum(name)); !same || !whole {
		return callback{}, false
	}
	d := kv.DecodeKey(name)
	b := callback{run: d.String(), step: d.String(), round: d.Uint()}
	return b, d.End() == nil
}
