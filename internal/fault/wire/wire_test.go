package wire

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// echo answers every connection with what it gets, and reports what arrived.
func echo(t *testing.T) (address string, arrived <-chan []byte) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	got := make(chan []byte, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buffer := make([]byte, 1024)
				for {
					n, err := c.Read(buffer)
					if err != nil {
						return
					}
					got <- bytes.Clone(buffer[:n])
					if _, err := c.Write(buffer[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String(), got
}

func open(t *testing.T, target string) *Proxy {
	t.Helper()
	p, err := Listen("127.0.0.1:0", target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, c net.Conn, text string) {
	t.Helper()
	buffer := make([]byte, len(text))
	if _, err := io.ReadFull(c, buffer); err != nil {
		t.Fatal(err)
	}
	if string(buffer) != text {
		t.Fatalf("received %q, want %q", buffer, text)
	}
}

// broken waits until the connection is cut.
func broken(t *testing.T, c net.Conn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); err == nil || n != 0 {
		t.Fatalf("read %d bytes, %v; want a broken connection", n, err)
	} else if e := net.Error(nil); errors.As(err, &e) && e.Timeout() {
		t.Fatal("the connection was not cut")
	}
}

// await polls until the counter passes 0; the deadline is generous, since only a
// fault reaches it.
func await(t *testing.T, what string, count func() int64) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); count() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: nothing was counted", what)
		}
	}
}

func TestPasses(t *testing.T) {
	target, _ := echo(t)
	c := dial(t, open(t, target))
	send(t, c, "hello")
	receive(t, c, "hello")
}

func TestHeldRequestsGoOnWhenTheWireHeals(t *testing.T) {
	target, arrived := echo(t)
	p := open(t, target)
	c := dial(t, p)
	p.Set(Requests, Hold)
	send(t, c, "held")
	await(t, "held", func() int64 { return p.Held(Requests) })
	if len(arrived) != 0 {
		t.Fatal("a held request arrived")
	}
	p.Heal()
	receive(t, c, "held")
	if held := p.Held(Requests); held != 0 {
		t.Fatalf("%d bytes are still counted as held", held)
	}
}

func TestCutLosesWhatIsHeld(t *testing.T) {
	target, arrived := echo(t)
	p := open(t, target)
	c := dial(t, p)
	p.Set(Requests, Hold)
	send(t, c, "held")
	await(t, "held", func() int64 { return p.Held(Requests) })
	p.Cut()
	p.Heal()
	broken(t, c)
	next := dial(t, p)
	send(t, next, "next")
	receive(t, next, "next")
	if first := <-arrived; string(first) != "next" {
		t.Fatalf("%q arrived after it was cut", first)
	}
}

func TestLostAnswersAreDoneAllTheSame(t *testing.T) {
	target, arrived := echo(t)
	p := open(t, target)
	c := dial(t, p)
	p.Set(Answers, Lose)
	send(t, c, "done")
	if got := <-arrived; string(got) != "done" {
		t.Fatalf("arrived %q", got)
	}
	await(t, "lost", func() int64 { return p.Lost(Answers) })
	p.Heal()
	broken(t, c) // what followed could not be understood
	next := dial(t, p)
	send(t, next, "next")
	receive(t, next, "next")
}

func TestLostRequestsNeverArrive(t *testing.T) {
	target, arrived := echo(t)
	p := open(t, target)
	p.Set(Requests, Lose)
	send(t, dial(t, p), "lost")
	await(t, "lost", func() int64 { return p.Lost(Requests) })
	p.Heal()
	next := dial(t, p)
	send(t, next, "next")
	receive(t, next, "next")
	if first := <-arrived; string(first) != "next" {
		t.Fatalf("%q arrived although it was lost", first)
	}
}

func TestNobodyThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", open(t, target).Address())
	if err != nil {
		return // cut before the dialling side saw that it was open
	}
	defer c.Close()
	broken(t, c)
}

func TestCloseEndsHeldConnections(t *testing.T) {
	target, _ := echo(t)
	p, err := Listen("127.0.0.1:0", target)
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, p)
	p.Set(Requests, Hold)
	send(t, c, "held")
	await(t, "held", func() int64 { return p.Held(Requests) })
	closed := make(chan error, 1)
	go func() { closed <- p.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Close hangs")
	}
	broken(t, c)
}
