package schema

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/pressly/goose/v3"
)

// The version table is read here and not through goose, which would create it:
// looking at a database must not change it.
const (
	tableExistsPostgres = `select to_regclass('` + goose.DefaultTablename + `') is not null`
	tableExistsSQLite   = `select exists (select 1 from sqlite_master where type = 'table' and name = '` + goose.DefaultTablename + `')`

	// goose writes the session's local time without its zone.
	readPostgres = `select version_id, is_applied, tstamp at time zone current_setting('TimeZone') from ` + goose.DefaultTablename + ` order by id`
	readSQLite   = `select version_id, is_applied, tstamp from ` + goose.DefaultTablename + ` order by id`
)

// List is every migration that the binary or the database knows, by version.
// Pending ones have a zero AppliedAt; those that only the database knows have no
// Name. It reads only.
func List(ctx context.Context, db *sql.DB, dialect Dialect, migrations fs.FS) ([]Applied, error) {
	files, err := fs.Glob(migrations, "*.sql")
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("schema: no migrations at the root of the given files")
	}
	byVersion := make(map[int64]Applied, len(files))
	for _, file := range files {
		version, err := goose.NumericComponent(file)
		if err != nil {
			return nil, fmt.Errorf("schema: %s: %w", file, err)
		}
		byVersion[version] = Applied{Version: version, Name: path.Base(file)}
	}
	times, err := appliedTimes(ctx, db, dialect)
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
	slices.SortFunc(all, func(a, b Applied) int { return cmp.Compare(a.Version, b.Version) })
	return all, nil
}

// appliedTimes is what the database says of itself, in UTC. goose's row for
// version 0, which only marks the table as its own, is left out.
func appliedTimes(ctx context.Context, db *sql.DB, dialect Dialect) (map[int64]time.Time, error) {
	exists, read := tableExistsPostgres, readPostgres
	switch dialect {
	case Postgres:
	case SQLite:
		exists, read = tableExistsSQLite, readSQLite
	default:
		return nil, unknownDialect(dialect)
	}
	times := make(map[int64]time.Time)
	var there bool
	if err := db.QueryRowContext(ctx, exists).Scan(&there); err != nil || !there {
		return times, err
	}
	rows, err := db.QueryContext(ctx, read)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var version int64
		var applied bool
		var at time.Time
		if err := rows.Scan(&version, &applied, &at); err != nil {
			return nil, err
		}
		switch {
		case version == 0:
		case applied:
			times[version] = at.UTC()
		default:
			delete(times, version)
		}
	}
	return times, rows.Err()
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
