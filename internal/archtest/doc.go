// Package archtest holds the house rules as a test: who may import whom, what
// pure code may do, and how long things may get. Each rule is one row with its
// reason and what to do instead, and each row is also shown a small tree that
// breaks it, so that no rule passes because it cannot fail.
//
// The rules read every file, whatever system it is built for.
package archtest
