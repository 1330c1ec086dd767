package reporter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"giro/internal/fingerprint"
	"giro/internal/names"
	"giro/internal/retention"
	"giro/internal/stepkey"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
	"giro/orchestrator/store/mem"
	participantv1 "giro/proto/giro/participant/v1"
)

const day = 24 * time.Hour

var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func keyOf(age time.Duration) names.TransferKey {
	k := stepkey.From(now.Add(-age))
	k[6], k[8] = 0x70, 0x80
	return names.TransferKey(k.String())
}

// wire is a connection that answers ReportUnfinished as it is told.
type wire struct {
	grpc.ClientConnInterface
	answer func() (*participantv1.ReportUnfinishedResponse, error)
	heard  int
}

func (w *wire) Invoke(_ context.Context, method string, _, response any, _ ...grpc.CallOption) error {
	if method != participantv1.RetentionService_ReportUnfinished_FullMethodName {
		return errors.New(method)
	}
	w.heard++
	answer, err := w.answer()
	if answer != nil {
		response.(*participantv1.ReportUnfinishedResponse).ArchivedBefore = answer.ArchivedBefore
	}
	return err
}

func with(t *testing.T, horizon time.Duration, keys ...names.TransferKey) (*Reporter, store.Store) {
	t.Helper()
	s := mem.New(func() time.Time { return now })
	for _, key := range keys {
		contents := fingerprint.Contents{Source: "a/x", Destination: "b/y", Amount: 40, Currency: "USD"}
		if _, err := s.Insert(t.Context(), "me", []store.New{{Saga: saga.New(saga.ID{Tenant: "t", Key: key}, contents, false)}}); err != nil {
			t.Fatal(err)
		}
	}
	return New(Config{Store: s, Retention: retention.Settings{Horizon: horizon}, Now: func() time.Time { return now },
		Logger: slog.New(slog.DiscardHandler)}), s
}

func TestTheReportIsTheOldestKeyThatMayBeAskedFor(t *testing.T) {
	floor := now.Add(-60*day - margin)
	var untimed []names.TransferKey
	for i := range pageSize + 10 { // they stand before every key with a time
		untimed = append(untimed, names.TransferKey(fmt.Sprintf("-order-%05d", i)))
	}
	for name, c := range map[string]struct {
		keys []names.TransferKey
		want time.Time
	}{
		"nothing is unfinished":    {nil, floor},
		"only young transfers":     {[]names.TransferKey{keyOf(day), keyOf(time.Minute)}, floor},
		"an old one":               {[]names.TransferKey{keyOf(day), keyOf(80 * day), keyOf(70 * day)}, now.Add(-80 * day)},
		"an old one behind others": {append(untimed, "z", keyOf(90*day)), now.Add(-90 * day)},
		"only others":              {append(untimed, "z"), floor},
	} {
		r, s := with(t, 60*day, c.keys...)
		request, err := r.Request(t.Context())
		identity, _ := s.Identity(t.Context())
		if err != nil || request.GetOrchestrator() != identity || !request.GetOldestTime().AsTime().Equal(c.want) {
			t.Errorf("%s: %v, want %s, %v", name, request, c.want, err)
		}
		r, _ = with(t, 0, c.keys...)
		if request, err := r.Request(t.Context()); err != nil || request.OldestTime != nil || request.GetOrchestrator() == "" {
			t.Errorf("%s, without a horizon: %v, %v", name, request, err)
		}
	}
}

// TestFinalTransfersNeedNoKeys: parked ones do.
func TestFinalTransfersNeedNoKeys(t *testing.T) {
	r, s := with(t, 60*day, keyOf(90*day), keyOf(80*day))
	for _, key := range []names.TransferKey{keyOf(90 * day), keyOf(80 * day)} {
		found, err := s.Lookup(t.Context(), saga.ID{Tenant: "t", Key: key})
		if err != nil {
			t.Fatal(err)
		}
		write := store.Write{Saga: found, FromVersion: found.Version, FromEpoch: found.Epoch, FromCreatedAt: found.CreatedAt}
		if key == keyOf(80*day) {
			write.Saga.Parked, write.Saga.ParkReason = true, "too old"
		} else {
			write.Saga.State = saga.Refused
		}
		if saved, err := s.Save(t.Context(), []store.Write{write}); err != nil || !saved[0].OK {
			t.Fatalf("%+v, %v", saved, err)
		}
	}
	if request, err := r.Request(t.Context()); err != nil || !request.GetOldestTime().AsTime().Equal(now.Add(-80*day)) {
		t.Errorf("%v, %v", request, err)
	}
}

// TestEveryParticipantIsTold: also beside one that does not answer and one that has no
// such call; and what is wrong is logged once, not every minute.
func TestEveryParticipantIsTold(t *testing.T) {
	var log bytes.Buffer
	r, _ := with(t, 60*day)
	r.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	well := &wire{answer: func() (*participantv1.ReportUnfinishedResponse, error) {
		return &participantv1.ReportUnfinishedResponse{}, nil
	}}
	old := &wire{answer: func() (*participantv1.ReportUnfinishedResponse, error) {
		return nil, status.Error(codes.Unimplemented, "")
	}}
	away := &wire{answer: func() (*participantv1.ReportUnfinishedResponse, error) {
		return nil, status.Error(codes.Unavailable, "away")
	}}
	late := &wire{answer: func() (*participantv1.ReportUnfinishedResponse, error) {
		return &participantv1.ReportUnfinishedResponse{ArchivedBefore: timestamppb.New(now.Add(-30 * day))}, nil
	}}
	r.config.Participants = map[names.Participant]grpc.ClientConnInterface{"well": well, "old": old, "away": away, "late": late}
	for range 3 {
		r.report(t.Context())
	}
	away.answer = well.answer
	r.report(t.Context())
	for name, w := range map[string]*wire{"well": well, "old": old, "away": away, "late": late} {
		if w.heard != 4 {
			t.Errorf("%s was told %d times", name, w.heard)
		}
	}
	lines := log.String()
	for what, want := range map[string]int{"participant=well": 0, "participant=old": 0, "participant=away": 2, "was told again": 1, "participant=late": 1, "archived keys": 1} {
		if got := strings.Count(lines, what); got != want {
			t.Errorf("%q is logged %d times, want %d:\n%s", what, got, want, lines)
		}
	}
}
