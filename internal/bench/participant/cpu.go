package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU time in /proc, the same on every Linux.
const tick = 10 * time.Millisecond

// The process groups whose CPU time is told.
const (
	groupPostgres = "postgres"
	groupService  = "service"
	groupProgram  = "program"
	groupPgbench  = "pgbench"
)

// cpuTimes are how much CPU time each group has used, and the whole machine.
type cpuTimes struct {
	at      time.Time
	groups  map[string]time.Duration
	machine time.Duration
}

// readCPU reads the groups' times. Children count, those that have ended too: a
// PostgreSQL backend lives as long as its connection.
func readCPU(groups map[string]int) cpuTimes {
	times := cpuTimes{at: time.Now(), groups: map[string]time.Duration{}, machine: machineTime()}
	for name, pid := range groups {
		times.groups[name] = treeTime(pid, name == groupPostgres)
	}
	return times
}

// treeTime is that of a process and, where it has any, of its children. A child
// that ends between two looks would be missed or counted twice, so it looks again
// until none has.
func treeTime(pid int, parent bool) time.Duration {
	path := fmt.Sprintf("/proc/%d/stat", pid)
	own, err := readStat(path)
	for err == nil && parent {
		children := childrenTime(pid)
		var again stat
		if again, err = readStat(path); again.ended == own.ended {
			return again.self + again.ended + children
		}
		own = again
	}
	return own.self // 0 where there is no /proc: the report has no CPU times then
}

func childrenTime(parent int) time.Duration {
	var total time.Duration
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well formed
	for _, path := range stats {
		if s, err := readStat(path); err == nil && s.parent == parent {
			total += s.self
		}
	}
	return total
}

// stat is what /proc tells of one process.
type stat struct {
	parent int
	// self is its own time, ended that of children it has waited for.
	self, ended time.Duration
}

func readStat(path string) (stat, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return stat{}, err
	}
	return parseStat(raw)
}

// parseStat reads "pid (name) state ppid ...", where the name may hold anything but
// the last ')'.
func parseStat(raw []byte) (stat, error) {
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	if len(fields) < 15 {
		return stat{}, fmt.Errorf("stat of a process has %d fields", len(fields))
	}
	var n [5]int64
	for i, place := range []int{1, 11, 12, 13, 14} {
		var err error
		if n[i], err = strconv.ParseInt(fields[place], 10, 64); err != nil {
			return stat{}, err
		}
	}
	return stat{parent: int(n[0]), self: time.Duration(n[1]+n[2]) * tick, ended: time.Duration(n[3]+n[4]) * tick}, nil
}

// machineTime is what all processors together have worked, for us and for others.
func machineTime() time.Duration {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	return parseMachine(string(raw))
}

// parseMachine adds up user, nice, system, irq, softirq and steal; idle and iowait
// are no work.
func parseMachine(raw string) time.Duration {
	line, _, _ := strings.Cut(raw, "\n")
	fields := strings.Fields(line)
	var total int64
	for _, place := range []int{1, 2, 3, 6, 7, 8} {
		if place >= len(fields) {
			return 0
		}
		n, err := strconv.ParseInt(fields[place], 10, 64)
		if err != nil {
			return 0
		}
		total += n
	}
	return time.Duration(total) * tick
}

// spent gives each group's microseconds for one operation, and how many processors
// others kept busy meanwhile.
func spent(before, after cpuTimes, operations int64) (micros map[string]float64, elsewhere float64) {
	micros = map[string]float64{}
	rest := after.machine - before.machine
	for name, end := range after.groups {
		used := end - before.groups[name]
		rest -= used
		if operations > 0 {
			micros[name] = float64(used.Microseconds()) / float64(operations)
		}
	}
	if length := after.at.Sub(before.at); length > 0 {
		elsewhere = max(0, rest.Seconds()/length.Seconds())
	}
	return micros, elsewhere
}
