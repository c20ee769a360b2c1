package cli

import (
	"os"
	"regexp"
	"testing"

	"onced/saga/definition"
)

// TestGuideDefinition checks the definition in the guide, which readers copy.
func TestGuideDefinition(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../GUIDE.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```yaml\n(name: .*?)```").FindAllSubmatch(text, -1)
	if len(found) != 1 {
		t.Fatalf("the guide has %d definitions, want one", len(found))
	}
	doc, problems := definition.Parse(found[0][1],
		definition.Options{File: "GUIDE.md", Secrets: []string{"shop"}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if n := len(doc.Steps()); n != 3 {
		t.Errorf("%d steps, want 3", n)
	}
}
