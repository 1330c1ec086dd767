package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"giro/orchestrator/saga"
	"giro/orchestrator/store"
	"giro/orchestrator/store/row"
)

// Save implements store.Store.
func (s *Store) Save(ctx context.Context, writes []store.Write) ([]store.Saved, error) {
	results := make([]store.Saved, 0, len(writes))
	for part := range slices.Chunk(writes, row.BatchSizeMax) {
		saved, err := s.save(ctx, part)
		if err != nil {
			return nil, err
		}
		results = append(results, saved...)
	}
	return results, nil
}

func (s *Store) save(ctx context.Context, part []store.Write) ([]store.Saved, error) {
	rounds := inRounds(part)
	run := s.alone
	if len(rounds) > 1 || slices.ContainsFunc(part, func(w store.Write) bool { return w.Saga.State.Final() }) {
		run = s.transact
	}
	var results []store.Saved
	err := run(ctx, func(ctx context.Context, q querier) error {
		results = make([]store.Saved, len(part))
		for _, places := range rounds {
			if err := saveRound(ctx, q, part, places, results); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var losers []saga.ID
	for i, w := range part {
		if !results[i].OK {
			losers = append(losers, w.Saga.ID)
		}
	}
	there, err := s.lookupMany(ctx, losers)
	if err != nil {
		return nil, err
	}
	for i, w := range part {
		if !results[i].OK {
			results[i].Saga = row.Normal(there[w.Saga.ID])
			results[i].Saga.ID = w.Saga.ID // if it is not there at all
		}
	}
	return results, nil
}

// inRounds gives the places of the writes, each round in the order of tenant and
// key. A saga that stands again in the batch goes in the next round, since one
// statement writes a row once.
func inRounds(part []store.Write) [][]int {
	var rounds [][]int
	seen := make(map[saga.ID]int, len(part))
	for i, w := range part {
		round := seen[w.Saga.ID]
		seen[w.Saga.ID]++
		if round == len(rounds) {
			rounds = append(rounds, nil)
		}
		rounds[round] = append(rounds[round], i)
	}
	for _, places := range rounds {
		slices.SortFunc(places, func(a, b int) int { return row.Compare(part[a].Saga.ID, part[b].Saga.ID) })
	}
	return rounds
}

// saveRound writes those that are still as they were, with the events of those
// that become final.
func saveRound(ctx context.Context, q querier, part []store.Write, places []int, results []store.Saved) error {
	arguments, err := saveArrays(part, places)
	if err != nil {
		return err
	}
	list, err := query(ctx, q, saveSQL, arguments...)
	if err != nil {
		return fmt.Errorf("save: %w", err)
	}
	won := byID(list)
	for _, i := range places {
		results[i].Saga, results[i].OK = won[part[i].Saga.ID]
	}
	return announce(ctx, q, list)
}

func saveArrays(part []store.Write, places []int) ([]any, error) {
	n := len(places)
	var (
		tenants, keys                 = make([]string, n), make([]string, n)
		versions, epochs              = make([]int64, n), make([]int64, n)
		states, reasons, stepses      = make([]string, n), make([]string, n), make([]string, n)
		parkReasons, attentionReasons = make([]string, n), make([]string, n)
		toSuspense, debitApplied      = make([]bool, n), make([]bool, n)
		parked, attention             = make([]bool, n), make([]bool, n)
		progresses, dues, creations   = make([]time.Time, n), make([]time.Time, n), make([]time.Time, n)
	)
	for to, from := range places {
		s := row.Normal(part[from].Saga)
		_, steps, err := row.Texts(s)
		if err != nil {
			return nil, err
		}
		tenants[to], keys[to] = string(s.Tenant), string(s.ID.Key)
		versions[to], epochs[to] = part[from].FromVersion, part[from].FromEpoch
		states[to], reasons[to], stepses[to] = string(s.State), s.Reason, steps
		toSuspense[to], debitApplied[to] = s.RefundToSuspense, s.DebitApplied
		parked[to], parkReasons[to] = s.Parked, s.ParkReason
		attention[to], attentionReasons[to] = s.Attention, s.AttentionReason
		progresses[to], dues[to], creations[to] = s.ProgressAt, s.DueAt, row.Instant(part[from].FromCreatedAt)
	}
	return []any{tenants, keys, versions, epochs, states, reasons, toSuspense, debitApplied, parked, parkReasons,
		attention, attentionReasons, stepses, progresses, dues, creations}, nil
}
