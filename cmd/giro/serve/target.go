// Package serve composes one service in this process: its store, its engine or
// runner, and its gRPC server.
package serve

import (
	"fmt"
	"regexp"
	"strings"
)

// Service names one of giro's services.
type Service string

// The services.
const (
	Orchestrated Service = "orchestrator"
	Accountsvc   Service = "accountsvc"
	Ledgersvc    Service = "ledgersvc"
)

// SettingError is a setting that is wrong whatever the machine is like. Nothing was
// opened or changed.
type SettingError struct{ text string }

func (e *SettingError) Error() string { return e.text }

func wrongSetting(format string, args ...any) error {
	return &SettingError{fmt.Sprintf(format, args...)}
}

// target is a database URL, taken apart.
type target struct {
	// sqlite says that address is a file; otherwise it is a PostgreSQL URL.
	sqlite  bool
	address string
}

// parseTarget takes a database URL apart. The URL may hold a password, also where
// it is malformed, so no error repeats any of it.
func parseTarget(databaseURL string) (target, error) {
	if file, ok := strings.CutPrefix(databaseURL, "sqlite:"); ok {
		if file == "" || file == ":memory:" || strings.HasPrefix(file, "//") || strings.Contains(file, "?") {
			return target{}, wrongSetting("the database URL names no plain file: write sqlite:FILE, as in sqlite:/var/lib/giro/books.db")
		}
		return target{sqlite: true, address: file}, nil
	}
	for _, scheme := range []string{"postgres://", "postgresql://"} {
		if rest, ok := strings.CutPrefix(databaseURL, scheme); ok {
			return target{address: databaseURL}, checkUserinfo(rest)
		}
	}
	return target{}, wrongSetting("the database URL must be postgres://USER@HOST/NAME or sqlite:FILE")
}

// CheckDatabaseURL refuses a URL that no service could use.
func CheckDatabaseURL(databaseURL string) error {
	_, err := parseTarget(databaseURL)
	return err
}

var (
	reserved   = regexp.MustCompile(`[/?#\[\]@\s[:cntrl:]]`)
	badPercent = regexp.MustCompile(`%([^0-9A-Fa-f]|.[^0-9A-Fa-f]|.?$)`)
)

// checkUserinfo refuses a user or password with characters that end it: what comes
// after them would be taken for the host, which errors and logs show. The last @ is
// the one that was meant.
func checkUserinfo(rest string) error {
	at := strings.LastIndex(rest, "@")
	if at < 0 {
		return nil
	}
	if userinfo := rest[:at]; reserved.MatchString(userinfo) || badPercent.MatchString(userinfo) {
		return wrongSetting("the database URL holds a reserved character in its user or password: " +
			"percent-encode the password (@ is %%40, / is %%2F, # is %%23, ? is %%3F, %% is %%25)")
	}
	return nil
}

// explain names the file in an error of SQLite's, which says little, and takes the
// URL out of one of PostgreSQL's driver, which masks a password as best it can.
func (t target) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case !t.sqlite:
		return WithoutURL(err)
	case strings.Contains(err.Error(), t.address):
		return err
	}
	return fmt.Errorf("SQLite file %s: %w", t.address, err)
}

// WithoutURL gives an error of PostgreSQL's driver that quotes the URL as one that
// does not, and every other one as it is. The driver writes "cannot parse `URL`: what
// is wrong (with what)".
func WithoutURL(err error) error {
	const quoted, end = "cannot parse `", "`: "
	text := err.Error()
	if !strings.Contains(text, quoted) {
		return err
	}
	why := "its driver cannot read it"
	if at := strings.LastIndex(text, end); at >= 0 {
		why = text[at+len(end):]
	}
	// What follows in brackets or after a colon may quote a part of the URL again.
	why, _, _ = strings.Cut(why, " (")
	why, _, _ = strings.Cut(why, ":")
	return wrongSetting("the database URL cannot be used: %s", why)
}
