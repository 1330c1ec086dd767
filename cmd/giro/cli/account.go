package cli

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"

	"giro/cmd/giro/render"
)

type accountCommand struct {
	toAccounts `group:"Services"`

	Open      accountOpen      `cmd:"" help:"Open an account."`
	Deposit   accountDeposit   `cmd:"" help:"Bring money in from outside, to an account at accountsvc."`
	Withdraw  accountWithdraw  `cmd:"" help:"Pay money out to the outside, from an account at accountsvc."`
	Show      accountShow      `cmd:"" help:"Show an account and its balance."`
	Statement accountStatement `cmd:"" help:"List the lines of an account at accountsvc, with the balances before and after."`
	Freeze    accountFreeze    `cmd:"" help:"Stop debits and credits; refunds still arrive."`
	Unfreeze  accountUnfreeze  `cmd:"" help:"End a freeze."`
	Close     accountClose     `cmd:"" help:"End an account whose balance is zero."`
}

// accountName says which account, and at which service.
type accountName struct {
	Account string `arg:"" help:"accountsvc/NAME or ledgersvc/NAME; NAME alone with --service." placeholder:"REF"`
	Service string `help:"The service that holds the account: accountsvc or ledgersvc." enum:",accountsvc,ledgersvc" default:"" blank:"" placeholder:"NAME"`
}

// split gives the service and the account's name there.
func (a accountName) split() (service, account string, err error) {
	service, account, found := strings.Cut(a.Account, "/")
	if !found {
		service, account = a.Service, a.Account
	}
	switch {
	case service == "":
		return "", "", usage("which service holds %q? write accountsvc/%s or ledgersvc/%s", account, account, account)
	case service != accountsvc && service != ledgersvc:
		return "", "", usage("%q is no service that this command knows; write accountsvc/NAME or ledgersvc/NAME", service)
	case a.Service != "" && a.Service != service:
		return "", "", usage("--service %s contradicts %s", a.Service, a.Account)
	}
	return service, account, nil
}

// keyed is a request that changes something, once.
type keyed struct {
	Key string `help:"The request's key, the same on every retry. Without it a UUIDv7 is drawn and shown." placeholder:"KEY"`
}

// change runs one keyed request and shows the account afterwards.
func (c *call) change(name accountName, k keyed, asJSON bool,
	do func(ctx context.Context, a accounts, account, key string) (changed, error)) error {
	service, account, err := name.split()
	if err != nil {
		return err
	}
	key, err := c.drawKey(k.Key)
	if err != nil {
		return err
	}
	return c.ask(c.changing(service, key, callTimeout), func(ctx context.Context, conn grpc.ClientConnInterface) error {
		answer, err := do(ctx, accountsAt(service, conn), account, key)
		if err != nil {
			return err
		}
		if asJSON {
			return writeJSON(c.Out, answer.message)
		}
		answer.show(c.Out, service)
		return nil
	})
}

type accountOpen struct {
	accountName
	keyed
	Currency string `help:"ISO 4217 code, such as USD." required:"" placeholder:"CODE"`
	JSON     bool   `name:"json" help:"Write the answer as JSON."`
}

func (accountOpen) Help() string {
	return `Opens an account with a balance of zero and a floor of zero.

Example:

    giro account open accountsvc/alice --currency USD --key open-alice`
}

func (a *accountOpen) Run(c *call) error {
	return c.change(a.accountName, a.keyed, a.JSON, func(ctx context.Context, s accounts, account, key string) (changed, error) {
		return s.open(ctx, key, account, a.Currency)
	})
}

type accountDeposit struct {
	accountName
	keyed
	Amount   string `help:"Amount as people write it, such as 100.00." required:"" placeholder:"AMOUNT"`
	Currency string `help:"ISO 4217 code, such as USD." required:"" placeholder:"CODE"`
	External string `help:"The external account that the money comes from." default:"bank" placeholder:"NAME"`
	JSON     bool   `name:"json" help:"Write the answer as JSON."`
}

func (accountDeposit) Help() string {
	return `Brings money in from outside, once for each key. Only accountsvc takes deposits; an account at ledgersvc is funded by a transfer.

Example:

    giro account deposit accountsvc/alice --amount 100.00 --currency USD --key deposit-1`
}

func (a *accountDeposit) Run(c *call) error {
	minor, err := minorOf(a.Amount, a.Currency)
	if err != nil {
		return err
	}
	if service, _, err := a.split(); err == nil && service != accountsvc {
		return usage("%s takes no deposits; fund the account by a transfer: giro transfer create --help", service)
	}
	return c.change(a.accountName, a.keyed, a.JSON, func(ctx context.Context, s accounts, account, key string) (changed, error) {
		return s.deposit(ctx, key, account, minor, a.Currency, a.External)
	})
}

type accountWithdraw struct {
	accountName
	keyed
	Amount   string `help:"Amount as people write it, such as 100.00." required:"" placeholder:"AMOUNT"`
	Currency string `help:"ISO 4217 code, such as USD." required:"" placeholder:"CODE"`
	External string `help:"The external account that the money goes to." default:"bank" placeholder:"NAME"`
	JSON     bool   `name:"json" help:"Write the answer as JSON."`
}

func (accountWithdraw) Help() string {
	return `Pays money out to the outside, once for each key. Only accountsvc does.

Example:

    giro account withdraw accountsvc/alice --amount 10.00 --currency USD --key withdraw-1`
}

func (a *accountWithdraw) Run(c *call) error {
	minor, err := minorOf(a.Amount, a.Currency)
	if err != nil {
		return err
	}
	if service, _, err := a.split(); err == nil && service != accountsvc {
		return usage("%s pays nothing out; move the money by a transfer: giro transfer create --help", service)
	}
	return c.change(a.accountName, a.keyed, a.JSON, func(ctx context.Context, s accounts, account, key string) (changed, error) {
		return s.withdraw(ctx, key, account, minor, a.Currency, a.External)
	})
}

type accountFreeze struct {
	accountName
	keyed
	Reason string `help:"Why, for people." placeholder:"TEXT" blank:""`
	JSON   bool   `name:"json" help:"Write the answer as JSON."`
}

func (accountFreeze) Help() string {
	return `A frozen account refuses debits and credits; refunds of earlier debits still arrive.

Example:

    giro account freeze ledgersvc/shop --key freeze-shop`
}

func (a *accountFreeze) Run(c *call) error {
	return c.change(a.accountName, a.keyed, a.JSON, func(ctx context.Context, s accounts, account, key string) (changed, error) {
		return s.freeze(ctx, key, account, a.Reason)
	})
}

type accountUnfreeze struct {
	accountName
	keyed
	Reason string `help:"Why, for people." placeholder:"TEXT" blank:""`
	JSON   bool   `name:"json" help:"Write the answer as JSON."`
}

func (accountUnfreeze) Help() string {
	return `Ends a freeze. A closed account stays closed.

Example:

    giro account unfreeze ledgersvc/shop --key unfreeze-shop`
}

func (a *accountUnfreeze) Run(c *call) error {
	return c.change(a.accountName, a.keyed, a.JSON, func(ctx context.Context, s accounts, account, key string) (changed, error) {
		return s.unfreeze(ctx, key, account, a.Reason)
	})
}

type accountClose struct {
	accountName
	keyed
	JSON bool `name:"json" help:"Write the answer as JSON."`
}

func (accountClose) Help() string {
	return `Ends an account whose balance is zero. It stays in the books.

Example:

    giro account close ledgersvc/shop --key close-shop`
}

func (a *accountClose) Run(c *call) error {
	return c.change(a.accountName, a.keyed, a.JSON, func(ctx context.Context, s accounts, account, key string) (changed, error) {
		return s.close(ctx, key, account)
	})
}

type accountShow struct {
	accountName
	JSON bool `name:"json" help:"Write the answer as JSON."`
}

func (accountShow) Help() string {
	return `Shows an account as its service has it now.

Example:

    giro account show accountsvc/alice`
}

func (a *accountShow) Run(c *call) error {
	service, account, err := a.split()
	if err != nil {
		return err
	}
	return c.ask(c.reading(service, callTimeout), func(ctx context.Context, conn grpc.ClientConnInterface) error {
		answer, err := accountsAt(service, conn).get(ctx, account)
		if err != nil {
			return err
		}
		if a.JSON {
			return writeJSON(c.Out, answer.message)
		}
		answer.show(c.Out, service)
		return nil
	})
}

// list joins names for people.
func list(names []string) string {
	switch len(names) {
	case 0:
		return ""
	case 1:
		return names[0]
	}
	return fmt.Sprintf("%s and %s", strings.Join(names[:len(names)-1], ", "), names[len(names)-1])
}

// stateName is an account's state without the enum's prefix.
func stateName(s fmt.Stringer) string {
	return strings.TrimPrefix(s.String(), "ACCOUNT_STATE_")
}

// amount shows minor units.
func amount(minor int64, currency string) string { return render.Amount(minor, currency) }
