package metrics_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"onced/api/metrics"
)

type rules struct {
	Groups []struct {
		Name  string
		Rules []rule
	}
}

type rule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

var (
	nameIn     = regexp.MustCompile(`\b(?:onced|go|process)_[a-z_]+\b`)
	selectorIn = regexp.MustCompile(`(\w+)\{([^}]*)\}`)
	labelIn    = regexp.MustCompile(`\$labels\.(\w+)`)
	matcherIn  = regexp.MustCompile(`^(\w+)(=~?)"([^"]*)"$`)
)

// Every alert asks for metrics, labels and values that exist.
func TestAlerts(t *testing.T) {
	t.Parallel()
	var file rules
	d := yaml.NewDecoder(strings.NewReader(metrics.Alerts()))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil {
		t.Fatal(err)
	}
	shown := scrape(t, full(t))
	seen := map[string]bool{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if seen[r.Alert] || !strings.HasPrefix(r.Alert, "Onced") {
				t.Errorf("%s: the name is taken, or not ours", r.Alert)
			}
			seen[r.Alert] = true
			checkRule(t, shown, r)
		}
	}
	if len(seen) < 12 {
		t.Errorf("there are only %d alerts", len(seen))
	}
}

func checkRule(t *testing.T, shown families, r rule) {
	t.Helper()
	if !slices.Contains([]string{"page", "ticket"}, r.Labels["severity"]) {
		t.Errorf("%s: the severity is %q", r.Alert, r.Labels["severity"])
	}
	if r.Annotations["summary"] == "" || r.Annotations["action"] == "" || len(r.Annotations) != 2 {
		t.Errorf("%s: the annotations are %q", r.Alert, r.Annotations)
	}
	if _, err := time.ParseDuration(r.For); r.For != "" && err != nil {
		t.Errorf("%s: for: %v", r.Alert, err)
	}
	if strings.Count(r.Expr, "(") != strings.Count(r.Expr, ")") {
		t.Errorf("%s: parentheses", r.Alert)
	}
	names := nameIn.FindAllString(r.Expr, -1)
	if len(names) == 0 {
		t.Errorf("%s asks for nothing", r.Alert)
	}
	for _, name := range names {
		if shown[strings.TrimSuffix(name, "_bucket")] == nil {
			t.Errorf("%s asks for %s, which there is not", r.Alert, name)
		}
	}
	for _, s := range selectorIn.FindAllStringSubmatch(r.Expr, -1) {
		checkMatcher(t, r.Alert, s[1], s[2])
	}
	for _, label := range labelIn.FindAllStringSubmatch(r.Annotations["summary"], -1) {
		if !regexp.MustCompile(`by \([^)]*\b` + label[1] + `\b`).MatchString(r.Expr) {
			t.Errorf("%s: the summary names the label %s, which the expression has not", r.Alert, label[1])
		}
	}
}

func checkMatcher(t *testing.T, alert, name, matcher string) {
	t.Helper()
	m := matcherIn.FindStringSubmatch(matcher)
	if m == nil {
		t.Errorf("%s: the test does not understand {%s}", alert, matcher)
		return
	}
	pattern := "^" + regexp.QuoteMeta(m[3]) + "$"
	if m[2] == "=~" {
		pattern = "^(?:" + m[3] + ")$"
	}
	for _, d := range metrics.Table() {
		for _, l := range d.Labels {
			if d.Name == name && l.Name == m[1] &&
				slices.ContainsFunc(l.Values, regexp.MustCompile(pattern).MatchString) {
				return
			}
		}
	}
	t.Errorf("%s: %s has no label %s with a value like %s", alert, name, m[1], m[3])
}

// The figures in the texts are those of the code.
func TestAlertsNameTheLimits(t *testing.T) {
	t.Parallel()
	help := map[string]string{}
	for _, d := range metrics.Table() {
		help[d.Name] = d.Help
	}
	const limit = "10000"
	if metrics.MaxOpenCounted != 10_000 || !strings.Contains(help["onced_claims_open"], limit) ||
		!strings.Contains(metrics.Alerts(), ">= "+limit) {
		t.Errorf("the limit is %d; the texts say otherwise", metrics.MaxOpenCounted)
	}
}
