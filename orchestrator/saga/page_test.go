package saga

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table into docs/invariants.md")

// TestInvariantsPage keeps the table in docs/invariants.md the one that the code
// prints.
func TestInvariantsPage(t *testing.T) {
	const page, begin, end = "../../docs/invariants.md", "<!-- table -->\n", "<!-- /table -->"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	printed, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has lost its marks %q and %q", page, begin, end)
	}
	if printed == Markdown() {
		return
	}
	if !*update {
		t.Fatalf("%s differs from the code's table; write it anew with: go test ./orchestrator/saga -run TestInvariantsPage -update", page)
	}
	if err := os.WriteFile(page, []byte(before+begin+Markdown()+end+after), 0o600); err != nil {
		t.Fatal(err)
	}
}
