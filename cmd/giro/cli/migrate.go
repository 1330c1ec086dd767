package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"giro/cmd/giro/serve"
)

type migrateCommand struct {
	Up     migrateUp     `cmd:"" help:"Create the tables, or bring them up to date."`
	Status migrateStatus `cmd:"" help:"Show which migrations have been applied."`
}

// tables says whose tables are meant.
type tables struct {
	Service string `help:"orchestrator, accountsvc or ledgersvc." enum:"orchestrator,accountsvc,ledgersvc" required:"" placeholder:"NAME"`
	database
}

type migrateUp struct{ tables }

func (migrateUp) Help() string {
	return `Applies the migrations that are missing, each in a transaction of its own. It is safe to run it again, and beside a running service.

Example:

    giro migrate up --service orchestrator --database-url postgres://giro@localhost/orchestrator`
}

func (m *migrateUp) Run(c *call) error {
	applied, err := serve.MigrateUp(c.ctx, serve.Service(m.Service), m.DatabaseURL)
	if err != nil {
		return c.interrupted(err)
	}
	for _, a := range applied {
		fmt.Fprintf(c.Out, "applied %d %s\n", a.Version, a.Name)
	}
	if len(applied) == 0 {
		fmt.Fprintln(c.Out, "nothing to do: the tables are up to date")
	}
	return nil
}

type migrateStatus struct {
	tables
	JSON bool `name:"json" help:"Write the list as JSON."`
}

func (migrateStatus) Help() string {
	return `Lists the migrations that this binary knows, and when each was applied. It changes nothing.

Example:

    giro migrate status --service ledgersvc --database-url sqlite:ledgersvc.db`
}

// migrationLine is one migration in the JSON list.
type migrationLine struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
	// Applied is the instant in UTC, or null.
	Applied *time.Time `json:"applied"`
}

func (m *migrateStatus) Run(c *call) error {
	migrations, err := serve.MigrationStatus(c.ctx, serve.Service(m.Service), m.DatabaseURL)
	if err != nil {
		return c.interrupted(err)
	}
	lines := make([]migrationLine, 0, len(migrations))
	for _, a := range migrations {
		line := migrationLine{Version: a.Version, Name: a.Name}
		if !a.At.IsZero() {
			at := a.At.UTC()
			line.Applied = &at
		}
		lines = append(lines, line)
	}
	if m.JSON {
		encoder := json.NewEncoder(c.Out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(lines)
	}
	table := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "VERSION\tAPPLIED\tNAME")
	for _, line := range lines {
		applied := "not yet"
		if line.Applied != nil {
			applied = line.Applied.Format(time.RFC3339)
		}
		fmt.Fprintf(table, "%d\t%s\t%s\n", line.Version, applied, line.Name)
	}
	return table.Flush()
}

// interrupted says what Ctrl-C left behind, where it was that.
func (c *call) interrupted(err error) error {
	if c.ctx.Err() == nil {
		return err
	}
	return errors.New("interrupted; a migration is applied whole or not at all: to go on, run the command again")
}
