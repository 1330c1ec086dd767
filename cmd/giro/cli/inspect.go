package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	"giro/cmd/giro/render"
	adminv1 "giro/proto/giro/admin/v1"
)

type sagaCommand struct {
	toOrchestrator `group:"Services"`

	Show sagaShow `cmd:"" help:"Show how one transfer is being carried out."`
}

type sagaShow struct {
	Key  string `arg:"" help:"The transfer's key."`
	JSON bool   `name:"json" help:"Write the answer as JSON."`
}

func (sagaShow) Help() string {
	return `Shows the saga of a transfer: its state, and each step with its key, attempts, answer and times, in UTC.

Example:

    giro saga show order-1001`
}

func (s *sagaShow) Run(c *call) error {
	return c.ask(c.reading(orchestrator, callTimeout), func(ctx context.Context, conn grpc.ClientConnInterface) error {
		answer, err := adminv1.NewAdminServiceClient(conn).GetSaga(ctx, &adminv1.GetSagaRequest{Key: s.Key})
		if err != nil {
			return err
		}
		if s.JSON {
			return writeJSON(c.Out, answer)
		}
		render.Saga(c.Out, answer.GetSaga())
		return nil
	})
}

type auditCommand struct {
	toOrchestrator `group:"Services"`

	AllTenants bool          `help:"Audit the books of all tenants, not only --tenant's."`
	Timeout    time.Duration `help:"How long the audit may take." default:"10m"`
	JSON       bool          `name:"json" help:"Write the checks and the verdict as JSON, one a line."`
}

func (auditCommand) Help() string {
	return `Reads the saga table and every participant's books, and checks every invariant of docs/invariants.md. The last line is the verdict. Exit code 0 only if all of them hold.

Example:

    giro audit`
}

func (a *auditCommand) Run(c *call) error {
	if a.Timeout <= 0 {
		return usage("--timeout must be more than 0")
	}
	request := &adminv1.AuditRequest{Tenant: a.Tenant}
	if a.AllTenants {
		request.Tenant = ""
	}
	asked := c.reading(orchestrator, a.Timeout)
	return c.ask(asked, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		stream, err := adminv1.NewAdminServiceClient(conn).Audit(ctx, request)
		if err != nil {
			return err
		}
		verdict, err := a.read(c, stream)
		switch {
		case errors.Is(err, render.ErrNoVerdict):
			return asked.unanswered(err.Error())
		case err != nil:
			return err
		case !verdict.GetOk():
			return quiet(ExitFailed)
		}
		return nil
	})
}

func (a *auditCommand) read(c *call, stream render.AuditStream) (*adminv1.AuditVerdict, error) {
	if a.JSON {
		return auditJSON(c.Out, stream)
	}
	var progress io.Writer
	if c.Terminal {
		progress = c.Err
	}
	none := "no rows for this tenant"
	if a.AllTenants {
		none = "no rows"
	}
	return render.Audit(c.Out, progress, none, stream)
}

// auditJSON writes every check and the verdict, one a line. A check says its result
// too: that 0 were checked may mean that there was nothing, or that no audit can
// see it.
func auditJSON(w io.Writer, stream render.AuditStream) (*adminv1.AuditVerdict, error) {
	var verdict *adminv1.AuditVerdict
	for {
		item, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF) && verdict != nil:
			return verdict, nil
		case errors.Is(err, io.EOF):
			return nil, render.ErrNoVerdict
		case err != nil:
			return nil, err
		case item.GetProgress() != nil:
			continue
		case item.GetVerdict() != nil:
			verdict = item.GetVerdict()
		}
		if err := writeAuditLine(w, item); err != nil {
			return nil, err
		}
	}
}

func writeAuditLine(w io.Writer, item *adminv1.AuditResponse) error {
	if item.GetCheck() == nil {
		return writeJSONLine(w, item)
	}
	raw, err := marshal(item.GetCheck())
	if err != nil {
		return err
	}
	result := fmt.Sprintf(`{"check":{"result":%q,`, render.Result(item.GetCheck()))
	return compactLine(w, append([]byte(result), append(raw[1:], '}')...))
}
