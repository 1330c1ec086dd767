package postgres

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"giro/internal/dbtest"
	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
)

// proxy stands between a pool and the server, and can cut a connection at the
// one moment that matters.
type proxy struct {
	listener net.Listener
	server   string
	// beforeCommit and afterCommit count the connections still to be cut: when
	// COMMIT is about to reach the server, and when its answer is about to leave.
	beforeCommit, afterCommit atomic.Int32
	cuts                      atomic.Int32

	mu    sync.Mutex
	conns []net.Conn
	wait  sync.WaitGroup
}

// through starts a proxy to the address and gives the address of the proxy.
func through(t *testing.T, address string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{server: u.Host}
	if p.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	p.wait.Go(p.accept)
	t.Cleanup(p.close)
	u.Host = p.listener.Addr().String()
	return p, withParam(t, u.String(), "sslmode", "disable")
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		both := []net.Conn{client, server}
		sent := &commitSent{}
		p.wait.Go(func() { p.copy(client, server, sent.in, &p.beforeCommit, both) })
		p.wait.Go(func() { p.copy(server, client, commitDone, &p.afterCommit, both) })
	}
}

// commitSent finds the message that has COMMIT executed. It is prepared first,
// under a name, and then bound by that name.
type commitSent struct{ bind []byte }

func (s *commitSent) in(sent []byte) bool {
	if text := bytes.Index(sent, []byte("\x00commit\x00")); text >= 0 {
		name := sent[bytes.LastIndexByte(sent[:text], 'P')+5 : text+1] // after the length
		s.bind = append([]byte{0}, name...)                            // after the portal's name, which is empty
		return false
	}
	return s.bind != nil && bytes.Contains(sent, s.bind)
}

// commitDone finds the server's word that it is done.
func commitDone(answer []byte) bool { return bytes.Contains(answer, []byte("COMMIT\x00")) }

// copy forwards bytes until it meets what is looked for while cuts are left; then
// it closes both sides without forwarding it.
func (p *proxy) copy(from, to net.Conn, found func([]byte) bool, left *atomic.Int32, both []net.Conn) {
	defer func() {
		for _, c := range both {
			c.Close()
		}
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if found(buffer[:n]) && left.Add(-1) >= 0 {
			p.cuts.Add(1)
			return
		}
		if _, werr := to.Write(buffer[:n]); err != nil || werr != nil {
			return
		}
	}
}

func (p *proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	for _, c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.wait.Wait()
}

// The connection is cut after COMMIT was sent: before the server had it, or after
// it was done and before the answer arrived. The caller hears APPLIED, and there
// is one posting.
func TestC16LostCommit(t *testing.T) {
	for _, done := range []bool{false, true} {
		t.Run(fmt.Sprintf("done=%v", done), func(t *testing.T) {
			p, address := through(t, migrated(t))
			s := open(t, address)
			fund(t, s)
			cut := &p.beforeCommit
			if done {
				cut = &p.afterCommit
			}
			d := on(book.Debit, "t1", 40)

			cut.Store(1)
			if _, err := s.Apply(t.Context(), []book.Operation{d}, book.DefaultLimits); !errors.Is(err, store.ErrTransient) {
				t.Fatalf("a lost COMMIT is not worth another attempt: %v", err)
			}
			found, err := s.Lookup(t.Context(), d)
			if err != nil || (found.Outcome == book.Applied) != done {
				t.Fatalf("after the cut: %+v, %v", found, err)
			}
			second := on(book.Debit, "t2", 5)
			cut.Store(2) // twice in a row, if need be
			for _, o := range []book.Operation{second, d} {
				answers, err := newEngine(t, s, 1).Apply(t.Context(), []book.Operation{o})
				if err != nil || answers[0].Outcome != book.Applied || answers[0].AmountMoved != o.Amount {
					t.Fatalf("%+v, %v", answers, err)
				}
			}
			cut.Store(0)
			wantBalance(t, s, 55)
			if p.cuts.Load() < 2 {
				t.Fatalf("only %d connections were cut: the test tests nothing", p.cuts.Load())
			}
			checkEvents(t, connect(t, address))
		})
	}
}

// The server is killed while debits run, and started again: every caller gets an
// answer, and each debit was done once.
func TestC85ServerKilled(t *testing.T) {
	server := dbtest.NewServer(t)
	address := server.URL(t)
	if _, err := Migrate(t.Context(), address); err != nil {
		t.Fatal(err)
	}
	s := open(t, address)
	fund(t, s)
	e := newEngine(t, s, 2)
	var done []<-chan result
	for i := range 40 {
		done = append(done, applyLater(e, on(book.Debit, names.TransferKey(fmt.Sprint("t", i)), 1)))
		if i == 20 {
			if got := <-done[0]; got.err != nil {
				t.Fatal(got.err)
			}
			server.Kill()
		}
	}
	server.Start()
	for i, d := range done[1:] {
		if got := <-d; got.err != nil || got.answer.Outcome != book.Applied {
			t.Fatalf("debit %d: %+v, %v", i+1, got.answer, got.err)
		}
	}
	wantBalance(t, s, 60)
}

// The server turns read-only under the pool, as at a failover: nothing is
// refused, the connections are left, and work goes on when it is over.
func TestC85ReadOnly(t *testing.T) {
	address := migrated(t)
	s, c := open(t, address), connect(t, address)
	fund(t, s)
	// Old sessions turn read-only under us: they are left, and a new one does it.
	for _, conn := range s.hot.AcquireAllIdle(t.Context()) {
		if _, err := conn.Exec(t.Context(), "set default_transaction_read_only = on"); err != nil {
			t.Fatal(err)
		}
		conn.Release()
	}
	first := on(book.Debit, "t1", 40)
	_, err := s.Apply(t.Context(), []book.Operation{first}, book.DefaultLimits)
	if !errors.Is(err, store.ErrTransient) || !strings.Contains(err.Error(), "25006") {
		t.Fatalf("%v", err)
	}
	answers, err := s.Apply(t.Context(), []book.Operation{first}, book.DefaultLimits)
	if err != nil || answers[0].Outcome != book.Applied {
		t.Fatalf("the read-only connection was kept: %+v, %v", answers, err)
	}
	var database string
	if err := c.QueryRow(t.Context(), "select current_database()").Scan(&database); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), "alter database "+database+" set default_transaction_read_only = on"); err != nil {
		t.Fatal(err)
	}
	d := on(book.Debit, "t2", 5)
	// New ones are not even taken, until it is over.
	s.hot.Reset()
	if _, err := s.Apply(t.Context(), []book.Operation{d}, book.DefaultLimits); !errors.Is(err, store.ErrTransient) {
		t.Fatalf("%v", err)
	}
	pending := applyLater(newEngine(t, s, 1), d)
	admin := connect(t, withParam(t, address, "default_transaction_read_only", "off"))
	if _, err := admin.Exec(t.Context(), "alter database "+database+" set default_transaction_read_only = off"); err != nil {
		t.Fatal(err)
	}
	if got := <-pending; got.err != nil || got.answer.Outcome != book.Applied {
		t.Fatalf("%+v", got)
	}
	wantBalance(t, s, 55)
}
