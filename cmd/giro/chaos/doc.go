// Package chaos holds the test of several replicas of one participant on one
// database, whose transactions fail, whose COMMITs lose their answers, and which
// are killed, while many callers ask.
package chaos
