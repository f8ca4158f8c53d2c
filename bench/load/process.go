package load

import (
	"fmt"
	"os"
	"time"

	"github.com/prometheus/procfs"
)

// Process is a process whose processor time a run reports, by name.
type Process struct {
	Name string
	PID  int
	// Tree adds the time of all its descendants, including ended ones: a PostgreSQL server has a
	// process for every connection.
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
	children, err := childrenOfAll()
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		s, err := readStat(p.PID)
		if err != nil {
			return nil, fmt.Errorf("cannot read the processor time of %s: %w", p.Name, err)
		}
		if p.Tree {
			u[p.Name] += treeTime(s, children)
		} else {
			u[p.Name] += time.Duration(s.UTime+s.STime) * tick
		}
	}
	return u, nil
}

// Generator is the load generator's name among the processes.
const Generator = "generator"

// treeTime adds up the time used by a process, its descendants, and their ended children.
func treeTime(s procfs.ProcStat, children map[int][]procfs.ProcStat) time.Duration {
	total := time.Duration(int(s.UTime+s.STime)+s.CUTime+s.CSTime) * tick
	for _, child := range children[s.PID] {
		total += treeTime(child, children)
	}
	return total
}

func readStat(pid int) (procfs.ProcStat, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}, err
	}
	return p.Stat()
}

// childrenOfAll returns all processes by their parents.
func childrenOfAll() (map[int][]procfs.ProcStat, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, err
	}
	children := make(map[int][]procfs.ProcStat)
	for _, p := range all {
		if s, err := p.Stat(); err == nil { // else it has just ended
			children[s.PPID] = append(children[s.PPID], s)
		}
	}
	return children, nil
}

// Resident returns a process's memory in bytes.
func Resident(pid int) (int, error) {
	s, err := readStat(pid)
	return s.ResidentMemory(), err
}
