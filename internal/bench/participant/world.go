package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"giro/internal/pgpool"
	"giro/internal/pgserver"
)

// world is the database server and what runs on it.
type world struct {
	dir   string
	made  bool // dir is removed at the end
	pg    *pgserver.Server
	pid   int // of the postmaster
	about server
	// pgbench has a database whose schema and accounts were made by the service.
	pgbench pgbench
	// empty has the books that begin without operations, filled those with the rows.
	empty, filled *service
}

// baseline is pgbench's database.
const baseline = "baseline"

// build returns what it has made even when it fails, to be closed.
func build(ctx context.Context, o options) (*world, error) {
	program, err := findPgbench()
	if err != nil {
		return nil, err
	}
	w := &world{made: o.dir == ""}
	if w.dir, err = folder(o.dir); err != nil {
		return nil, err
	}
	if err := checkDisk(fileSystem(read("/proc/mounts"), w.dir)); err != nil {
		return w, err
	}
	if err := w.startServer(ctx, o.settings); err != nil {
		return w, err
	}
	progress("PostgreSQL %s in %s", w.about.Version, w.dir)
	for _, s := range w.about.Settings {
		progress("  %s = %s", s.Name, s.Value)
	}
	first, err := w.startService(ctx, o.giro, baseline)
	if err != nil {
		return w, err
	}
	if err := first.close(); err != nil {
		return w, err
	}
	w.pgbench = pgbench{program, w.pg.URL(baseline), w.dir, w.pid}
	if w.empty, err = w.startService(ctx, o.giro, "empty"); err != nil {
		return w, err
	}
	if w.filled, err = w.startService(ctx, o.giro, "filled"); err != nil {
		return w, err
	}
	return w, w.fill(ctx, o.rows)
}

// folder is the given one, or a new temporary one.
func folder(given string) (string, error) {
	if given == "" {
		return os.MkdirTemp("", "giro-bench-")
	}
	return filepath.Abs(given)
}

func (w *world) startServer(ctx context.Context, extra settings) error {
	var err error
	if w.pg, err = pgserver.Start(ctx, w.dir); err != nil {
		return err
	}
	if len(extra) > 0 {
		for _, one := range extra {
			name, value, _ := strings.Cut(one, "=")
			if err := w.execute(ctx, "postgres", "alter system set "+name+" = '"+strings.ReplaceAll(value, "'", "''")+"'"); err != nil {
				return err
			}
		}
		if err := w.pg.Restart(ctx); err != nil {
			return err
		}
	}
	first, _, _ := strings.Cut(read(filepath.Join(w.dir, "data", "postmaster.pid")), "\n")
	if w.pid, err = strconv.Atoi(first); err != nil {
		return fmt.Errorf("the server's process: %w", err)
	}
	return w.with("postgres", func(db *sql.DB) error {
		w.about, err = readServer(ctx, db)
		return err
	})
}

// with opens a database for one use.
func (w *world) with(database string, use func(*sql.DB) error) error {
	config, err := pgpool.Parse(w.pg.URL(database))
	if err != nil {
		return err
	}
	db := config.DB()
	return errors.Join(use(db), db.Close())
}

func (w *world) execute(ctx context.Context, database string, statements ...string) error {
	return w.with(database, func(db *sql.DB) error {
		for _, statement := range statements {
			if _, err := db.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", database, err)
			}
		}
		return nil
	})
}

// fill puts the rows into the full books, and has every table's statistics read.
func (w *world) fill(ctx context.Context, rows int64) error {
	progress("filling in %d rows", rows)
	if err := w.execute(ctx, w.filled.name, fill(rows)); err != nil {
		return err
	}
	w.filled.stored.Add(rows)
	progress("filled; vacuum analyze and a checkpoint")
	for _, database := range []string{baseline, w.empty.name, w.filled.name} {
		if err := w.execute(ctx, database, "vacuum analyze", "checkpoint"); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) close() error {
	var failed []error
	for _, s := range []*service{w.empty, w.filled} {
		if s != nil {
			failed = append(failed, s.close())
		}
	}
	if w.pg != nil {
		failed = append(failed, w.pg.Stop())
	}
	if w.made {
		failed = append(failed, os.RemoveAll(w.dir))
	}
	return errors.Join(failed...)
}
