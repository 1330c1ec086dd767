package book

import (
	"time"

	"giro/internal/money"
	"giro/internal/names"
)

// take is move for what takes money out, which counts towards the day's limit.
func (d *decision) take(o Operation, account Account, against names.Account) Answer {
	if account.DayMax > 0 {
		today := d.today(account)
		if account.SpentOn != today {
			account.SpentOn, account.Spent = today, 0
		}
		account.Spent += o.Amount
		d.amended[account.AccountID] = true
	}
	return d.move(o, account, -o.Amount, against)
}

// giveBack has a debit that is refunded on its own day not count towards that
// day's limit.
func (d *decision) giveBack(account Account, debit Stored) Account {
	if account.DayMax > 0 && debit.Seq > account.DayFrom && account.SpentOn == d.dayOf(debit.FirstTime, account) {
		account.Spent -= min(account.Spent, debit.AmountMoved)
		d.amended[account.AccountID] = true
	}
	return account
}

// overDayMax says whether a debit would go beyond the day's limit.
func (d *decision) overDayMax(account Account, amount money.Minor) bool {
	if account.DayMax == 0 {
		return false
	}
	left := account.DayMax
	if account.SpentOn == d.today(account) {
		left -= min(left, account.Spent)
	}
	return amount > left
}

// today is the day that the account's next line will bear. It is not the clock's
// where that was set back over midnight: a limit that was used up would be there
// again, and a refund of the line would not count for the line's day.
func (d *decision) today(account Account) int64 {
	at := d.view.Now
	if account.UpdatedAt.After(at) {
		at = account.UpdatedAt
	}
	return d.dayOf(at, account)
}

func (d *decision) dayOf(t time.Time, account Account) int64 {
	var zone *time.Location
	if d.view.Zone != nil && account.DayZone != "" {
		zone = d.view.Zone(account.DayZone)
	}
	return day(t, zone)
}
