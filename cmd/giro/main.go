// Command giro is exactly-once money transfers across services: the services,
// and the tools for those who use and run them.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"giro/cmd/giro/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Main(ctx)
	stop()
	os.Exit(code)
}
