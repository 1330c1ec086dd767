package archive_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"giro/internal/names"
	"giro/internal/participant/archive"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/participant/store/mem"
	"giro/internal/retention"
	"giro/internal/stepkey"
)

const day = 24 * time.Hour

func timed(n int, age time.Duration) names.TransferKey {
	k := stepkey.From(time.Now().Add(-age))
	k[6], k[8], k[14], k[15] = 0x70, 0x80, byte(n>>8), byte(n)
	return names.TransferKey(k.String())
}

// old gives books with so many deposits under keys of 90 days, and as many under young
// ones, of which those of 60 days may be archived.
func old(t *testing.T, count int) store.Store {
	t.Helper()
	s := mem.New(time.Now)
	apply := func(o book.Operation) {
		o.Tenant, o.Step, o.Account, o.Currency = "acme", o.Kind.String(), "alice", "USD"
		o.Key = stepkey.Derive(stepkey.V1, o.Tenant, o.TransferKey, o.Step)
		if answers, err := s.Apply(t.Context(), []book.Operation{o}, book.DefaultLimits); err != nil || answers[0].Outcome != book.Applied {
			t.Fatalf("%+v, %v", answers, err)
		}
	}
	apply(book.Operation{Kind: book.Open, TransferKey: "open"})
	for i := range count {
		apply(book.Operation{Kind: book.Deposit, TransferKey: timed(i, 90*day), Amount: 5, Counterparty: "till"})
		apply(book.Operation{Kind: book.Deposit, TransferKey: timed(i, day), Amount: 5, Counterparty: "till"})
	}
	if err := s.KeepFor(t.Context(), 60*day); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Report(t.Context(), retention.Report{Orchestrator: "one", Oldest: time.Now()}); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEveryOldOperationIsCopiedOnce(t *testing.T) {
	const count = 450
	s, path := old(t, count), filepath.Join(t.TempDir(), "archive.jsonl")
	dry, err := archive.Run(t.Context(), archive.Config{Store: s, DryRun: true})
	if kept, _, _ := s.Retention(t.Context()); err != nil || dry.Archived != count || !kept.ArchivedBefore.IsZero() {
		t.Fatalf("dry: %+v, committed %s, %v", dry, kept.ArchivedBefore, err)
	}
	f, err := archive.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := archive.OpenFile(path); !errors.Is(err, archive.ErrInUse) {
		t.Errorf("two runs append to one file: %v", err)
	}
	var progress int64
	report, err := archive.Run(t.Context(), archive.Config{Store: s, Keep: f.Keep, Progress: func(r archive.Report) { progress = r.Archived }})
	if err != nil || report.Archived != count || progress != count || report.Batches < 3 || time.Since(report.Before) < 60*day {
		t.Errorf("%+v, %v", report, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	lines := read(t, path)
	seen := map[string]bool{}
	for _, l := range lines {
		seen[l.Key] = true
		if l.Tenant != "acme" || l.Kind != "deposit" || l.Outcome != "APPLIED" || l.AmountMoved != 5 || l.FirstTime.IsZero() ||
			l.Entry == nil || *l.Entry != (archive.Entry{Booked: "alice", Against: "external:till", Delta: 5, Seq: l.Entry.Seq}) || l.Entry.Seq == 0 {
			t.Fatalf("%+v", l)
		}
	}
	if len(lines) != count || len(seen) != count {
		t.Errorf("%d lines of %d operations, want %d", len(lines), len(seen), count)
	}
	if again, err := archive.Run(t.Context(), archive.Config{Store: s, Keep: f.Keep}); err != nil || again.Archived != 0 {
		t.Errorf("again: %+v, %v", again, err)
	}
}

func read(t *testing.T, path string) []archive.Line {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var lines []archive.Line
	for scan := bufio.NewScanner(f); scan.Scan(); {
		var l archive.Line
		if err := json.Unmarshal(scan.Bytes(), &l); err != nil {
			t.Fatalf("line %d: %v", len(lines)+1, err)
		}
		lines = append(lines, l)
	}
	return lines
}

// TestATornLineIsCutOff: what a run left that died while it wrote.
func TestATornLineIsCutOff(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":                  "",
		"whole lines":              `{"key":"a"}` + "\n" + `{"key":"b"}` + "\n",
		"half a line":              `{"key":"a"}` + "\n" + `{"key":"b`,
		"half a first line":        `{"key":"a`,
		"a long half line":         `{"key":"a"}` + "\n" + strings.Repeat("x", 200<<10),
		"a half line at the block": strings.Repeat("y", 64<<10) + "\n" + strings.Repeat("x", 64<<10),
	} {
		path := filepath.Join(t.TempDir(), "archive.jsonl")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := archive.OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		o := book.Stored{Operation: book.Operation{Tenant: "acme", Kind: book.Open, Step: "open"}, Outcome: book.Applied}
		if err := errors.Join(f.Keep([]book.Stored{o}), f.Close()); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		whole := text[:strings.LastIndex(text, "\n")+1]
		if err != nil || !strings.HasPrefix(string(got), whole) || strings.Count(string(got), "\n") != strings.Count(whole, "\n")+1 || got[len(got)-1] != '\n' {
			t.Errorf("%s: %.100q..., %v", name, got, err)
		}
	}
	for name, path := range map[string]string{"a folder": t.TempDir(), "in no folder": filepath.Join(t.TempDir(), "no", "file"), "no plain file": os.DevNull} {
		if f, err := archive.OpenFile(path); err == nil {
			t.Errorf("%s was taken", name)
			_ = f.Close()
		}
	}
}

// weary is a store that is away for a while, again and again.
type weary struct {
	store.Store
	calls int
}

func (w *weary) tired() error {
	if w.calls++; w.calls%3 != 0 {
		return fmt.Errorf("%w: away", store.ErrTransient)
	}
	return nil
}

func (w *weary) CommitHorizon(ctx context.Context) (time.Time, error) {
	if err := w.tired(); err != nil {
		return time.Time{}, err
	}
	return w.Store.CommitHorizon(ctx)
}

func (w *weary) Archive(ctx context.Context, after book.ID, limit int, keep func([]book.Stored) error) (store.Archived, error) {
	// Half of the times it was done, and the answer is lost.
	if err := w.tired(); err != nil {
		if w.calls%2 == 0 {
			_, _ = w.Store.Archive(ctx, after, limit, keep)
		}
		return store.Archived{}, err
	}
	return w.Store.Archive(ctx, after, limit, keep)
}

func TestAStoreThatIsAwayIsWaitedFor(t *testing.T) {
	s := old(t, 450)
	copies := map[book.ID]int{}
	_, err := archive.Run(t.Context(), archive.Config{Store: &weary{Store: s}, Keep: func(operations []book.Stored) error {
		for _, o := range operations {
			copies[o.ID()]++
		}
		return nil
	}})
	if err != nil || len(copies) != 450 {
		t.Fatalf("%d were copied, %v", len(copies), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := archive.Run(ctx, archive.Config{Store: &weary{Store: s}}); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

func TestNothingIsArchivedWithoutAHorizon(t *testing.T) {
	for _, dry := range []bool{false, true} {
		if _, err := archive.Run(t.Context(), archive.Config{Store: mem.New(time.Now), DryRun: dry}); !errors.Is(err, retention.ErrNoHorizon) {
			t.Errorf("dry %v: %v", dry, err)
		}
	}
}
