package demo

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"onced/api/auth"
	"onced/kv/boltkv"
	"onced/kv/feed"
)

// The services get a port below those that systems give out by themselves, and keep
// it: what the service knows of them survives restarts.
const firstPort, somePorts = 20_000, 12_000

// listenAgain opens the port of the services that an earlier demo in the folder had,
// or one that its name leads to.
func listenAgain(ctx context.Context, folder string) (net.Listener, error) {
	file := filepath.Join(folder, portFile)
	h := fnv.New32a()
	_, _ = h.Write([]byte(folder))
	port := firstPort + int(h.Sum32()%somePorts)
	text, err := os.ReadFile(file)
	if n, bad := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && bad == nil {
		port = n
	}
	var lc net.ListenConfig
	for try := range somePorts {
		l, err := lc.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return l, os.WriteFile(file, []byte(strconv.Itoa(port)), 0o600)
		}
		if ctx.Err() != nil || try == somePorts-1 {
			return nil, fmt.Errorf("demo: no port for the services: %w", err)
		}
		port = firstPort + (port+1-firstPort)%somePorts
	}
	return nil, nil
}

// storeFile is the service's store in its folder.
const storeFile = "onced.db"

// token is the shop's token at the service, which does not run yet: a client's, as keys
// belong to the account of the shop. It is made once for a folder; one whose secret was
// lost in a crash is of no use to anybody.
func (w *world) token() (secret string, err error) {
	file := filepath.Join(w.config.Data, tokenFile)
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	folder := filepath.Join(w.config.Data, serviceDir)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	store, err := boltkv.Open(w.ctx, filepath.Join(folder, storeFile), &boltkv.Options{Clock: w.config.Clock})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	tokens, err := auth.New(store, auth.Config{Feed: feed.New(feed.Config{Rand: w.config.Rand}),
		Clock: w.config.Clock, Rand: w.config.Rand})
	if err != nil {
		return "", err
	}
	who, err := tokens.Authenticate(w.ctx, string(text), netip.Addr{})
	if err == nil && who.Role == auth.Client {
		return string(text), nil
	}
	if err != nil && !errors.Is(err, auth.ErrRefused) {
		return "", err
	}
	id := make([]byte, 8)
	if _, err := io.ReadFull(w.config.Rand, id); err != nil {
		return "", err
	}
	_, secret, err = tokens.Create(w.ctx, auth.Spec{Name: "shop-" + hex.EncodeToString(id), Principal: "shop",
		Role: auth.Client, Actor: "demo"})
	if err != nil {
		return "", err
	}
	return secret, os.WriteFile(file, []byte(secret), 0o600) //nolint:gosec // its own folder
}

// forward brings callbacks to the child, wherever it is now.
type forward struct {
	service *service
	client  *http.Client
}

// ServeHTTP passes a callback on; while the child is down it is answered 503.
func (f forward) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	addr, err := f.service.address(r.Context())
	if err != nil {
		w.Header().Set("Retry-After", "1")
		writeJSON(w, http.StatusServiceUnavailable, map[string]string{"error": "onced is down"})
		return
	}
	out := r.Clone(r.Context())
	out.RequestURI, out.URL.Scheme, out.URL.Host, out.Host = "", "http", addr, addr
	out.GetBody = nil
	resp, err := f.client.Do(out)
	if err != nil {
		panic(http.ErrAbortHandler) // the answer is lost
	}
	defer func() { _ = resp.Body.Close() }()
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}
