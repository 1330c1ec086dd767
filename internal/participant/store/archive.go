package store

import (
	"slices"
	"time"

	"giro/internal/participant/book"
	"giro/internal/stepkey"
)

// Batch is what one call of Archive may take.
type Batch struct {
	Archived
	// Old are the operations that are older than the horizon.
	Old []book.Stored
}

// lastKey is the highest key.
var lastKey = stepkey.StepKey(slices.Repeat([]byte{0xff}, len(stepkey.StepKey{})))

// PickBatch picks from a page of operations, in order, of which limit were asked for.
// The keys of old transfers come first within each tenant: what follows is passed
// over, and the next batch begins with the next tenant.
func PickBatch(page []book.Stored, limit int, before time.Time) Batch {
	var b Batch
	end := stepkey.From(before)
	for i, o := range page {
		if !o.Key.Less(end) {
			b.Next = book.ID{Tenant: o.Tenant, Key: lastKey}
			return b
		}
		b.Seen = i + 1
		if o.Archivable(before) {
			b.Old = append(b.Old, o)
		}
	}
	if len(page) >= min(limit, book.ArchiveBatchMax) && len(page) > 0 {
		b.Next = page[len(page)-1].ID()
	}
	return b
}

// Unsayable says that a statement of from <= time < to (zero: no bound) would need
// lines that were archived, given the account's brought-forward line (zero: none).
func Unsayable(forward book.Stored, from, to time.Time) bool {
	until := forward.FirstTime
	return forward.Seq > 0 && (!from.IsZero() && !from.After(until) || !to.IsZero() && !to.After(until))
}

// Complete says that a page of an account's lines after a place and up to last has all
// of them: numbers have no gaps, unless lines were archived.
func Complete(lines []book.Stored, after Place, last int64, limit int) bool {
	if int64(len(lines)) != max(0, min(int64(limit), last-after.Seq)) {
		return false
	}
	for i, l := range lines {
		if l.Seq != after.Seq+int64(i)+1 || l.Kind == book.BroughtForward {
			return false
		}
	}
	return true
}
