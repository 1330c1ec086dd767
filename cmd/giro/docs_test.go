package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	participantv1 "giro/proto/giro/participant/v1"
)

// reasonsIn finds the reasons that a source file gives.
var reasonsIn = map[string]*regexp.Regexp{
	"../../internal/rpc/errors.go":              regexp.MustCompile(`\tReason\w+\s+= "([A-Z_]+)"`),
	"../../orchestrator/server/server.go":       regexp.MustCompile(`\tReason\w+\s+= "([A-Z_]+)"`),
	"../../orchestrator/saga/saga.go":           regexp.MustCompile(`\tReason\w+\s+= "([A-Z_]+)"`),
	"../../internal/participant/local/local.go": regexp.MustCompile(`(?:Reason\w+ = |FailedPrecondition\()"([A-Z_]+)"`),
	"../../internal/participant/book/book.go":   regexp.MustCompile(`"([A-Z]+_[A-Z_]+)"`),
}

// TestTheProtocolPageListsEveryReason: a client can act upon those alone that it can
// look up.
func TestTheProtocolPageListsEveryReason(t *testing.T) {
	raw, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, ok := strings.Cut(string(raw), "\n## Reasons\n")
	if !ok {
		t.Fatal("the page has lost its reasons")
	}
	for file, pattern := range reasonsIn {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := pattern.FindAllStringSubmatch(string(source), -1)
		if len(found) == 0 {
			t.Errorf("no reason was found in %s", file)
		}
		for _, match := range found {
			if !strings.Contains(list, "`"+match[1]+"`") {
				t.Errorf("%s gives %s, which docs/protocol.md does not list", file, match[1])
			}
		}
	}
}

// TestTheProtocolPageListsEveryCall of a participant.
func TestTheProtocolPageListsEveryCall(t *testing.T) {
	raw, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range participantv1.ParticipantService_ServiceDesc.Methods {
		if !strings.Contains(string(raw), "\n| "+method.MethodName+" | ") {
			t.Errorf("docs/protocol.md does not list %s", method.MethodName)
		}
	}
}
