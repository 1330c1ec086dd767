// Package pgpool connects stores to PostgreSQL by the rules that all of them need.
// Every connection leads to a writable primary whose commits are durable. No
// statement is ever cancelled on the server: a COMMIT that waits for a synchronous
// standby would end its wait, and be seen, though no standby has it. So a caller
// may be told that an outcome is not known, while the connection stays out of its
// pool until the server answers or TCP gives it up.
package pgpool

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

const (
	// acquireSecondsMax bounds the wait for a connection.
	acquireSecondsMax = 5
	// answerSecondsMax bounds a caller's wait for what commits.
	answerSecondsMax = 10
	// settleSecondsMax bounds a rollback and a polite end of a connection.
	settleSecondsMax = 1
	// connectSecondsMax bounds one attempt to connect, unless the URL says otherwise. A
	// database that accepts and then says nothing would be waited for without end.
	connectSecondsMax = 10
	// closeSecondsMax bounds the wait for connections that are still in use.
	closeSecondsMax = 5
)

// session is set on every connection, whatever the URL or the role says.
var session = map[string]string{
	// After it the transaction is run again. It is longer than the server's search
	// for deadlocks (1 s), and it bounds how long a backend whose caller has gone
	// stays behind.
	"lock_timeout": "4s",
	// The transaction of a client that has gone away without a word must not keep
	// its locks.
	"idle_in_transaction_session_timeout": "30s",
	// One that fires as a COMMIT begins would end its wait for a standby.
	"statement_timeout": "0",
}

// Config says how one database is reached.
type Config struct{ config *pgxpool.Config }

// Parse reads a postgres:// URL, with pgxpool's settings among its parameters.
func Parse(url string) (*Config, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	maps.Copy(config.ConnConfig.RuntimeParams, session)
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectSecondsMax * time.Second
	}
	config.ConnConfig.DialFunc = dial
	config.ConnConfig.ValidateConnect = mustServe(config.ConnConfig.ValidateConnect)
	config.BeforeConnect = neverCancel
	return &Config{config}, nil
}

// Name is the database's name.
func (c *Config) Name() string { return c.config.ConnConfig.Database }

// Conns is what the URL gives as pool_max_conns: by default 4, or the number of
// processors if that is larger.
func (c *Config) Conns() int { return int(c.config.MaxConns) }

// DB opens the database for the schema's tools. The caller closes it.
func (c *Config) DB() *sql.DB {
	return stdlib.OpenDB(*c.config.ConnConfig.Copy(), stdlib.OptionBeforeConnect(neverCancel))
}

// Open makes a pool of at most size connections, with more session settings. It
// does not wait for the database.
func (c *Config) Open(ctx context.Context, size int, settings map[string]string) (*Pool, error) {
	config := c.config.Copy()
	config.MaxConns = int32(size) //nolint:gosec // a handful, from Conns
	config.MinConns = min(config.MinConns, config.MaxConns)
	config.MinIdleConns = min(config.MinIdleConns, config.MaxConns)
	maps.Copy(config.ConnConfig.RuntimeParams, settings)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return &Pool{Pool: pool, AnswerMax: answerSecondsMax * time.Second}, nil
}

// Pool is a bounded number of connections to one database.
type Pool struct {
	*pgxpool.Pool
	// AnswerMax bounds a caller's wait for what commits. It is set before use.
	AnswerMax time.Duration
}

// With runs do on one connection. The caller's ctx bounds the wait for it, and no
// more: what runs on it has a limit of its own, since a deadline that strikes in
// the middle costs the connection, and the server a new process. do may use the
// connection, and its ctx, until it returns.
func (p *Pool) With(ctx context.Context, limit time.Duration, do func(context.Context, *Conn) error) error {
	waiting, stop := context.WithTimeout(ctx, acquireSecondsMax*time.Second)
	defer stop()
	taken, err := p.Acquire(waiting)
	if err != nil {
		return fmt.Errorf("acquire a connection: %w", err)
	}
	c := &Conn{Conn: taken.Conn(), taken: taken, answerMax: p.AnswerMax}
	defer func() {
		if !c.held {
			taken.Release()
		}
	}()
	working, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if err = do(working, c); err != nil && !c.held {
		err = c.settle(err)
	}
	return err
}

// Close ends the pools' connections. It waits for those in use, but not for ever:
// one may wait for a standby that does not come back. After an error the process
// is to end.
func Close(pools ...*Pool) error {
	var closing sync.WaitGroup
	closed := make(chan struct{})
	for _, p := range pools {
		if p != nil {
			closing.Go(p.Close)
		}
	}
	go func() { closing.Wait(); close(closed) }()
	select {
	case <-closed:
		return nil
	case <-time.After(closeSecondsMax * time.Second):
		return errors.New("the database has not answered everything; what became of it is not known")
	}
}
