package conformance_test

import (
	"os"
	"strings"
	"testing"

	"giro/internal/participant/conformance"
)

// Every rule stands in the section of docs/participants.md that it points to, and
// the page names no rule that there is not.
func TestThePageNamesEveryRule(t *testing.T) {
	page, err := os.ReadFile("../../../docs/participants.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]string{}
	for _, section := range strings.Split(string(page), "\n## ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		_, rules, found := strings.Cut(body, "\nRule")
		if !found {
			continue
		}
		for i, part := range strings.Split(rules, "`") {
			if i%2 == 1 {
				named[part] = title
			}
		}
	}
	for _, r := range conformance.Rules() {
		if named[r.Name] != r.Section {
			t.Errorf("%s is of section %q and stands in %q", r.Name, r.Section, named[r.Name])
		}
		delete(named, r.Name)
	}
	for name, section := range named {
		t.Errorf("section %s names %q, which is no rule", section, name)
	}
}
