package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// Process is a program that can be ended in every way and started again with the same arguments.
// Signals also reach its children: PostgreSQL has one for each connection. The output of all its
// runs is appended to one file.
//
// It ends with this program, unless pidPath is set.
type Process struct {
	name    string
	path    string
	args    []string
	env     []string // nil is the caller's
	as      *syscall.Credential
	logPath string
	pidPath string // of the file by which a later program finds the process
	under   []string

	mu      sync.Mutex
	process *os.Process
	done    chan struct{} // closed when process has ended
	exit    int           // the exit code, valid once done is closed; -1 if unknown
}

var errRunning = errors.New("is running already")

// Launch starts the program, which need not be ready yet.
func (p *Process) Launch() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runningLocked() {
		return fmt.Errorf("cannot start %s: it %w", p.name, errRunning)
	}
	log, err := os.OpenFile(p.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cannot start %s: %w", p.name, err)
	}
	defer log.Close() //nolint:errcheck // the child has its own
	all := slices.Concat(p.under, []string{p.path}, p.args)
	cmd := exec.CommandContext(context.Background(), all[0], all[1:]...) // it may outlive its starter
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = filepath.Dir(p.logPath), p.env, log, log
	cmd.SysProcAttr = processAttributes(p.as, p.pidPath != "")
	started, done := make(chan error), make(chan struct{})
	go func() {
		// The child ends with the thread that started it, and a thread ends when a
		// goroutine that was locked to it returns.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if started <- err; err != nil {
			return
		}
		_ = cmd.Wait() // its result is in ProcessState
		p.mu.Lock()
		p.exit = cmd.ProcessState.ExitCode()
		p.mu.Unlock()
		close(done)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("cannot start %s: %w", p.name, err)
	}
	p.process, p.done = cmd.Process, done
	if p.pidPath == "" {
		return nil
	}
	// Process ids are reused: the start time identifies the process.
	text := fmt.Sprintf("%d %d\n", p.process.Pid, readStat(p.process.Pid).Starttime)
	if err := os.WriteFile(p.pidPath, []byte(text), 0o600); err != nil {
		return fmt.Errorf("cannot start %s: %w", p.name, err)
	}
	return nil
}

// adopt takes over the process that an earlier program started, and reports
// whether it runs.
func (p *Process) adopt() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	var pid int
	var started uint64
	text, err := os.ReadFile(p.pidPath)
	if err != nil {
		return false
	}
	if _, err := fmt.Sscan(string(text), &pid, &started); err != nil {
		return false
	}
	process, err := os.FindProcess(pid)
	if runs := func() bool { s := readStat(pid); return !gone(s) && s.Starttime == started }; err == nil && runs() {
		done := make(chan struct{})
		p.process, p.done, p.exit = process, done, -1
		go func() {
			for runs() {
				time.Sleep(pollEvery)
			}
			close(done)
		}()
		return true
	}
	return false
}

// Under makes the next starts run the program under a command, such as an emulator.
func (p *Process) Under(command ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.under = command
}

func (p *Process) runningLocked() bool {
	if p.process == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// PID returns the process id of the last start.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process.Pid
}

// Running reports whether the process was started and has not ended.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runningLocked()
}

// Wait waits until the process has ended and returns its exit code; -1 if a signal ended it.
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

// Kill ends the process and its children immediately (kill -9) and waits until they are gone. It
// leaves a process alone that has already ended.
func (p *Process) Kill() error {
	if !p.Running() {
		return nil
	}
	pids, err := p.freeze()
	if err != nil {
		if !p.Running() {
			return nil // the process ended by itself meanwhile
		}
		return err
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("cannot kill %s: %w", p.name, err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), killTime)
	defer cancel()
	if _, err := p.Wait(ctx); err != nil {
		return err
	}
	for _, pid := range pids { // orphans are reaped by init, perhaps never
		for !gone(readStat(pid)) {
			if ctx.Err() != nil {
				return fmt.Errorf("a child of %s does not end", p.name)
			}
			time.Sleep(pollEvery)
		}
	}
	return nil
}

const (
	killTime  = 10 * time.Second
	endTime   = 15 * time.Second // a node finishes its requests
	pollEvery = 5 * time.Millisecond
)

// freeze stops the process and its children and returns their ids. A stopped process starts no more
// children, so the list is complete; and it must be made now, because the children of a dead
// process cannot be found.
func (p *Process) freeze() (pids []int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.runningLocked() {
		return nil, fmt.Errorf("cannot stop %s: it does not run", p.name)
	}
	parent := p.process.Pid
	if err := p.process.Signal(syscall.SIGSTOP); err != nil {
		return nil, fmt.Errorf("cannot stop %s: %w", p.name, err)
	}
	for deadline := time.Now().Add(killTime); !stopped(readStat(parent)); time.Sleep(pollEvery / 5) {
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
	if !p.runningLocked() {
		return fmt.Errorf("cannot continue %s: it does not run", p.name)
	}
	parent := p.process.Pid
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
func (p *Process) Terminate() error { return p.signal(syscall.SIGTERM) }

func (p *Process) signal(signal syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil {
		return fmt.Errorf("%s was never started", p.name)
	}
	if err := p.process.Signal(signal); err != nil {
		return fmt.Errorf("cannot send %s to %s: %w", signal, p.name, err)
	}
	return nil
}

// End terminates the process and waits until it has ended. A failure, or having to kill it, is an
// error. It leaves a process alone that has already ended.
func (p *Process) End() error {
	code, err := p.endBy(syscall.SIGTERM)
	if err == nil && code > 0 {
		err = fmt.Errorf("%s ended with exit code %d\n%s", p.name, code, p.Log())
	}
	return err
}

func (p *Process) endBy(signal syscall.Signal) (code int, err error) {
	if !p.Running() {
		return 0, nil
	}
	if err := p.signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	if code, err = p.Wait(ctx); err != nil {
		err = errors.Join(fmt.Errorf("%s had to be killed: %w", p.name, err), p.Kill())
	}
	return code, err
}

// Log returns everything that the process has written so far, in all its runs.
func (p *Process) Log() string {
	text, err := os.ReadFile(p.logPath)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "cannot read the log: " + err.Error()
	}
	return string(text)
}

// await calls ask until a started process answers.
func (p *Process) await(ctx context.Context, ask func(context.Context) error) error {
	for {
		tried, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := ask(tried)
		cancel()
		switch {
		case err == nil:
			return nil
		case !p.Running():
			return fmt.Errorf("%s ended at its start: %w", p.name, err)
		case ctx.Err() != nil:
			return fmt.Errorf("%s does not answer: %w", p.name, err)
		}
		time.Sleep(pollEvery)
	}
}

// childrenOf returns the processes that another has started.
func childrenOf(parent int) (pids []int, err error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("this needs Linux: %w", err)
	}
	for _, p := range all {
		if s := readStat(p.PID); s.PPID == parent && !gone(s) {
			pids = append(pids, p.PID)
		}
	}
	return pids, nil
}

// readStat returns the kernel's status of a process; the zero value if there is
// none.
func readStat(pid int) procfs.ProcStat {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}
	}
	s, err := p.Stat()
	if err != nil {
		return procfs.ProcStat{}
	}
	return s
}

// gone reports whether there is no such process. A zombie, which its parent has not reaped, counts
// as gone.
func gone(s procfs.ProcStat) bool { return s.State == "" || s.State == "Z" || s.State == "X" }

func stopped(s procfs.ProcStat) bool { return s.State == "T" || gone(s) }
