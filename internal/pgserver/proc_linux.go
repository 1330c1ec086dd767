package pgserver

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// dieWithParent has the kernel end the server when this process dies, however
// it dies. SIGQUIT is PostgreSQL's immediate shutdown: unlike SIGKILL it takes
// the children and the shared memory along.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr.Pdeathsig = syscall.SIGQUIT
	// Ctrl-C in a terminal is for the caller, who stops the server when he is done with it.
	cmd.SysProcAttr.Setpgid = true
}

// killTree ends the postmaster and its children at once. It is halted first, so
// that it starts no new child between the look and the kill.
func killTree(postmaster *os.Process) {
	// Errors mean that a process is gone already, which is what is wanted.
	_ = postmaster.Signal(syscall.SIGSTOP)
	children := childrenOf(postmaster.Pid)
	_ = postmaster.Kill()
	for _, pid := range children {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// childrenOf reads /proc: the children have process groups of their own, so
// that no signal to a group reaches them.
func childrenOf(parent int) []int {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	var pids []int
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// "pid (name) state ppid ...", and the name may hold anything but the last ')'.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 || string(fields[1]) != strconv.Itoa(parent) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
