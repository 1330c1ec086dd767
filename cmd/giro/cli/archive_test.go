package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"giro/cmd/giro/serve"
	"giro/internal/dbtest"
	"giro/internal/names"
	"giro/internal/retention"
	"giro/internal/rpc/rpctest"
	"giro/internal/stepkey"
	accountv1 "giro/proto/giro/account/v1"
	participantv1 "giro/proto/giro/participant/v1"
)

const orchestratorID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"

// keyAged is a transfer key whose own time is that long ago.
func keyAged(n int, age time.Duration) string {
	k := stepkey.From(time.Now().Add(-age))
	k[6], k[8], k[14], k[15] = 0x70, 0x80, byte(n>>8), byte(n)
	return k.String()
}

// serving runs a participant until stop is called.
func serving(t *testing.T, url string, horizon time.Duration) (p participantv1.ParticipantServiceClient, kept participantv1.RetentionServiceClient, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	address := freeAddress(t)
	go func() {
		ended <- serve.Participant(ctx, serve.Accountsvc, serve.ParticipantSettings{Name: "accountsvc", Retention: retention.Settings{Horizon: horizon},
			Settings: serve.Settings{DatabaseURL: url, Listen: address, Migrate: true, StopTimeout: time.Second,
				Logger: slog.New(slog.DiscardHandler), Ready: func() { close(ready) }}})
	}()
	select {
	case <-ready:
	case err := <-ended:
		cancel()
		t.Fatal(err)
	}
	connection := rpctest.Dial(t, address)
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	_, err := accountv1.NewAccountServiceClient(connection).OpenAccount(t.Context(), &accountv1.OpenAccountRequest{Key: "open", Account: "alice", Currency: "USD"})
	if err != nil {
		t.Fatal(err)
	}
	return participantv1.NewParticipantServiceClient(connection), participantv1.NewRetentionServiceClient(connection), stop
}

// freeAddress is one that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return address
}

// oldWork is a credit of 1 to alice, for an even n, or a tombstone.
func oldWork(n int, age time.Duration) *participantv1.Operation {
	key := keyAged(n, age)
	o := &participantv1.Operation{Kind: participantv1.OperationKind_OPERATION_KIND_CANCEL, Tenant: "default", TransferKey: key, Step: "credit",
		Key:     stepkey.Derive(stepkey.V1, "default", names.TransferKey(key), "credit").String(),
		Account: "alice", Amount: 1, Currency: "USD", Counterparty: "ledgersvc/shop"}
	if n%2 == 0 {
		o.Kind = participantv1.OperationKind_OPERATION_KIND_CREDIT
	}
	return o
}

// fill stores so many operations under keys of that age, and gives their keys.
func fill(t *testing.T, p participantv1.ParticipantServiceClient, count int, age time.Duration) map[string]*participantv1.Operation {
	t.Helper()
	stored := map[string]*participantv1.Operation{}
	for from := 0; from < count; from += 250 {
		request := &participantv1.ApplyRequest{}
		for n := from; n < min(count, from+250); n++ {
			request.Operations = append(request.Operations, oldWork(n, age))
		}
		answers, err := p.Apply(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range answers.GetAnswers() {
			if a.GetOutcome() != participantv1.Outcome_OUTCOME_CANCELLED && a.GetAmountMoved() != 1 {
				t.Fatalf("%v", a)
			}
			stored[request.Operations[i].GetKey()] = request.Operations[i]
		}
	}
	return stored
}

// copies reads an archive file: how often each key stands in it.
func copies(t *testing.T, path string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, line := range bytes.SplitAfter(text, []byte("\n")) {
		var l struct{ Key string }
		if !bytes.HasSuffix(line, []byte("\n")) {
			continue // a run died while it wrote
		}
		if err := json.Unmarshal(line, &l); err != nil || l.Key == "" {
			t.Fatalf("%q: %v", line, err)
		}
		found[l.Key]++
	}
	return found
}

// TestArchiveKilledHalfway kills giro archive with SIGKILL again and again, beside the
// serving participant, until it gets through. Whatever is gone from the books then
// stands in the file, is EXPIRED, and nothing is EXPIRED that is still there.
func TestArchiveKilledHalfway(t *testing.T) {
	const day, count = 24 * time.Hour, 5000
	for name, url := range map[string]string{"sqlite": "sqlite:" + dbtest.SQLite(t), "postgres": dbtest.Postgres(t)} {
		t.Run(name, func(t *testing.T) {
			p, _, stop := serving(t, url, 0)
			stored := fill(t, p, count, 90*day)
			young := fill(t, p, 100, day)
			stop()
			p, kept, _ := serving(t, url, 60*day)
			tellNeeded(t, kept, timestamppb.Now())
			out := filepath.Join(t.TempDir(), "archive.jsonl")
			kills := 0
			for ended := false; !ended; {
				command := exec.CommandContext(t.Context(), os.Args[0])
				command.Env = append(os.Environ(), asGiro+"=archive run --database-url "+url+" --out "+out)
				command.Stderr = os.Stderr
				before := sizeOf(out)
				if err := command.Start(); err != nil {
					t.Fatal(err)
				}
				exited := make(chan error, 1)
				go func() { exited <- command.Wait() }()
				if kills < killsMax && inTheMiddle(out, before, exited) {
					kills++
					if err := command.Process.Kill(); err != nil {
						t.Fatal(err)
					}
					<-exited
				} else if err := <-exited; err != nil {
					t.Fatal(err)
				} else {
					ended = true
				}
				checkHalfway(t, p, stored, copies(t, out))
				if sums, err := p.Sums(t.Context(), &participantv1.SumsRequest{}); err != nil || len(sums.GetFaults()) > 0 || sums.GetCurrencies()[0].GetTotal() != "0" {
					t.Fatalf("halfway: %v, %v", sums, err)
				}
			}
			if kills == 0 {
				t.Error("it was never killed: it was too quick")
			}
			if got := copies(t, out); len(got) != count {
				t.Errorf("%d operations were copied, want %d", len(got), count)
			}
			// The young ones, the opening, and two lines that were brought forward.
			sums, err := p.Sums(t.Context(), &participantv1.SumsRequest{})
			if err != nil || sums.GetOperationCount() != int64(len(young)+3) || len(sums.GetFaults()) > 0 || sums.GetCurrencies()[0].GetTotal() != "0" ||
				sums.GetClearing()[0].GetBalance() != fmt.Sprint(-(count+len(young))/2) {
				t.Errorf("%v, %v", sums, err)
			}
		})
	}
}

const killsMax = 4

// inTheMiddle waits until a run has copied something, and a moment more; false if it
// ended before that.
func inTheMiddle(out string, before int64, exited chan error) bool {
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for sizeOf(out) <= before {
		select {
		case err := <-exited:
			exited <- err
			return false
		case <-poll.C:
		}
	}
	select {
	case err := <-exited:
		exited <- err
		return false
	case <-time.After(rand.N(5 * time.Millisecond)):
		return true
	}
}

// sizeOf is 0 for a file that is not there.
func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// checkHalfway compares the books with the file, for a share of the keys.
func checkHalfway(t *testing.T, p participantv1.ParticipantServiceClient, stored map[string]*participantv1.Operation, copied map[string]int) {
	t.Helper()
	looked := 0
	for key, o := range stored {
		if looked++; looked > 200 {
			return
		}
		response, err := p.GetOperation(t.Context(), &participantv1.GetOperationRequest{Operation: o})
		if err != nil {
			t.Fatal(err)
		}
		switch outcome := response.GetAnswer().GetOutcome(); {
		case outcome == participantv1.Outcome_OUTCOME_CANCELLED, outcome == participantv1.Outcome_OUTCOME_APPLIED:
		case outcome == participantv1.Outcome_OUTCOME_EXPIRED && copied[key] > 0:
		default:
			t.Fatalf("%s is %s, and stands in the file %d times", key, outcome, copied[key])
		}
	}
}

func tellNeeded(t *testing.T, kept participantv1.RetentionServiceClient, oldest *timestamppb.Timestamp) {
	t.Helper()
	if _, err := kept.ReportUnfinished(t.Context(), &participantv1.ReportUnfinishedRequest{Orchestrator: orchestratorID, OldestTime: oldest}); err != nil {
		t.Fatal(err)
	}
}

// TestArchiveSaysWhatItDoes walks an operator's way from the first refusal on.
func TestArchiveSaysWhatItDoes(t *testing.T) {
	const day = 24 * time.Hour
	url := "sqlite:" + dbtest.SQLite(t)
	out := filepath.Join(t.TempDir(), "archive.jsonl")
	p, _, stop := serving(t, url, 0)
	fill(t, p, 20, 90*day)
	giro := func(want int, words []string, line ...string) {
		t.Helper()
		code, stdout, stderr := run(t, append(line, "--database-url", url)...)
		for _, word := range words {
			if !strings.Contains(flat(stdout+stderr), word) {
				t.Errorf("%v does not say %q:\n%s%s", line, word, stdout, stderr)
			}
		}
		if code != want {
			t.Errorf("%v ends with %d, want %d:\n%s%s", line, code, want, stdout, stderr)
		}
	}
	giro(ExitUsage, []string{"--out FILE", "--discard"}, "archive")
	giro(ExitUsage, []string{"--out FILE", "--discard"}, "archive", "--out", out, "--discard")
	giro(ExitOK, []string{"kept as long as the books", "nothing yet", "no orchestrator has reported"}, "archive", "status")
	giro(ExitRefused, []string{"nothing was archived: no retention horizon is set", "--retention-horizon"}, "archive", "--out", out)
	stop()
	_, kept, stop := serving(t, url, 60*day)
	giro(ExitRefused, []string{"no orchestrator has reported", "giro archive status"}, "archive", "run", "--out", out)
	giro(ExitRefused, []string{"no orchestrator has reported"}, "archive", "run", "--dry-run")
	tellNeeded(t, kept, nil)
	giro(ExitRefused, []string{"one of them cannot tell"}, "archive", "run", "--out", out)
	giro(ExitOK, []string{orchestratorID, "any time: it has no retention horizon"}, "archive", "status")
	giro(ExitRefused, []string{"nothing was changed"}, "archive", "forget", "nobody")
	giro(ExitOK, []string{"counts no more"}, "archive", "forget", orchestratorID)
	giro(ExitOK, []string{"no orchestrator has reported"}, "archive", "status")
	oldest := time.Now().Add(-95 * day).UTC()
	tellNeeded(t, kept, timestamppb.New(oldest))
	giro(ExitOK, []string{"nothing was changed", oldest.Format(time.RFC3339), "up to 0 operations"}, "archive", "run", "--dry-run")
	tellNeeded(t, kept, timestamppb.Now())
	giro(ExitOK, []string{`"archived":20`, `"dry_run":true`}, "archive", "run", "--dry-run", "--json")
	giro(ExitOK, []string{`"archived":20`, `"dry_run":false`}, "archive", "--out", out, "--json")
	if got := copies(t, out); len(got) != 20 {
		t.Errorf("%d were copied", len(got))
	}
	giro(ExitOK, []string{"0 operations were archived"}, "archive", "run", "--discard")
	giro(ExitOK, []string{"keys older than 20", "would go up to 20", orchestratorID}, "archive", "status")
	giro(ExitOK, []string{`"horizon_seconds": 5184000`, `"oldest": "20`}, "archive", "status", "--json")
	stop()
}
