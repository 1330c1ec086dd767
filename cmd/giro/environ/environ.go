// Package environ keeps giro's own settings out of the processes that giro and its
// tests start: a GIRO_TENANT that somebody has exported would change what they do.
package environ

import (
	"os"
	"strings"
)

// forTests are settings of the tests themselves, such as a server to use.
const forTests = "GIRO_TEST_"

// Without gives an environment without giro's settings.
func Without(environment []string) []string {
	var kept []string
	for _, e := range environment {
		if !strings.HasPrefix(e, "GIRO_") {
			kept = append(kept, e)
		}
	}
	return kept
}

// Clear takes giro's settings out of this process's environment, those for tests
// excepted. It is for a test's main.
func Clear() {
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if strings.HasPrefix(name, "GIRO_") && !strings.HasPrefix(name, forTests) {
			_ = os.Unsetenv(name) // the name came from the environment itself
		}
	}
}
