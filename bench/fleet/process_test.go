package fleet

import (
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// A child outlives the goroutine that began it, also one whose thread ends with it.
func TestChildOutlivesTheThread(t *testing.T) {
	p := &Process{name: "sleep", path: "/bin/sleep", args: []string{"60"}, logPath: filepath.Join(t.TempDir(), "log")}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked
		started <- p.start()
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // the thread ends
	if !p.Running() {
		t.Error("it died")
	}
	if err := p.Kill(); err != nil {
		t.Error(err)
	}
}
