package cli

import (
	"os"

	"giro/cmd/giro/demo"
	"giro/cmd/giro/serve"
)

type demoCommand struct {
	Store       string `help:"Where the services keep their rows: sqlite, or postgres (a server of the demo's own, or the one at --postgres-url)." enum:"sqlite,postgres" default:"sqlite" placeholder:"NAME"`
	PostgresURL string `name:"postgres-url" env:"GIRO_TEST_POSTGRES_URL" blank:"" help:"With --store postgres: a server where the demo may create databases, instead of one of its own." placeholder:"URL"`
	Keep        bool   `help:"Leave the services running afterwards, until Ctrl-C, and keep the files."`
}

func (demoCommand) Help() string {
	return `Starts the three services as processes of their own on free loopback ports, plays ten scenes with crashes and cut wires, and audits the books. Every key and balance that it shows is read back from the services. Exit code 0 only if all of it held.

Example:

    giro demo --store sqlite`
}

func (d *demoCommand) Run(c *call) error {
	if d.PostgresURL != "" {
		if err := serve.CheckDatabaseURL(d.PostgresURL); err != nil {
			return err
		}
	}
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	held, err := demo.Run(c.ctx, demo.Options{
		Store: d.Store, PostgresURL: d.PostgresURL, Keep: d.Keep, Executable: executable,
		Out: c.Out, Err: c.Err, Colour: c.Colour,
	})
	if err != nil {
		return err
	}
	if !held {
		return quiet(ExitFailed)
	}
	return nil
}
