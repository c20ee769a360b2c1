package demo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestDM01_DuplicateCallbacksAndTheSameOrderTwice(t *testing.T) {
	t.Parallel()
	d := start(t, t.TempDir())
	d.set("duplicate")
	for range 2 {
		if code, status := d.order("ord_A"); code != http.StatusOK || status != "paid" {
			t.Errorf("checkout: %d %s", code, status)
		}
	}
	s := d.await("the copies of the callback", func(s stats) bool { return s.CallbacksSent >= 3 })
	d.once(s, 1)
}

// The books are the demo's only memory: what is written into them between two
// starts is a fault that no part of it made.
func TestDM02_ChargedTwiceAndNotAtAllIsNoProof(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	d := start(t, data)
	d.order("A")
	d.once(d.stats(), 1)
	d.stop()

	appendLines(t, filepath.Join(d.data, "gateway-ledger.jsonl"),
		`{"kind":"effect","id":"ch_99","order":"A","reference":"A.1","value":"10.00 USD",`+
			`"at":"2026-01-01T00:00:00Z"}`)
	appendLines(t, filepath.Join(d.data, "shop-orders.jsonl"),
		`{"kind":"asked","order":"B","at":"2026-01-01T00:00:00Z"}`,
		`{"kind":"accepted","order":"B","at":"2026-01-01T00:00:00Z"}`)
	s := start(t, data).stats()
	if s.DistinctOrders != 2 || s.RealCharges != 2 || s.PaidOrders != 2 {
		t.Fatalf("the totals should agree: %+v", s)
	}
	if s.ZeroDoubleCharges || s.Proven {
		t.Errorf("the totals agree, but A paid twice and B never: %+v", s)
	}
	if s.Findings.PaidWithoutEffect != 4 || s.Findings.EffectsTwice != 1 || s.OrdersWithChargesNot1 != 2 ||
		s.MostChargesOnOneOrder != 2 {
		t.Errorf("per order: %+v", s)
	}
	if len(s.WrongOrders) != 2 || s.WrongOrders[0].OrderID != "A" || s.WrongOrders[1].OrderID != "B" {
		t.Errorf("the proof does not name A and B: %+v", s.WrongOrders)
	}
}

func appendLines(t *testing.T, file string, lines ...string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(strings.Join(lines, "\n") + "\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestDM03_DroppedCallbackIsFoundByLookingUp(t *testing.T) {
	t.Parallel()
	d := start(t, t.TempDir())
	d.set("drop")
	code, answer := d.request(http.MethodPost, "/checkout", `{"orderId":"ord_A"}`, "Prefer", "wait=1")
	if code != http.StatusAccepted || !strings.Contains(answer, `"pending"`) {
		t.Errorf("checkout: %d %s, want it pending", code, answer)
	}
	s := d.atRest(1)
	d.once(s, 1)
	if s.CallbacksSent != 0 {
		t.Errorf("a callback was delivered although they are dropped: %+v", s)
	}
}

// lostOrder is an order whose first call is lost while delays are on, with seed 1:
// its outcome is unknown until a look-up is believed.
const lostOrder = "ord_L11"

func TestDM04_ImpatientClientsOfASlowGateway(t *testing.T) {
	t.Parallel()
	d := start(t, t.TempDir())
	d.set("delay")
	ctx, giveUp := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	defer clients.Wait()
	defer giveUp()
	ask := func(ctx context.Context) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url+"/checkout",
			strings.NewReader(`{"orderId":"`+lostOrder+`"}`))
		if err != nil {
			t.Error(err)
			return
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}
	clients.Go(func() { ask(ctx) })
	d.await("the order", func(s stats) bool { return s.PendingOrders == 1 })
	giveUp() // before anybody knows what becomes of it
	d.await("an unknown that grows old", func(s stats) bool {
		return s.OpenUnknowns == 1 && len(s.OldestUnknowns) == 1 && s.OldestUnknowns[0].AgeMS > 0 &&
			s.OldestUnknowns[0].OrderID == lostOrder
	})
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		ask(ctx)
		cancel()
	}
	s := d.atRest(1)
	d.once(s, 1)
	if s.OpenUnknowns != 0 || len(s.OldestUnknowns) != 0 {
		t.Errorf("the order has ended, and is unknown: %+v", s)
	}
}

// Orders whose calls are delayed in each of the ways: charged and answered too
// late, charged late after a look-up said there was none, lost.
func TestDM04_EveryKindOfDelay(t *testing.T) {
	t.Parallel()
	d := start(t, t.TempDir())
	d.set("delay", "duplicate")
	var clients sync.WaitGroup
	const orders = 16
	for i := range orders {
		clients.Go(func() { d.order(fmt.Sprintf("ord_%d", i)) })
	}
	clients.Wait()
	s := d.atRest(orders)
	d.once(s, orders)
	_, page := d.get("/")
	for _, story := range []string{"answered too late", "let the call lie", "was lost",
		"knew of nothing yet", "instead of being done again"} {
		if !strings.Contains(page, story) {
			t.Errorf("no order met: %s", story)
		}
	}
	checkLateCharges(t, d)
}

// checkLateCharges reads in the ledger that some charge was made after the service
// had given up, and after a look-up was told that there was none.
func checkLateCharges(t *testing.T, d *running) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(d.data, "gateway-ledger.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	absent, late, trap := map[string]bool{}, 0, 0
	for line := range strings.Lines(string(text)) {
		var e struct {
			Kind, Order string
			At, Asked   time.Time
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		switch {
		case e.Kind == "absent":
			absent[e.Order] = true
		case e.Kind == "effect" && e.At.Sub(e.Asked) >= 1100*time.Millisecond:
			late++
			if absent[e.Order] {
				trap++
			}
		}
	}
	if late == 0 || trap == 0 {
		t.Errorf("%d charges came after the time-out, %d of them after a look-up that found none", late, trap)
	}
}

// crashPoints are all points, and what is switched on so that an order comes by.
var crashPoints = map[string]string{
	"before-intent": "", "after-outcome": "", "before-callback": "", "after-callback": "",
	"before-loyalty": "", "after-loyalty": "", "before-voucher": "", "after-voucher": "",
	"before-charge": "", "after-accept": "", "after-charge": "", "before-order": "", "after-order": "",
	"before-undo": "refuse?to=on", "after-undo": "refuse?to=on",
}

func TestDM05_KilledAtEachPoint(t *testing.T) {
	t.Parallel()
	for point, before := range crashPoints {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			d := start(t, t.TempDir())
			was := d.stats()
			want, status := http.StatusOK, "paid"
			if before != "" {
				d.set(before)
				want, status = http.StatusPaymentRequired, "failed"
			}
			d.set("crash?at=" + point)
			d.order("ord_A")
			s := d.atRest(1)
			if code, got := d.order("ord_A"); code != want || got != status { // it may have been pending
				t.Errorf("checkout: %d %s, want %s", code, got, status)
			}
			if s.Kills[point] != 1 || s.ServiceStarts != was.ServiceStarts+1 ||
				s.ServicePid == was.ServicePid {
				t.Errorf("the service was not killed: %+v", s)
			}
			if s.Toggles["crash"] {
				t.Error("still armed after the kill")
			}
			if s.NeedPerson != 0 || !s.Proven {
				t.Errorf("not all or nothing: %+v", s)
			}
			if status == "paid" {
				d.once(s, 1)
				return
			}
			for name, l := range s.Ledgers {
				if l.Standing != 0 || name != "order" && (l.Effects != 1 || l.Undone != 1) {
					t.Errorf("%s: %+v", name, l)
				}
			}
		})
	}
}

// An order that is refused at any step leaves nothing, and says so.
func TestDM05_RefusedAtEachStep(t *testing.T) {
	t.Parallel()
	d := start(t, t.TempDir())
	for i, id := range []string{"nopoints", "novoucher", "declined-1", "declined-2", "declined-3",
		"nostock"} {
		code, status := d.order(id)
		if code != http.StatusPaymentRequired || status != "failed" {
			t.Errorf("%s: %d %s", id, code, status)
		}
		s := d.atRest(i + 1)
		if s.FailedOrders != i+1 || !s.Proven {
			t.Errorf("%s: %+v", id, s)
		}
		for name, l := range s.Ledgers {
			if l.Standing != 0 {
				t.Errorf("%s: of %s %d stand", id, name, l.Standing)
			}
		}
	}
	s := d.stats()
	for name, undone := range map[string]int{"loyalty": 5, "voucher": 4, "charge": 1, "order": 0} {
		if s.Ledgers[name].Undone != undone {
			t.Errorf("%s: %+v, want %d taken back", name, s.Ledgers[name], undone)
		}
	}
	d.order("nostock") // it is not carried out again
	if after := d.stats(); after.Ledgers["loyalty"].Effects != s.Ledgers["loyalty"].Effects {
		t.Errorf("a failed order was carried out again: %+v", after)
	}
}

func TestDM06_AThousandOrdersUnderEveryFault(t *testing.T) {
	t.Parallel()
	d := start(t, t.TempDir(), "--orders=1000", "--clients=50", "--faults=all", "--seed=7")
	if code := d.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s := proofOf(t, d)
	if s.DistinctOrders != 1000 || s.PendingOrders != 0 || s.NeedPerson != 0 ||
		s.MostChargesOnOneOrder != 1 || !s.Proven || !s.ZeroDoubleCharges {
		t.Errorf("the proof: %+v", s)
	}
	if s.FailedOrders == 0 || s.PaidOrders == 0 {
		t.Errorf("paid %d, failed %d", s.PaidOrders, s.FailedOrders)
	}
	for name, l := range s.Ledgers {
		if l.Standing != s.PaidOrders || l.Effects != l.Standing+l.Undone || l.Most != 1 || l.Refused == 0 ||
			name != "order" && l.Undone == 0 {
			t.Errorf("%s: %+v", name, l)
		}
	}
	for point := range crashPoints {
		if s.Kills[point] == 0 {
			t.Errorf("the service was never killed at %s", point)
		}
	}
	for _, row := range []string{"real charges in the gateway's ledger", "proven: every paid order"} {
		if !strings.Contains(d.out.String(), row) {
			t.Errorf("the table lacks %q", row)
		}
	}
	if strings.Contains(d.out.String(), "\r") {
		t.Error("a progress bar without a terminal")
	}
	for _, file := range []string{"loyalty", "voucher", "gateway", "order"} {
		if _, err := os.Stat(filepath.Join(d.data, file+"-ledger.jsonl")); err != nil {
			t.Error(err)
		}
	}
}

// proofOf reads the line of JSON at the end of a run.
func proofOf(t *testing.T, d *running) (s stats) {
	t.Helper()
	for line := range strings.Lines(d.out.String()) {
		if strings.HasPrefix(line, "{") {
			if err := json.Unmarshal([]byte(line), &s); err != nil {
				t.Fatal(err)
			}
			return s
		}
	}
	t.Fatalf("no proof was printed:\n%s", d.out)
	return s
}

func TestDM07_SwitchesAnswerTheirNewValueDuringTraffic(t *testing.T) {
	t.Parallel()
	d := start(t, t.TempDir())
	var flips, traffic sync.WaitGroup
	ended := make(chan struct{})
	orders := make([]int, 4)
	for i := range orders {
		traffic.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
					orders[i]++
					d.order(fmt.Sprintf("ord_%d_%d", i, orders[i]))
				}
			}
		})
	}
	for _, name := range []string{"delay", "lose", "error", "duplicate", "drop", "early", "keys", "crash"} {
		flips.Go(func() {
			for i := range 20 {
				path := "/toggle/" + name
				if name == "crash" { // it turns itself off, so nobody can know what a flip does
					path += map[bool]string{true: "?to=on", false: "?to=off"}[i%2 == 0]
				}
				want := i%2 == 0
				code, answer := d.post(path, "")
				if code != http.StatusOK || answer["value"] != want || answer["toggle"] != name ||
					answer["meaning"] == "" {
					t.Errorf("%s: %d %v, want %v", path, code, answer, want)
				}
			}
		})
	}
	flips.Wait()
	close(ended)
	traffic.Wait()
	for name, on := range d.stats().Toggles {
		if on {
			t.Errorf("%s is on after an even number of flips", name)
		}
	}
	sum := 0
	for _, n := range orders {
		sum += n
	}
	d.once(d.atRest(sum), sum)
}
