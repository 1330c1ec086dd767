//go:build !linux

package pgpool

import "syscall"

// control does nothing here: keepalive alone finds dead hosts.
func control(string, string, syscall.RawConn) error { return nil }
