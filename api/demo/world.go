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

	"onced/api/demo/book"
	"onced/api/demo/callee"
	"onced/api/demo/proof"
)

// world is everything between two resets: books, services, shop and onced.
type world struct {
	config   Config
	toggles  *toggles
	crash    *crasher
	stories  *stories
	ledgers  map[book.Service]*book.Ledger
	shop     *shop
	services *callee.Services
	service  *service // nil without protection

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
	w.toggles = newToggles(faults, c.Orders > 0, w.crash)
	if faults.Crash && c.Orders == 0 { // a run with orders arms it by itself, again and again
		w.crash.flip("on", "")
	}
	if err := w.openBooks(); err != nil {
		return nil, err
	}
	client := newClient()
	w.servers = append(w.servers, client.CloseIdleConnections)
	w.services = callee.New(callee.Env{Ctx: w.ctx, Clock: c.Clock, Plan: callee.NewPlan(c.Seed, c.Orders > 0),
		Client: client, On: w.toggles.at, Crash: w.crash.pass, Tell: w.stories.tell}, w.ledgers)
	l, err := listenAgain(w.ctx, c.Data)
	if err != nil {
		return nil, err
	}
	base := "http://" + l.Addr().String()
	mux := http.NewServeMux()
	mux.Handle("/", w.services.Handler())
	if c.Unprotected {
		n := newNaive(base, client, w.stories)
		w.shop.payer = n
		mux.HandleFunc("POST "+naivePath+"{order}", n.callback)
	} else if err := w.startService(client, base, mux); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	w.serve(l, mux)
	w.work.Go(func() { w.shop.resume(w.ctx) })
	return w, nil
}

// The names in the data folder, besides those of the ledgers.
const (
	ordersFile     = "shop-orders.jsonl"
	configFile     = "onced.yaml"
	definitionFile = "checkout.yaml"
	portFile       = "services.port"
	tokenFile      = "shop.token"
	serviceDir     = "onced-data"
	logFile        = "onced.log"
)

func (w *world) openBooks() error {
	w.ledgers = map[book.Service]*book.Ledger{}
	for _, s := range book.Services() {
		l, err := book.Open(filepath.Join(w.config.Data, s.File()))
		if err != nil {
			return err
		}
		w.ledgers[s] = l
		w.books = append(w.books, l.Close)
	}
	var err error
	w.shop, err = openShop(filepath.Join(w.config.Data, ordersFile),
		&shop{clock: w.config.Clock, stories: w.stories})
	if err != nil {
		return err
	}
	w.books = append(w.books, w.shop.close)
	return nil
}

// serve answers at a listener until the world ends.
func (w *world) serve(l net.Listener, h http.Handler) {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ErrorLog: silent()}
	w.work.Go(func() { _ = srv.Serve(l) })
	w.servers = append(w.servers, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), stopWait)
		defer cancel()
		if srv.Shutdown(ctx) != nil {
			_ = srv.Close()
		}
	})
}

// startService writes what the child runs with and runs it. Callbacks reach it
// through mux, wherever it is.
func (w *world) startService(client *http.Client, base string, mux *http.ServeMux) error {
	data := w.config.Data
	token, err := w.token()
	if err != nil {
		return err
	}
	file := filepath.Join(data, configFile)
	for name, content := range map[string][]byte{file: serviceConfig(data, base),
		filepath.Join(data, definitionFile): definition(base),
		filepath.Join(data, logFile):        nil, // each start of the demo begins its log anew
	} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			return err
		}
	}
	command := append(append([]string{}, w.config.Service...), file)
	s := newService(command, w.config.Environ, filepath.Join(data, logFile))
	s.armed = w.crash.childPoint
	s.at = func(point, order string) {
		if w.crash.take(point) {
			w.tellKilled(point, order)
		}
	}
	w.service = s
	w.crash.kill, w.crash.tell = s.kill, s.tell
	w.shop.payer = guarded{service: s, client: client, token: token}
	mux.Handle("POST "+callbacksPath, forward{service: s, client: client})
	w.work.Go(func() {
		if err := s.run(w.ctx); err != nil {
			w.failed <- err
		}
	})
	return nil
}

// serviceConfig is what the child runs with: an ordinary configuration.
func serviceConfig(data, base string) []byte {
	quoted := func(name string) string { // JSON texts are YAML too
		text, _ := json.Marshal(filepath.Join(data, name)) //nolint:errchkjson // a string
		return string(text)
	}
	return fmt.Appendf(nil, `# written by onced demo at each start
listen: 127.0.0.1:0
public_url: %s
data: %s
log:
  level: warn
  format: text
routes: []
sagas:
  definitions: [%s]
`, base, quoted(serviceDir), quoted(definitionFile))
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
	return w.fill(proof.Of(w.facts(w.ledgers)))
}

// finalProof is the proof of now from the files of the ledgers, not from memory.
func (w *world) finalProof() (Proof, error) {
	files := map[book.Service]*book.Ledger{}
	for _, s := range book.Services() {
		l, err := book.Read(filepath.Join(w.config.Data, s.File()))
		if err != nil {
			return Proof{}, err
		}
		files[s] = l
	}
	return w.fill(proof.Of(w.facts(files))), nil
}

// facts are what the shop and the ledgers say. The orders are read first.
func (w *world) facts(ledgers map[book.Service]*book.Ledger) proof.Facts {
	f := proof.Facts{Books: proof.Books{}, Values: values(), Known: w.shop.knows, Now: w.config.Clock.Now()}
	for _, o := range w.shop.snapshot() {
		f.Orders = append(f.Orders, proof.Order{ID: o.id, State: proof.State(o.state()), Unknown: o.unknown,
			Needs: o.needs})
	}
	for s, l := range ledgers {
		f.Books[s] = l.Entries()
	}
	return f
}

// fill adds what is known beyond the books.
func (w *world) fill(of proof.Proof) Proof {
	p := Proof{Proof: of, Protected: !w.config.Unprotected}
	p.CallbacksSent = w.services.Sent()
	p.Kills, p.Toggles, p.CrashAt = w.crash.counts(), w.toggles.all(), w.crash.point()
	if w.service != nil {
		p.Starts, p.Pid = w.service.status()
	}
	return p
}

// close ends every part and closes the books. It returns when all have ended:
// whoever answers first, then whoever works, then the books that they write.
func (w *world) close() error {
	w.cancel()
	for _, stop := range w.servers {
		stop()
	}
	w.work.Wait()
	if w.services != nil {
		w.services.Wait()
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
