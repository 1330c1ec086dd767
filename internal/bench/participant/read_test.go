package main

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	participantv1 "giro/proto/giro/participant/v1"
)

func TestParsePgbench(t *testing.T) {
	const out = `transaction type: x.sql
number of clients: 4
duration: 5 s
number of transactions actually processed: 11260
number of failed transactions: 0 (0.000%)
latency average = 1.776 ms
initial connection time = 8.123 ms
tps = 2252.345678 (without initial connection time)
`
	s, err := parsePgbench(out)
	if err != nil || s.Operations != 11260 || s.OperationsPerSecond != 2252.345678 || s.connecting != 8123*time.Microsecond {
		t.Error(s, err)
	}
	for _, bad := range []string{"", strings.Replace(out, "failed transactions: 0", "failed transactions: 3", 1), strings.Replace(out, "tps", "tsp", 1)} {
		if s, err := parsePgbench(bad); err == nil {
			t.Errorf("%q was read as %+v", bad, s)
		}
	}
}

func TestPgbenchThatDidNothingIsTold(t *testing.T) {
	const out = "number of transactions actually processed: 0\nnumber of failed transactions: 0 (NaN%)\n"
	if _, err := parsePgbench(out); !errors.Is(err, errNothingDone) {
		t.Error(err)
	}
}

func TestParseLatencies(t *testing.T) {
	got, err := parseLatencies("0 1 243 0 1764617290 123\n1 2 1007 0 1764617290 456\n")
	if want := []time.Duration{243 * time.Microsecond, 1007 * time.Microsecond}; err != nil || !reflect.DeepEqual(got, want) {
		t.Error(got, err)
	}
	for _, bad := range []string{"0 1\n", "0 1 skipped 0\n"} {
		if got, err := parseLatencies(bad); err == nil {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
}

func TestParseStat(t *testing.T) {
	got, err := parseStat([]byte("42 (a) b) S 7 1 1 0 -1 4194304 900 80 0 0 150 50 3 4 20 0 1 0\n"))
	if want := (stat{parent: 7, self: 2 * time.Second, ended: 70 * time.Millisecond}); err != nil || got != want {
		t.Error(got, err)
	}
	for _, bad := range []string{"", "42 (a) S 7", "42 (a) S x 1 1 0 -1 4194304 900 80 0 0 150 50 3 4 20 0"} {
		if got, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q was read as %+v", bad, got)
		}
	}
}

func TestParseMachine(t *testing.T) {
	if got := parseMachine("cpu  100 10 200 99999 88888 5 6 7 0 0\ncpu0 1 1 1\n"); got != 3280*time.Millisecond {
		t.Error(got)
	}
	if got := parseMachine("nothing"); got != 0 {
		t.Error(got)
	}
}

func TestSpent(t *testing.T) {
	at := time.Now()
	before := cpuTimes{at, map[string]time.Duration{groupPostgres: time.Second, groupService: 0}, 10 * time.Second}
	after := cpuTimes{at.Add(2 * time.Second), map[string]time.Duration{groupPostgres: 2 * time.Second, groupService: 500 * time.Millisecond}, 14 * time.Second}
	micros, elsewhere := spent(before, after, 1000)
	if micros[groupPostgres] != 1000 || micros[groupService] != 500 || elsewhere != 1.25 {
		t.Error(micros, elsewhere)
	}
	if micros, _ := spent(before, after, 0); len(micros) != 0 {
		t.Error("no operation took", micros)
	}
}

func TestMachine(t *testing.T) {
	if got := value("processor : 0\nmodel name\t: A CPU @ 2 GHz\n", "model name"); got != "A CPU @ 2 GHz" {
		t.Error(got)
	}
	const mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /tmp/deep xfs rw 0 0\n"
	for dir, want := range map[string]string{"/var/x": "ext4", "/tmp/x": "tmpfs", "/tmp/deep/x": "xfs", "/tmpfoo": "ext4"} {
		if got := fileSystem(mounts, dir); got != want {
			t.Errorf("%s lies in %s, not in %s", dir, want, got)
		}
	}
}

func TestADatabaseInMemoryIsRefused(t *testing.T) {
	if err := checkDisk("tmpfs"); err == nil {
		t.Error("tmpfs was taken for a disk")
	}
	if err := checkDisk("ext4"); err != nil {
		t.Error(err)
	}
}

func TestSound(t *testing.T) {
	sums := func() *participantv1.SumsResponse {
		return &participantv1.SumsResponse{OperationCount: 5, Currencies: []*participantv1.CurrencySum{{Currency: currency, Total: "0"}}}
	}
	if err := sound(sums(), 5); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*participantv1.SumsResponse){
		"empty":      func(s *participantv1.SumsResponse) { s.Currencies = nil },
		"unbalanced": func(s *participantv1.SumsResponse) { s.Currencies[0].Total = "-1" },
		"faulty":     func(s *participantv1.SumsResponse) { s.Faults = []*participantv1.AccountFault{{}} },
		"missing":    func(s *participantv1.SumsResponse) { s.OperationCount = 4 },
		"twice":      func(s *participantv1.SumsResponse) { s.OperationCount = 6 },
	} {
		spoiled := sums()
		spoil(spoiled)
		if err := sound(spoiled, 5); err == nil {
			t.Error("the audit passed books that are ", name)
		}
	}
}
