package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"giro/cmd/giro/serve"
)

type archiveCommand struct {
	Run    archiveRun    `cmd:"" default:"withargs" help:"Take it off (what giro archive does without another word)."`
	Status archiveStatus `cmd:"" help:"Show the horizon, and what keeps it from moving on."`
	Forget archiveForget `cmd:"" help:"Let an orchestrator that is gone for good hold nothing back any more."`
}

type archiveRun struct {
	database
	Out     string `help:"Append a copy of every operation to this file, as JSON lines, before it is deleted." placeholder:"FILE"`
	Discard bool   `help:"Keep no copy."`
	DryRun  bool   `help:"Change nothing; count what is old enough."`
	JSON    bool   `name:"json" help:"Write the result as JSON."`
}

func (archiveRun) Help() string {
	return `Works on the database itself, beside the running service, in small transactions: it may be stopped anywhere, by whatever means, and run again. First it commits the horizon: now less --retention-horizon, as the service was started with, and never past the oldest transfer that any orchestrator still needs. From then on, unknown keys that are older are EXPIRED for ever. A line that is brought forward stands for each account's archived lines, so that every balance is still the sum of its lines; a statement or trial balance of before can no longer be told.

Left where they are: keys without a time of their own (not UUIDv7), refunds in suspense until they are released, and a release or reversal as long as what it undid is there.

Exit codes: 0 it is done; 1 it failed, and what was archived by then stays so; 3 nothing may be archived, and the error says why.

Example:

    giro archive run --database-url postgres://giro@localhost/accounts --out accounts-archive.jsonl`
}

// archivedLine is the result in JSON.
type archivedLine struct {
	// Before is the committed horizon; in a dry run the one that would be.
	Before   time.Time `json:"before"`
	Seen     int64     `json:"seen"`
	Archived int64     `json:"archived"`
	Batches  int64     `json:"batches"`
	DryRun   bool      `json:"dry_run"`
}

func (a *archiveRun) Run(c *call) error {
	if !a.DryRun && (a.Out == "") == !a.Discard {
		return usage("say what becomes of the copies: --out FILE keeps them, --discard does not")
	}
	settings := serve.ArchiveSettings{DatabaseURL: a.DatabaseURL, Out: a.Out, DryRun: a.DryRun, Progress: func(r serve.Archived) {
		if c.Terminal {
			fmt.Fprintf(c.Err, "\r\x1b[K%d operations looked at, %d archived", r.Seen, r.Archived)
		}
	}}
	done, err := serve.Archive(c.ctx, settings)
	if c.Terminal {
		fmt.Fprint(c.Err, "\r\x1b[K")
	}
	if err != nil {
		return c.archiveStopped(done, err)
	}
	if a.JSON {
		return json.NewEncoder(c.Out).Encode(archivedLine{Before: done.Before, Seen: done.Seen, Archived: done.Archived, Batches: done.Batches, DryRun: a.DryRun})
	}
	before := done.Before.Format(time.RFC3339)
	if a.DryRun {
		fmt.Fprintf(c.Out, "nothing was changed: the horizon would be %s, and up to %d operations are older\n", before, done.Archived)
		return nil
	}
	fmt.Fprintf(c.Out, "the horizon is %s: unknown keys that are older are EXPIRED; %d operations were archived\n", before, done.Archived)
	return nil
}

// archiveStopped says what is done, and what to do next.
func (c *call) archiveStopped(done serve.Archived, err error) error {
	switch {
	case errors.Is(err, serve.ErrNoHorizon):
		return &failure{code: ExitRefused, message: "nothing was archived: " + err.Error(),
			next: []string{"start the service with --retention-horizon, then run this again"}}
	case errors.Is(err, serve.ErrUnreported):
		return &failure{code: ExitRefused, message: "nothing was archived: " + err.Error(),
			next: []string{"giro archive status names them; start them with --retention-horizon: each reports once a minute",
				"one that is gone for good: giro archive forget"}}
	}
	said := "nothing was archived by this run"
	if done.Archived > 0 {
		said = fmt.Sprintf("%d operations were archived before that, and the books are sound: run it again to go on", done.Archived)
	}
	if c.ctx.Err() != nil {
		return &failure{code: ExitFailed, message: "interrupted", next: []string{said}}
	}
	return &failure{code: ExitFailed, message: err.Error(), next: []string{said}}
}

type archiveStatus struct {
	database
	JSON bool `name:"json" help:"Write it as JSON."`
}

func (archiveStatus) Help() string {
	return `Shows how long keys are kept, what is archived, what the next run would commit, and what each orchestrator last reported. It changes nothing.

Example:

    giro archive status --database-url sqlite:accountsvc.db`
}

// keptLine is the status in JSON. Instants are in UTC, or null.
type keptLine struct {
	HorizonSeconds int64        `json:"horizon_seconds"`
	ArchivedBefore *time.Time   `json:"archived_before"`
	Next           *time.Time   `json:"next"`
	Blocked        string       `json:"blocked,omitempty"`
	Orchestrators  []reportLine `json:"orchestrators"`
}

type reportLine struct {
	Orchestrator string     `json:"orchestrator"`
	ReportedAt   time.Time  `json:"reported_at"`
	Oldest       *time.Time `json:"oldest"`
}

func (a *archiveStatus) Run(c *call) error {
	kept, err := serve.Retention(c.ctx, a.DatabaseURL)
	if err != nil {
		return err
	}
	line := keptLine{HorizonSeconds: int64(kept.Horizon / time.Second), ArchivedBefore: orNull(kept.ArchivedBefore),
		Next: orNull(kept.Next), Orchestrators: []reportLine{}}
	if kept.Blocked != nil {
		line.Blocked = kept.Blocked.Error()
	}
	for _, r := range kept.Reports {
		line.Orchestrators = append(line.Orchestrators, reportLine{r.Orchestrator, r.ReportedAt, orNull(r.Oldest)})
	}
	if a.JSON {
		encoder := json.NewEncoder(c.Out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(line)
	}
	horizon := "keys are kept as long as the books"
	if kept.Horizon > 0 {
		horizon = "unknown keys older than " + kept.Horizon.String() + " are EXPIRED"
	}
	fmt.Fprintln(c.Out, "horizon:    "+horizon)
	fmt.Fprintln(c.Out, "archived:   "+instantOr(line.ArchivedBefore, "nothing yet", "keys older than "))
	fmt.Fprintln(c.Out, "next run:   "+instantOr(line.Next, "none: "+line.Blocked, "would go up to "))
	if len(line.Orchestrators) == 0 {
		fmt.Fprintln(c.Out, "no orchestrator has reported")
		return nil
	}
	table := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ORCHESTRATOR\tREPORTED\tMAY ASK FOR KEYS FROM")
	for _, r := range line.Orchestrators {
		fmt.Fprintf(table, "%s\t%s\t%s\n", r.Orchestrator, r.ReportedAt.Format(time.RFC3339), instantOr(r.Oldest, "any time: it has no retention horizon", ""))
	}
	return table.Flush()
}

func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func instantOr(t *time.Time, otherwise, before string) string {
	if t == nil {
		return otherwise
	}
	return before + t.Format(time.RFC3339)
}

type archiveForget struct {
	database
	ID string `arg:"" name:"id" help:"The orchestrator as giro archive status names it."`
}

func (archiveForget) Help() string {
	return `An orchestrator that has gone silent is held to its last report for ever. If its database is gone for good, and everything that it had under way is settled, this ends that. Of an orchestrator that lives it ends nothing: it reports again within a minute.

Example:

    giro archive forget --database-url sqlite:accountsvc.db 3f2504e0-4f89-41d3-9a0c-0305e82c3301`
}

func (a *archiveForget) Run(c *call) error {
	there, err := serve.ForgetReport(c.ctx, a.DatabaseURL, a.ID)
	if err != nil {
		return err
	}
	if !there {
		return &failure{code: ExitRefused, message: "no orchestrator of this name has reported; nothing was changed",
			next: []string{"giro archive status names them"}}
	}
	fmt.Fprintln(c.Out, "its last report counts no more")
	return nil
}
