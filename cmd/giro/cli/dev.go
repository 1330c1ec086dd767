package cli

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"giro/cmd/giro/serve"
)

// listening are the addresses where giro dev listens: the flags by which the other
// commands find the services.
type listening struct {
	Orchestrator string `help:"Where the orchestrator listens." default:"127.0.0.1:7101" placeholder:"HOST:PORT"`
	Accountsvc   string `help:"Where accountsvc listens." default:"127.0.0.1:7102" placeholder:"HOST:PORT"`
	Ledgersvc    string `help:"Where ledgersvc listens." default:"127.0.0.1:7103" placeholder:"HOST:PORT"`
}

type devCommand struct {
	Dir       string `help:"Folder of the SQLite files; made if it is not there." default:"giro-dev" placeholder:"DIR"`
	listening `group:"Services"`
}

func (devCommand) Help() string {
	return `Runs the orchestrator, accountsvc and ledgersvc in this process, on loopback, until Ctrl-C. Everything stays in the folder for the next time. For trying things out only.

Example:

    giro dev --dir /tmp/giro-dev`
}

func (d *devCommand) Run(c *call) error {
	dir, err := filepath.Abs(d.Dir)
	if err != nil {
		return err
	}
	return serve.Dev(c.ctx, serve.DevSettings{
		Dir: dir,
		Addresses: map[serve.Service]string{
			serve.Orchestrated: d.Orchestrator, serve.Accountsvc: d.Accountsvc, serve.Ledgersvc: d.Ledgersvc,
		},
		Logger: slog.New(slog.NewTextHandler(c.Err, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Ready:  func(at map[serve.Service]string) { fmt.Fprint(c.Out, devHowTo(dir, at)) },
	})
}

// devHowTo says where the services are and what to try. Where they are not where
// the other commands look for them, it says how those are told.
func devHowTo(dir string, at map[serve.Service]string) string {
	var elsewhere []string
	for _, s := range []struct{ service, usual string }{
		{orchestrator, "127.0.0.1:7101"}, {accountsvc, "127.0.0.1:7102"}, {ledgersvc, "127.0.0.1:7103"},
	} {
		if address := at[serve.Service(s.service)]; address != s.usual {
			elsewhere = append(elsewhere, "GIRO_"+strings.ToUpper(s.service)+"="+address)
		}
	}
	export := ""
	if len(elsewhere) > 0 {
		export = "  export " + strings.Join(elsewhere, " ") + "\n"
	}
	return fmt.Sprintf(devText, at[serve.Orchestrated], at[serve.Accountsvc], at[serve.Ledgersvc], dir, export)
}

const devText = `giro dev is up: orchestrator %s, accountsvc %s, ledgersvc %s
its SQLite files are in %s; callers are not asked who they are: for development only

In another terminal:

%s  giro account open accountsvc/alice --currency USD --key open-alice
  giro account deposit accountsvc/alice --amount 100.00 --currency USD --key deposit-1
  giro account open ledgersvc/shop --currency USD --key open-shop
  giro transfer create --key order-1001 --from accountsvc/alice --to ledgersvc/shop --amount 40.00 --currency USD
  giro transfer create --key order-1001 --from accountsvc/alice --to ledgersvc/shop --amount 40.00 --currency USD
  giro saga show order-1001
  giro audit

The second create is a replay: the money moves once. Ctrl-C stops all three.
`
