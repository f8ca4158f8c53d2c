package load

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// SetApart pins this process, the generator, to one processor and the others to
// the rest, so that an open loop's load does not slow its generator. It does
// nothing on a machine with only one.
func SetApart(processes []Process) error {
	var mine, theirs unix.CPUSet
	last := runtime.NumCPU() - 1
	if last == 0 {
		return nil
	}
	mine.Set(last)
	for cpu := range last {
		theirs.Set(cpu)
	}
	if err := pin(os.Getpid(), &mine); err != nil {
		return err
	}
	for _, p := range processes {
		if err := pin(p.PID, &theirs); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return nil
}

// pin binds all threads of a process, and those that they will make.
func pin(pid int, cpus *unix.CPUSet) error {
	threads, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*")
	if err != nil || len(threads) == 0 {
		return fmt.Errorf("cannot find the threads of process %d: %w", pid, err)
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(filepath.Base(thread))
		if err != nil {
			return fmt.Errorf("cannot read %s: %w", thread, err)
		}
		if err := unix.SchedSetaffinity(id, cpus); err != nil {
			return fmt.Errorf("cannot bind thread %d to processors: %w", id, err)
		}
	}
	return nil
}
