package sqlite

import (
	"context"
	"fmt"

	"giro/internal/names"
)

// Claim implements store.Store.
func (s *Store) Claim(ctx context.Context, name names.Participant) (names.Participant, error) {
	var owner names.Participant
	err := s.writer.QueryRowContext(ctx,
		`update meta set participant = coalesce(participant, ?) where id = 1 returning participant`, name).Scan(&owner)
	if err != nil {
		return "", fmt.Errorf("claim: %w", classify(err))
	}
	return owner, nil
}
