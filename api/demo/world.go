package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// world is everything between two resets: books, gateway, shop and service.
type world struct {
	config  Config
	toggles *toggles
	crash   *crasher
	stories *stories
	ledger  *ledger
	shop    *shop
	gateway *gateway
	service *service // nil without protection

	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	failed  chan error // gets the error of a part that cannot go on
	servers []func()
	books   []func() error
}

// newWorld opens the books in the data folder and starts the parts.
func newWorld(ctx context.Context, c Config, faults Faults) (_ *world, err error) {
	w := &world{config: c, stories: newStories(), failed: make(chan error, 1)}
	w.ctx, w.cancel = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	w.crash = &crasher{bare: c.Unprotected, kill: func() {}, tell: func(string) {}, killed: w.tellKilled}
	w.toggles = newToggles(faults, w.crash)
	if faults.Crash && c.Orders == 0 { // a run with orders arms it by itself, again and again
		w.crash.flip("on", "")
	}
	if err := w.openBooks(); err != nil {
		return nil, err
	}
	client := newClient()
	w.servers = append(w.servers, client.CloseIdleConnections)
	w.gateway = &gateway{ledger: w.ledger, toggles: w.toggles, crash: w.crash,
		plan: newPlan(c.Seed, c.Orders > 0), clock: c.Clock, stories: w.stories, client: client,
		ctx: w.ctx, attempts: map[string]int{}, keys: map[string]chan struct{}{}}
	gatewayAddr, err := w.serve(w.gateway.handler())
	if err != nil {
		return nil, err
	}
	shopMux := http.NewServeMux()
	shopMux.HandleFunc("POST "+callbacksPath, w.shop.callbacks)
	shopAddr, err := w.serve(shopMux)
	if err != nil {
		return nil, err
	}
	if c.Unprotected {
		w.shop.payer = naive{url: "http://" + gatewayAddr, client: client}
		w.gateway.callbackURL = func(context.Context) (string, error) {
			return "http://" + shopAddr + callbacksPath, nil
		}
	} else if err := w.startService(client, gatewayAddr, shopAddr); err != nil {
		return nil, err
	}
	w.startShop("http://"+gatewayAddr, client)
	return w, nil
}

// startShop starts what the shop does by itself.
func (w *world) startShop(gatewayURL string, client *http.Client) {
	r := &reconciler{gateway: w.gateway, url: gatewayURL, shop: w.shop, client: client}
	w.work.Go(func() { r.run(w.ctx) })
	w.work.Go(func() { w.shop.resume(w.ctx) })
}

// The names in the data folder.
const (
	ledgerFile = "gateway-ledger.jsonl"
	ordersFile = "shop-orders.jsonl"
	configFile = "onced.yaml"
	serviceDir = "onced-data"
	logFile    = "onced.log"
)

func (w *world) openBooks() (err error) {
	w.ledger, err = openLedger(filepath.Join(w.config.Data, ledgerFile))
	if err != nil {
		return err
	}
	w.books = append(w.books, w.ledger.close)
	w.shop, err = openShop(filepath.Join(w.config.Data, ordersFile),
		&shop{clock: w.config.Clock, stories: w.stories, unguarded: w.config.Unprotected})
	if err != nil {
		return err
	}
	w.books = append(w.books, w.shop.close)
	return nil
}

// serve answers on a free port of loopback until the world ends.
func (w *world) serve(h http.Handler) (addr string, err error) {
	var lc net.ListenConfig
	l, err := lc.Listen(w.ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ErrorLog: silent()}
	w.work.Go(func() { _ = srv.Serve(l) })
	w.servers = append(w.servers, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), stopWait)
		defer cancel()
		if srv.Shutdown(ctx) != nil {
			_ = srv.Close()
		}
	})
	return l.Addr().String(), nil
}

// startService writes the child's configuration and runs it.
func (w *world) startService(client *http.Client, gatewayAddr, shopAddr string) error {
	file := filepath.Join(w.config.Data, configFile)
	text, err := serviceConfig(filepath.Join(w.config.Data, serviceDir), gatewayAddr, shopAddr)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	command := append(append([]string{}, w.config.Service...), file)
	if err := os.WriteFile(filepath.Join(w.config.Data, logFile), nil, 0o600); err != nil {
		return err // each start of the demo begins its log anew
	}
	s := newService(command, w.config.Environ, filepath.Join(w.config.Data, logFile))
	s.armed = w.crash.childPoint
	s.at = func(point, order string) {
		if w.crash.take(point) {
			w.tellKilled(point, order)
		}
	}
	w.service = s
	w.crash.kill, w.crash.tell = s.kill, s.tell
	w.shop.payer = guarded{service: s, client: client}
	w.gateway.callbackURL = func(ctx context.Context) (string, error) {
		addr, err := s.address(ctx)
		return "http://" + addr + callbacksPath, err
	}
	w.work.Go(func() {
		if err := s.run(w.ctx); err != nil {
			w.failed <- err
		}
	})
	return nil
}

// serviceConfig is what the child runs with: an ordinary configuration.
func serviceConfig(data, gatewayAddr, shopAddr string) ([]byte, error) {
	folder, err := json.Marshal(data) // JSON texts are YAML too
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `# written by onced demo at each start
listen: 127.0.0.1:0
data: %s
log:
  level: warn
  format: text
routes:
  - name: charges
    path: %s
    methods: [POST]
    others: refuse
    upstream: http://%s
    principal: shop
    timeout: %s
    wait: 5s
    settles_after: %s
    check:
      path: %s/{key}
      timeout: 1s
      done: {status: 200, field: status, equals: %s}
      refused: {status: 200, field: status, equals: %s}
      absent: {status: 404}
      reply_status: 201
  - name: callbacks
    path: %s
    methods: [POST]
    others: refuse
    upstream: http://%s
    principal: gateway
    key_header: Webhook-Id
    repeatable: true
    timeout: 2s
    wait: 3s
`, folder, chargesPath, gatewayAddr, CallTimeout, SettlesAfter, chargesPath, statusAccepted, statusDeclined,
		callbacksPath, shopAddr), nil
}

// tellKilled tells the story of a kill to the order that was at the point, and to
// every other one that was under way.
func (w *world) tellKilled(point, order string) {
	if w.config.Unprotected {
		w.stories.tell(order, "The shop's call was cut off "+bareMeanings[point]+".")
		return
	}
	w.stories.tell(order, "The service was killed "+pointMeanings[point]+". It was started again.")
	for _, id := range w.shop.inFlight() {
		if id != order {
			w.stories.tell(id, "The service was killed at work on another order. It was started again.")
		}
	}
}

// proof is the proof of now.
func (w *world) proof() Proof {
	return w.fill(prove(w.shop, w.shop.snapshot(), w.ledger, w.config.Clock.Now()))
}

// finalProof is the proof of now from the file of the ledger, not from memory.
func (w *world) finalProof() (Proof, error) {
	orders := w.shop.snapshot()
	l, err := readLedger(filepath.Join(w.config.Data, ledgerFile))
	if err != nil {
		return Proof{}, err
	}
	return w.fill(prove(w.shop, orders, l, w.config.Clock.Now())), nil
}

// fill adds what is known beyond the books.
func (w *world) fill(p Proof) Proof {
	p.Protected = !w.config.Unprotected
	p.CallbacksSent = w.gateway.deliveriesSent()
	p.CallbacksAgain = w.shop.seenAgain()
	p.Kills, p.Toggles, p.CrashAt = w.crash.counts(), w.toggles.all(), w.crash.point()
	if w.service != nil {
		p.Starts, p.Pid = w.service.status()
	}
	return p
}

func (s *shop) seenAgain() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.again
}

// close ends every part and closes the books. It returns when all have ended:
// whoever answers first, then whoever works, then the books that they write.
func (w *world) close() error {
	w.cancel()
	for _, stop := range w.servers {
		stop()
	}
	w.work.Wait()
	if w.gateway != nil {
		w.gateway.work.Wait()
	}
	var errs []error
	for _, closeBook := range w.books {
		errs = append(errs, closeBook())
	}
	return errors.Join(errs...)
}

// newClient makes the one client of a world.
func newClient() *http.Client {
	return &http.Client{
		Timeout: 15 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: 200, IdleConnTimeout: 30 * time.Second,
			DialContext: (&net.Dialer{Timeout: 2 * time.Second}).DialContext},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
