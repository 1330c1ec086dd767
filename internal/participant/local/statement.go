package local

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"giro/internal/money"
	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/rpc"
)

// Statement is one page of an account's lines within a time range.
type Statement struct {
	Currency money.Currency
	// Opening and Closing are the whole statement's, minor units.
	Opening, Closing money.Minor
	Lines            []book.Stored
	// Next is the next page's token; empty on the last page.
	Next string
}

// Statement gives a page. Its first page settles where the statement ends, so that
// all of its pages belong together.
func (b Books) Statement(ctx context.Context, account string, from, to time.Time, pageSize int32, pageToken string) (Statement, error) {
	id := book.AccountID{Tenant: rpc.PrincipalFrom(ctx).Tenant, Account: names.Account(account)}
	limit, err := rpc.PageSize(pageSize)
	if err != nil {
		return Statement{}, err
	}
	if !to.IsZero() && to.Before(from) {
		return Statement{}, rpc.InvalidArgument([]rpc.Violation{{Field: "to_time", Description: "must not lie before from_time"}})
	}
	scope := fmt.Sprintf("statement/%s/%s/%d/%d", id.Tenant, id.Account, micros(from), micros(to))
	parts, err := rpc.ParsePageToken(pageToken, scope, len(place{}.parts()))
	if err != nil {
		return Statement{}, err
	}
	at, ok := placeOf(parts)
	switch {
	case pageToken == "":
		at, err = b.beginning(ctx, id, from, to)
	case !ok:
		err = rpc.InvalidPageToken()
	}
	if err != nil {
		return Statement{}, err
	}
	lines, err := b.engine.Store().Lines(ctx, id, at.after, at.last, limit)
	if err != nil {
		return Statement{}, Untold(ctx, err)
	}
	s := Statement{Currency: at.currency, Opening: at.opening, Closing: at.closing, Lines: lines}
	if len(lines) == limit && lines[limit-1].Seq < at.last {
		at.after = store.Place{Time: lines[limit-1].FirstTime, Seq: lines[limit-1].Seq}
		s.Next = rpc.PageToken(scope, at.parts()...)
	}
	return s, nil
}

func (b Books) beginning(ctx context.Context, id book.AccountID, from, to time.Time) (place, error) {
	span, err := b.engine.Store().Span(ctx, id, from, to)
	if errors.Is(err, store.ErrNotFound) {
		return place{}, notFound(id.Account, "")
	}
	if err != nil {
		return place{}, Untold(ctx, err)
	}
	return place{after: span.Before, last: span.Last, opening: span.Opening, closing: span.Closing, currency: span.Account.Currency}, nil
}

// ReasonLinesArchived is the reason of an error that names the earliest instant which
// can still be told.
const ReasonLinesArchived = "LINES_ARCHIVED"

// Untold is rpc.Unanswered for what needs an account's lines, which may be archived.
func Untold(ctx context.Context, err error) error {
	var archived store.ErrArchived
	if !errors.As(err, &archived) {
		return rpc.Unanswered(ctx, err)
	}
	return rpc.FailedPrecondition(ReasonLinesArchived, "lines up to "+archived.Until.Format(time.RFC3339Nano)+
		" were archived and are not in the books any more; nothing was done. Ask for what is later than that instant, "+
		"and look into the archive for what is earlier")
}

// place is where a statement's next page begins, and what the first settled.
type place struct {
	after            store.Place
	last             int64
	opening, closing money.Minor
	currency         money.Currency
}

func (p place) parts() []string {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []string{number(micros(p.after.Time)), number(p.after.Seq), number(p.last), number(int64(p.opening)),
		number(int64(p.closing)), string(p.currency)}
}

func placeOf(parts []string) (place, bool) {
	var numbers [5]int64
	for i := range numbers {
		n, err := strconv.ParseInt(parts[i], 10, 64)
		if err != nil {
			return place{}, false
		}
		numbers[i] = n
	}
	p := place{after: store.Place{Time: time.UnixMicro(numbers[0]).UTC(), Seq: numbers[1]}, last: numbers[2],
		opening: money.Minor(numbers[3]), closing: money.Minor(numbers[4]), currency: money.Currency(parts[5])}
	// Whoever forges a token reads nothing but his own account, and breaks nothing.
	return p, p.currency.Known() && 0 <= p.after.Seq && p.after.Seq <= p.last &&
		0 <= numbers[0] && numbers[0] < 1<<57 // some 4,500 years
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}
