package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"giro/internal/names"
)

// Claim implements store.Store.
func (s *Store) Claim(ctx context.Context, name names.Participant) (names.Participant, error) {
	found, err := query(ctx, s, pgx.RowTo[names.Participant], claim, string(name))
	if err != nil {
		return "", fmt.Errorf("claim: %w", err)
	}
	if len(found) != 1 {
		return "", errors.New("claim: the books have no row of their own")
	}
	return found[0], nil
}
