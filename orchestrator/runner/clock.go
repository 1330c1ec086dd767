package runner

import (
	"sync"
	"time"
)

// clock is the database's clock as last read, carried on by this process's
// monotonic one. A reading takes a round trip, so that the next one may seem to be
// a little earlier: then it stands still until it has been caught up with. What is
// further back was set back, and is followed at once: nothing may wait for the old
// time to come again.
type clock struct {
	mu   sync.Mutex
	base time.Time
	at   time.Time
	last time.Time
}

// standstillMax is the most that the clock stands still.
const standstillMax = time.Second

func (c *clock) set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base, c.at = now, time.Now()
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.base.Add(time.Since(c.at)).Truncate(time.Microsecond)
	if now.After(c.last) || c.last.Sub(now) > standstillMax {
		c.last = now
	}
	return c.last
}
