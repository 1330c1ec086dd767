// Package row holds what the stores share of the way a saga is kept: whole
// microseconds in UTC, and JSON text for the steps and the metadata. What an
// insert or a save returns so equals what a later look-up finds.
package row

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"giro/orchestrator/saga"
)

// BatchSizeMax is the most sagas written in one transaction: with an event each
// they are 1,000 rows, the most that every supported database takes. Larger
// batches are split.
const BatchSizeMax = 500

// ClaimSizeMax is the most sagas that one claim takes.
const ClaimSizeMax = 1000

// LeaseKept is how long a lease that has ended is kept, for people to see. A
// missing one counts as ended.
const LeaseKept = 24 * time.Hour

// Instant gives the time as it is kept: UTC, whole microseconds. Zero stays.
func Instant(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// Normal copies a saga as it is kept. Nothing of it is shared with the argument,
// and what is empty is nil.
func Normal(s saga.Saga) saga.Saga {
	for _, at := range []*time.Time{&s.CreatedAt, &s.ExpiresAt, &s.ProgressAt, &s.UpdatedAt, &s.DueAt} {
		*at = Instant(*at)
	}
	s.Metadata = copyMetadata(s.Metadata)
	s.Steps = keySteps(s, slices.Clone(s.Steps))
	return s
}

func copyMetadata(metadata map[string]string) map[string]string {
	if len(metadata) == 0 {
		return nil
	}
	copied := make(map[string]string, len(metadata))
	for name, value := range metadata {
		copied[name] = value
	}
	return copied
}

// keySteps derives the steps' keys, which are not stored.
func keySteps(s saga.Saga, steps []saga.Step) []saga.Step {
	if len(steps) == 0 {
		return nil
	}
	for i := range steps {
		step := &steps[i]
		step.Key = s.StepKey(step.Name)
		step.FirstSentAt, step.LastSentAt = Instant(step.FirstSentAt), Instant(step.LastSentAt)
		step.AnsweredAt = Instant(step.AnsweredAt)
	}
	return steps
}

// Texts gives the metadata and the steps as JSON text. The saga is Normal.
func Texts(s saga.Saga) (metadata, steps string, err error) {
	metadata, steps = "{}", "[]"
	if len(s.Metadata) > 0 {
		text, err := json.Marshal(s.Metadata)
		if err != nil {
			return "", "", fmt.Errorf("metadata of %s: %w", s.ID.Key, err)
		}
		metadata = string(text)
	}
	if len(s.Steps) > 0 {
		text, err := json.Marshal(s.Steps)
		if err != nil {
			return "", "", fmt.Errorf("steps of %s: %w", s.ID.Key, err)
		}
		steps = string(text)
	}
	return metadata, steps, nil
}

// Fill reads the JSON texts, the fingerprint and the times of a loaded saga. What
// it cannot read decides nothing: steps and metadata are a record for people, and
// contents are compared field by field where the fingerprint differs. So a
// damaged row, or a later version's, is carried out with what can be read, and
// says so; it must not keep others from being claimed or listed with it.
func Fill(s *saga.Saga, fingerprint []byte, metadata, steps string) {
	var unread []string
	if len(fingerprint) == len(s.Fingerprint) {
		copy(s.Fingerprint[:], fingerprint)
	} else {
		unread = append(unread, "fingerprint")
	}
	if err := json.Unmarshal([]byte(metadata), &s.Metadata); err != nil {
		s.Metadata = nil
		unread = append(unread, "metadata")
	}
	if err := json.Unmarshal([]byte(steps), &s.Steps); err != nil {
		s.Steps = nil
		unread = append(unread, "steps")
	}
	if len(unread) > 0 && !s.State.Final() {
		s.Attention = true
		s.AttentionReason = "the row's " + strings.Join(unread, ", ") + " could not be read; it is carried out without"
	}
	*s = Normal(*s)
}

// Compare orders sagas by tenant and key, byte by byte: the one order in which
// every code path takes rows.
func Compare(a, b saga.ID) int {
	if c := cmp.Compare(a.Tenant, b.Tenant); c != 0 {
		return c
	}
	return cmp.Compare(a.Key, b.Key)
}
