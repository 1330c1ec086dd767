package book

import (
	"cmp"
	"slices"
	"time"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/stepkey"
)

// ArchiveBatchMax is the most operations that are archived in one transaction. Each
// deletes 2 rows (operation, event) and changes at most 2 (a brought-forward line for
// each side), and a transaction may write 1,000 (a limit of the distributed engines).
const ArchiveBatchMax = 200

// Archived is the other side of every brought-forward line. The lines of what was
// archived sum to zero, and so it always holds nothing.
const Archived names.Account = "archive:brought-forward"

// Archivable says whether the operation stands under a key older than the horizon.
// What stands under a key without a time of its own never does.
func (s Stored) Archivable(before time.Time) bool {
	at, timed := stepkey.Time(s.TransferKey)
	return timed && at.Before(before)
}

// NeedsNamed says whether the operation may only be archived once the one that it
// undoes is: while that is there, only this one tells that it was undone.
func (s Stored) NeedsNamed() bool {
	return s.Outcome == Applied && (s.Kind == Release || s.Kind == Reverse)
}

// InSuspense says whether the operation may only be archived once its money was
// released.
func (s Stored) InSuspense() bool { return s.Outcome == Applied && s.Kind == Refund && s.ToSuspense }

// forwardOf names the brought-forward line of an account in a currency: there is one,
// which grows.
func forwardOf(l Line) Operation {
	key := names.TransferKey(string(l.Account) + ":" + string(l.Currency))
	return Operation{Kind: BroughtForward, Tenant: l.Tenant, TransferKey: key, Step: BroughtForward.String(),
		Key: stepkey.Derive(stepkey.V1, l.Tenant, key, BroughtForward.String()), Account: l.Account, Currency: l.Currency}
}

// ForwardOf is the ID of an account's brought-forward line.
func ForwardOf(id AccountID, currency money.Currency) ID {
	return forwardOf(Line{Tenant: id.Tenant, Account: id.Account, Currency: currency}).ID()
}

// ForwardIDs lists the brought-forward lines that the operations add to.
func ForwardIDs(operations []Stored) []ID {
	var ids []ID
	for _, s := range operations {
		for _, l := range s.Sides() {
			if id := forwardOf(l).ID(); !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// BringForward adds the lines of operations that are taken off the books to the
// accounts' brought-forward lines, given those that are there, so that every balance
// is still the sum of its account's lines. It gives the lines to write, ordered, and
// the operations that were taken. One is left where a sum would not fit.
func BringForward(existing map[ID]Stored, operations []Stored) (forward, taken []Stored) {
	changed := map[ID]Stored{}
	for _, s := range operations {
		added, fits := map[ID]Stored{}, true
		for _, l := range s.Sides() {
			o := forwardOf(l)
			line, begun := changed[o.ID()]
			if !begun {
				line, begun = existing[o.ID()]
			}
			if !begun {
				line = Stored{Operation: o, Outcome: Applied, Entry: Entry{Booked: l.Account, Against: Archived}}
			}
			line, fits = line.with(s, l)
			if !fits {
				break
			}
			added[o.ID()] = line
		}
		if !fits {
			continue
		}
		for id, line := range added {
			changed[id] = line
		}
		taken = append(taken, s)
	}
	for _, line := range changed {
		forward = append(forward, line)
	}
	slices.SortFunc(forward, func(a, b Stored) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), slices.Compare(a.Key[:], b.Key[:]))
	})
	return forward, taken
}

// with adds one archived line. The place and the balance are those of the last of
// them, so that what follows goes on from there.
func (s Stored) with(archived Stored, l Line) (Stored, bool) {
	sum, fits := money.Add(s.Delta, l.Amount)
	if !fits || sum > money.AmountMax || sum < -money.AmountMax {
		return s, false
	}
	s.Delta = sum
	s.AmountMoved = max(sum, -sum)
	s.Amount = s.AmountMoved
	seq := int64(0)
	if l.Account == archived.Booked {
		seq = archived.Seq
	}
	if seq > s.Seq || seq == 0 && archived.FirstTime.After(s.FirstTime) {
		s.Seq, s.FirstTime = seq, archived.FirstTime
		if seq > 0 {
			s.BalanceAfter = archived.BalanceAfter
		}
	}
	return s, true
}
