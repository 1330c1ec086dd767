package book

import "giro/internal/money"

// amend gives the account as the operation changes it, money apart.
func amend(a Account, o Operation) Account {
	details := o.details()
	switch o.Kind {
	case Freeze:
		a.State, a.StateReason = StateFrozen, details.Reason
	case Unfreeze:
		if a.State == StateFrozen {
			a.State, a.StateReason = StateOpen, details.Reason
		}
	case Close:
		a.State = StateClosed
	case SetTerms:
		a.agree(details.Terms)
	case SetHolder:
		a.Holder = Details{Holder: details.Holder}.String()
	}
	return a
}

// agree sets the terms. What was taken today counts on while there is a limit for
// the day, and its zone is the same.
func (a *Account) agree(t Terms) {
	if a.DayMax == 0 || a.DayZone != t.DayZone {
		a.SpentOn, a.Spent = 0, 0
	}
	a.Floor, a.DebitMax, a.DayMax, a.DayZone = -t.Overdraft, t.DebitMax, t.DayMax, t.DayZone
	if !a.Class.Floored() {
		a.Floor = -money.AmountMax
	}
}

// TermsOf are what was agreed for the account.
func (a Account) TermsOf() Terms {
	return Terms{Overdraft: -a.Floor, DebitMax: a.DebitMax, DayMax: a.DayMax, DayZone: a.DayZone}
}

// amend is put for a change of what is not money.
func (d *decision) amend(account Account) Account {
	d.amended[account.AccountID] = true
	return d.put(account)
}
