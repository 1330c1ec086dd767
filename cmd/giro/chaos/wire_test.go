package chaos

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// cutOneIn is how many COMMITs pass for each that is cut off on either side.
const cutOneIn = 30

// wire is a replica's way to the database. It reads PostgreSQL's messages, and
// cuts a connection right before a COMMIT reaches the server or right after its
// answer has left it: at the two moments when only one side knows.
type wire struct {
	listener net.Listener
	server   string
	// cutting is off while the accounts are set up and while all is checked.
	cutting atomic.Bool
	// before and after count the cuts.
	before, after atomic.Int64

	mu     sync.Mutex
	random *rand.Rand
	conns  []net.Conn
	wait   sync.WaitGroup
}

func newWire(t *testing.T, server string, random *rand.Rand) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: l, server: server, random: random}
	w.wait.Go(w.accept)
	t.Cleanup(w.close)
	return w
}

func (w *wire) close() {
	w.listener.Close()
	w.mu.Lock()
	for _, c := range w.conns {
		c.Close()
	}
	w.mu.Unlock()
	w.wait.Wait()
}

func (w *wire) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", w.server)
		if err != nil {
			client.Close()
			continue
		}
		w.mu.Lock()
		w.conns = append(w.conns, client, server)
		w.mu.Unlock()
		both := func() { client.Close(); server.Close() }
		w.wait.Go(func() { defer both(); w.carry(client, server, &requests{}, &w.before) })
		w.wait.Go(func() { defer both(); w.carry(server, client, answers{}, &w.after) })
	}
}

// decide says whether this COMMIT is cut off.
func (w *wire) decide() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cutting.Load() && w.random.IntN(cutOneIn) == 0
}

// direction knows the messages of one way.
type direction interface {
	// typed says whether the next message begins with its type.
	typed() bool
	// commits says whether a message is the one that has COMMIT done, or says that
	// it was.
	commits(kind byte, body []byte) bool
}

// carry forwards whole messages until either end has gone, or it cuts.
func (w *wire) carry(from, to net.Conn, way direction, cuts *atomic.Int64) {
	in, out := bufio.NewReaderSize(from, 64<<10), bufio.NewWriterSize(to, 64<<10)
	for {
		typed := way.typed()
		message, err := readMessage(in, typed)
		if err != nil {
			return
		}
		if kind, body := split(message, typed); way.commits(kind, body) && w.decide() {
			_ = out.Flush() // what came before it arrives
			cuts.Add(1)
			return
		}
		if _, err := out.Write(message); err != nil {
			return
		}
		// What has begun to arrive arrives whole: its sender waits for nobody.
		if in.Buffered() == 0 && out.Flush() != nil {
			return
		}
	}
}

// readMessage reads a type, if there is one, a length that counts itself, and the
// rest.
func readMessage(in *bufio.Reader, typed bool) ([]byte, error) {
	head := 4
	if typed {
		head = 5
	}
	start, err := in.Peek(head)
	if err != nil {
		return nil, err
	}
	message := make([]byte, head-4+int(binary.BigEndian.Uint32(start[head-4:])))
	_, err = io.ReadFull(in, message)
	return message, err
}

func split(message []byte, typed bool) (kind byte, body []byte) {
	if !typed {
		return 0, message[4:]
	}
	return message[0], message[5:]
}

// requests are the client's messages: the first has no type.
type requests struct {
	begun bool
	// commit is the name under which COMMIT was prepared on this connection.
	commit []byte
}

func (r *requests) typed() bool { return r.begun }

func (r *requests) commits(kind byte, body []byte) bool {
	r.begun = true
	first, rest, _ := bytes.Cut(body, []byte{0})
	second, _, _ := bytes.Cut(rest, []byte{0})
	switch kind {
	case 'Q':
		return string(first) == "commit"
	case 'P': // name, text
		if string(second) == "commit" {
			r.commit = bytes.Clone(first)
		}
	case 'B': // portal, name
		return r.commit != nil && bytes.Equal(second, r.commit)
	}
	return false
}

// answers are the server's.
type answers struct{}

func (answers) typed() bool { return true }

func (answers) commits(kind byte, body []byte) bool {
	return kind == 'C' && bytes.HasPrefix(body, []byte("COMMIT\x00"))
}
