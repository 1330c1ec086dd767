package chaos

import (
	"context"
	"io"
	"os"
	"testing"

	"giro/cmd/giro/cli"
	"giro/cmd/giro/environ"
	"giro/internal/dbtest"
)

// asGiro in the environment has this program be giro instead of its test. So a
// replica is a process that can be killed, is what the test was built from, and
// runs under the race detector where the test does.
const asGiro = "GIRO_CHAOS_REPLICA"

func TestMain(m *testing.M) {
	if os.Getenv(asGiro) != "" {
		go func() {
			// The test holds the other end, which ends with it, however it ends.
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(1)
		}()
		os.Exit(cli.Main(context.Background()))
	}
	environ.Clear()
	dbtest.Main(m)
}
