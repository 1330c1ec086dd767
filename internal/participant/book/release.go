package book

import "giro/internal/money"

// release moves a suspended refund to an account, which was judged already.
func (d *decision) release(o Operation, account Account) Answer {
	suspended, known := d.view.Operations[o.DebitID()]
	if !known || suspended.Kind != Refund || suspended.Outcome != Applied || !suspended.ToSuspense {
		return d.refuse(o, NotSuspended)
	}
	if first, released := d.view.Refunds[o.DebitID()]; released {
		return Answer{Stored: d.store(d.view.Now, Stored{Operation: o, Outcome: Refused, Reason: AlreadyReleased,
			FirstRefundKey: first.Key, FirstRefundMoved: first.AmountMoved})}
	}
	if account.Currency != suspended.Currency {
		return d.refuse(o, CurrencyMismatch)
	}
	if _, fits := money.Add(account.Balance, suspended.AmountMoved); !fits {
		return d.refuse(o, BalanceOverflow)
	}
	entry := Entry{Against: Suspense, Delta: suspended.AmountMoved}
	account = d.book(account, &entry)
	release := Stored{Operation: o, AmountMoved: suspended.AmountMoved, BalanceAfter: account.Balance, Entry: entry}
	release.Currency = suspended.Currency
	release = d.apply(account.UpdatedAt, release)
	d.view.Refunds[o.DebitID()] = release
	return Answer{Stored: release}
}
