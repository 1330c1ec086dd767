// Package cli is giro's command line: its grammar, and what each command asks of
// the services through their public APIs.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"
)

// Exit codes. They are part of the command line's contract.
const (
	ExitOK      = 0
	ExitFailed  = 1
	ExitUsage   = 2
	ExitRefused = 3
	ExitUnknown = 4
)

// Streams are where a command writes.
type Streams struct {
	Out io.Writer
	Err io.Writer
	// Terminal says that Err is one that people look at: progress may be shown.
	Terminal bool
	// Colour says that Out is one.
	Colour bool
}

// grammar is the whole command line. Every flag may also be set by an
// environment variable, GIRO_ and the flag's name.
type grammar struct {
	connection `group:"Services"`

	Serve    serveCommand    `cmd:"" help:"Run one service in this process."`
	Dev      devCommand      `cmd:"" help:"Run all three services in this process, on SQLite files, for trying things out."`
	Demo     demoCommand     `cmd:"" help:"Play the story of exactly-once transfers, with crashes and cut wires, and audit the books."`
	Migrate  migrateCommand  `cmd:"" help:"Create or upgrade a service's tables, or show how far they are."`
	Transfer transferCommand `cmd:"" help:"Ask for a transfer, look at one, or stop one."`
	Account  accountCommand  `cmd:"" help:"Open, fund, show, freeze or close accounts."`
	Saga     sagaCommand     `cmd:"" help:"Look inside a transfer: its steps, their keys and answers."`
	Audit    auditCommand    `cmd:"" help:"Prove that the saga table and every participant's books agree."`

	Conformance conformanceCommand `cmd:"" help:"Ask any participant whether it keeps the rules of the protocol."`
}

const description = `giro moves money between accounts that live in different services, exactly once.

Every flag may also be set in the environment: --orchestrator is GIRO_ORCHESTRATOR.

Exit codes: 0 it is done; 1 it failed, or the audit is not OK; 2 the command line is wrong;
3 the service said a definite no; 4 it is not known what became of it: ask again with the same key.`

// call is what every command's Run gets.
type call struct {
	ctx context.Context
	Streams
	connection *connection
}

// Run carries out one command line and gives the exit code.
func Run(ctx context.Context, args []string, streams Streams) int {
	var g grammar
	exited := -1
	parser, err := newParser(&g, streams, func(code int) { exited = code })
	if err != nil {
		fmt.Fprintln(streams.Err, "giro:", err)
		return ExitFailed
	}
	parsed, err := parser.Parse(args)
	if exited >= 0 {
		return exited // help was asked for and written
	}
	if err != nil {
		fmt.Fprintf(streams.Err, "giro: %v\n", err)
		fmt.Fprintf(streams.Err, "See %s.\n", helpFor(err))
		return ExitUsage
	}
	c := &call{ctx: ctx, Streams: streams, connection: &g.connection}
	return report(streams.Err, parsed.Run(c))
}

func newParser(g *grammar, streams Streams, exit func(int)) (*kong.Kong, error) {
	return kong.New(g,
		kong.Name("giro"),
		kong.Description(description),
		kong.Writers(streams.Out, streams.Err),
		kong.Exit(exit),
		kong.DefaultEnvars("GIRO"),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110, FlagsLast: true, NoAppDescFormat: true}),
	)
}

// helpFor names the help of the command that was meant.
func helpFor(err error) string {
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		if node := parse.Context.Selected(); node != nil {
			return node.FullPath() + " --help"
		}
		if command := strings.TrimSpace(parse.Context.Command()); command != "" {
			return "giro " + command + " --help"
		}
	}
	return "giro --help"
}

// Main runs the process's own command line.
func Main(ctx context.Context) int {
	return Run(ctx, os.Args[1:], Streams{
		Out: os.Stdout, Err: os.Stderr,
		Terminal: isTerminal(os.Stderr),
		Colour:   isTerminal(os.Stdout) && os.Getenv("NO_COLOR") == "",
	})
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}
