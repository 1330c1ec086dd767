package accountsvc

import (
	"context"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"giro/internal/participant/book"
	"giro/internal/rpc"
	accountv1 "giro/proto/giro/account/v1"
)

// GetStatement lists the lines of an account within a time range.
func (s *Service) GetStatement(ctx context.Context, r *accountv1.GetStatementRequest) (*accountv1.GetStatementResponse, error) {
	from, fromWrong := bound("from_time", r.GetFromTime())
	to, toWrong := bound("to_time", r.GetToTime())
	if wrong := append(fromWrong, toWrong...); len(wrong) > 0 {
		return nil, rpc.InvalidArgument(wrong)
	}
	statement, err := s.books.Statement(ctx, r.GetAccount(), from, to, r.GetPageSize(), r.GetPageToken())
	if err != nil {
		return nil, err
	}
	out := &accountv1.GetStatementResponse{Account: r.GetAccount(), Currency: string(statement.Currency),
		OpeningBalance: int64(statement.Opening), ClosingBalance: int64(statement.Closing), NextPageToken: statement.Next}
	for _, l := range statement.Lines {
		out.Lines = append(out.Lines, line(l))
	}
	return out, nil
}

// bound reads an instant; unset is the zero time. One that no database can hold is
// refused.
func bound(field string, t *timestamppb.Timestamp) (time.Time, []rpc.Violation) {
	if t == nil {
		return time.Time{}, nil
	}
	at := t.AsTime()
	if t.CheckValid() != nil || at.Year() < 1970 || at.Year() > 9999 {
		return time.Time{}, []rpc.Violation{{Field: field, Description: "must be an instant from 1970 to 9999"}}
	}
	return at, nil
}

func line(l book.Stored) *accountv1.StatementLine {
	counterparty := string(l.Counterparty)
	if counterparty == "" {
		counterparty = strings.TrimSuffix(string(l.Against), ":refund")
	}
	return &accountv1.StatementLine{Number: l.Seq, Time: instant(l.FirstTime), Kind: l.Kind.String(), Amount: int64(l.Delta),
		BalanceAfter: int64(l.BalanceAfter), Key: string(l.TransferKey), Counterparty: counterparty}
}
