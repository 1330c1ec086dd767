// Package mem keeps a participant's books in memory, for the simulator and for
// tests. It is deterministic: it has no clock and no randomness of its own.
package mem

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"giro/internal/names"
	"giro/internal/participant/book"
	"giro/internal/participant/store"
	"giro/internal/retention"
)

// Store is the books of one participant. All of it is lost with the process.
type Store struct {
	now         func() time.Time
	incarnation string

	mu         sync.Mutex
	operations map[book.ID]book.Stored
	// refunds holds the applied refund of each debit: at most one.
	refunds  map[book.ID]book.Stored
	accounts map[book.AccountID]book.Account
	events   []book.Event
	// owner is whose books they are.
	owner names.Participant
	// batches counts those that stored something: the high-water mark.
	batches   int64
	retention retention.Books
	// reports are the orchestrators', by name.
	reports map[string]retention.Report
}

var _ store.Store = (*Store)(nil)

// New makes empty books. now is the database's clock; its instant at the start
// also names the incarnation, so that the same run gives the same name.
func New(now func() time.Time) *Store {
	sum := sha256.Sum256([]byte("giro/mem/" + now().UTC().Format(time.RFC3339Nano)))
	return &Store{
		now:         now,
		incarnation: hex.EncodeToString(sum[:16]),
		operations:  map[book.ID]book.Stored{},
		refunds:     map[book.ID]book.Stored{},
		accounts:    map[book.AccountID]book.Account{},
		reports:     map[string]retention.Report{},
	}
}

// Apply implements store.Store. The book works on a copy: a batch that cannot be
// saved changes nothing.
func (s *Store) Apply(ctx context.Context, operations []book.Operation, limits book.Limits) ([]book.Answer, error) {
	if len(operations) > book.BatchSizeMax {
		return nil, fmt.Errorf("mem: %d operations in a batch of at most %d", len(operations), book.BatchSizeMax)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: nothing was begun: %w", store.ErrTransient, err)
	}
	answers, changes := book.Decide(s.view(operations), operations, limits)
	if err := s.guard(changes); err != nil {
		return nil, err
	}
	s.save(changes)
	return answers, nil
}

// view copies what the book may see of the batch's rows.
func (s *Store) view(operations []book.Operation) *book.View {
	v := &book.View{
		Now:        s.clock(),
		Retention:  s.retention,
		Zone:       store.Zone,
		Operations: map[book.ID]book.Stored{},
		Refunds:    map[book.ID]book.Stored{},
		Accounts:   map[book.AccountID]book.Account{},
	}
	for _, id := range book.Keys(operations) {
		if stored, known := s.operations[id]; known {
			v.Operations[id] = stored
		}
	}
	for _, id := range book.Debits(operations) {
		if refund, known := s.refunds[id]; known {
			v.Refunds[id] = refund
		}
	}
	for _, id := range book.Accounts(operations, v.Operations) {
		if account, exists := s.accounts[id]; exists {
			v.Accounts[id] = account
		}
	}
	return v
}

// guard refuses what a database's constraints refuse, before anything is saved.
func (s *Store) guard(changes book.Changes) error {
	for _, o := range changes.Operations {
		if _, known := s.operations[o.ID()]; known {
			return fmt.Errorf("mem: operation %s is stored already", o.Key)
		}
		moves := o.Kind == book.Debit || o.Kind == book.Credit || o.Kind == book.Deposit || o.Kind == book.Withdraw || o.Kind == book.JournalLine
		if moves && o.Outcome != book.Cancelled && o.Amount <= 0 {
			return fmt.Errorf("mem: operation %s has amount %d", o.Key, o.Amount)
		}
		if _, refunded := s.refunds[o.DebitID()]; refunded && appliedRefund(o) {
			return fmt.Errorf("mem: debit %s is refunded already", o.DebitKey)
		}
	}
	for _, a := range slices.Concat(changes.Opened, changes.Changed, changes.Amended) {
		if a.Balance < a.Floor {
			return fmt.Errorf("mem: account %s would have %d, below its floor %d", a.Account, a.Balance, a.Floor)
		}
	}
	return nil
}

func (s *Store) save(changes book.Changes) {
	for _, o := range changes.Operations {
		s.operations[o.ID()] = o
		if appliedRefund(o) {
			s.refunds[o.DebitID()] = o
		}
	}
	for _, a := range changes.Opened {
		s.accounts[a.AccountID] = a
	}
	for _, a := range slices.Concat(changes.Changed, changes.Amended) {
		s.accounts[a.AccountID] = a
	}
	s.events = append(s.events, changes.Events...)
	if !changes.Empty() {
		s.batches++
	}
}

// Events gives the events in the order in which they were committed.
func (s *Store) Events() []book.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]book.Event(nil), s.events...)
}

// Claim implements store.Store.
func (s *Store) Claim(ctx context.Context, name names.Participant) (names.Participant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owner == "" && ctx.Err() == nil {
		s.owner = name
	}
	return s.owner, ctx.Err()
}

// Close implements store.Store.
func (s *Store) Close() error { return nil }

// clock is the instant as the databases keep it: UTC, whole microseconds.
func (s *Store) clock() time.Time { return s.now().UTC().Truncate(time.Microsecond) }

func appliedRefund(o book.Stored) bool { return o.Kind.Once() && o.Outcome == book.Applied }
