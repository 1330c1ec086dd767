package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

type helpCommand struct {
	Command []string `arg:"" optional:"" help:"The command, such as: transfer create."`
}

func (helpCommand) Help() string {
	return `Shows what --help does after the command.

Example:

    giro help transfer create`
}

func (h *helpCommand) Run(c *call) error {
	return quiet(Run(c.ctx, append(h.Command, "--help"), c.Streams))
}

type versionCommand struct{}

func (versionCommand) Help() string {
	return `Shows the version of the module and the commit, as far as they were recorded when the binary was built.

Example:

    giro version`
}

func (versionCommand) Run(c *call) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	fmt.Fprintln(c.Out, version(info))
	return nil
}

// version says what was recorded at the build, and nothing that was not.
func version(info *debug.BuildInfo) string {
	recorded := map[string]string{}
	for _, s := range info.Settings {
		recorded[s.Key] = s.Value
	}
	module := info.Main.Version
	if module == "" || module == "(devel)" {
		module = "built from a source tree"
	}
	commit := "no commit recorded"
	if revision := recorded["vcs.revision"]; revision != "" {
		commit = "commit " + revision
		if recorded["vcs.modified"] == "true" {
			commit += " with changes"
		}
	}
	return fmt.Sprintf("giro, %s, %s, %s %s/%s", module, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
