package server

import (
	"cmp"
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/status"

	"giro/internal/names"
	"giro/internal/rpc"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
	transferv1 "giro/proto/giro/transfer/v1"
)

// item is one transfer of a batch: it ends with an error, or with a saga.
type item struct {
	request *transferv1.CreateTransferRequest
	id      saga.ID
	err     error
	// earlier is the item under the same key that is stored or to be stored; nil: there
	// is none before this one.
	earlier *item
	store.Inserted
}

// BatchCreateTransfers creates each transfer on its own, and waits for the final states
// of all.
func (s *Server) BatchCreateTransfers(ctx context.Context, request *transferv1.BatchCreateTransfersRequest) (*transferv1.BatchCreateTransfersResponse, error) {
	items, asked := s.judgeAll(ctx, request.GetTransfers())
	ids := make([]saga.ID, len(asked))
	for i, it := range asked {
		ids[i] = it.id
	}
	settled, end := s.config.Runner.Watch(ids...)
	defer end()
	if err := s.insertAll(ctx, asked); err != nil {
		return nil, rpc.Unanswered(ctx, err)
	}
	running := map[saga.ID]*item{}
	for _, it := range items {
		if it.err == nil && it.earlier == nil && !ended(it.Saga) {
			running[it.id] = it
		}
	}
	if err := s.waitAll(ctx, running, settled); err != nil {
		return nil, rpc.Unanswered(ctx, err)
	}
	response := &transferv1.BatchCreateTransfersResponse{}
	for _, it := range items {
		response.Results = append(response.Results, it.result(ctx))
	}
	return response, nil
}

// judgeAll judges each request as if it came alone, after those before it, and gives
// those that are to be stored.
func (s *Server) judgeAll(ctx context.Context, requests []*transferv1.CreateTransferRequest) (items, asked []*item) {
	tenant := rpc.PrincipalFrom(ctx).Tenant
	known := map[saga.ID]*item{}
	for _, r := range requests {
		it := &item{request: r, id: saga.ID{Tenant: tenant, Key: names.TransferKey(r.GetKey())}}
		items = append(items, it)
		malformed, broken := rpc.Malformed(r, s)
		if it.err = cmp.Or(broken, malformed); it.err != nil {
			continue
		}
		// A known key is answered before anything else is judged.
		if it.earlier = known[it.id]; it.earlier != nil {
			continue
		}
		no := s.notNew(it.id.Key, s.FurtherViolations(r))
		if no == nil {
			known[it.id] = it
			asked = append(asked, it)
			continue
		}
		switch it.Saga, it.err = s.config.Store.Lookup(ctx, it.id); {
		case it.err == nil:
			known[it.id] = it
		case errors.Is(it.err, store.ErrNotFound):
			it.err = no
		}
	}
	return items, asked
}

// insertAll stores what is new and finds what is known. An error means that nothing was
// stored, or that ctx has ended.
func (s *Server) insertAll(ctx context.Context, asked []*item) error {
	if len(asked) == 0 {
		return nil
	}
	news := make([]store.New, len(asked))
	for i, it := range asked {
		news[i] = newTransfer(it.id, it.request)
	}
	tried, err := s.config.Runner.InsertAll(ctx, news)
	if err != nil {
		return err
	}
	for i, it := range asked {
		it.Inserted, it.err = tried[i].Inserted, tried[i].Err
	}
	return nil
}

// lookupsMax is the most sagas of a batch that are looked up at one time: those that
// another replica carries out, one after the other.
const lookupsMax = 50

// waitAll brings each saga up to its final state, or to parked, until none runs or the
// caller's deadline is near: what runs then is answered as it was stored.
func (s *Server) waitAll(ctx context.Context, running map[saga.ID]*item, settled <-chan saga.Saga) error {
	near := time.NewTimer(patience(ctx))
	defer near.Stop()
	pause := pollMin
	poll := time.NewTimer(pause)
	defer poll.Stop()
	for len(running) > 0 {
		select {
		case now := <-settled:
			settle(running, now)
		case <-ctx.Done():
			return ctx.Err()
		case <-s.config.Stopping:
			return nil
		case <-near.C:
			return nil
		case <-poll.C:
			s.lookElsewhere(ctx, running)
			pause = min(2*pause, pollMax)
			poll.Reset(pause)
		}
	}
	return nil
}

// lookElsewhere looks up some of the sagas that this replica does not carry out.
func (s *Server) lookElsewhere(ctx context.Context, running map[saga.ID]*item) {
	looked := 0
	for id := range running {
		if s.config.Runner.Carries(id) {
			continue // it will tell
		}
		if looked++; looked > lookupsMax {
			return
		}
		if now, err := s.config.Store.Lookup(ctx, id); err == nil {
			settle(running, now)
		}
	}
}

// settle ends the wait for a saga that is final or parked.
func settle(running map[saga.ID]*item, now saga.Saga) {
	if it := running[now.ID]; it != nil && ended(now) {
		it.Saga = now
		delete(running, now.ID)
	}
}

// ended says that nothing more is done without an operator.
func ended(s saga.Saga) bool { return s.State.Final() || s.Parked }

// result is what CreateTransfer would have answered.
func (it *item) result(ctx context.Context) *transferv1.BatchCreateTransfersResult {
	inserted, err := it.Inserted, it.err
	if it.earlier != nil {
		inserted, err = store.Inserted{Saga: it.earlier.Saga}, it.earlier.err
	}
	if err == nil {
		err = sameTransfer(inserted.Saga, contentsOf(it.request))
	}
	if err != nil {
		// The call's own end does not say what became of this transfer.
		failed := status.Convert(rpc.Unanswered(context.WithoutCancel(ctx), err)).Proto()
		return &transferv1.BatchCreateTransfersResult{Result: &transferv1.BatchCreateTransfersResult_Error{Error: failed}}
	}
	transfer := transferOf(inserted.Saga)
	transfer.Memo, transfer.Metadata = "", nil // a thousand of them would be too much for one answer
	return &transferv1.BatchCreateTransfersResult{Result: &transferv1.BatchCreateTransfersResult_Created{
		Created: &transferv1.CreateTransferResponse{Transfer: transfer, Replayed: !inserted.Created, FirstTime: timeOf(inserted.Saga.CreatedAt)}}}
}
