// Package storetest is the suite that every implementation of store.Store
// passes. A change of behaviour starts here.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"giro/internal/fingerprint"
	"giro/internal/money"
	"giro/internal/names"
	"giro/orchestrator/saga"
	"giro/orchestrator/store"
)

const (
	tenant  names.Tenant = "acme"
	other   names.Tenant = "globex"
	owner                = "replica-1"
	another              = "replica-2"
	gone                 = "replica-that-is-gone"
)

// Run runs the suite. open gives an empty store, new at each call, and closes it
// when the test ends.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, store.Store)
	}{
		{"InsertOnce", insertOnce},
		{"InsertTwice", insertTwice},
		{"InsertTwiceInABatch", insertTwiceInABatch},
		{"InsertExpiry", insertExpiry},
		{"InsertInCancelling", insertInCancelling},
		{"InsertManyInOrder", insertManyInOrder},
		{"InsertRefusesWhatCannotBe", insertRefuses},
		{"InsertHostileText", insertHostileText},
		{"InsertLeavesNothingShared", nothingShared},
		{"LookupUnknown", lookupUnknown},
		{"TestC46TenantsApart", tenantsApart},
		{"SaveWritesWhatChanges", saveWrites},
		{"SaveKeepsWhatNeverChanges", saveKeeps},
		{"SaveComparesVersionAndEpoch", saveCompares},
		{"SaveOneItemLoses", saveOneLoses},
		{"SaveTwiceInABatch", saveTwiceInABatch},
		{"SaveUnknown", saveUnknown},
		{"SaveNeverChangesAFinalState", saveFinal},
		{"SaveMany", saveMany},
		{"FinalEventOnce", finalEventOnce},
		{"FinalEventNotWithoutSave", finalEventNotWithoutSave},
		{"AskCancel", askCancel},
		{"AskCancelFinal", askCancelFinal},
		{"AskCancelUnknown", askCancelUnknown},
		{"ClaimOnlyWhatNobodyCarriesOut", claimOnly},
		{"ClaimOldestFirstUpToLimit", claimOldestFirst},
		{"ClaimDoesNotStarve", claimDoesNotStarve},
		{"ClaimOwnStrays", claimOwnStrays},
		{"ClaimFencesTheOldOwner", claimFences},
		{"CancelsAskedOfTheOwners", cancelsAsked},
		{"LeaseEndsByItself", leaseEnds},
		{"RenewTellsTheClock", renewTellsClock},
		{"ListPages", listPages},
		{"UnfinishedPages", unfinishedPages},
		{"Identity", identity},
		{"FinalEventsPages", finalEventsPages},
		{"CallerThatHasGone", callerGone},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
	RunShared(t, func(t *testing.T) []store.Store { return []store.Store{open(t)} })
}

// RunShared runs what many callers do at once. open gives one or more stores on
// one database, empty and new at each call.
func RunShared(t *testing.T, open func(t *testing.T) []store.Store) {
	t.Run("TestC11ManyInsertOneKey", func(t *testing.T) { manyInsertOneKey(t, open(t)) })
	t.Run("TestC51WhatWasAnsweredIsFound", func(t *testing.T) { answeredIsFound(t, open(t)) })
	t.Run("ManyInsertCrossingBatches", func(t *testing.T) { crossingBatches(t, open(t)) })
	t.Run("ManySaveOneRow", func(t *testing.T) { manySaveOneRow(t, open(t)) })
	t.Run("ClaimersNeverShare", func(t *testing.T) { claimersNeverShare(t, open(t)) })
}

func ctx(t *testing.T) context.Context {
	t.Helper()
	c, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return c
}

func contents(amount money.Minor) fingerprint.Contents {
	return fingerprint.Contents{Source: "accounts/alice", Destination: "ledger/bob", Amount: amount, Currency: "USD"}
}

func fresh(tenant names.Tenant, key names.TransferKey) store.New {
	return store.New{Saga: saga.New(saga.ID{Tenant: tenant, Key: key}, contents(4000), false)}
}

func freshMany(prefix string, count int) []store.New {
	news := make([]store.New, count)
	for i := range news {
		news[i] = fresh(tenant, names.TransferKey(fmt.Sprintf("%s-%05d", prefix, i)))
	}
	return news
}

// insert stores sagas that must be new.
func insert(t *testing.T, s store.Store, owner string, news ...store.New) []saga.Saga {
	t.Helper()
	inserted, err := s.Insert(ctx(t), owner, news)
	if err != nil {
		t.Fatalf("Insert: %v", err)
	}
	if len(inserted) != len(news) {
		t.Fatalf("Insert of %d gave %d results", len(news), len(inserted))
	}
	sagas := make([]saga.Saga, len(inserted))
	for i, in := range inserted {
		if !in.Created {
			t.Fatalf("Insert of %s: it was there before", in.Saga.ID.Key)
		}
		sagas[i] = in.Saga
	}
	return sagas
}

func lookup(t *testing.T, s store.Store, id saga.ID) saga.Saga {
	t.Helper()
	found, err := s.Lookup(ctx(t), id)
	if err != nil {
		t.Fatalf("Lookup %s/%s: %v", id.Tenant, id.Key, err)
	}
	return found
}

func write(s saga.Saga) store.Write {
	return store.Write{Saga: s, FromVersion: s.Version, FromEpoch: s.Epoch, FromCreatedAt: s.CreatedAt}
}

// save writes sagas on the versions that they have; all must win.
func save(t *testing.T, s store.Store, sagas ...saga.Saga) []saga.Saga {
	t.Helper()
	writes := make([]store.Write, len(sagas))
	for i, item := range sagas {
		writes[i] = write(item)
	}
	saved := trySave(t, s, writes...)
	rows := make([]saga.Saga, len(saved))
	for i := range saved {
		if !saved[i].OK {
			t.Fatalf("Save of %s lost to %+v", sagas[i].ID.Key, saved[i].Saga)
		}
		rows[i] = saved[i].Saga
	}
	return rows
}

func trySave(t *testing.T, s store.Store, writes ...store.Write) []store.Saved {
	t.Helper()
	saved, err := s.Save(ctx(t), writes)
	if err != nil {
		t.Fatalf("Save: %v", err)
	}
	if len(saved) != len(writes) {
		t.Fatalf("Save of %d gave %d results", len(writes), len(saved))
	}
	return saved
}

func claim(t *testing.T, s store.Store, owner string, limit int, strayAfter time.Duration) []saga.Saga {
	t.Helper()
	sagas, err := s.Claim(ctx(t), owner, limit, strayAfter)
	if err != nil {
		t.Fatalf("Claim: %v", err)
	}
	return sagas
}

func renew(t *testing.T, s store.Store, owner string, lease time.Duration) time.Time {
	t.Helper()
	now, err := s.Renew(ctx(t), owner, lease)
	if err != nil {
		t.Fatalf("Renew: %v", err)
	}
	return now
}

func release(t *testing.T, s store.Store, owner string) {
	t.Helper()
	if err := s.Release(ctx(t), owner); err != nil {
		t.Fatalf("Release: %v", err)
	}
}

// waitFor waits until the database's clock has reached the instant.
func waitFor(t *testing.T, s store.Store, at time.Time) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if !renew(t, s, "clock", time.Second).Before(at) {
			return
		}
	}
	t.Fatalf("the database's clock did not reach %s", at)
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got  %+v\n want %+v", what, got, want)
	}
}

func keys(sagas []saga.Saga) []names.TransferKey {
	list := make([]names.TransferKey, len(sagas))
	for i, s := range sagas {
		list[i] = s.ID.Key
	}
	return list
}

func finalEvents(t *testing.T, s store.Store) []store.FinalEvent {
	t.Helper()
	events, err := s.FinalEvents(ctx(t), "", store.EventPlace{}, 10_000)
	if err != nil {
		t.Fatalf("FinalEvents: %v", err)
	}
	return events
}

// together runs do on many goroutines that start at the same moment, spread over
// the stores.
func together(t *testing.T, stores []store.Store, count int, do func(s store.Store, i int) error) {
	t.Helper()
	var (
		ready, done sync.WaitGroup
		start       = make(chan struct{})
		failures    = make([]error, count)
	)
	for i := range count {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-start
			failures[i] = do(stores[i%len(stores)], i)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
	if err := errors.Join(failures...); err != nil {
		t.Fatal(err)
	}
}
