package rpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"giro/internal/names"
)

// The request metadata that the development principal is read from, and what
// stands where they are not given.
const (
	TenantMetadata = "giro-tenant"
	ActorMetadata  = "giro-actor"
	DefaultTenant  = names.Tenant("default")
	DefaultActor   = "developer"
)

// actorLengthMax is the most characters of an actor, printable ASCII.
const actorLengthMax = 128

// Principal is who calls.
type Principal struct {
	Tenant names.Tenant
	// Actor is 1 to 128 printable ASCII characters, for records; it decides
	// nothing.
	Actor string
	// Development says that nobody has proved who they are: the caller's word
	// was taken for it.
	Development bool
}

type principalKey struct{}

// ContextWithPrincipal gives a context in which p calls.
func ContextWithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// PrincipalFrom is who calls. Outside a server of this package it is the zero
// Principal, whose tenant is not valid, so that nothing can be done in its name.
func PrincipalFrom(ctx context.Context) Principal {
	p, _ := ctx.Value(principalKey{}).(Principal)
	return p
}

// developmentPrincipal takes the caller's word for who it is.
func developmentPrincipal(ctx context.Context) (Principal, error) {
	p := Principal{Tenant: DefaultTenant, Actor: DefaultActor, Development: true}
	md, _ := metadata.FromIncomingContext(ctx)
	var violations []Violation
	if values := md.Get(TenantMetadata); len(values) > 0 {
		p.Tenant = names.Tenant(values[0])
		if len(values) > 1 || !p.Tenant.Valid() {
			violations = append(violations, Violation{TenantMetadata, "must be one value, " + names.PartGrammar})
		}
	}
	if values := md.Get(ActorMetadata); len(values) > 0 {
		p.Actor = values[0]
		if len(values) > 1 || !validActor(p.Actor) {
			violations = append(violations, Violation{ActorMetadata, "must be one value, 1 to 128 printable ASCII characters"})
		}
	}
	if len(violations) > 0 {
		return Principal{}, InvalidArgument(violations)
	}
	return p, nil
}

func validActor(actor string) bool {
	if len(actor) == 0 || len(actor) > actorLengthMax {
		return false
	}
	for i := range len(actor) {
		if actor[i] < ' ' || actor[i] > '~' {
			return false
		}
	}
	return true
}

// WithPrincipal sends a tenant and an actor with every call of a connection.
// Empty ones are left out: the server's defaults stand for them.
func WithPrincipal(tenant names.Tenant, actor string) grpc.DialOption {
	pairs := development{}
	if tenant != "" {
		pairs[TenantMetadata] = string(tenant)
	}
	if actor != "" {
		pairs[ActorMetadata] = actor
	}
	return grpc.WithPerRPCCredentials(pairs)
}

// development is a caller's word for who it is.
type development map[string]string

// GetRequestMetadata gives the pairs as they are; the server judges them.
func (d development) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return d, nil
}

// RequireTransportSecurity is false: a name is no secret.
func (d development) RequireTransportSecurity() bool { return false }
