//go:build !unix

package pgserver

import "syscall"

const folderPrefix = "giro-pg-"

// owner is the ordinary user that the server runs as; here always the caller's.
type owner struct{ uid, gid int }

func ordinaryUser() (*owner, error) { return nil, nil }

func runAs(*syscall.SysProcAttr, *owner) {}

func lockFolder(string) (unlock func(), err error) { return func() {}, nil }

func removeOrphans(string) {}
