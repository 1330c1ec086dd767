package schema

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
)

// The version tables are read here and not through goose, which would create its
// own: looking at a database must not change it.
const (
	// What another schema on the search path shadows is not meant.
	tablesPostgres = `select relname from pg_class where relkind = 'r' and pg_table_is_visible(oid)
		and relname like 'giro@_%@_version' escape '@' order by relname`
	tablesSQLite = `select name from sqlite_master where type = 'table' and name like 'giro@_%@_version' escape '@' order by name`

	// goose writes the session's local time without its zone.
	readPostgres = `select version_id, is_applied, tstamp at time zone current_setting('TimeZone') from `
	readSQLite   = `select version_id, is_applied, tstamp from `
	inOrder      = ` order by id`
)

// List is every migration that the binary or the database knows, by version.
// Pending ones have a zero AppliedAt; those that only the database knows have no
// Name. It reads only. A database that holds another set is an error.
func List(ctx context.Context, db *sql.DB, dialect Dialect, migrations fs.FS) ([]Applied, error) {
	known, own, err := read(migrations)
	if err != nil {
		return nil, err
	}
	byVersion := make(map[int64]Applied, len(known))
	for _, a := range known {
		byVersion[a.Version] = a
	}
	times, err := appliedTimes(ctx, db, dialect, own)
	if err != nil {
		return nil, fmt.Errorf("schema: read the versions: %w", err)
	}
	for version, at := range times {
		byVersion[version] = Applied{Version: version, Name: byVersion[version].Name, AppliedAt: at}
	}
	all := make([]Applied, 0, len(byVersion))
	for _, a := range byVersion {
		all = append(all, a)
	}
	slices.SortFunc(all, compareVersions)
	return all, nil
}

func compareVersions(a, b Applied) int { return cmp.Compare(a.Version, b.Version) }

// read lists the migrations of the files, by version, and names their set.
func read(migrations fs.FS) ([]Applied, set, error) {
	files, err := fs.Glob(migrations, "*.sql")
	if err != nil {
		return nil, "", fmt.Errorf("schema: %w", err)
	}
	if len(files) == 0 {
		return nil, "", fmt.Errorf("schema: no migrations at the root of the given files")
	}
	known := make([]Applied, 0, len(files))
	for _, file := range files {
		version, err := goose.NumericComponent(file)
		if err != nil {
			return nil, "", fmt.Errorf("schema: %s: %w", file, err)
		}
		known = append(known, Applied{Version: version, Name: path.Base(file)})
	}
	slices.SortFunc(known, compareVersions)
	own, err := setOf(known[0].Name)
	return known, own, err
}

// appliedTimes is what the database says of one set, in UTC. It is an error if
// the database holds another one.
func appliedTimes(ctx context.Context, db *sql.DB, dialect Dialect, own set) (map[int64]time.Time, error) {
	list, read := tablesPostgres, readPostgres
	switch dialect {
	case Postgres:
	case SQLite:
		list, read = tablesSQLite, readSQLite
	default:
		return nil, unknownDialect(dialect)
	}
	sets, err := query(ctx, db, list, func(rows *sql.Rows) (set, error) {
		var table string
		err := rows.Scan(&table)
		return set(strings.TrimSuffix(strings.TrimPrefix(table, tablePrefix), tableSuffix)), err
	})
	if err != nil {
		return nil, err
	}
	var ours map[int64]time.Time
	for _, s := range sets {
		if !s.valid() {
			continue
		}
		times, err := timesOf(ctx, db, read+s.table()+inOrder)
		switch {
		case err != nil:
			return nil, err
		case s == own:
			ours = times
		case len(times) > 0: // an attempt that was refused half way leaves an empty table
			return nil, otherSetError{own: own, other: s}
		}
	}
	return ours, nil
}

// timesOf reads one version table. goose's row for version 0, which only marks
// the table as its own, is left out.
func timesOf(ctx context.Context, db *sql.DB, statement string) (map[int64]time.Time, error) {
	type row struct {
		version int64
		applied bool
		at      time.Time
	}
	rows, err := query(ctx, db, statement, func(rows *sql.Rows) (row, error) {
		var r row
		err := rows.Scan(&r.version, &r.applied, &r.at)
		return r, err
	})
	times := make(map[int64]time.Time)
	for _, r := range rows {
		switch {
		case r.version == 0:
		case r.applied:
			times[r.version] = r.at.UTC()
		default:
			delete(times, r.version)
		}
	}
	return times, err
}

func query[T any](ctx context.Context, db *sql.DB, statement string, scan func(*sql.Rows) (T, error)) ([]T, error) {
	rows, err := db.QueryContext(ctx, statement)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// stamp adds the times to what Up applied.
func stamp(ctx context.Context, db *sql.DB, dialect Dialect, migrations fs.FS, ours []Applied) ([]Applied, error) {
	if len(ours) == 0 {
		return nil, nil
	}
	all, err := List(ctx, db, dialect, migrations)
	if err != nil {
		return nil, err
	}
	for i := range ours {
		for _, a := range all {
			if a.Version == ours[i].Version {
				ours[i].AppliedAt = a.AppliedAt
			}
		}
	}
	return ours, nil
}
