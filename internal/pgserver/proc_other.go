//go:build !linux

package pgserver

import (
	"os"
	"os/exec"
)

// dieWithParent does nothing here: only Linux can tie a child's life to its
// parent's. A server whose caller was killed has to be ended by hand.
func dieWithParent(*exec.Cmd) {}

// killTree ends the postmaster. Its children notice within moments that it is
// gone and leave; Restart waits for that.
func killTree(postmaster *os.Process) {
	_ = postmaster.Kill() // an error means that it is gone already
}
