// Package wire is a TCP proxy whose wire can be held, made to lose what it
// carries, or cut at a chosen moment: the faults between two processes that no
// call inside either of them can play. It is for demonstrations and tests only.
package wire

import (
	"errors"
	"net"
	"sync"
	"time"
)

// Mode is what one direction of the wire does with bytes.
type Mode int

// The modes of a direction.
const (
	// Pass carries them on.
	Pass Mode = iota
	// Hold keeps them, in order, until the direction passes again or is cut.
	Hold
	// Lose reads them and throws them away.
	Lose
)

// dialTimeout bounds connecting to the target.
const dialTimeout = 5 * time.Second

// Proxy carries connections to one target. All methods are safe for concurrent
// use.
type Proxy struct {
	listener net.Listener
	target   string
	done     sync.WaitGroup

	mu      sync.Mutex
	changed sync.Cond
	// modes by direction; a change is seen by bytes that are held.
	modes  [2]Mode
	lost   [2]int64
	held   [2]int64
	closed bool
	links  map[*link]bool
}

// Direction is the way that bytes go.
type Direction int

// The directions, as seen by the side that opened the connection.
const (
	Requests Direction = iota
	Answers
)

// link is one connection through the proxy.
type link struct {
	ends [2]net.Conn
	// cut: what is held is thrown away.
	cut bool
	// torn: bytes of this connection were lost, so what follows makes no sense.
	torn bool
}

// Listen opens a proxy on the address (host:port; port 0 picks a free one) for
// the target (host:port). It fails only if it cannot listen; a target that is
// not there closes the connection that asked for it.
func Listen(address, target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: listener, target: target, links: map[*link]bool{}}
	p.changed.L = &p.mu
	p.done.Add(1)
	go p.accept()
	return p, nil
}

// Address is where the proxy listens, host:port.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Set changes what a direction does, at once and for new connections too.
func (p *Proxy) Set(d Direction, m Mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.modes[d] = m
	p.changed.Broadcast()
}

// Cut breaks every connection there is now; what was held on it is lost. New
// ones are taken as the modes say.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		p.cut(l)
	}
}

// Heal makes both directions pass. Held bytes go on; a connection that has lost
// bytes is cut, since what follows on it could not be understood.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if l.torn {
			p.cut(l)
		}
	}
	p.modes = [2]Mode{}
	p.changed.Broadcast()
}

// Lost counts the bytes of a direction that were thrown away in Lose.
func (p *Proxy) Lost(d Direction) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost[d]
}

// Held counts the bytes of a direction that wait in Hold. Each connection holds
// at most 32 KiB, the rest waits with its sender.
func (p *Proxy) Held(d Direction) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held[d]
}

// Close stops listening, breaks every connection and waits until all is quiet.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for l := range p.links {
		p.cut(l)
	}
	p.mu.Unlock()
	p.done.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (p *Proxy) accept() {
	defer p.done.Done()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.done.Add(1)
		go p.connect(client)
	}
}

func (p *Proxy) connect(client net.Conn) {
	defer p.done.Done()
	server, err := net.DialTimeout("tcp", p.target, dialTimeout)
	if err != nil {
		abort(client)
		return
	}
	if server.LocalAddr().String() == server.RemoteAddr().String() {
		// TCP lets a socket connect to itself where nobody listens.
		abort(server)
		abort(client)
		return
	}
	l := &link{ends: [2]net.Conn{client, server}}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links[l] = true
	if p.closed {
		p.cut(l)
	}
	p.done.Add(2)
	go p.carry(l, Requests, client, server)
	go p.carry(l, Answers, server, client)
}

// carry moves the bytes of one direction until either end is gone.
func (p *Proxy) carry(l *link, d Direction, from, to net.Conn) {
	defer p.done.Done()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && p.admit(l, d, n) {
			if _, failed := to.Write(buffer[:n]); failed != nil {
				err = failed
			}
		}
		if err != nil {
			p.mu.Lock()
			p.cut(l)
			p.mu.Unlock()
			return
		}
	}
}

// admit waits while the direction holds, and says whether n bytes go on.
func (p *Proxy) admit(l *link, d Direction, n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held[d] += int64(n)
	for p.modes[d] == Hold && !l.cut {
		p.changed.Wait()
	}
	p.held[d] -= int64(n)
	if p.modes[d] == Lose {
		p.lost[d] += int64(n)
		l.torn = true
		return false
	}
	return !l.cut
}

// cut breaks one connection. The caller holds the lock.
func (p *Proxy) cut(l *link) {
	l.cut = true
	for _, end := range l.ends {
		abort(end)
	}
	delete(p.links, l)
	p.changed.Broadcast()
}

// abort closes with a reset, so that neither end takes it for an orderly end.
func abort(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}
