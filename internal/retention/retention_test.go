package retention

import (
	"strings"
	"testing"
	"time"

	"giro/internal/names"
	"giro/internal/stepkey"
)

var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// keyOf is a transfer key of that time.
func keyOf(at time.Time) names.TransferKey {
	k := stepkey.From(at)
	k[6], k[8] = 0x70, 0x80
	return names.TransferKey(k.String())
}

// TestC45UnsafeSettingsAreRefused: a horizon that could forget a key which a
// transfer, or the people who settle it, still need.
func TestC45UnsafeSettingsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		settings Settings
		says     []string
	}{
		"keys are kept for ever":        {Settings{}, nil},
		"just long enough":              {Settings{Horizon: 37 * day}, nil},
		"by one second too short":       {Settings{Horizon: 37*day - time.Second}, []string{"--retention-horizon", "--saga-age-max", "--operator-window", "888h0m0s"}},
		"shorter than a transfer lives": {Settings{Horizon: day}, []string{"--retention-horizon (24h0m0s)", "--saga-age-max (720h0m0s)"}},
		"a long window":                 {Settings{Horizon: 60 * day, OperatorWindow: 31 * day}, []string{"--operator-window (744h0m0s)"}},
		"transfers that live for years": {Settings{Horizon: 60 * day, SagaAgeMax: 700 * day}, []string{"--saga-age-max"}},
		"a negative horizon":            {Settings{Horizon: -day}, []string{"--retention-horizon", "not -24h0m0s"}},
		"a horizon of a fraction":       {Settings{Horizon: 60*day + time.Millisecond}, []string{"--retention-horizon", "whole seconds"}},
		"a negative age":                {Settings{Horizon: 60 * day, SagaAgeMax: -day}, []string{"--saga-age-max"}},
		"a negative window":             {Settings{OperatorWindow: -day}, []string{"--operator-window"}},
	} {
		err := c.settings.Check()
		if (err != nil) != (c.says != nil) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, word := range c.says {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q does not say %q", name, err, word)
			}
		}
	}
}

func TestAtTheEdge(t *testing.T) {
	s := Settings{Horizon: 60 * day}
	for name, c := range map[string]struct {
		key         names.TransferKey
		old, newest bool
	}{
		"now":                     {keyOf(now), false, false},
		"as old as the horizon":   {keyOf(now.Add(-60 * day)), false, false},
		"older":                   {keyOf(now.Add(-60*day - time.Millisecond)), true, false},
		"five minutes ahead":      {keyOf(now.Add(5 * time.Minute)), false, false},
		"more than five ahead":    {keyOf(now.Add(5*time.Minute + time.Millisecond)), false, true},
		"the epoch":               {keyOf(time.UnixMilli(0)), true, false},
		"the last that there is":  {"ffffffff-ffff-7fff-bfff-ffffffffffff", false, true},
		"another form of the key": {"payroll-1", false, false},
	} {
		if s.TooOld(c.key, now) != c.old || s.TooNew(c.key, now) != c.newest {
			t.Errorf("%s: too old %v, too new %v", name, s.TooOld(c.key, now), s.TooNew(c.key, now))
		}
		if keep := (Settings{}); keep.TooOld(c.key, now) || keep.TooNew(c.key, now) {
			t.Errorf("%s, without a horizon: it has an age", name)
		}
	}
}

func TestAtAParticipant(t *testing.T) {
	set := Books{Horizon: 60 * day}
	archived := Books{Horizon: 60 * day, ArchivedBefore: now.Add(-50 * day)} // the clock was set back since
	held := Books{Horizon: 60 * day, UnfinishedSince: now.Add(-90 * day)}
	unset := Books{ArchivedBefore: now.Add(-60 * day)}
	for name, c := range map[string]struct {
		books   Books
		key     names.TransferKey
		expired bool
	}{
		"no horizon, the oldest key":                  {Books{}, keyOf(time.UnixMilli(0)), false},
		"no horizon, far ahead":                       {Books{}, keyOf(now.Add(1000 * day)), false},
		"as old as the horizon":                       {set, keyOf(now.Add(-60 * day)), false},
		"older":                                       {set, keyOf(now.Add(-60*day - time.Millisecond)), true},
		"ten minutes ahead":                           {set, keyOf(now.Add(10 * time.Minute)), false},
		"more than ten ahead":                         {set, keyOf(now.Add(10*time.Minute + time.Millisecond)), true},
		"no time of its own":                          {set, "payroll-1", false},
		"what is archived stays so":                   {archived, keyOf(now.Add(-50*day - time.Millisecond)), true},
		"not archived, and younger":                   {archived, keyOf(now.Add(-50 * day)), false},
		"still asked for, older than the horizon":     {held, keyOf(now.Add(-90 * day)), false},
		"older than all that is asked for":            {held, keyOf(now.Add(-90*day - time.Millisecond)), true},
		"the horizon was unset, archived before that": {unset, keyOf(now.Add(-61 * day)), true},
		"the horizon was unset, not archived":         {unset, keyOf(now.Add(-59 * day)), false},
		"the horizon was unset, far ahead":            {unset, keyOf(now.Add(day)), false},
	} {
		if got := c.books.Expired(c.key, now); got != c.expired {
			t.Errorf("%s: expired %v", name, got)
		}
	}
	for age, books := range map[time.Duration]Books{60 * day: set, 50 * day: archived, 90 * day: held, 0: {}} {
		if got := books.AgeMax(now); got != age {
			t.Errorf("%+v keeps keys for %s, want %s", books, got, age)
		}
	}
	if got := unset.AgeMax(now); got != 60*day {
		t.Errorf("where the horizon was unset, what is archived stays so: %s", got)
	}
}

// TestNoSafeSettingsForgetWhatIsAskedFor: a key that the edge takes is not EXPIRED
// before its transfer is past the largest age and the window has ended.
func TestNoSafeSettingsForgetWhatIsAskedFor(t *testing.T) {
	s := Settings{Horizon: 37 * day}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	key := keyOf(now)
	for _, age := range []time.Duration{0, time.Hour, 30 * day, 37 * day} {
		if (Books{Horizon: s.Horizon}).Expired(key, now.Add(age)) {
			t.Errorf("after %s it is expired", age)
		}
	}
	for theirs, serves := range map[time.Duration]bool{0: true, 37 * day: true, 36 * day: false, time.Hour: false} {
		if s.Serves(theirs) != serves {
			t.Errorf("a participant that keeps keys for %s serves: %v", theirs, !serves)
		}
	}
}
