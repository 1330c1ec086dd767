package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// machine is what the figures were taken on.
type machine struct {
	CPU        string `json:"cpu"`
	Processors int    `json:"processors"`
	Memory     string `json:"memory"`
	Kernel     string `json:"kernel"`
	FileSystem string `json:"file_system"`
	Go         string `json:"go"`
}

func readMachine(dir string) machine {
	return machine{
		CPU:        value(read("/proc/cpuinfo"), "model name"),
		Processors: runtime.NumCPU(),
		Memory:     value(read("/proc/meminfo"), "MemTotal"),
		Kernel:     strings.TrimSpace(read("/proc/sys/kernel/osrelease")),
		FileSystem: fileSystem(read("/proc/mounts"), dir),
		Go:         runtime.Version(),
	}
}

// read is a file of /proc, or nothing where there is none.
func read(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(raw)
}

// value is that of the first line "name : value".
func value(text, name string) string {
	for line := range strings.Lines(text) {
		if key, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}

// fileSystem is the type of the innermost mount that a folder lies in.
func fileSystem(mounts, dir string) string {
	best, kind := "", "unknown"
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		at := fields[1]
		if inside, err := filepath.Rel(at, dir); err == nil && inside != ".." && !strings.HasPrefix(inside, "../") && len(at) >= len(best) {
			best, kind = at, fields[2]
		}
	}
	return kind
}

// checkDisk refuses a folder in memory, where nothing that is forced to the disk
// takes time.
func checkDisk(kind string) error {
	if kind == "tmpfs" || kind == "ramfs" {
		return fmt.Errorf("the database would lie in memory (%s): give a folder on a disk with --dir", kind)
	}
	return nil
}

func loadAverage() string {
	if fields := strings.Fields(read("/proc/loadavg")); len(fields) >= 3 {
		return strings.Join(fields[:3], " ")
	}
	return "unknown"
}

// server is the database's version and what decides how durable and how fast it is.
type server struct {
	Version  string    `json:"version"`
	Settings []setting `json:"settings"`
}

// number is the version without the packager's words.
func (s server) number() string {
	number, _, _ := strings.Cut(s.Version, " ")
	return number
}

type setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

var settingNames = []string{"fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "wal_level",
	"data_checksums", "commit_delay", "shared_buffers", "max_wal_size", "checkpoint_timeout", "autovacuum"}

// readServer refuses a server that does not write durably.
func readServer(ctx context.Context, db *sql.DB) (server, error) {
	var s server
	if err := db.QueryRowContext(ctx, "show server_version").Scan(&s.Version); err != nil {
		return s, err
	}
	for _, name := range settingNames {
		one := setting{Name: name}
		if err := db.QueryRowContext(ctx, "show "+name).Scan(&one.Value); err != nil {
			return s, err
		}
		switch name {
		case "fsync", "synchronous_commit", "full_page_writes":
			if one.Value != "on" {
				return s, fmt.Errorf("%s is %s: figures of a server that may lose what it has committed are none", name, one.Value)
			}
		}
		s.Settings = append(s.Settings, one)
	}
	return s, nil
}
