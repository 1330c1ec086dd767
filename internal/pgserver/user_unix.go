//go:build unix

package pgserver

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	folderPrefix = "giro-pg-"
	lockName     = "lock"
	// orphanAge keeps a folder that has just been made, and not been locked yet, safe.
	orphanAge = time.Minute
)

// owner is the ordinary user that the server runs as.
type owner struct{ uid, gid int }

// ordinaryUser picks who runs the server: nil means this process's own user.
// PostgreSQL refuses to run as root.
func ordinaryUser() (*owner, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.Atoi(u.Uid)
		if err != nil || uid <= 0 || uid > math.MaxInt32 {
			continue
		}
		gid, err := strconv.Atoi(u.Gid)
		if err != nil || gid < 0 || gid > math.MaxInt32 {
			continue
		}
		return &owner{uid: uid, gid: gid}, nil
	}
	return nil, errors.New("pgserver: this process is root, as which PostgreSQL does not run, and there is no user postgres or nobody to run it as")
}

func runAs(attr *syscall.SysProcAttr, o *owner) {
	if o == nil {
		return
	}
	attr.Credential = &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.gid)} //nolint:gosec // checked by ordinaryUser
}

// lockFolder marks a folder as in use for as long as this process lives.
func lockFolder(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return func() { f.Close() }, nil
}

// removeOrphans removes the folders of processes that were killed: those whose
// lock nobody holds. It is a courtesy, so what cannot be removed is left.
func removeOrphans(temp string) {
	locks, err := filepath.Glob(filepath.Join(temp, folderPrefix+"*", lockName))
	if err != nil {
		return
	}
	for _, path := range locks {
		info, err := os.Lstat(path)
		if err != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) < orphanAge {
			continue
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue // another user's
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(filepath.Dir(path))
		}
		f.Close()
	}
}
