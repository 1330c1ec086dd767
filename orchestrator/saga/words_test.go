package saga

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"giro/internal/fingerprint"
)

// TestAParticipantsWordsCannotPoisonARow: what is kept of them fits any database.
func TestAParticipantsWordsCannotPoisonARow(t *testing.T) {
	for _, words := range []string{"\x00", "a\x00b", "\xff\xfe", strings.Repeat("é", 10_000), strings.Repeat("x", 299) + "é", "\x1b[2J", "two\nlines"} {
		s := New(ID{Tenant: "t", Key: "k"}, fingerprint.Contents{Source: "a/x", Destination: "b/y", Amount: 1, Currency: "USD"}, false)
		now := time.Unix(0, 0)
		unknown, _ := Decide(s, StepDebit, Answer{Error: words}, now)
		reused, _ := Decide(s, StepDebit, Answer{Outcome: OutcomeKeyReused, Key: s.StepKey(StepDebit), Amount: 1, Detail: words}, now)
		refused, _ := Decide(s, StepDebit, Answer{Outcome: OutcomeRefused, Key: s.StepKey(StepDebit), Amount: 1, Reason: words}, now)
		invalid, _ := Decide(s, StepDebit, Answer{Outcome: OutcomeInvalid, Key: s.StepKey(StepDebit), Amount: 1, Detail: words}, now)
		if !reused.Parked || refused.State != Refused || invalid.State != Cancelling {
			t.Fatalf("%q decided: %+v %+v %+v", words, reused, refused, invalid)
		}
		kept := []string{unknown.Steps[0].LastError, reused.ParkReason, reused.Steps[0].Reason, refused.Reason, refused.Steps[0].Reason,
			invalid.Reason, invalid.Steps[0].Reason}
		for _, text := range kept {
			if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) || len(text) > 500 {
				t.Errorf("of %.20q was kept %.20q (%d bytes)", words, text, len(text))
			}
		}
	}
}
