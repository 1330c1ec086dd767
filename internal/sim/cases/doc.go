// Package cases plays what has gone wrong for others against the real services:
// an orchestrator, accountsvc and ledgersvc, each behind its own gRPC server on a
// loopback port, with faults on the wire and in the stores between them. It holds
// tests only; their names carry the numbers of the cases. After every test the
// audit must be OK.
package cases
