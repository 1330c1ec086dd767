package pgpool

import (
	"errors"
	"strings"
	"syscall"
)

// tcpUserTimeout is TCP_USER_TIMEOUT, which the syscall package does not name.
const tcpUserTimeout = 18

// control bounds how long sent bytes may stay unacknowledged. Keepalive does not
// work while there are such, and the system's own bound is a quarter of an hour.
func control(network, _ string, connection syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var refused error
	err := connection.Control(func(fd uintptr) {
		refused = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, deadSecondsMax*1000)
	})
	return errors.Join(err, refused)
}
