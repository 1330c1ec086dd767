package peer

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestSilenceIsToldOnceAMinute(t *testing.T) {
	var log bytes.Buffer
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	h := hearing{logger: slog.New(slog.NewTextHandler(&log, nil)), now: func() time.Time { return now }}
	h.answered()
	for range 150 { // two and a half minutes
		h.silent(errors.New("connection refused"))
		now = now.Add(time.Second)
	}
	h.answered()
	h.answered()
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 4 {
		t.Fatalf("it was told %d times:\n%s", len(lines), log.String())
	}
	for i, want := range []string{"seconds=0 ", "seconds=60 ", "seconds=120 ", "answers again"} {
		if !strings.Contains(lines[i]+" ", want) {
			t.Errorf("line %d is %s", i, lines[i])
		}
	}
	log.Reset()
	for range 20 { // on and off
		h.silent(errors.New("connection refused"))
		h.answered()
		now = now.Add(time.Second)
	}
	if n := strings.Count(log.String(), "does not answer"); n > 1 {
		t.Errorf("told %d times within 20 seconds", n)
	}
}
