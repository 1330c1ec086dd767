package store

import (
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // so that every machine knows the same zones
)

// zones holds a *time.Location for each name that was asked for, nil for one that
// does not exist.
var zones sync.Map

// proper leaves out what some machines have among their zones and others have not.
func proper(name string) bool {
	switch name {
	case "", "Local", "localtime", "posixrules", "Factory":
		return false
	}
	return !strings.HasPrefix(name, "posix/") && !strings.HasPrefix(name, "right/")
}

// Zone gives a time zone by its IANA name, or nil if there is none.
func Zone(name string) *time.Location {
	if known, ok := zones.Load(name); ok {
		return known.(*time.Location)
	}
	zone, err := time.LoadLocation(name)
	if err != nil || !proper(name) {
		// It is not kept: names that are not zones are without end.
		return nil
	}
	zones.Store(name, zone)
	return zone
}
