package instructions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// counter counts the instructions that processes execute in user mode.
type counter struct {
	what string
	// under is the command that programs are run with; it may be empty.
	under []string
	// begin begins to count; what it returns ends that, once.
	begin func(ctx context.Context, pids []int) (end func() (uint64, error), err error)
	// sinceMark, of the emulator, returns what ended processes executed since their mark.
	sinceMark func(pids []int) (uint64, error)
}

// findCounter returns the best one that works here.
func findCounter(ctx context.Context, dir string) (counter, error) {
	if end, err := countByPerf(ctx, []int{os.Getpid()}); err == nil {
		if n, err := end(); err == nil && n > 0 {
			return counter{what: "the processor's counters (perf stat, instructions:u)", begin: countByPerf}, nil
		}
	}
	if _, err := exec.LookPath("vgdb"); err != nil {
		return counter{}, fmt.Errorf("perf stat counts no instructions here, and valgrind is not installed: %w", err)
	}
	return counter{
		what: "emulated (valgrind --tool=callgrind)",
		under: []string{
			"valgrind", "-q", "--tool=callgrind", "--trace-children=yes", "--zero-before=" + markFunction,
			"--callgrind-out-file=" + filepath.Join(dir, "%p"),
		},
		begin:     emulator{dir}.begin,
		sinceMark: emulator{dir}.sinceMark,
	}, nil
}

// countByPerf uses the processor's own counters, which virtual machines often lack.
func countByPerf(ctx context.Context, pids []int) (end func() (uint64, error), err error) {
	list := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(pids)), ","), "[]")
	perf := exec.CommandContext(ctx, "perf", "stat", "-x,", "-e", "instructions:u", "-p", list)
	var text bytes.Buffer
	perf.Stderr = &text
	if err := perf.Start(); err != nil {
		return nil, fmt.Errorf("cannot start perf: %w", err)
	}
	time.Sleep(200 * time.Millisecond) // until perf is attached
	return func() (uint64, error) {
		if err := perf.Process.Signal(os.Interrupt); err != nil {
			return 0, fmt.Errorf("cannot end perf: %w", err)
		}
		_ = perf.Wait() // perf ends by the signal, which is an error here
		count, _, _ := strings.Cut(strings.TrimSpace(text.String()), ",")
		n, err := strconv.ParseUint(count, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("perf counted nothing: %q", text.String())
		}
		return n, nil
	}, nil
}

// emulator executes every instruction in software. It writes a file for each process
// whenever it is asked to, with the instructions since it was asked before.
type emulator struct{ dir string }

func (e emulator) begin(ctx context.Context, pids []int) (end func() (uint64, error), err error) {
	dump := func() (total uint64, err error) {
		for _, pid := range pids {
			n, err := e.dump(ctx, pid)
			if err != nil {
				return 0, fmt.Errorf("the emulator counted nothing: %w", err)
			}
			total += n
		}
		return total, nil
	}
	_, err = dump()
	return dump, err
}

func (e emulator) dump(ctx context.Context, pid int) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, dumpTime)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "vgdb", "--pid="+strconv.Itoa(pid), "dump").CombinedOutput(); err != nil {
		return 0, fmt.Errorf("process %d: %w: %s", pid, err, out)
	}
	return e.last(pid)
}

// dumpTime is far above what a dump takes.
const dumpTime = 20 * time.Second

// last returns the count in a process's newest file.
func (e emulator) last(pid int) (uint64, error) {
	files, err := filepath.Glob(filepath.Join(e.dir, strconv.Itoa(pid)+".*"))
	if err != nil || len(files) == 0 {
		return 0, errors.Join(errors.New("the emulator wrote nothing"), err)
	}
	return take(files[0])
}

// sinceMark waits for the files that processes write when they end.
func (e emulator) sinceMark(pids []int) (sum uint64, err error) {
	for deadline := time.Now().Add(dumpTime); len(pids) > 0; {
		name := filepath.Join(e.dir, strconv.Itoa(pids[0]))
		text, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(text, []byte("\ntotals: ")) {
			if time.Now().After(deadline) {
				return 0, fmt.Errorf("process %d ended without a count", pids[0])
			}
			time.Sleep(50 * time.Millisecond)
			continue
		}
		n, err := take(name)
		if err != nil {
			return 0, err
		}
		sum += n
		pids = pids[1:]
	}
	return sum, nil
}

// take returns the count in a file of the emulator's and removes the file: process ids are
// used again.
func take(name string) (uint64, error) {
	text, err := os.ReadFile(name)
	if err == nil {
		err = os.Remove(name)
	}
	if err != nil {
		return 0, fmt.Errorf("cannot take a count: %w", err)
	}
	_, count, _ := strings.Cut(string(text), "\nsummary: ")
	count, _, _ = strings.Cut(count, "\n")
	n, err := strconv.ParseUint(count, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the emulator counted nothing: %w", err)
	}
	return n, nil
}
