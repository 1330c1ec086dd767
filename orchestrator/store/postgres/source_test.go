package postgres

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sourceFiles gives the package's files that are no tests, by name.
func sourceFiles(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]string{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sources[name] = string(text)
	}
	return sources
}
