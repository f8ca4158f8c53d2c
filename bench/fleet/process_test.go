package fleet

import (
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
)

// A child outlives the goroutine that began it, also one whose thread ends with it.
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
			if err := p.start(); err != nil {
				t.Error(err)
			}
			begun.Done()
			held.Wait()
		}()
	}
	begun.Wait()
	held.Done()
	time.Sleep(100 * time.Millisecond) // the threads end
	for _, p := range children {
		if !p.Running() {
			t.Error("it died")
		}
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	}
}
