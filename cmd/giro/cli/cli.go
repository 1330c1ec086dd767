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
// environment variable, GIRO_ and the flag's name. A command has the flags that it
// heeds and no others: one that is accepted and ignored misleads.
type grammar struct {
	Serve       serveCommand       `cmd:"" help:"Run one service in this process."`
	Dev         devCommand         `cmd:"" help:"Run all three services in this process, on SQLite files, for trying things out."`
	Demo        demoCommand        `cmd:"" help:"Play the story of exactly-once transfers, with crashes and cut wires, and audit the books."`
	Migrate     migrateCommand     `cmd:"" help:"Create or upgrade a service's tables, or show how far they are."`
	Archive     archiveCommand     `cmd:"" help:"Take what is older than the retention horizon off a participant's books."`
	Transfer    transferCommand    `cmd:"" help:"Ask for a transfer, look at one, or stop one."`
	Account     accountCommand     `cmd:"" help:"Open, fund, show, freeze or close accounts."`
	Saga        sagaCommand        `cmd:"" help:"Look inside a transfer: its steps, their keys and answers."`
	Audit       auditCommand       `cmd:"" help:"Prove that the saga table and every participant's books agree."`
	Conformance conformanceCommand `cmd:"" help:"Ask any participant whether it keeps the rules of the protocol."`
	Help        helpCommand        `cmd:"" help:"Show the help of giro or of one command."`
	Version     versionCommand     `cmd:"" help:"Show what this binary was built from; giro --version does too."`
}

const description = `giro moves money between accounts that live in different services, exactly once.

Every flag may also be set in the environment: --orchestrator is GIRO_ORCHESTRATOR.

Exit codes: 0 it is done; 1 it failed, or the audit is not OK; 2 the command line is wrong, or an
address is another service's; 3 the service said a definite no; 4 there is no answer, or not yet a final
one: ask again, with the same key where something is to change.`

// call is what every command's Run gets.
type call struct {
	ctx context.Context
	Streams
	line line
}

// Run carries out one command line and gives the exit code.
func Run(ctx context.Context, args []string, streams Streams) int {
	args = spelledOut(args)
	if len(args) == 0 {
		// Somebody looks round, or a script has lost its command: help, and no success.
		streams.Out = streams.Err
		return max(ExitUsage, Run(ctx, []string{"--help"}, streams))
	}
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
		if strings.HasPrefix(args[0], "-") {
			fmt.Fprintln(streams.Err, "Flags stand after the command that heeds them.")
		}
		fmt.Fprintf(streams.Err, "See %s.\n", helpFor(err))
		return ExitUsage
	}
	c := &call{ctx: ctx, Streams: streams, line: lineOf(parsed)}
	if err := errors.Join(c.line.checkBlank(), c.checkPrincipal()); err != nil {
		return report(streams.Err, err)
	}
	return report(streams.Err, parsed.Run(c))
}

// spelledOut turns the one flag that stands for a command into it.
func spelledOut(args []string) []string {
	if len(args) == 1 && args[0] == "--version" {
		return []string{"version"}
	}
	return args
}

func newParser(g *grammar, streams Streams, exit func(int)) (*kong.Kong, error) {
	return kong.New(g,
		kong.Name("giro"),
		kong.Description(description),
		kong.Writers(streams.Out, streams.Err),
		kong.Exit(exit),
		kong.DefaultEnvars("GIRO"),
		kong.ValueFormatter(describe),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110, FlagsLast: true, NoAppDescFormat: true}),
	)
}

// describe is a flag's help with all that a reader has to know of it: the
// placeholder hides its default, and the usage line alone says what is required.
func describe(v *kong.Value) string {
	if v.Flag == nil || v.Flag.Name == "help" {
		return v.Help
	}
	var facts []string
	if v.Required {
		facts = append(facts, "required")
	}
	if v.HasDefault && v.Default != "" {
		facts = append(facts, "default "+v.Default)
	}
	for _, name := range v.Flag.Envs {
		facts = append(facts, "$"+name)
	}
	return strings.TrimSuffix(v.Help, ".") + " (" + strings.Join(facts, ", ") + ")."
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
