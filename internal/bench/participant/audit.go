package main

import (
	"context"
	"fmt"
	"time"

	participantv1 "giro/proto/giro/participant/v1"
)

// auditLimit bounds the adding up of one set of books.
const auditLimit = 10 * time.Minute

// audited is what the books of a service said after the run.
type audited struct {
	Books      string `json:"books"`
	Operations int64  `json:"operations"`
}

// audit asks each service for its sums.
func audit(ctx context.Context, w *world) ([]audited, error) {
	var all []audited
	for _, s := range []*service{w.empty, w.filled} {
		progress("auditing the books of %s", s.name)
		ctx, cancel := context.WithTimeout(ctx, auditLimit)
		sums, err := s.clients[0].Sums(ctx, &participantv1.SumsRequest{})
		cancel()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		if err := sound(sums, s.stored.Load()); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		all = append(all, audited{s.name, sums.GetOperationCount()})
	}
	return all, nil
}

// sound is an error unless the books hold what was acknowledged, once, and balance.
func sound(sums *participantv1.SumsResponse, stored int64) error {
	if len(sums.GetCurrencies()) == 0 {
		return fmt.Errorf("the books are empty")
	}
	for _, c := range sums.GetCurrencies() {
		if c.GetTotal() != "0" {
			return fmt.Errorf("%s of tenant %s adds up to %s", c.GetCurrency(), c.GetTenant(), c.GetTotal())
		}
	}
	if n := len(sums.GetFaults()); n > 0 {
		return fmt.Errorf("%d accounts are not the sum of their lines, %s first", n, sums.GetFaults()[0].GetAccount())
	}
	if sums.GetOperationCount() != stored {
		return fmt.Errorf("%d operations are in the books, %d were acknowledged or filled in", sums.GetOperationCount(), stored)
	}
	return nil
}
