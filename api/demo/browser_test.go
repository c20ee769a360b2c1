package demo_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"image/png"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"onced/kv/kvtest/system"
)

var update = flag.Bool("update", false, "write the screenshot of the README anew")

// screenshot is the picture in the README.
const screenshot = "testdata/screenshot.png"

// maxScreenshot bounds it, in bytes.
const maxScreenshot = 300 << 10

// browser is Chromium, spoken to over its debugging pipe: messages of JSON that
// end with a zero byte.
type browser struct {
	t       *testing.T
	in      io.Writer
	out     *bufio.Reader
	session string
	last    int
	said    []string // what the page logged: errors, refusals of the policy
}

func openBrowser(t *testing.T) *browser {
	t.Helper()
	system.Need(t, "chromium")
	commands, toBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromBrowser, answers, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), "chromium",
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--disable-dev-shm-usage", "--hide-scrollbars",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{commands, answers} // 3 and 4
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = commands.Close(), answers.Close()
	late := time.AfterFunc(2*patience, func() { _ = cmd.Process.Kill() })
	b := &browser{t: t, in: toBrowser, out: bufio.NewReader(fromBrowser)}
	t.Cleanup(func() {
		late.Stop()
		_, _ = toBrowser.Close(), fromBrowser.Close() // it ends with its pipe
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the page said: %q\nthe browser said:\n%s", b.said, &log)
		}
	})
	return b
}

// call sends a command and returns its result. Events on the way are noted.
func (b *browser) call(method string, params any) (result map[string]any) {
	b.t.Helper()
	b.last++
	text, err := json.Marshal(struct {
		ID        int    `json:"id"`
		Method    string `json:"method"`
		Params    any    `json:"params"`
		SessionID string `json:"sessionId,omitempty"`
	}{b.last, method, params, b.session})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.in.Write(append(text, 0)); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	for {
		line, err := b.out.ReadBytes(0)
		if err != nil {
			b.t.Fatalf("%s: the browser ended: %v", method, err)
		}
		var m struct {
			ID     int            `json:"id"`
			Method string         `json:"method"`
			Result map[string]any `json:"result"`
			Error  *struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		if err := json.Unmarshal(line[:len(line)-1], &m); err != nil {
			b.t.Fatal(err)
		}
		switch {
		case m.ID == b.last && m.Error != nil:
			b.t.Fatalf("%s: %s", method, m.Error.Message)
		case m.ID == b.last:
			return m.Result
		case m.Method == "Log.entryAdded", m.Method == "Runtime.exceptionThrown",
			m.Method == "Runtime.consoleAPICalled":
			b.said = append(b.said, string(line[:len(line)-1]))
		}
	}
}

type object map[string]any

// open shows a page.
func (b *browser) open(url string, width, height int) {
	b.t.Helper()
	target := b.call("Target.createTarget", object{"url": "about:blank"})
	attached := b.call("Target.attachToTarget", object{"targetId": target["targetId"], "flatten": true})
	b.session, _ = attached["sessionId"].(string)
	b.call("Log.enable", object{})
	b.call("Runtime.enable", object{})
	b.call("Page.enable", object{})
	b.size(width, height)
	b.call("Page.navigate", object{"url": url})
	b.until(`document.readyState === "complete" && !document.getElementById("pausing").hidden`)
}

func (b *browser) size(width, height int) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride",
		object{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false})
}

// value evaluates an expression in the page.
func (b *browser) value(expression string) any {
	b.t.Helper()
	r := b.call("Runtime.evaluate",
		object{"expression": expression, "awaitPromise": true, "returnByValue": true})
	if r["exceptionDetails"] != nil {
		b.t.Fatalf("%s: %v", expression, r["exceptionDetails"])
	}
	result, _ := r["result"].(map[string]any)
	return result["value"]
}

// until waits in the page, for each change of it, until an expression is true.
func (b *browser) until(expression string) {
	b.t.Helper()
	ok := b.value(`new Promise((done) => {
		const holds = () => { try { return ` + expression + `; } catch { return false; } };
		if (holds()) return done(true);
		const see = new MutationObserver(() => { if (holds()) { see.disconnect(); done(true); } });
		see.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
		document.addEventListener("readystatechange", () => { if (holds()) done(true); });
		setTimeout(() => done(false), 30000);
	})`)
	if ok != true {
		b.t.Fatalf("waited in vain for: %s\nthe page: %v", expression, b.value(`document.body.innerText`))
	}
}

func (b *browser) click(selector string) {
	b.t.Helper()
	b.value(`document.querySelector(` + quote(selector) + `).click()`)
}

func quote(s string) string {
	text, _ := json.Marshal(s)
	return string(text)
}

// pay places an order with the form of the page.
func (b *browser) pay(id string) {
	b.t.Helper()
	b.value(`document.getElementById("orderId").value = ` + quote(id))
	b.click("form.order button")
	b.until(`document.querySelector("#orders").innerText.includes(` + quote(id+" paid charged once") + `)`)
}

// refuse has the last step of an order refused: it is undone, before one's eyes.
func (b *browser) refuse(t *testing.T) {
	t.Helper()
	b.click("#switch-refuse-order")
	b.until(`document.getElementById("switch-refuse-order").getAttribute("aria-pressed") === "true"`)
	b.value(`document.getElementById("orderId").value = "ord_4"`)
	b.click("form.order button")
	b.until(`document.querySelector("#orders article").innerText
		.includes("ord_4 failed charged and refunded")`)
	steps := b.value(`[...document.querySelectorAll("#orders article:first-of-type .steps li")]
		.map((li) => li.innerText.replace(/\s+/g, " ")).join(", ")`)
	if steps != "points given back, vouchers released, charges refunded, orders refused" {
		t.Errorf("the steps of ord_4: %v", steps)
	}
	b.click("#switch-refuse")
	b.until(`document.getElementById("switch-refuse").getAttribute("aria-pressed") === "false"`)
}

// A person opens the page, breaks things and pays, and sees what happened.
func TestPageInABrowser(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	d := start(t, t.TempDir())
	b.open(d.url, 1180, 1400)
	for _, name := range []string{"duplicate", "delay", "crash"} {
		b.click("#switch-" + name)
		b.until(`document.getElementById("switch-` + name + `").getAttribute("aria-pressed") === "true"`)
	}
	b.pay("ord_1") // the call is delayed, so the first crash waits for one that comes through
	b.click("#switch-delay")
	b.until(`document.getElementById("switch-delay").getAttribute("aria-pressed") === "false"`)
	if d.stats().Toggles["crash"] == false {
		b.click("#switch-crash")
	}
	b.pay("ord_2")
	b.pay("ord_2")
	b.pay("ord_3")
	b.until(`document.querySelector("#proof").innerText.includes("Nobody was charged twice.")`)
	b.until(`document.querySelector("#proof").innerText.includes("it was killed")`)
	b.until(`document.querySelector("#orders").innerText.includes("The service was killed")`)
	d.once(d.atRest(3), 3)

	b.refuse(t)

	// What came of a click stays in sight while the page goes on changing.
	b.click("#switch-duplicate")
	b.until(`document.getElementById("status").textContent.includes("Each callback comes")`)
	b.value(`new Promise((done) => {
		let seen = 0;
		new EventSource("/events").addEventListener("message", () => { if (++seen === 3) done(true); });
	})`)
	if text := b.value(`document.getElementById("status").textContent`); text != "Each callback comes once." {
		t.Errorf("after three more messages the result of the click is %q", text)
	}
	if below := b.value(`document.querySelector("form.order").closest("section")
		.contains(document.getElementById("status"))`); below != true {
		t.Error("the result of a click is not by the form")
	}
	b.click("#pause")
	if text := b.value(`document.getElementById("pause").textContent`); text != "Go on" {
		t.Errorf("the button says %v", text)
	}
	b.click("#pause")
	picture := b.picture()
	for _, width := range []int{320, 768} {
		b.size(width, 800)
		if wide := b.value(`document.documentElement.scrollWidth`); wide != float64(width) {
			t.Errorf("at a width of %d the page is %v wide", width, wide)
		}
	}
	for _, said := range b.said {
		// The gap of a restart, and the order that was refused.
		if !strings.Contains(said, "status of 503") && !strings.Contains(said, "status of 402") {
			t.Errorf("the page complains: %s", said)
		}
	}
	keepScreenshot(t, picture)
}

func (b *browser) picture() []byte {
	b.t.Helper()
	text, _ := b.call("Page.captureScreenshot", object{"format": "png"})["data"].(string)
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		b.t.Fatal(err)
	}
	return data
}

// keepScreenshot checks a picture, and that the one in the README still is as
// large; with -update it takes its place.
func keepScreenshot(t *testing.T, data []byte) {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	colours := map[[3]uint32]bool{}
	for y := 0; y < img.Bounds().Dy(); y += 4 {
		for x := 0; x < img.Bounds().Dx(); x += 4 {
			r, g, bl, _ := img.At(x, y).RGBA()
			colours[[3]uint32{r, g, bl}] = true
		}
	}
	if len(colours) < 10 || len(data) > maxScreenshot {
		t.Errorf("the picture has %d colours and %d bytes", len(colours), len(data))
	}
	if *update {
		if err := os.WriteFile(screenshot, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(filepath.Clean(screenshot))
	if err != nil {
		t.Fatalf("%v; make it with: go test ./api/demo -run TestPageInABrowser -update", err)
	}
	was, err := png.DecodeConfig(bytes.NewReader(kept))
	size := img.Bounds().Size()
	if err != nil || was.Width != size.X || was.Height != size.Y || len(kept) > maxScreenshot {
		t.Errorf("%s: %v, %dx%d; make it anew with -update", screenshot, err, was.Width, was.Height)
	}
}
