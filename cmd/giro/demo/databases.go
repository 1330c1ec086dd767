package demo

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"giro/internal/pgserver"
)

// databases is where the three services keep their rows.
type databases interface {
	// url is a service's --database-url.
	url(service string) string
	// lose destroys all that a service has stored, as a lost disk would; an
	// empty database takes its place. The service must not be running.
	lose(ctx context.Context, service string) error
	// about says in words where they are.
	about() string
	// close gives everything back, unless it is to be kept.
	close(keep bool) error
}

func openDatabases(ctx context.Context, o Options, dir string) (databases, error) {
	if o.Store != "postgres" {
		return files{dir}, nil
	}
	admin := o.PostgresURL
	p := &server{}
	if admin == "" {
		own, err := pgserver.Start(ctx, filepath.Join(dir, "postgres"))
		if err != nil {
			return nil, fmt.Errorf("a PostgreSQL server of the demo's own: %w", err)
		}
		p.own, admin = own, own.URL("postgres")
	}
	if err := p.prepare(ctx, admin); err != nil {
		return nil, errors.Join(err, p.close(false))
	}
	return p, nil
}

// files are SQLite files in a folder.
type files struct{ dir string }

func (f files) path(service string) string { return filepath.Join(f.dir, service+".db") }

func (f files) url(service string) string { return "sqlite:" + f.path(service) }

func (f files) lose(_ context.Context, service string) error {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(f.path(service) + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (f files) about() string { return "SQLite files in " + f.dir }

func (f files) close(bool) error { return nil }

// server is a PostgreSQL server with one database for each service.
type server struct {
	// own is nil where the server is somebody else's.
	own    *pgserver.Server
	admin  *url.URL
	db     *sql.DB
	prefix string
	made   []string
}

// prepare makes the three databases. The driver is the one that the services'
// stores bring into this binary.
func (s *server) prepare(ctx context.Context, admin string) error {
	u, err := url.Parse(admin)
	if err != nil {
		return errors.New("the PostgreSQL URL cannot be read") // it may hold a password
	}
	s.admin = u
	if s.db, err = sql.Open("pgx", admin); err != nil {
		return errors.New("the PostgreSQL URL cannot be used") // the driver quotes it
	}
	var suffix [4]byte
	_, _ = rand.Read(suffix[:]) // it never fails
	s.prefix = "giro_demo_" + hex.EncodeToString(suffix[:]) + "_"
	for _, service := range []string{orchestrator, accountsvc, ledgersvc} {
		if err := s.create(ctx, service); err != nil {
			return err
		}
		s.made = append(s.made, service)
	}
	return nil
}

// create makes a database; its name is made of this package's own words.
func (s *server) create(ctx context.Context, service string) error {
	_, err := s.db.ExecContext(ctx, "create database "+s.prefix+service)
	return err
}

func (s *server) drop(ctx context.Context, service string) error {
	_, err := s.db.ExecContext(ctx, "drop database "+s.prefix+service+" with (force)")
	return err
}

func (s *server) url(service string) string {
	u := *s.admin
	u.Path = "/" + s.prefix + service
	return u.String()
}

func (s *server) lose(ctx context.Context, service string) error {
	if err := s.drop(ctx, service); err != nil {
		return err
	}
	return s.create(ctx, service)
}

func (s *server) about() string {
	whose := "the given PostgreSQL server"
	if s.own != nil {
		whose = "a PostgreSQL server of the demo's own"
	}
	return fmt.Sprintf("three databases on %s (%s)", whose, s.admin.Host)
}

func (s *server) close(keep bool) error {
	var errs []error
	if s.db != nil {
		if s.own == nil && !keep {
			ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
			defer cancel()
			for _, service := range s.made {
				errs = append(errs, s.drop(ctx, service))
			}
		}
		errs = append(errs, s.db.Close())
	}
	if s.own != nil {
		errs = append(errs, s.own.Stop())
	}
	return errors.Join(errs...)
}
