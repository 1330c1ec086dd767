// Package retention decides how long a key is remembered, and what may be forgotten.
// The age that counts is the transfer key's own time, which no restart and no loss
// can restamp. The package is pure.
package retention

import (
	"errors"
	"fmt"
	"time"

	"giro/internal/names"
	"giro/internal/stepkey"
)

const (
	// AheadMaxEdge is how far ahead of the database's clock a new transfer key may be
	// where clients ask.
	AheadMaxEdge = 5 * time.Minute
	// AheadMaxParticipant is how far ahead it may be at a participant: more, so that
	// what the edge took is not refused over two clocks that differ.
	AheadMaxParticipant = 10 * time.Minute
)

// The defaults of Settings' two bounds.
const (
	SagaAgeMaxDefault     = 30 * 24 * time.Hour
	OperatorWindowDefault = 7 * 24 * time.Hour
)

// Settings say how long keys are kept. A zero SagaAgeMax or OperatorWindow stands
// for its default.
type Settings struct {
	// Horizon is the age at which an unknown key is EXPIRED. Zero: keys are kept as
	// long as the books.
	Horizon time.Duration
	// SagaAgeMax is the age at which a transfer parks.
	SagaAgeMax time.Duration
	// OperatorWindow is how long people then have to settle it.
	OperatorWindow time.Duration
}

// WithDefaults fills in what is zero.
func (s Settings) WithDefaults() Settings {
	if s.SagaAgeMax == 0 {
		s.SagaAgeMax = SagaAgeMaxDefault
	}
	if s.OperatorWindow == 0 {
		s.OperatorWindow = OperatorWindowDefault
	}
	return s
}

// Check refuses settings under which a transfer could still need a key that is
// forgotten. It names the settings that disagree, as the command line calls them.
func (s Settings) Check() error {
	s = s.WithDefaults()
	for _, d := range []struct {
		name  string
		value time.Duration
		least time.Duration
	}{{"--retention-horizon", s.Horizon, 0}, {"--saga-age-max", s.SagaAgeMax, time.Second}, {"--operator-window", s.OperatorWindow, time.Second}} {
		if d.value < d.least || d.value%time.Second != 0 {
			return fmt.Errorf("%s must be whole seconds and not less than %s, not %s", d.name, d.least, d.value)
		}
	}
	if s.Horizon > 0 && s.Horizon < s.least() {
		return fmt.Errorf("--retention-horizon (%s) is shorter than --saga-age-max (%s) and --operator-window (%s) together: "+
			"a transfer could still need a key that is forgotten. Lengthen the horizon to %s or more, or shorten one of the two",
			s.Horizon, s.SagaAgeMax, s.OperatorWindow, s.least())
	}
	return nil
}

// least is the shortest safe horizon.
func (s Settings) least() time.Duration { return s.SagaAgeMax + s.OperatorWindow }

// Serves says whether a participant that keeps keys for theirs (zero: for ever) can
// serve transfers under these settings.
func (s Settings) Serves(theirs time.Duration) bool {
	return theirs == 0 || theirs >= s.WithDefaults().least()
}

// TooOld says, where clients ask, that a new key is older than the horizon; TooNew
// that it lies too far ahead. Without a horizon, and for a key without a time of its
// own, neither is so.
func (s Settings) TooOld(key names.TransferKey, now time.Time) bool {
	at, ok := stepkey.Time(key)
	return ok && s.Horizon > 0 && at.Before(now.Add(-s.Horizon))
}

// TooNew is TooOld's other side.
func (s Settings) TooNew(key names.TransferKey, now time.Time) bool {
	at, ok := stepkey.Time(key)
	return ok && s.Horizon > 0 && at.After(now.Add(AheadMaxEdge))
}

// Books are what a participant's books hold about forgetting. All of it stands in
// their database, so that every replica judges by the same.
type Books struct {
	// Horizon is the age at which an unknown key is EXPIRED; zero: none is set.
	Horizon time.Duration
	// ArchivedBefore is the committed horizon: rows under older keys may be gone. It
	// never falls. Zero: nothing was ever archived.
	ArchivedBefore time.Time
	// UnfinishedSince is the oldest key that any orchestrator may still ask for; zero:
	// none has reported, or one cannot tell.
	UnfinishedSince time.Time
}

// Expired says whether a participant that does not know a key must not take it: its
// row may be gone, it is older than the horizon and nobody still carries it out, or
// it lies too far ahead. A key without a time of its own never expires, and what
// stands under it is never archived.
func (b Books) Expired(key names.TransferKey, now time.Time) bool {
	at, ok := stepkey.Time(key)
	switch {
	case !ok:
		return false
	case at.Before(b.ArchivedBefore):
		return true
	case b.Horizon == 0:
		return false
	}
	return at.Before(b.before(now)) || at.After(now.Add(AheadMaxParticipant))
}

// before is the horizon as of now, which may be committed: never past the oldest key
// that is still asked for.
func (b Books) before(now time.Time) time.Time {
	before := now.Add(-b.Horizon)
	if !b.UnfinishedSince.IsZero() && b.UnfinishedSince.Before(before) {
		before = b.UnfinishedSince
	}
	return before
}

// Report is what one orchestrator has said of the keys that it may still ask for.
type Report struct {
	// Orchestrator is the identity of its database.
	Orchestrator string
	// ReportedAt is the participant's clock.
	ReportedAt time.Time
	// Oldest: it asks for no older key, now or ever. Zero: it cannot tell.
	Oldest time.Time
}

// Unfinished is the oldest key that any of the orchestrators may still ask for; zero:
// none has reported, or one cannot tell.
func Unfinished(reports []Report) time.Time {
	var oldest time.Time
	for _, r := range reports {
		if r.Oldest.IsZero() {
			return time.Time{}
		}
		if oldest.IsZero() || r.Oldest.Before(oldest) {
			oldest = r.Oldest
		}
	}
	return oldest
}

// ReportsMax is the most orchestrators that report to one participant. Each is a
// database of its own, and a few are many.
const ReportsMax = 100

// ErrReports is of a report by one orchestrator too many.
var ErrReports = errors.New("too many orchestrators have reported")

// The reasons why nothing can be archived.
var (
	ErrNoHorizon  = errors.New("no retention horizon is set: keys are kept as long as the books")
	ErrUnreported = errors.New("no orchestrator has reported which keys it may still ask for, or one of them cannot tell")
)

// Next is the horizon to commit before anything is archived: it never falls, and is
// never past the oldest key that is still asked for.
func (b Books) Next(now time.Time) (time.Time, error) {
	switch {
	case b.Horizon == 0:
		return time.Time{}, ErrNoHorizon
	case b.UnfinishedSince.IsZero():
		return time.Time{}, ErrUnreported
	}
	if before := b.before(now); before.After(b.ArchivedBefore) {
		return before, nil
	}
	return b.ArchivedBefore, nil
}

// AgeMax is the age from which unknown keys are EXPIRED just now, in whole seconds;
// zero: none is for its age.
func (b Books) AgeMax(now time.Time) time.Duration {
	before := b.ArchivedBefore
	if b.Horizon > 0 && b.before(now).After(before) {
		before = b.before(now)
	}
	if before.IsZero() {
		return 0
	}
	return max(time.Second, now.Sub(before).Truncate(time.Second))
}
