package ledgersvc

import (
	"context"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
	ledgerv1 "giro/proto/giro/ledger/v1"
)

// PostJournalEntry books an entry of several lines.
func (s *Service) PostJournalEntry(ctx context.Context, r *ledgerv1.PostJournalEntryRequest) (*ledgerv1.PostJournalEntryResponse, error) {
	var lines []book.EntryLine
	for _, l := range r.GetLines() {
		delta := money.Minor(l.GetAmount())
		if l.GetSide() == ledgerv1.Side_SIDE_DEBIT {
			delta = -delta
		}
		lines = append(lines, book.EntryLine{Account: names.Account(l.GetAccount()), Delta: delta})
	}
	c, err := s.books.Post(ctx, r.GetKey(), r.GetCurrency(), lines, r.GetReason())
	if err != nil {
		return nil, err
	}
	return &ledgerv1.PostJournalEntryResponse{Amount: int64(c.Moved), Replayed: c.Replayed, FirstTime: instant(c.FirstTime)}, nil
}

// ReverseJournalEntry books the opposite of a journal entry, once.
func (s *Service) ReverseJournalEntry(ctx context.Context, r *ledgerv1.ReverseJournalEntryRequest) (*ledgerv1.ReverseJournalEntryResponse, error) {
	c, err := s.books.Reverse(ctx, r.GetKey(), r.GetEntryKey(), r.GetReason())
	if err != nil {
		return nil, err
	}
	return &ledgerv1.ReverseJournalEntryResponse{Amount: int64(c.Moved), Replayed: c.Replayed, FirstTime: instant(c.FirstTime)}, nil
}

// classOf is a type in the book's words. An account is a liability unless it says
// otherwise.
func classOf(t ledgerv1.AccountType) book.Class {
	if t == ledgerv1.AccountType_ACCOUNT_TYPE_UNSPECIFIED {
		return book.Liability
	}
	return book.Class(t) // the same numbers, pinned by a test
}

func typeOf(c book.Class) ledgerv1.AccountType { return ledgerv1.AccountType(c) }

func normalSide(c book.Class) ledgerv1.Side {
	if c.DebitNormal() {
		return ledgerv1.Side_SIDE_DEBIT
	}
	return ledgerv1.Side_SIDE_CREDIT
}
