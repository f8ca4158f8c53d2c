package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Process is a program that can be ended in every way and started again with
// the same arguments. Signals reach its children too: PostgreSQL has one for
// each connection. Its output goes to a file, all runs one after another.
type Process struct {
	name    string
	path    string
	args    []string
	env     []string // nil is the caller's
	as      *syscall.Credential
	logPath string

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended
	exit int           // valid then
}

var errRunning = errors.New("is running already")

// start runs the program; it may not be ready yet.
func (p *Process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil && !p.endedLocked() {
		return fmt.Errorf("cannot start %s: it %w", p.name, errRunning)
	}
	log, err := os.OpenFile(p.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cannot start %s: %w", p.name, err)
	}
	defer log.Close()                                                   //nolint:errcheck // the child has its own
	cmd := exec.CommandContext(context.Background(), p.path, p.args...) // it outlives whoever starts it
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = filepath.Dir(p.logPath), p.env, log, log
	cmd.SysProcAttr = processAttributes(p.as)
	started, done := make(chan error), make(chan struct{})
	go func() {
		// The child dies with the thread that began it, which must not end
		// earlier: one does when a goroutine that was locked to it returns.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if started <- err; err != nil {
			return
		}
		_ = cmd.Wait() // the state tells all
		p.mu.Lock()
		p.exit = cmd.ProcessState.ExitCode()
		p.mu.Unlock()
		close(done)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("cannot start %s: %w", p.name, err)
	}
	p.cmd, p.done = cmd, done
	return nil
}

func (p *Process) endedLocked() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Running reports whether the process was started and has not ended.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd != nil && !p.endedLocked()
}

// Wait waits until the process has ended and gives its exit code; -1 is that
// of one ended by a signal.
func (p *Process) Wait(ctx context.Context) (int, error) {
	p.mu.Lock()
	done := p.done
	p.mu.Unlock()
	if done == nil {
		return 0, fmt.Errorf("%s was never started", p.name)
	}
	select {
	case <-done:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.exit, nil
	case <-ctx.Done():
		return 0, fmt.Errorf("%s has not ended: %w", p.name, ctx.Err())
	}
}

// Kill ends the process and its children at this instant (kill -9) and waits
// until they are gone. One that has ended is left alone.
func (p *Process) Kill() error {
	if !p.Running() {
		return nil
	}
	family, err := p.freeze()
	if err != nil {
		if !p.Running() {
			return nil // it ended by itself meanwhile
		}
		return err
	}
	for _, pid := range family {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("cannot kill %s: %w", p.name, err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), dyingTime)
	defer cancel()
	if _, err := p.Wait(ctx); err != nil {
		return err
	}
	for _, pid := range family { // orphans are reaped by someone else, perhaps never
		for !gone(pid) {
			if ctx.Err() != nil {
				return fmt.Errorf("a child of %s does not end", p.name)
			}
			time.Sleep(pollEvery)
		}
	}
	return nil
}

const (
	dyingTime = 10 * time.Second
	pollEvery = 5 * time.Millisecond
)

// freeze stops the process and its children and gives them all. A process that
// is frozen begets no more children, so they are complete, and they stay its
// children: those of a dead one could not be found.
func (p *Process) freeze() (family []int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || p.endedLocked() {
		return nil, fmt.Errorf("cannot stop %s: it does not run", p.name)
	}
	parent := p.cmd.Process.Pid
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return nil, fmt.Errorf("cannot stop %s: %w", p.name, err)
	}
	for deadline := time.Now().Add(dyingTime); !stopped(parent); time.Sleep(pollEvery / 5) {
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%s does not stop", p.name)
		}
	}
	children, err := childrenOf(parent)
	if err != nil {
		return nil, fmt.Errorf("cannot find the children of %s: %w", p.name, err)
	}
	for _, pid := range children {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil && !errors.Is(err, syscall.ESRCH) {
			return nil, fmt.Errorf("cannot stop a child of %s: %w", p.name, err)
		}
	}
	return append(children, parent), nil
}

// Stop freezes the process and its children (SIGSTOP).
func (p *Process) Stop() error {
	_, err := p.freeze()
	return err
}

// Continue lets a stopped process go on (SIGCONT).
func (p *Process) Continue() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || p.endedLocked() {
		return fmt.Errorf("cannot continue %s: it does not run", p.name)
	}
	parent := p.cmd.Process.Pid
	children, err := childrenOf(parent)
	if err != nil {
		return fmt.Errorf("cannot find the children of %s: %w", p.name, err)
	}
	for _, pid := range append(children, parent) {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("cannot continue %s: %w", p.name, err)
		}
	}
	return nil
}

// Terminate asks the process itself to end (SIGTERM).
func (p *Process) Terminate() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return fmt.Errorf("%s was never started", p.name)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("cannot terminate %s: %w", p.name, err)
	}
	return nil
}

// Log is everything that the process has written so far, in all its runs.
func (p *Process) Log() string {
	text, err := os.ReadFile(p.logPath)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "cannot read the log: " + err.Error()
	}
	return string(text)
}

// childrenOf reads the process table.
func childrenOf(parent int) (pids []int, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("this needs Linux: %w", err)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if of, state := lineage(pid); of == parent && state != 'Z' {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// lineage gives a process's parent and state; 0 when there is no such process.
func lineage(pid int) (parent int, state byte) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0
	}
	// pid (name) state parent ...; the name may hold anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0, 0
	}
	parent, err = strconv.Atoi(string(fields[1]))
	if err != nil {
		return 0, 0
	}
	return parent, fields[0][0]
}

func stopped(pid int) bool {
	_, state := lineage(pid)
	return state == 'T' || state == 0 || state == 'Z'
}

func gone(pid int) bool {
	_, state := lineage(pid)
	return state == 0 || state == 'Z'
}
