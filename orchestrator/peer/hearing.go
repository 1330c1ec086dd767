package peer

import (
	"log/slog"
	"sync"
	"time"
)

// repeatAfter is how long a participant is silent before that is told again, and
// the least time between two times of telling it.
const repeatAfter = time.Minute

// hearing tells people when a participant stops answering, that it still does not,
// and when it answers again: once each, not with every call.
type hearing struct {
	logger *slog.Logger
	now    func() time.Time

	mu sync.Mutex
	// since is when the first call after an answer brought none; zero: it answers.
	since time.Time
	// toldAt is when its silence was last told; told: it was, this time.
	toldAt time.Time
	told   bool
}

func (h *hearing) silent(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	if h.since.IsZero() {
		h.since, h.told = now, false
	}
	if !h.toldAt.IsZero() && now.Sub(h.toldAt) < repeatAfter {
		return
	}
	h.toldAt, h.told = now, true
	h.logger.Warn("a participant does not answer; what was asked is not known and is asked again",
		"seconds", now.Sub(h.since).Seconds(), "error", reason(err))
}

func (h *hearing) answered() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.told {
		h.logger.Info("a participant answers again", "seconds", h.now().Sub(h.since).Seconds())
	}
	h.since, h.told = time.Time{}, false
}
