package demo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"giro/cmd/giro/environ"
	"giro/internal/stepkey"
	participantv1 "giro/proto/giro/participant/v1"
	transferv1 "giro/proto/giro/transfer/v1"
)

func TestMain(m *testing.M) {
	environ.Clear()
	os.Exit(m.Run())
}

func TestASceneSaysWhatWasExpectedAndWhatCame(t *testing.T) {
	var b strings.Builder
	s := &script{w: &b}
	s.open("a", "A title")
	s.same("balance", "60.00 USD", "60.00 USD")
	s.same("state", "COMPLETED", "REFUSED")
	s.holds("it was asked twice", false, 1)
	s.close(nil)
	for _, line := range []string{
		"a) A title",
		"NOT AS EXPECTED: state: expected COMPLETED, came REFUSED",
		"NOT AS EXPECTED: it was asked twice: expected yes, came no (1)",
		"DID NOT HOLD: 2 of 3 checks failed",
	} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("missing %q in\n%s", line, b.String())
		}
	}
	if !slices.Equal(s.brokenScenes, []string{"a"}) {
		t.Errorf("broken scenes: %v", s.brokenScenes)
	}
	if strings.Contains(b.String(), "\x1b") {
		t.Error("colours without a terminal")
	}
}

func TestASceneThatCouldNotGoOnDoesNotHold(t *testing.T) {
	var b strings.Builder
	s := &script{w: &b}
	s.open("b", "B")
	s.close(errors.New("no answer"))
	s.open("c", "C")
	s.same("one", 1, 1)
	s.close(nil)
	if !slices.Equal(s.brokenScenes, []string{"b"}) || !strings.Contains(b.String(), "could not go on: no answer") ||
		!strings.Contains(b.String(), "held: 1 checks") {
		t.Errorf("broken scenes %v:\n%s", s.brokenScenes, b.String())
	}
}

func TestAnswersThatContradictEachOtherAreFound(t *testing.T) {
	r := request(alice, shop, 40_00)
	now := func(state transferv1.State, reason string) *transferv1.Transfer {
		return &transferv1.Transfer{Key: r.Key, Source: r.Source, Destination: r.Destination, Amount: r.Amount, Currency: r.Currency, State: state, Reason: reason}
	}
	other := proto.CloneOf(now(transferv1.State_STATE_COMPLETED, ""))
	other.Amount++
	for _, c := range []struct {
		name  string
		seen  []*transferv1.Transfer
		sound bool
	}{
		{"pending, then final, then the same", []*transferv1.Transfer{now(transferv1.State_STATE_PENDING, ""), now(transferv1.State_STATE_REFUNDED, "X"), now(transferv1.State_STATE_REFUNDED, "X")}, true},
		{"another final state", []*transferv1.Transfer{now(transferv1.State_STATE_COMPLETED, ""), now(transferv1.State_STATE_REFUNDED, "X")}, false},
		{"another reason", []*transferv1.Transfer{now(transferv1.State_STATE_REFUNDED, "Y"), now(transferv1.State_STATE_REFUNDED, "X")}, false},
		{"pending again", []*transferv1.Transfer{now(transferv1.State_STATE_COMPLETED, ""), now(transferv1.State_STATE_PENDING, "")}, false},
		{"other contents", []*transferv1.Transfer{other}, false},
	} {
		var a answers
		for _, t := range c.seen {
			a.note(r, t)
		}
		if sound := a.list()[0].contradiction == ""; sound != c.sound {
			t.Errorf("%s: sound %v (%s)", c.name, sound, a.list()[0].contradiction)
		}
		if a.oks != len(c.seen) {
			t.Errorf("%s: %d answers counted", c.name, a.oks)
		}
	}
}

func TestOperationsAreThoseOfTheOrchestrator(t *testing.T) {
	r := request(alice, shop, 40_00)
	r.Key = "order-1"
	participant, refund := operation(r, stepkey.Refund)
	if participant != accountsvc || refund.Account != "alice" || refund.Counterparty != shop ||
		refund.Kind != participantv1.OperationKind_OPERATION_KIND_REFUND || refund.DebitKey != stepkey.Derive(stepkey.V1, tenant, "order-1", "debit").String() {
		t.Errorf("refund at %s: %v", participant, refund)
	}
	participant, credit := operation(r, stepkey.Credit)
	if participant != ledgersvc || credit.Account != "shop" || credit.Counterparty != alice || credit.DebitKey != "" {
		t.Errorf("credit at %s: %v", participant, credit)
	}
}

func TestLosingADatabaseRemovesItsFiles(t *testing.T) {
	dir := t.TempDir()
	f := files{dir}
	for _, name := range []string{"orchestrator.db", "orchestrator.db-wal", "accountsvc.db"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.lose(context.Background(), orchestrator); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != "accountsvc.db" {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestUntilGivesUpWithTheLastError(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	broken := errors.New("no answer")
	if err := until(ctx, "it is so", func() (bool, error) { return false, broken }); !errors.Is(err, broken) {
		t.Errorf("came %v", err)
	}
	asked := 0
	if err := until(context.Background(), "it is so", func() (bool, error) { asked++; return asked == 3, nil }); err != nil || asked != 3 {
		t.Errorf("asked %d times, %v", asked, err)
	}
}

func TestAProcessThatEndsAtOnceIsReportedWithItsLog(t *testing.T) {
	address, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{name: "ledgersvc", executable: self, args: []string{"-no-such-flag"}, address: address, logFile: filepath.Join(t.TempDir(), "log")}
	err = p.start(context.Background())
	if !errors.Is(err, errEnded) || !strings.Contains(err.Error(), "-test.v") {
		t.Errorf("came %v", err)
	}
	if p.running() {
		t.Error("it still runs")
	}
}
