package cli

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"giro/cmd/giro/render"
	accountv1 "giro/proto/giro/account/v1"
)

type accountStatement struct {
	accountName
	From string `help:"The first instant, RFC 3339, such as 2026-05-01T00:00:00Z; without it, from the account's start." placeholder:"TIME"`
	To   string `help:"The first instant that is no longer in it; without it, up to now." placeholder:"TIME"`
	JSON bool   `name:"json" help:"Write the answer as JSON, one page a line."`
}

func (accountStatement) Help() string {
	return `Lists what has changed an account's balance, in order, with the balances before the first line and after the last. A time range that has ended reads the same for ever.

Example:

    giro account statement accountsvc/alice --from 2026-05-01T00:00:00Z --to 2026-06-01T00:00:00Z`
}

func (a *accountStatement) Run(c *call) error {
	service, account, err := a.split()
	if err != nil {
		return err
	}
	if service != accountsvc {
		return usage("%s has no statements; giro account show shows a balance", service)
	}
	request := &accountv1.GetStatementRequest{Account: account, PageSize: 1000}
	for _, bound := range []struct {
		flag, text string
		to         **timestamppb.Timestamp
	}{{"--from", a.From, &request.FromTime}, {"--to", a.To, &request.ToTime}} {
		if bound.text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, bound.text)
		if err != nil {
			return usage("%s must be an instant such as 2026-05-01T00:00:00Z, not %q", bound.flag, bound.text)
		}
		*bound.to = timestamppb.New(at)
	}
	return c.ask(c.reading(service, callTimeout), func(ctx context.Context, conn grpc.ClientConnInterface) error {
		return c.statement(ctx, accountv1.NewAccountServiceClient(conn), request, a.JSON)
	})
}

// statement reads all pages.
func (c *call) statement(ctx context.Context, client accountv1.AccountServiceClient, request *accountv1.GetStatementRequest, asJSON bool) error {
	table := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	for first := true; ; first = false {
		page, err := client.GetStatement(ctx, request)
		if err != nil {
			return err
		}
		if asJSON {
			if err := writeJSON(c.Out, page); err != nil {
				return err
			}
		} else {
			writePage(table, page, first)
		}
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			return table.Flush()
		}
	}
}

func writePage(table *tabwriter.Writer, page *accountv1.GetStatementResponse, first bool) {
	if first {
		fmt.Fprintln(table, "NUMBER\tTIME\tKIND\tAMOUNT\tBALANCE\tKEY\tOTHER SIDE")
		fmt.Fprintf(table, "\t\topening\t\t%s\t\t\n", amount(page.GetOpeningBalance(), page.GetCurrency()))
	}
	for _, l := range page.GetLines() {
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", l.GetNumber(), render.Instant(l.GetTime()), l.GetKind(),
			amount(l.GetAmount(), page.GetCurrency()), amount(l.GetBalanceAfter(), page.GetCurrency()), l.GetKey(), l.GetCounterparty())
	}
	if page.GetNextPageToken() == "" {
		fmt.Fprintf(table, "\t\tclosing\t\t%s\t\t\n", amount(page.GetClosingBalance(), page.GetCurrency()))
	}
}
