package book_test

import (
	"testing"

	"giro/internal/names"
	"giro/internal/participant/book"
)

// The numbers are stored: none may ever mean something else.
func TestNumbersAndNamesAreFixed(t *testing.T) {
	for number, name := range []string{"", "INSUFFICIENT_FUNDS", "LIMIT_EXCEEDED", "ACCOUNT_NOT_FOUND", "ACCOUNT_FROZEN", "ACCOUNT_CLOSED",
		"CURRENCY_MISMATCH", "BALANCE_OVERFLOW", "ALREADY_REFUNDED", "ACCOUNT_EXISTS", "BALANCE_NOT_ZERO",
		"BALANCE_BELOW_FLOOR", "NOT_SUSPENDED", "ALREADY_RELEASED", "NO_JOURNAL_ENTRY", "ALREADY_REVERSED",
		"UNKNOWN"} {
		if got := book.Reason(number).String(); got != name {
			t.Errorf("reason %d is %q, want %q", number, got, name)
		}
	}
	for number, name := range []string{"unknown", "debit", "credit", "refund", "cancel", "open", "deposit", "freeze", "close", "unfreeze",
		"withdraw", "terms", "holder", "release", "journal", "journal-line", "reverse", "brought-forward", "unknown"} {
		kind := book.Kind(number)
		if kind.String() != name || kind.Protocol() != (number >= 1 && number <= 3) {
			t.Errorf("kind %d is %q, the protocol's: %v", number, kind, kind.Protocol())
		}
	}
	for want, got := range []book.Outcome{1: book.Applied, 2: book.Refused, 3: book.Cancelled, 4: book.KeyReused, 5: book.Invalid, 6: book.Expired, 7: book.NotFound} {
		if got != 0 && int(got) != want {
			t.Errorf("outcome %d became %d", want, got)
		}
	}
	if book.StateOpen != 1 || book.StateFrozen != 2 || book.StateClosed != 3 {
		t.Error("the numbers of the account states have changed")
	}
}

func TestClientsCannotNameTheParticipantsAccounts(t *testing.T) {
	for _, own := range []names.Account{book.Clearing("q"), book.External("till"), book.Suspense, book.JournalEntry, book.Archived} {
		if own.Valid() || names.AccountRef("q/"+string(own)).Valid() {
			t.Errorf("a client can name %q", own)
		}
	}
	if p, ok := book.ClearingOf(book.Clearing("ledger")); !ok || p != "ledger" {
		t.Errorf("%q, %v", p, ok)
	}
	for _, other := range []names.Account{"", "clearing", "clearing:", "a", "external:till", book.Suspense} {
		if p, ok := book.ClearingOf(other); ok {
			t.Errorf("%q is kept for %q", other, p)
		}
	}
}
