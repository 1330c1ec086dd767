package pgpool

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// The codes in the place of a protocol version.
const (
	cancelCode = 80877102
	tlsCode    = 80877103
)

// proxy stands before a server, counts what connections begin with, and may cut
// them. With a certificate it speaks TLS, which the server behind it does not.
type proxy struct {
	to          string
	certificate *tls.Certificate
	starts      atomic.Int32
	cancels     atomic.Int32

	mu    sync.Mutex
	conns []net.Conn
	wait  sync.WaitGroup
}

// through gives the URL of a proxy before the server of address.
func through(t *testing.T, address string, p *proxy) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	p.to = u.Host
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.wait.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.wait.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		p.cut()
		p.wait.Wait()
	})
	u.Host = listener.Addr().String()
	return u.String()
}

func (p *proxy) serve(client net.Conn) {
	p.keep(client)
	defer client.Close()
	first := make([]byte, 8)
	if _, err := io.ReadFull(client, first); err != nil {
		return
	}
	if binary.BigEndian.Uint32(first[4:]) == tlsCode && p.certificate != nil {
		if _, err := client.Write([]byte("S")); err != nil {
			return
		}
		client = tls.Server(client, &tls.Config{Certificates: []tls.Certificate{*p.certificate}})
		if _, err := io.ReadFull(client, first); err != nil {
			return
		}
	}
	switch binary.BigEndian.Uint32(first[4:]) {
	case cancelCode:
		p.cancels.Add(1)
	case tlsCode:
	default:
		p.starts.Add(1)
	}
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	p.keep(server)
	defer server.Close()
	if _, err := server.Write(first); err != nil {
		return
	}
	p.wait.Go(func() {
		_, _ = io.Copy(client, server)
		client.Close()
	})
	_, _ = io.Copy(server, client)
}

func (p *proxy) keep(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = append(p.conns, c)
}

// cut ends all connections, on both sides.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

// certificate is one that nobody vouches for.
func certificate(t *testing.T) *tls.Certificate {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	t.Cleanup(s.Close)
	return &s.TLS.Certificates[0]
}
