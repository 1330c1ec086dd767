package row_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"giro/internal/fingerprint"
	"giro/orchestrator/saga"
	"giro/orchestrator/store/row"
)

func sample() saga.Saga {
	at := time.Date(2026, 5, 1, 12, 0, 0, 123456789, time.FixedZone("far", 5*3600))
	s := saga.New(saga.ID{Tenant: "acme", Key: "K-1"},
		fingerprint.Contents{Source: "a/1", Destination: "b/2", Amount: 1, Currency: "USD"}, false)
	s.Metadata = map[string]string{"a": "1"}
	s.CreatedAt, s.ProgressAt, s.UpdatedAt, s.DueAt = at, at, at, at
	s.Steps = []saga.Step{{Name: saga.StepDebit, Attempts: 2, FirstSentAt: at}}
	return s
}

func TestNormalIsKeptAsItIs(t *testing.T) {
	s := row.Normal(sample())
	metadata, steps, err := row.Texts(s)
	if err != nil {
		t.Fatal(err)
	}
	loaded := s
	loaded.Metadata, loaded.Steps, loaded.Fingerprint = nil, nil, fingerprint.Sum{}
	row.Fill(&loaded, s.Fingerprint[:], metadata, steps)
	if !reflect.DeepEqual(loaded, s) {
		t.Errorf("it came back as\n %+v, was\n %+v", loaded, s)
	}
	if !reflect.DeepEqual(row.Normal(s), s) {
		t.Error("what is normal changed")
	}
	if want := "2026-05-01T07:00:00.123456Z"; s.DueAt.Format(time.RFC3339Nano) != want {
		t.Errorf("the instant is %s, want %s", s.DueAt.Format(time.RFC3339Nano), want)
	}
	if s.Steps[0].Key != s.StepKey(saga.StepDebit) || strings.Contains(steps, s.Steps[0].Key.String()) {
		t.Errorf("the step's key is %s, and must be derived and not stored: %s", s.Steps[0].Key, steps)
	}
}

func TestNormalSharesNothing(t *testing.T) {
	given := sample()
	s := row.Normal(given)
	given.Metadata["a"], given.Steps[0].Attempts = "2", 9
	if s.Metadata["a"] != "1" || s.Steps[0].Attempts != 2 {
		t.Errorf("the copy changed with the original: %v, %v", s.Metadata, s.Steps)
	}
}

// TestADamagedRowIsCarriedOutWithWhatCanBeRead: one row must not keep others from
// being claimed.
func TestADamagedRowIsCarriedOutWithWhatCanBeRead(t *testing.T) {
	s := row.Normal(sample())
	metadata, steps, err := row.Texts(s)
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func(*saga.Saga){
		"fingerprint": func(s *saga.Saga) { row.Fill(s, make([]byte, 64), metadata, steps) },
		"metadata":    func(s *saga.Saga) { row.Fill(s, s.Fingerprint[:], `{"a": 1}`, steps) },
		"steps":       func(s *saga.Saga) { row.Fill(s, s.Fingerprint[:], metadata, "[{") },
	} {
		loaded := s
		loaded.Metadata, loaded.Steps = nil, nil
		damage(&loaded)
		if !loaded.Attention || !strings.Contains(loaded.AttentionReason, name) {
			t.Errorf("%s: nobody is told: %v %q", name, loaded.Attention, loaded.AttentionReason)
		}
		if loaded.ID != s.ID || loaded.Contents != s.Contents || loaded.State != s.State || !loaded.DueAt.Equal(s.DueAt) {
			t.Errorf("%s: it came back as %+v", name, loaded)
		}
	}
}
