package definition

import (
	"os"
	"strings"
	"testing"
)

// sample is the document with the whole of the format.
func sample(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile("testdata/checkout.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// parsed reads a document that must be good.
func parsed(t testing.TB, src string) *Document {
	t.Helper()
	d, problems := Parse([]byte(src), Options{})
	if len(problems) > 0 {
		t.Fatalf("the document is refused:\n%s", problems.Error())
	}
	return d
}

func TestParseTakesTheWholeFormat(t *testing.T) {
	t.Parallel()
	d := parsed(t, sample(t))
	if got := strings.Join(d.Secrets(), " "); got != "gateway loyalty" {
		t.Errorf("the secrets are %q", got)
	}
	if got := strings.Join(d.Hosts(), " "); got != "127.0.0.1:9001 127.0.0.1:9002 127.0.0.1:9003 "+
		"127.0.0.1:9004" {
		t.Errorf("the hosts are %q", got)
	}
	if d.Name() != "checkout" || d.Title() != "Checkout" || d.Version() != "" || len(d.Steps()) != 4 {
		t.Errorf("%+v", d)
	}
	want := StepInfo{Name: "charge", Method: "POST", URL: "http://127.0.0.1:9003/charges", Undo: true,
		Check: true,
		Await: true}
	if got := d.Steps()[2]; got != want {
		t.Errorf("the step is %+v, want %+v", got, want)
	}
}
