package schema

import (
	"fmt"
	"regexp"
)

// set names the tables that one folder of migrations makes. It is the name of the
// first migration (00001_books.sql: books), which never changes, and it names the
// table of the set's versions: a number alone does not say whose version it is.
type set string

const tablePrefix, tableSuffix = "giro_", "_version"

func (s set) table() string { return tablePrefix + string(s) + tableSuffix }

var setGrammar = regexp.MustCompile(`^[a-z]{1,40}$`)

// valid says whether the name can stand in SQL as it is.
func (s set) valid() bool { return setGrammar.MatchString(string(s)) }

var fileGrammar = regexp.MustCompile(`^[0-9]+_([a-z]{1,40})\.sql$`)

func setOf(firstFile string) (set, error) {
	found := fileGrammar.FindStringSubmatch(firstFile)
	if found == nil {
		return "", fmt.Errorf("schema: the first migration, %s, must be named VERSION_SET.sql, SET in lower-case letters", firstFile)
	}
	return set(found[1]), nil
}

// otherSetError refuses a database that holds another set. Both have tables of
// the same name, so they cannot stand side by side.
type otherSetError struct{ own, other set }

func (e otherSetError) Error() string {
	return fmt.Sprintf("this database holds the tables of another service, giro's %s (see %s), beside which %s cannot stand: "+
		"name a database of its own; on PostgreSQL a schema of its own will do (search_path=NAME on the URL)",
		e.other, e.other.table(), e.own)
}
