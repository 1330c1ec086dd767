package pgserver_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"giro/internal/pgserver"
)

// When asked so, the test binary is the process that is killed.
const holder = "GIRO_PGSERVER_TEST_HOLDER"

func TestMain(m *testing.M) {
	if os.Getenv(holder) == "" {
		os.Exit(m.Run())
	}
	s, err := pgserver.Start(context.Background(), "")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(s.URL("postgres"))
	select {}
}

func TestServerDiesWithItsCaller(t *testing.T) {
	start(t, "") // skips where nothing is installed
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), holder+"=1", "TMPDIR="+openTemp(t))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(strings.TrimSpace(line))
	if err != nil || u.Host == "" {
		t.Fatalf("no address: %q, %v", line, err)
	}
	if got := psql(t, u.String(), "select 1"); got != "1" {
		t.Fatalf("the server does not answer: %q", got)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // "signal: killed"
	deadline := time.Now().Add(20 * time.Second)
	for listening(u.Host) {
		if time.Now().After(deadline) {
			t.Fatal("the server outlives the process that started it")
		}
		<-time.After(20 * time.Millisecond)
	}
}

func listening(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
