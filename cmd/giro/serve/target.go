// Package serve composes one service in this process: its store, its engine or
// runner, and its gRPC server.
package serve

import (
	"fmt"
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

// target is a database URL, taken apart.
type target struct {
	// sqlite says that address is a file; otherwise it is a PostgreSQL URL.
	sqlite  bool
	address string
}

func parseTarget(databaseURL string) (target, error) {
	if file, ok := strings.CutPrefix(databaseURL, "sqlite:"); ok && file != "" {
		return target{sqlite: true, address: file}, nil
	}
	if strings.HasPrefix(databaseURL, "postgres://") || strings.HasPrefix(databaseURL, "postgresql://") {
		return target{address: databaseURL}, nil
	}
	// The URL may hold a password, so it is not repeated.
	return target{}, fmt.Errorf("the database URL must be postgres://USER@HOST/NAME or sqlite:FILE")
}
