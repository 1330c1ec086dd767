package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"

	"giro/internal/names"
	"giro/internal/rpc"
)

// principal says who is asking.
type principal struct {
	Tenant string `help:"Whose accounts and transfers; for development, taken at the caller's word." default:"default" placeholder:"NAME"`
	Actor  string `help:"Who is asking, for the records; taken at the caller's word too." default:"cli" placeholder:"NAME"`
}

// toOrchestrator are the flags of commands that ask the orchestrator.
type toOrchestrator struct {
	Orchestrator string `help:"Address of the orchestrator." default:"127.0.0.1:7101" placeholder:"HOST:PORT"`
	principal
}

// toAccounts are the flags of commands that ask the services which hold accounts.
type toAccounts struct {
	Accountsvc string `help:"Address of accountsvc." default:"127.0.0.1:7102" placeholder:"HOST:PORT"`
	Ledgersvc  string `help:"Address of ledgersvc." default:"127.0.0.1:7103" placeholder:"HOST:PORT"`
	principal
}

// The services' names, as flags, participants and messages have them.
const (
	orchestrator = "orchestrator"
	accountsvc   = "accountsvc"
	ledgersvc    = "ledgersvc"
)

// callTimeout bounds calls that wait for nobody else.
const callTimeout = 15 * time.Second

// actorLengthMax is the most characters of an actor, as the services judge it.
const actorLengthMax = 128

// checkPrincipal refuses here what every service refuses.
func (c *call) checkPrincipal() error {
	if tenant := c.line.text("tenant"); tenant != "" && !names.Tenant(tenant).Valid() {
		return usage("--tenant %q must be %s; nothing was sent", tenant, names.PartGrammar)
	}
	actor := c.line.text("actor")
	strange := strings.ContainsFunc(actor, func(r rune) bool { return r < ' ' || r > '~' })
	if strange || len(actor) > actorLengthMax {
		return usage("--actor %q must be 1 to %d printable ASCII characters; nothing was sent", actor, actorLengthMax)
	}
	return nil
}

// checkAddress refuses what names no port, before anything is sent. gRPC would take
// it for a name at port 443.
func checkAddress(flag, address string) error {
	if strings.HasPrefix(address, "unix:") || strings.Contains(address, "://") {
		return nil // gRPC's own ways to name a target
	}
	if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
		return usage("%s %q must be HOST:PORT", flag, address)
	}
	return nil
}

// question is one call to a service, and what its failure means.
type question struct {
	service string
	timeout time.Duration
	// again is the command line that asks again.
	again string
	// see is the command line that shows the transfer under the key.
	see string
	// reads says that the call changes nothing, whatever became of it.
	reads bool
}

// reading is a question that changes nothing.
func (c *call) reading(service string, timeout time.Duration) question {
	return question{service: service, timeout: timeout, again: c.line.again(""), reads: true}
}

// changing is a question under a key.
func (c *call) changing(service, key string, timeout time.Duration) question {
	return question{service: service, timeout: timeout, again: c.line.again(key), see: c.line.beside("transfer", "get", key)}
}

// ask dials a service and calls do with the caller's principal in the context. An
// error of do is explained, with the command that asks again.
func (c *call) ask(q question, do func(context.Context, grpc.ClientConnInterface) error) error {
	address := c.line.text(q.service)
	if err := checkAddress("--"+q.service, address); err != nil {
		return err
	}
	conn, err := rpc.Dial(address, rpc.WithPrincipal(names.Tenant(c.line.text("tenant")), c.line.text("actor")))
	if err != nil {
		return usage("%s address %q: %v", q.service, address, err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(c.ctx, q.timeout)
	defer cancel()
	err = do(ctx, conn)
	var f *failure
	switch {
	case err == nil || errors.As(err, &f):
		return err
	case rpc.Reason(err) != "":
		return q.explain(err, address) // the service's own word
	case c.ctx.Err() != nil:
		return q.unanswered("interrupted")
	case ctx.Err() != nil:
		return q.unanswered(fmt.Sprintf("no answer from %s at %s within %s", q.service, address, q.timeout))
	}
	return q.explain(err, address)
}

// drawKey gives the key, or draws a UUIDv7 where none was given. A drawn key is
// written before anything is sent, so that it is not lost with the answer.
func (c *call) drawKey(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	drawn, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("draw a key: %w", err)
	}
	key := drawn.String()
	fmt.Fprintf(c.Err, "key %s (drawn now; if no answer comes, ask again with this same key:)\n  %s\n", key, c.line.again(key))
	return key, nil
}
