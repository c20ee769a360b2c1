package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"onced/api/demo/callee"
)

// policy lets a page load what this server serves, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
	"img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// orderName is what an order may be called. It becomes an idempotency key and a
// part of a path.
var orderName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// handler answers at the demo's port.
func (d *demo) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", d.page)
	mux.HandleFunc("GET /assets/{file}", asset)
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /checkout", d.checkout)
	mux.HandleFunc("POST /toggle/{name}", d.toggle)
	mux.HandleFunc("GET /stats", d.stats)
	mux.HandleFunc("GET /events", d.events)
	// A page of somebody else's must not flip switches or place orders.
	sameOrigin := http.NewCrossOriginProtection()
	return onlyLocal(sameOrigin.Handler(mux))
}

// onlyLocal refuses names that lead here but are not localhost: a page could be
// served under one and then be of the same origin.
func onlyLocal(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		host = strings.Trim(host, "[]")
		if !slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, strings.ToLower(host)) {
			refuse(w, http.StatusMisdirectedRequest, "the demo answers at localhost only")
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

func refuse(w http.ResponseWriter, status int, text string) {
	writeJSON(w, status, map[string]string{"error": text})
}

// present returns the world, or answers that there is none for a moment.
func (d *demo) present(w http.ResponseWriter) *world {
	world := d.now()
	if world == nil {
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusServiceUnavailable, "the demo is being reset; ask again")
	}
	return world
}

// checkout places an order and waits a while for its end.
func (d *demo) checkout(w http.ResponseWriter, r *http.Request) {
	id, err := orderOf(w, r)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	world := d.present(w)
	if world == nil {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(world.ctx, cancel)()
	wait, asked := waitOf(r)
	if asked {
		w.Header().Set("Preference-Applied", fmt.Sprintf("wait=%d", int(wait.Seconds())))
	}
	v, down, err := world.shop.checkout(ctx, id, wait)
	switch {
	case errors.Is(err, errFull):
		refuse(w, http.StatusInsufficientStorage, err.Error())
		return
	case world.ctx.Err() != nil:
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusServiceUnavailable, errReset.Error())
		return
	case err != nil: // the disk may be full
		refuse(w, http.StatusInternalServerError, "the shop could not write the order down: "+err.Error())
		return
	case fromPage(r):
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	status := map[string]int{statePaid: http.StatusOK, stateFailed: http.StatusPaymentRequired}[v.Status]
	if status == 0 {
		status = http.StatusAccepted
		w.Header().Set("Retry-After", "1")
	}
	if down { // the order is kept, and pursued when the service is there again
		status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "1")
	}
	writeJSON(w, status, v)
}

// waitOf is how long a checkout may wait, from 0 s on: what the header Prefer asks
// for (RFC 7240), or else and at most [outcomeWait].
func waitOf(r *http.Request) (wait time.Duration, asked bool) {
	for preference := range strings.SplitSeq(r.Header.Get("Prefer"), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(preference), "=")
		n, err := strconv.Atoi(strings.TrimSpace(value))
		if strings.EqualFold(name, "wait") && err == nil && n >= 0 {
			return min(time.Duration(min(n, 3600))*time.Second, outcomeWait), true
		}
	}
	return outcomeWait, false
}

// orderOf reads the id of an order from JSON or from a form.
func orderOf(w http.ResponseWriter, r *http.Request) (string, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 4<<10))
	if err != nil {
		return "", errors.New("the body is longer than 4 KiB")
	}
	var id string
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind == "application/x-www-form-urlencoded" && !strings.HasPrefix(string(body), "{") {
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return "", errors.New("the form cannot be read")
		}
		id = form.Get("orderId")
	} else {
		var order struct {
			ID string `json:"orderId"`
		}
		if err := json.Unmarshal(body, &order); err != nil {
			return "", errors.New(`the body is not JSON; for example {"orderId":"ord_A"}`)
		}
		id = order.ID
	}
	if !orderName.MatchString(id) {
		return "", errors.New("orderId has to be 1 to 64 letters, digits, and ._- after the first")
	}
	return id, nil
}

// fromPage reports whether a form of the page was sent, by a browser.
func fromPage(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}

// toggle flips a switch and answers what is so from now on.
func (d *demo) toggle(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if name == "reset" {
		if err := d.reset(); err != nil {
			refuse(w, http.StatusInternalServerError, err.Error())
			return
		}
		d.toggled(w, r, switched{Toggle: name, Value: true,
			Meaning: "Every switch is off, and the books of services, shop and onced are empty."})
		return
	}
	world := d.present(w)
	if world == nil {
		return
	}
	q := r.URL.Query()
	s, err := world.toggles.flip(name, q.Get("to"), q.Get("at"))
	if err != nil {
		status := http.StatusBadRequest
		if !slices.Contains(toggleNames, name) {
			status = http.StatusNotFound
		}
		refuse(w, status, err.Error())
		return
	}
	d.toggled(w, r, s)
}

func (d *demo) toggled(w http.ResponseWriter, r *http.Request, s switched) {
	if fromPage(r) {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	writeJSON(w, http.StatusOK, s)
}

// stats answers with the proof of now.
func (d *demo) stats(w http.ResponseWriter, _ *http.Request) {
	world := d.present(w)
	if world == nil {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(world.proof()); err != nil {
		return // the client has gone
	}
}

// liveEvery is how often the page is told of changes.
const liveEvery = 500 * time.Millisecond

// maxViewers bounds the pages that are told at a time.
const maxViewers = 50

// events streams the parts of the page that changed.
func (d *demo) events(w http.ResponseWriter, r *http.Request) {
	if d.viewers.Add(1) > maxViewers {
		d.viewers.Add(-1)
		refuse(w, http.StatusServiceUnavailable, "too many pages are open")
		return
	}
	defer d.viewers.Add(-1)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	rc := http.NewResponseController(w)
	last := map[string]string{}
	for r.Context().Err() == nil {
		if err := rc.SetWriteDeadline(time.Time{}); err != nil {
			return
		}
		if world := d.now(); world != nil {
			text, err := d.changes(world, last)
			if err != nil {
				return
			}
			if _, err := fmt.Fprintf(w, "data: %s\n\n", text); err != nil || rc.Flush() != nil {
				return
			}
		}
		callee.Pause(r.Context(), liveEvery)
	}
}

// changes returns the parts of the page that are not as in last, and notes them
// there.
func (d *demo) changes(world *world, last map[string]string) ([]byte, error) {
	parts, err := d.pages.render(world)
	if err != nil {
		return nil, err
	}
	changed := map[string]string{}
	for name, html := range parts {
		if last[name] != html {
			changed[name], last[name] = html, html
		}
	}
	return json.Marshal(changed)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) //nolint:errchkjson // plain structs; else the client has gone
}
