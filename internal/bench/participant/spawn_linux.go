package main

import (
	"os/exec"
	"runtime"
	"syscall"
)

// spawn starts a process that dies with this one, however this one ends. The
// system ends it when the thread that started it ends, so that thread is kept
// for as long as the process runs. Ctrl-C in a terminal is for this program alone,
// which then stops the process when it is done with it.
func spawn(cmd *exec.Cmd) (<-chan struct{}, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error)
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
			close(done)
		}
	}()
	return done, <-started
}
