//go:build unix

package archive

import (
	"errors"
	"os"
	"syscall"
)

// lock keeps the file to this process, until it is closed or the process ends.
func lock(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrInUse
	}
	return err
}
