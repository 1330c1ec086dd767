package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"giro/internal/names"
	"giro/internal/rpc"
)

// connection says where the services are, and who is asking.
type connection struct {
	Orchestrator string `help:"Address of the orchestrator." default:"127.0.0.1:7101" placeholder:"HOST:PORT"`
	Accountsvc   string `help:"Address of accountsvc." default:"127.0.0.1:7102" placeholder:"HOST:PORT"`
	Ledgersvc    string `help:"Address of ledgersvc." default:"127.0.0.1:7103" placeholder:"HOST:PORT"`
	Tenant       string `help:"Whose accounts and transfers (development principal)." default:"default" placeholder:"NAME"`
	Actor        string `help:"Who is asking (development principal)." default:"cli" placeholder:"NAME"`
}

// The services' names, as flags, participants and messages have them.
const (
	orchestrator = "orchestrator"
	accountsvc   = "accountsvc"
	ledgersvc    = "ledgersvc"
)

// callTimeout bounds calls that wait for nobody else.
const callTimeout = 15 * time.Second

// address is where a service listens.
func (c *connection) address(service string) string {
	switch service {
	case accountsvc:
		return c.Accountsvc
	case ledgersvc:
		return c.Ledgersvc
	}
	return c.Orchestrator
}

// with dials a service and calls do with the caller's principal in the context.
// An error of do is explained, with the command that asks again.
func (c *call) with(service, again string, timeout time.Duration, do func(context.Context, grpc.ClientConnInterface) error) error {
	address := c.connection.address(service)
	conn, err := rpc.Dial(address, rpc.WithPrincipal(names.Tenant(c.connection.Tenant), c.connection.Actor))
	if err != nil {
		return usage("%s address %q: %v", service, address, err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(c.ctx, timeout)
	defer cancel()
	if err := do(ctx, conn); err != nil {
		var f *failure
		if errors.As(err, &f) {
			return err
		}
		return explain(err, service, address, again)
	}
	return nil
}

// drawKey gives the key, or draws a UUIDv7 where none was given. A drawn key is
// written before anything is sent, so that it is not lost with the answer.
func (c *call) drawKey(given string, again func(key string) string) (string, error) {
	if given != "" {
		return given, nil
	}
	drawn, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("draw a key: %w", err)
	}
	key := drawn.String()
	fmt.Fprintf(c.Err, "key %s (drawn now; if no answer comes, ask again with this same key:)\n  %s\n", key, again(key))
	return key, nil
}

// writeJSON writes a message as JSON, indented the same way every time; 64-bit
// numbers are strings.
func writeJSON(w io.Writer, m proto.Message) error {
	return encode(w, m, func(b *bytes.Buffer, raw []byte) error { return json.Indent(b, raw, "", "  ") })
}

// writeJSONLine writes a message as one line of JSON.
func writeJSONLine(w io.Writer, m proto.Message) error {
	return encode(w, m, json.Compact)
}

func encode(w io.Writer, m proto.Message, shape func(*bytes.Buffer, []byte) error) error {
	raw, err := protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := shape(&b, raw); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err = w.Write(b.Bytes())
	return err
}

// commandLine writes a command so that a shell reads it back the same.
func commandLine(words ...string) string {
	quoted := make([]string, 0, len(words))
	for _, word := range words {
		if word == "" || strings.ContainsAny(word, " \t\n'\"\\$`&|;<>()*?[]{}#~!") {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		quoted = append(quoted, word)
	}
	return strings.Join(quoted, " ")
}
