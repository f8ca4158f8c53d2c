package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"spendgate/bench/must"
)

// A child outlives the goroutine that started it, even if that goroutine's thread ends.
func TestChildOutlivesTheThread(t *testing.T) {
	var begun, held sync.WaitGroup
	held.Add(1)
	children := make([]*Process, 4) // one may be of the main thread, which stays
	for i := range children {
		p := &Process{name: "sleep", path: "/bin/sleep", args: []string{"60"}, logPath: filepath.Join(t.TempDir(), "log")}
		children[i] = p
		begun.Add(1)
		go func() {
			runtime.LockOSThread() // and never unlocked
			must.Check(t, p.Launch())
			begun.Done()
			held.Wait()
		}()
	}
	begun.Wait()
	held.Done()
	time.Sleep(100 * time.Millisecond) // the threads end
	for _, p := range children {
		if !p.Running() {
			t.Error("it ended")
		}
		must.Check(t, p.Kill())
	}
}

// A later program finds a process by its id and start time, since ids are reused.
func TestAdopt(t *testing.T) {
	dir := t.TempDir()
	process := func() *Process {
		return &Process{
			name: "sleep", path: "/bin/sleep", args: []string{"60"}, logPath: filepath.Join(dir, "log"), pidPath: filepath.Join(dir, "pid"),
		}
	}
	first := process()
	must.Do(t, first.Launch())
	defer first.Kill() //nolint:errcheck // it has ended before
	later := process()
	if !later.adopt() || later.PID() != first.PID() || !later.Running() {
		t.Fatal("it was not found")
	}
	another := fmt.Sprintf("%d %d\n", first.PID(), readStat(first.PID()).Starttime+1)
	must.Do(t, os.WriteFile(later.pidPath, []byte(another), 0o600))
	if process().adopt() {
		t.Error("another process was taken for it")
	}
	if err := later.End(); err != nil || later.Running() {
		t.Errorf("it did not end: %v", err)
	}
	if _, err := first.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}
