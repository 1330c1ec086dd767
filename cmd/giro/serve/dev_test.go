package serve

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
)

func devAt(dir string, taken map[Service]string) DevSettings {
	s := DevSettings{Dir: dir, Logger: slog.New(slog.DiscardHandler), Addresses: map[Service]string{}, Ready: func(map[Service]string) {}}
	for _, service := range devServices {
		s.Addresses[service] = "127.0.0.1:0"
		if at := taken[service]; at != "" {
			s.Addresses[service] = at
		}
	}
	return s
}

// TestDevSaysWhosePortIsTaken takes one port after the other. Nothing may have been
// opened by then: another giro dev may be working on those files.
func TestDevSaysWhosePortIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, service := range devServices {
		dir := filepath.Join(t.TempDir(), "files")
		err := Dev(t.Context(), devAt(dir, map[Service]string{service: l.Addr().String()}))
		want := string(service) + " cannot listen on " + l.Addr().String() + ": another process does; is another giro dev running? --" + string(service) + " takes another address"
		if err == nil || err.Error() != want {
			t.Errorf("came %v, want %s", err, want)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s: files were made: %v", service, err)
		}
	}
}

func TestDevListensOnLoopbackAlone(t *testing.T) {
	err := Dev(t.Context(), devAt(t.TempDir(), map[Service]string{Ledgersvc: "0.0.0.0:0"}))
	if err == nil || !strings.Contains(err.Error(), "ledgersvc: ") || !strings.Contains(err.Error(), "not a loopback address") {
		t.Errorf("came %v", err)
	}
}

func TestDevListensWhereItIsTold(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s := devAt(t.TempDir(), nil)
	var up map[Service]string
	s.Ready = func(at map[Service]string) {
		up = at
		for service, address := range at {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Errorf("%s: %v", service, err)
				continue
			}
			_ = conn.Close()
		}
		stop()
	}
	if err := Dev(ctx, s); err != nil || len(up) != len(devServices) {
		t.Errorf("came %v; up %v", err, up)
	}
}

// TestStoppedAtOnceIsNoFailure: Ctrl-C may come before the server has begun.
func TestStoppedAtOnceIsNoFailure(t *testing.T) {
	for range 20 {
		ctx, stop := context.WithCancel(t.Context())
		s := Settings{Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler), Ready: stop}
		if err := answer(ctx, Ledgersvc, s, func(grpc.ServiceRegistrar) {}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestServeSaysThatItsPortIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = Participant(t.Context(), Ledgersvc, ParticipantSettings{Name: "ledgersvc", Settings: Settings{
		DatabaseURL: "sqlite:" + filepath.Join(t.TempDir(), "books.db"), Listen: l.Addr().String(), Migrate: true, Logger: slog.New(slog.DiscardHandler)}})
	if err == nil || !strings.Contains(err.Error(), "ledgersvc cannot listen on "+l.Addr().String()) || !strings.Contains(err.Error(), "--listen takes another address") {
		t.Errorf("came %v", err)
	}
}
