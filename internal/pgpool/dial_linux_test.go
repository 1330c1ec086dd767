package pgpool

import (
	"net"
	"syscall"
	"testing"
)

// A dead host is noticed in half a minute, whether or not bytes are under way.
func TestDeadHostIsNoticed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := dial(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	want := map[int]int{tcpUserTimeout: 30_000, syscall.TCP_KEEPIDLE: 10, syscall.TCP_KEEPINTVL: 5, syscall.TCP_KEEPCNT: 3}
	err = raw.Control(func(fd uintptr) {
		for option, value := range want {
			if got, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, option); err != nil || got != value {
				t.Errorf("option %d is %d, want %d, %v", option, got, value, err)
			}
		}
		if on, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_KEEPALIVE); err != nil || on != 1 {
			t.Errorf("keepalive is %d, %v", on, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A socket in the file system has none of that.
func TestDialUnix(t *testing.T) {
	path := t.TempDir() + "/s"
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := dial(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}
