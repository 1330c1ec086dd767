package cli

import (
	"strings"
	"testing"

	accountv1 "giro/proto/giro/account/v1"
)

func TestStatementShowsAllPages(t *testing.T) {
	s := &service{}
	code, out, errs := s.run(t, "account", "statement", "accountsvc/alice", "--from", "2026-01-01T00:00:00Z", "--to", "2026-02-01T00:00:00+01:00")
	if code != ExitOK {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	for i, want := range []string{"NUMBER", "opening", "7 ", "8 ", "closing"} {
		lines := strings.Split(out, "\n")
		if i >= len(lines) || !strings.Contains(lines[i], want) {
			t.Errorf("line %d should hold %q:\n%s", i, want, out)
		}
	}
	for _, want := range []string{"1.00 USD", "10.00 USD", "-5.00 USD", "ledgersvc/shop"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not shown:\n%s", want, out)
		}
	}
	request := s.asked.(*accountv1.GetStatementRequest)
	if request.GetPageToken() != "more" || request.GetToTime().GetSeconds() != 1769900400 || request.GetFromTime().GetSeconds() != 1767225600 {
		t.Errorf("asked for %v", request)
	}
	for _, wrong := range [][]string{{"ledgersvc/shop"}, {"accountsvc/alice", "--from", "yesterday"}} {
		if code, _, _ := s.run(t, append([]string{"account", "statement"}, wrong...)...); code != ExitUsage {
			t.Errorf("%v: exit code %d", wrong, code)
		}
	}
}
