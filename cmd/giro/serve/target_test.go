package serve

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestDatabaseURLs(t *testing.T) {
	for _, c := range []struct{ url, says string }{
		{"sqlite:books.db", ""},
		{"sqlite:/var/lib/giro/books 1.db", ""},
		{"postgres://giro@localhost/books", ""},
		{"postgres://giro:p%40ss%2Fwo%23rd@localhost/books?sslmode=disable", ""},
		{"postgresql://giro:a:b@one:5432,two:5433/books?pool_max_conns=4", ""},
		{"postgres:///books?host=/run/postgresql", ""},
		{"sqlite:", "write sqlite:FILE"},
		{"sqlite:///books.db", "write sqlite:FILE"},
		{"sqlite://books.db", "write sqlite:FILE"},
		{"sqlite:books.db?mode=ro", "write sqlite:FILE"},
		{"sqlite::memory:", "write sqlite:FILE"},
		{"books.db", "postgres://USER@HOST/NAME or sqlite:FILE"},
		{"mysql://root:secret@x/y", "postgres://USER@HOST/NAME or sqlite:FILE"},
		{"postgres://giro:p@ss/wo#rd@localhost/books", "percent-encode the password"},
		{"postgres://giro:p@ss@localhost/books", "percent-encode the password"},
		{"postgres://giro:pa/ss@localhost/books", "percent-encode the password"},
		{"postgres://giro:pa?ss@localhost/books", "percent-encode the password"},
		{"postgres://giro:pa#ss@localhost/books", "percent-encode the password"},
		{"postgres://giro:pa[ss@localhost/books", "percent-encode the password"},
		{"postgres://giro:pa ss@localhost/books", "percent-encode the password"},
		{"postgres://giro:100%@localhost/books", "percent-encode the password"},
		{"postgres://giro:5%x@localhost/books", "percent-encode the password"},
		{"postgres://giro@localhost/books?password=p@ss", "percent-encode the password"},
	} {
		err := CheckDatabaseURL(c.url)
		var setting *SettingError
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s: %v", c.url, err)
		case c.says != "" && (!errors.As(err, &setting) || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: came %v, want %q", c.url, err, c.says)
		}
	}
}

// TestNoErrorRepeatsThePassword asks every way into a database with URLs that the
// driver cannot use. What it says of them quotes them.
func TestNoErrorRepeatsThePassword(t *testing.T) {
	const word = "S3cretWord"
	for _, url := range []string{
		"postgres://giro:" + word + "@localhost:notaport/books",
		"postgres://giro:" + word + "@localhost/books?sslmode=" + word,
		"postgres://giro:" + word + "@localhost/books?pool_max_conns=" + word,
		"postgres://giro:" + word + "@localhost/books?connect_timeout=" + word,
		"postgres://giro:" + word + "@localhost/books?target_session_attrs=" + word,
		"postgres://giro:" + word + "@localhost/books?min_protocol_version=" + word,
		"postgres://giro:" + word + "/x@localhost/books",
		"postgres://giro:x@" + word + "#@localhost/books",
		"postgres://giro:" + word + "@[::1/books",
		"postgres://giro@localhost/books?password=" + word + "&port=x",
		"mysql://giro:" + word + "@localhost/books",
		"sqlite://giro:" + word + "?x",
	} {
		for _, service := range []Service{Orchestrated, Accountsvc} {
			_, err := MigrateUp(context.Background(), service, url)
			_, err2 := MigrationStatus(context.Background(), service, url)
			_, err3 := openBooks(context.Background(), url)
			_, err4 := openSagas(context.Background(), url)
			for i, err := range []error{err, err2, err3, err4} {
				if err == nil || strings.Contains(err.Error(), word) {
					t.Errorf("%s, way %d: %v", url, i, err)
				}
				var setting *SettingError
				if !errors.As(err, &setting) {
					t.Errorf("%s, way %d: %v is no wrong setting", url, i, err)
				}
			}
		}
	}
}

func TestErrorsOfSQLiteNameTheFile(t *testing.T) {
	dir := t.TempDir()
	for name, file := range map[string]string{"a folder": dir, "in no folder": filepath.Join(dir, "none", "books.db"), "not there": filepath.Join(dir, "books.db")} {
		for _, service := range []Service{Orchestrated, Ledgersvc} {
			var errs []error
			if name != "not there" { // up makes the file
				_, err := MigrateUp(context.Background(), service, "sqlite:"+file)
				errs = append(errs, err)
			}
			_, err := MigrationStatus(context.Background(), service, "sqlite:"+file)
			_, err2 := openBooks(context.Background(), "sqlite:"+file)
			_, err3 := openSagas(context.Background(), "sqlite:"+file)
			for _, err := range append(errs, err, err2, err3) {
				if err == nil || !strings.Contains(err.Error(), file) {
					t.Errorf("%s, %s: %v", service, name, err)
				}
			}
		}
	}
}
