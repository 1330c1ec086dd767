package accountsvc_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"giro/internal/participant/book"
	"giro/internal/retention"
	"giro/internal/rpc"
	"giro/internal/stepkey"
	accountv1 "giro/proto/giro/account/v1"
	participantv1 "giro/proto/giro/participant/v1"
)

const day = 24 * time.Hour

// aged is a key whose own time is that long ago.
func aged(n byte, age time.Duration) string {
	k := stepkey.From(time.Now().Add(-age))
	k[6], k[8], k[15] = 0x70, 0x80, n
	return k.String()
}

// TestC45TheServicesOwnCallsForgetToo: an old deposit is no second one, and what was
// archived is not made up.
func TestC45TheServicesOwnCallsForgetToo(t *testing.T) {
	f := fresh(t)
	f.open("alice")
	old := aged(1, 90*day)
	f.deposit(old, "alice", 100)
	f.deposit("untimed", "alice", 10)
	s := f.engine.Store()
	if err := s.KeepFor(t.Context(), 60*day); err != nil {
		t.Fatal(err)
	}
	f.deposit(old, "alice", 100) // it is known, and replays
	if _, err := s.Report(t.Context(), retention.Report{Orchestrator: "one", Oldest: time.Now()}); err != nil {
		t.Fatal(err)
	}
	before, err := s.CommitHorizon(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if batch, err := s.Archive(t.Context(), book.ID{}, 200, func([]book.Stored) error { return nil }); err != nil || batch.Taken != 1 {
		t.Fatalf("%+v, %v", batch, err)
	}
	for name, key := range map[string]string{"archived": old, "never seen": aged(2, 61*day), "ahead": aged(3, -11*time.Minute)} {
		_, err := f.client.Deposit(t.Context(), &accountv1.DepositRequest{Key: key, Account: "alice", Amount: 100, Currency: "USD", External: "bank"})
		refused(t, name, err, codes.FailedPrecondition, rpc.ReasonKeyExpired, "nothing was done by this call", "is not known any more", "look at the account")
	}
	if got := f.account("alice").GetBalance(); got != 110 {
		t.Errorf("alice has %d", got)
	}
	statement, err := f.client.GetStatement(t.Context(), &accountv1.GetStatementRequest{Account: "alice"})
	if err != nil || statement.GetOpeningBalance() != 100 || len(statement.GetLines()) != 1 || statement.GetClosingBalance() != 110 {
		t.Errorf("%v, %v", statement, err)
	}
	_, err = f.client.GetStatement(t.Context(), &accountv1.GetStatementRequest{Account: "alice", FromTime: timestamppb.New(time.Now().Add(-time.Hour))})
	refused(t, "a statement of before", err, codes.FailedPrecondition, "LINES_ARCHIVED", "Ask for what is later")
	described, err := participantv1.NewParticipantServiceClient(f.conn).Describe(t.Context(), &participantv1.DescribeRequest{})
	if err != nil || described.GetRetentionHorizonSeconds() != 60*24*60*60 || !described.GetArchivedBefore().AsTime().Equal(before) {
		t.Errorf("%v, %v", described, err)
	}
}

func TestReportsAreCheckedAndKept(t *testing.T) {
	f := fresh(t)
	reports := participantv1.NewRetentionServiceClient(f.conn)
	const id = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
	for name, r := range map[string]*participantv1.ReportUnfinishedRequest{
		"nobody":                {OldestTime: timestamppb.Now()},
		"no UUID":               {Orchestrator: "orchestrator-1", OldestTime: timestamppb.Now()},
		"another spelling":      {Orchestrator: "3F2504E0-4F89-41D3-9A0C-0305E82C3301"},
		"before 1970":           {Orchestrator: id, OldestTime: &timestamppb.Timestamp{Seconds: -1}},
		"nanoseconds of no use": {Orchestrator: id, OldestTime: &timestamppb.Timestamp{Nanos: -1}},
		"beyond all time":       {Orchestrator: id, OldestTime: &timestamppb.Timestamp{Seconds: 1 << 60}},
	} {
		_, err := reports.ReportUnfinished(t.Context(), r)
		refused(t, name, err, codes.InvalidArgument, rpc.ReasonInvalid)
	}
	if list, err := f.engine.Store().Reports(t.Context()); err != nil || len(list) != 0 {
		t.Fatalf("%+v, %v", list, err)
	}
	at := time.Now().Add(-70 * day).UTC().Truncate(time.Microsecond)
	for _, oldest := range []*timestamppb.Timestamp{nil, timestamppb.New(at), timestamppb.New(at)} {
		if answer, err := reports.ReportUnfinished(t.Context(), &participantv1.ReportUnfinishedRequest{Orchestrator: id, OldestTime: oldest}); err != nil || answer.ArchivedBefore != nil {
			t.Fatalf("%v, %v", answer, err)
		}
	}
	if list, err := f.engine.Store().Reports(t.Context()); err != nil || len(list) != 1 || list[0].Orchestrator != id || !list[0].Oldest.Equal(at) {
		t.Errorf("%+v, %v", list, err)
	}
}
