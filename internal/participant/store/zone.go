package store

import (
	"sync"
	"time"
	_ "time/tzdata" // so that every machine knows the same zones
)

// zones holds a *time.Location for each name that was asked for, nil for one that
// does not exist.
var zones sync.Map

// Zone gives a time zone by its IANA name, or nil if there is none.
func Zone(name string) *time.Location {
	if known, ok := zones.Load(name); ok {
		return known.(*time.Location)
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" {
		// It is not kept: names that are not zones are without end.
		return nil
	}
	zones.Store(name, zone)
	return zone
}
