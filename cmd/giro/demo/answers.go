package demo

import (
	"context"
	"fmt"
	"sync"

	"giro/cmd/giro/render"
	transferv1 "giro/proto/giro/transfer/v1"
)

// answers keeps every OK that a client saw, so that the end can check that each
// is still true (invariant 7).
type answers struct {
	mu   sync.Mutex
	keys []string // in the order of their first answer
	seen map[string]*answered
	oks  int
}

// answered is one key's request and the most advanced transfer that was seen.
type answered struct {
	request  *transferv1.CreateTransferRequest
	transfer *transferv1.Transfer
	// contradiction says how a later answer differed from an earlier final one.
	contradiction string
}

func (a *answers) note(r *transferv1.CreateTransferRequest, t *transferv1.Transfer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seen == nil {
		a.seen = map[string]*answered{}
	}
	a.oks++
	known := a.seen[r.GetKey()]
	if known == nil {
		known = &answered{request: r, transfer: t}
		a.keys = append(a.keys, r.GetKey())
		a.seen[r.GetKey()] = known
	}
	if known.contradiction == "" {
		known.contradiction = differs(known.request, known.transfer, t)
	}
	if !render.Final(known.transfer.GetState()) {
		known.transfer = t
	}
}

// list gives what was seen, in the order of first answers.
func (a *answers) list() []*answered {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make([]*answered, 0, len(a.keys))
	for _, key := range a.keys {
		all = append(all, a.seen[key])
	}
	return all
}

// differs says how a transfer contradicts its request or what was seen before;
// empty if it does not.
func differs(r *transferv1.CreateTransferRequest, before, now *transferv1.Transfer) string {
	switch {
	case now.GetKey() != r.GetKey() || now.GetSource() != r.GetSource() || now.GetDestination() != r.GetDestination() ||
		now.GetAmount() != r.GetAmount() || now.GetCurrency() != r.GetCurrency():
		return fmt.Sprintf("%s: other contents came back: %s %s -> %s", r.GetKey(), dollars(now.GetAmount()), now.GetSource(), now.GetDestination())
	case !render.Final(before.GetState()):
		return ""
	case before.GetState() != now.GetState() || before.GetReason() != now.GetReason():
		return fmt.Sprintf("%s: was %s %s, is now %s %s", r.GetKey(), render.State(before.GetState()), before.GetReason(),
			render.State(now.GetState()), now.GetReason())
	}
	return ""
}

// stillTrue asks for every key that a client had an OK for, and writes whether
// all are still true.
func (s *stage) stillTrue(ctx context.Context) error {
	all := s.answers.list()
	oks := s.answers.oks
	var wrong []string
	for _, a := range all {
		if a.contradiction != "" {
			wrong = append(wrong, a.contradiction)
			continue
		}
		now, err := s.transfers.GetTransfer(ctx, &transferv1.GetTransferRequest{Key: a.request.GetKey()})
		if err != nil {
			return fmt.Errorf("%s, which a client had an OK for: %w", a.request.GetKey(), err)
		}
		if d := differs(a.request, a.transfer, now.GetTransfer()); d != "" {
			wrong = append(wrong, d)
		}
	}
	s.say("clients saw %d OK answers for %d keys; each key was asked for again", oks, len(all))
	for _, w := range wrong[:min(len(wrong), 10)] {
		s.say("%s", w)
	}
	s.same("OK answers that are not true any more", 0, len(wrong))
	return nil
}
