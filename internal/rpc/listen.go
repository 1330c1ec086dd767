package rpc

import (
	"fmt"
	"net"
	"net/netip"
)

// CheckListen refuses an address that others than this machine can reach, unless
// insecure is set: callers do not prove who they are yet, so whoever reaches the
// port can move money. An address without a host (":7101") is every interface.
// Names other than localhost are not looked up: they may mean another address
// tomorrow.
func CheckListen(addr string, insecure bool) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("listen address %q: want host:port, as in 127.0.0.1:7101", addr)
	}
	if insecure || host == "localhost" {
		return nil
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Unmap().IsLoopback() {
		return nil
	}
	return fmt.Errorf("listen address %q is not a loopback address: callers do not prove who they are, "+
		"so anybody who reaches it can move money; listen on 127.0.0.1, or pass --insecure if the network itself keeps strangers out", addr)
}

// checkListener is CheckListen for what a listener is really bound to.
func checkListener(l net.Listener, insecure bool) error {
	if _, tcp := l.Addr().(*net.TCPAddr); !tcp {
		return nil
	}
	return CheckListen(l.Addr().String(), insecure)
}
