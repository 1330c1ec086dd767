package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"giro/cmd/giro/render"
	"giro/internal/money"
	transferv1 "giro/proto/giro/transfer/v1"
)

type transferCommand struct {
	toOrchestrator `group:"Services"`

	Create transferCreate `cmd:"" help:"Move an amount from one account to another, exactly once."`
	Get    transferGet    `cmd:"" help:"Show what became of a transfer."`
	Cancel transferCancel `cmd:"" help:"Ask a transfer to stop, and show what became of it."`
}

// wholeContents are contents of which nothing may be missing. Its fields are those
// of contents, which differ from them in their tags alone.
type wholeContents struct {
	From     string `help:"Source account, participant/account." required:"" placeholder:"REF"`
	To       string `help:"Destination account, participant/account." required:"" placeholder:"REF"`
	Amount   string `help:"Amount as people write it, such as 40.00." required:"" placeholder:"AMOUNT"`
	Currency string `help:"ISO 4217 code, such as USD." required:"" placeholder:"CODE"`
}

// contents decide whether two requests are the same transfer.
type contents struct {
	From     string `help:"Source account, participant/account." placeholder:"REF"`
	To       string `help:"Destination account, participant/account." placeholder:"REF"`
	Amount   string `help:"Amount as people write it, such as 40.00." placeholder:"AMOUNT"`
	Currency string `help:"ISO 4217 code, such as USD." placeholder:"CODE"`
}

// message reads the contents. Only what cannot be put into a request is judged
// here; the service judges the rest and names every violation.
func (c contents) message() (*transferv1.TransferContents, error) {
	minor, err := minorOf(c.Amount, c.Currency)
	if err != nil {
		return nil, err
	}
	return &transferv1.TransferContents{Source: c.From, Destination: c.To, Amount: minor, Currency: c.Currency}, nil
}

// minorOf reads an amount, and speaks of its limits in the unit that was typed: the
// services count minor units.
func minorOf(text, currency string) (int64, error) {
	code := money.Currency(currency)
	minor, err := money.Parse(text, code)
	switch {
	case err == nil && minor > 0:
		return int64(minor), nil
	case err == nil || errors.Is(err, money.ErrTooLarge):
		return 0, usage("amount %s %s is out of range: giro moves %s to %s at once; nothing was sent",
			text, currency, money.Format(1, code), money.Format(money.AmountMax, code))
	}
	return 0, usage("%v", err)
}

// missing names the flags that were not given.
func (c contents) missing() []string {
	var names []string
	for _, flag := range [][2]string{{"--from", c.From}, {"--to", c.To}, {"--amount", c.Amount}, {"--currency", c.Currency}} {
		if flag[1] == "" {
			names = append(names, flag[0])
		}
	}
	return names
}

type transferCreate struct {
	Key           string `help:"The transfer's key: one for each intended transfer, the same on every retry. Without it a UUIDv7 is drawn and shown." placeholder:"KEY"`
	wholeContents `group:"Contents"`
	Memo          string        `help:"A note for people; does not decide whether two requests are the same." blank:"" placeholder:"TEXT"`
	Expiry        time.Duration `help:"Stop forward steps this long after the first acceptance (1s to 720h); 0: never." placeholder:"DURATION"`
	Timeout       time.Duration `help:"How long to wait for the final state." default:"30s"`
	JSON          bool          `name:"json" help:"Write the answer as JSON."`
}

func (transferCreate) Help() string {
	return `Choose one key for each intended transfer, store it before the first call, and use the same key with the same contents on every retry, as often as you like: the money moves once. A new key is a new transfer.

Exit codes: 0 COMPLETED; 3 REFUSED, REFUNDED or CANCELLED, or the request was refused; 4 not known yet: ask again with the same key.

Example:

    giro transfer create --key order-1001 --from accountsvc/alice --to ledgersvc/shop --amount 40.00 --currency USD`
}

func (t *transferCreate) Run(c *call) error {
	if t.Timeout <= 0 {
		return usage("--timeout must be more than 0")
	}
	message, err := contents(t.wholeContents).message()
	if err != nil {
		return err
	}
	key, err := c.drawKey(t.Key)
	if err != nil {
		return err
	}
	request := &transferv1.CreateTransferRequest{
		Key: key, Source: message.Source, Destination: message.Destination, Amount: message.Amount, Currency: message.Currency, Memo: t.Memo,
	}
	if t.Expiry != 0 {
		request.Expiry = durationpb.New(t.Expiry)
	}
	asked := c.changing(orchestrator, key, t.Timeout)
	return c.ask(asked, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		answer, err := transferv1.NewTransferServiceClient(conn).CreateTransfer(ctx, request)
		if err != nil {
			return err
		}
		if err := c.showTransfer(answer, answer.GetTransfer(), t.JSON); err != nil {
			return err
		}
		if answer.GetReplayed() && !t.JSON {
			fmt.Fprintf(c.Out, "replayed: this key was first accepted %s; %s\n",
				render.Instant(answer.GetFirstTime()), render.Again(answer.GetTransfer().GetState()))
		}
		switch answer.GetTransfer().GetState() {
		case transferv1.State_STATE_COMPLETED, transferv1.State_STATE_RESOLVED:
			return nil
		case transferv1.State_STATE_REFUSED, transferv1.State_STATE_REFUNDED, transferv1.State_STATE_CANCELLED:
			return &failure{code: ExitRefused, message: "the transfer was not completed, and this stands for ever; a new attempt takes a new key"}
		}
		return asked.pending()
	})
}

type transferGet struct {
	Key  string `arg:"" help:"The transfer's key."`
	JSON bool   `name:"json" help:"Write the answer as JSON."`
}

func (transferGet) Help() string {
	return `Shows the transfer as it now stands. To see its steps: giro saga show KEY.

Example:

    giro transfer get order-1001`
}

func (t *transferGet) Run(c *call) error {
	return c.ask(c.reading(orchestrator, callTimeout), func(ctx context.Context, conn grpc.ClientConnInterface) error {
		answer, err := transferv1.NewTransferServiceClient(conn).GetTransfer(ctx, &transferv1.GetTransferRequest{Key: t.Key})
		if err != nil {
			return err
		}
		return c.showTransfer(answer, answer.GetTransfer(), t.JSON)
	})
}

type transferCancel struct {
	Key      string `arg:"" help:"The transfer's key."`
	contents `group:"Contents"`
	Timeout  time.Duration `help:"How long to wait for the final state." default:"30s"`
	JSON     bool          `name:"json" help:"Write the answer as JSON."`
}

func (transferCancel) Help() string {
	return `Asks a running transfer to stop. The credit may have happened already: then it is COMPLETED. Give the contents too where the key may never have arrived: then it is stored as cancelled, and a late create under it moves nothing.

Exit codes: 0 nothing stays moved; 3 it was COMPLETED, or the request was refused; 4 not known yet: ask again.

Examples:

    giro transfer cancel order-1001

    giro transfer cancel order-1002 --from accountsvc/alice --to ledgersvc/shop --amount 40.00 --currency USD`
}

func (t *transferCancel) Run(c *call) error {
	request := &transferv1.CancelTransferRequest{Key: t.Key}
	switch missing := t.missing(); len(missing) {
	case 4:
	case 0:
		message, err := t.message()
		if err != nil {
			return err
		}
		request.Contents = message
	default:
		return usage("give all of the contents or none: missing %s", list(missing))
	}
	if t.Timeout <= 0 {
		return usage("--timeout must be more than 0")
	}
	asked := c.changing(orchestrator, t.Key, t.Timeout)
	return c.ask(asked, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		answer, err := transferv1.NewTransferServiceClient(conn).CancelTransfer(ctx, request)
		if err != nil {
			return err
		}
		if err := c.showTransfer(answer, answer.GetTransfer(), t.JSON); err != nil {
			return err
		}
		switch answer.GetTransfer().GetState() {
		case transferv1.State_STATE_CANCELLED, transferv1.State_STATE_REFUNDED, transferv1.State_STATE_REFUSED:
			return nil
		case transferv1.State_STATE_COMPLETED, transferv1.State_STATE_RESOLVED:
			return &failure{code: ExitRefused, message: "it is final and was not stopped; to give the money back, make a transfer the other way under a new key"}
		}
		return asked.pending()
	})
}

func (c *call) showTransfer(answer proto.Message, t *transferv1.Transfer, asJSON bool) error {
	if asJSON {
		return writeJSON(c.Out, answer)
	}
	render.Transfer(c.Out, t)
	return nil
}
