package conformance

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"
)

// proxy carries connections to the participant and can lose an answer: it reads
// HTTP/2 frames, so that it knows when the participant has answered, and then
// resets the connection on both sides instead of passing the answer on.
type proxy struct {
	listener net.Listener
	target   string
	done     sync.WaitGroup

	mu    sync.Mutex
	armed bool
	cuts  int
	open  map[net.Conn]bool
}

func newProxy(target string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, target: target, open: map[net.Conn]bool{}}
	p.done.Go(p.accept)
	return p, nil
}

func (p *proxy) address() string { return p.listener.Addr().String() }

// arm makes it lose the next answer.
func (p *proxy) arm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = true
}

// lost counts the answers that were lost.
func (p *proxy) lost() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

func (p *proxy) close() {
	_ = p.listener.Close() // nothing can be done about it
	p.mu.Lock()
	for c := range p.open {
		_ = c.Close()
	}
	p.open = nil
	p.mu.Unlock()
	p.done.Wait()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.done.Go(func() { p.carry(client) })
	}
}

// carry passes requests on as they come, and answers frame by frame.
func (p *proxy) carry(client net.Conn) {
	server, err := net.DialTimeout("tcp", p.target, callSeconds*time.Second)
	if err != nil {
		reset(client)
		return
	}
	if !p.keep(client, server) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(server, client) // ends with either connection
		reset(server)
	})
	both.Go(func() {
		p.answers(client, server)
		reset(client)
		reset(server)
	})
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, client)
	delete(p.open, server)
}

func (p *proxy) keep(connections ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range connections {
		if p.open == nil {
			reset(c)
			continue
		}
		p.open[c] = true
	}
	return p.open != nil
}

// answers passes frames on until either side ends, or the answer comes that is to
// be lost.
func (p *proxy) answers(client, server net.Conn) {
	const data = 0 // the type of the frames that hold messages
	var head [9]byte
	for {
		if _, err := io.ReadFull(server, head[:]); err != nil {
			return
		}
		payload := make([]byte, binary.BigEndian.Uint32(append([]byte{0}, head[:3]...)))
		if _, err := io.ReadFull(server, payload); err != nil {
			return
		}
		if head[3] == data && len(payload) > 0 && p.lose() {
			return
		}
		if _, err := client.Write(append(head[:], payload...)); err != nil {
			return
		}
	}
}

func (p *proxy) lose() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.armed {
		return false
	}
	p.armed = false
	p.cuts++
	return true
}

// reset closes so that neither end takes it for an orderly end.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}
