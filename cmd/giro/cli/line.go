package cli

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// line is a command line as it was parsed, so that it can be written again. A line
// that asks again must ask the same of the same services in the same name: with
// another tenant or another orchestrator the same key pays a second time. So it
// holds every flag that was given, on the line or in the environment, and the
// tenant always; whoever adds a flag need not think of it.
type line struct {
	command string
	// arguments are those without a flag.
	arguments []*kong.Value
	flags     []*kong.Flag
	// typed are the flags that stood on the line itself.
	typed map[*kong.Flag]bool
}

func lineOf(parsed *kong.Context) line {
	node := parsed.Selected()
	l := line{command: node.FullPath(), arguments: node.Positional, typed: map[*kong.Flag]bool{}}
	// The command's own flags first, then those of the group that it is in.
	for ; node != nil; node = node.Parent {
		for _, f := range node.Flags {
			if f.Name != "help" {
				l.flags = append(l.flags, f)
			}
		}
	}
	for _, path := range parsed.Path {
		if path.Flag != nil {
			l.typed[path.Flag] = true
		}
	}
	return l
}

// given says where a flag's value was given: "--key" on the line, "GIRO_KEY" in the
// environment, or nowhere.
func (l line) given(f *kong.Flag) string {
	if l.typed[f] {
		return "--" + f.Name
	}
	for _, name := range f.Envs {
		if _, set := os.LookupEnv(name); set {
			return name
		}
	}
	return ""
}

// text is a flag's value, empty where the command has no such flag.
func (l line) text(name string) string {
	for _, f := range l.flags {
		if f.Name == name {
			return valueText(f.Value)
		}
	}
	return ""
}

// checkBlank refuses what was given and is empty: it is a script's unset variable.
// Taken for "not given", an empty key would draw a new one and pay anew each time,
// and an empty tenant would be somebody else's.
func (l line) checkBlank() error {
	for _, f := range l.flags {
		where := l.given(f)
		if where == "" || valueText(f.Value) != "" || f.Tag.Has("blank") {
			continue
		}
		switch {
		case f.Name == "key":
			return usage("%s is empty; leave it out to have one drawn", where)
		case f.HasDefault:
			return usage("%s is empty; leave it out for %s", where, f.Default)
		}
		return usage("%s is empty; it needs a value", where)
	}
	for _, a := range l.arguments {
		if a.Set && valueText(a) == "" && !a.IsCumulative() {
			return usage("<%s> is empty; it needs a value", a.Name)
		}
	}
	return nil
}

// again is the command that asks again, as a shell reads it. key stands for the one
// that was drawn; empty: as it was given.
func (l line) again(key string) string {
	words := strings.Fields(l.command)
	last := []string(nil)
	for _, a := range l.arguments {
		if text := valueText(a); strings.HasPrefix(text, "-") {
			last = append(last, text) // it would be read as a flag
		} else if text != "" {
			words = append(words, text)
		}
	}
	for _, f := range l.flags {
		switch {
		case f.Name == "key" && key != "":
			words = append(words, spell(f.Name, key)...)
		case f.IsBool():
			words = append(words, l.spellSwitch(f)...)
		case f.Name == "tenant" || l.given(f) != "":
			words = append(words, spell(f.Name, valueText(f.Value))...)
		}
	}
	if last != nil {
		words = append(append(words, "--"), last...)
	}
	return commandLine(words...)
}

// beside is another command, asked of the same services in the same name.
func (l line) beside(words ...string) string {
	words = append([]string{"giro"}, words...)
	for _, f := range l.flags {
		if f.Group != nil && f.Group.Key == connectionGroup && (f.Name == "tenant" || l.given(f) != "") {
			words = append(words, spell(f.Name, valueText(f.Value))...)
		}
	}
	return commandLine(words...)
}

func (l line) spellSwitch(f *kong.Flag) []string {
	switch {
	case f.Target.Bool():
		return []string{"--" + f.Name}
	case l.given(f) != "":
		return []string{"--" + f.Name + "=false"}
	}
	return nil
}

func spell(name, value string) []string {
	if strings.HasPrefix(value, "-") {
		return []string{"--" + name + "=" + value} // apart it would be read as a flag
	}
	return []string{"--" + name, value}
}

func valueText(v *kong.Value) string {
	switch x := v.Target.Interface().(type) {
	case string:
		return x
	case bool:
		return strconv.FormatBool(x)
	case time.Duration:
		return x.String()
	default:
		return fmt.Sprint(x)
	}
}

// connectionGroup is the group of the flags that say who is asked, and in whose name.
const connectionGroup = "Services"

// plain are the characters that no shell reads anything into.
const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/:@%+,-"

// commandLine writes a command so that a shell reads it back the same.
func commandLine(words ...string) string {
	quoted := make([]string, 0, len(words))
	for _, word := range words {
		if word == "" || strings.Trim(word, plain) != "" {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		quoted = append(quoted, word)
	}
	return strings.Join(quoted, " ")
}
