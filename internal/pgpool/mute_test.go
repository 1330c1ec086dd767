package pgpool

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"
)

// A database that accepts and says nothing is given up by itself, whoever waits:
// the pool, and the schema's tools, which have no limit of their own.
func TestC102AMuteDatabaseIsGivenUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // what it has accepted is the system's, and nobody answers
	address := "postgres://giro@" + l.Addr().String() + "/books?sslmode=disable"
	config, err := Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	if got := config.config.ConnConfig.ConnectTimeout; got != connectSecondsMax*time.Second {
		t.Errorf("by default, connecting may take %v", got)
	}
	if config, err = Parse(address + "&connect_timeout=1"); err != nil {
		t.Fatal(err)
	}
	db := config.DB()
	defer db.Close()
	if err := db.PingContext(context.Background()); err == nil || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("the schema's tools were told %v", err)
	}
}
