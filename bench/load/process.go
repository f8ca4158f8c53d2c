package load

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Process is a process whose processor time a run reports, by name.
type Process struct {
	Name string
	PID  int
	// Tree adds the time of all its descendants, of those that have ended too:
	// a PostgreSQL server is a process for every connection.
	Tree bool
}

// tick is the kernel's unit of processor time in /proc, on every architecture
// that Go runs on.
const tick = 10 * time.Millisecond

// usage is the processor time used so far, by the processes' names.
type usage map[string]time.Duration

func (u usage) since(before usage) map[string]time.Duration {
	used := make(map[string]time.Duration, len(u))
	for name, total := range u {
		used[name] = total - before[name]
	}
	return used
}

// sample reads the processor time that every process has used, and this one.
func sample(processes []Process) (usage, error) {
	all := append([]Process{{Name: Generator, PID: os.Getpid()}}, processes...)
	u := make(usage, len(all))
	var children map[int][]stat
	for _, p := range all {
		s, err := readStat(p.PID)
		if err != nil {
			return nil, fmt.Errorf("cannot read the processor time of %s: %w", p.Name, err)
		}
		if !p.Tree {
			u[p.Name] += s.own
			continue
		}
		if children == nil {
			if children, err = readChildren(); err != nil {
				return nil, err
			}
		}
		u[p.Name] += treeTime(s, children)
	}
	return u, nil
}

// Generator is the load generator's name among the processes.
const Generator = "generator"

func treeTime(s stat, children map[int][]stat) time.Duration {
	total := s.own + s.waitedFor
	for _, child := range children[s.pid] {
		total += treeTime(child, children)
	}
	return total
}

// stat is the content of /proc/PID/stat.
type stat struct {
	pid, parent int
	own         time.Duration
	waitedFor   time.Duration // of children that have ended
}

func readStat(pid int) (stat, error) {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, err
	}
	return parseStat(pid, content)
}

func parseStat(pid int, content []byte) (stat, error) {
	// The name, in parentheses, may hold anything; the rest is words.
	const parent, userTime, childrenTime, words = 1, 11, 13, 15
	rest := bytes.Fields(content[bytes.LastIndexByte(content, ')')+1:])
	if len(rest) < words {
		return stat{}, fmt.Errorf("/proc/%d/stat has only %d words", pid, len(rest))
	}
	s := stat{pid: pid}
	var err error
	number := func(word int) int {
		n, wordErr := strconv.Atoi(string(rest[word]))
		if wordErr != nil {
			err = fmt.Errorf("/proc/%d/stat: %w", pid, wordErr)
		}
		return n
	}
	s.parent = number(parent)
	s.own = time.Duration(number(userTime)+number(userTime+1)) * tick
	s.waitedFor = time.Duration(number(childrenTime)+number(childrenTime+1)) * tick
	return s, err
}

// readChildren returns all processes by their parents.
func readChildren() (map[int][]stat, error) {
	paths, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	children := make(map[int][]stat)
	for _, path := range paths {
		pid, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			continue
		}
		if s, err := readStat(pid); err == nil { // else it has just ended
			children[s.parent] = append(children[s.parent], s)
		}
	}
	return children, nil
}

// Resident returns a process's memory in bytes.
func Resident(pid int) (int64, error) {
	path := fmt.Sprintf("/proc/%d/statm", pid)
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	words := bytes.Fields(content) // total, resident, ...
	if len(words) < 2 {
		return 0, fmt.Errorf("%s is short", path)
	}
	pages, err := strconv.ParseInt(string(words[1]), 10, 64)
	return pages * int64(os.Getpagesize()), err
}
