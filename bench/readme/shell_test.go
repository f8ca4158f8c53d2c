package readme_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"spendgate/bench/must"
)

// exampleTimeout is far more than any example takes.
const exampleTimeout = 20 * time.Second

// shell is one shell into which a reader pastes examples one after another, so variables last.
type shell struct {
	scratch string // where its scripts and outputs lie
	stdin   io.Writer
	done    <-chan string // a line per example: its exit code
	count   int
}

func openShell(t *testing.T, dir string, environ []string) *shell {
	t.Helper()
	bash := exec.Command("bash", "--noprofile", "--norc")
	bash.Dir, bash.Env = dir, environ
	bash.WaitDelay = time.Second
	stdin := must.Get(bash.StdinPipe())(t)
	stdout := must.Get(bash.StdoutPipe())(t)
	must.Do(t, bash.Start())
	done := make(chan string)
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			done <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = bash.Process.Kill()
		for range done { // the rest is discarded
		}
		_ = bash.Wait()
	})
	return &shell{scratch: t.TempDir(), stdin: stdin, done: done}
}

// run executes a script and returns its output. What it says on stderr is an error, or with both part of the output.
func (s *shell) run(t *testing.T, script string, both bool) (printed string, err error) {
	t.Helper()
	s.count++
	name := filepath.Join(s.scratch, strconv.Itoa(s.count))
	must.Do(t, os.WriteFile(name+".sh", []byte(script), 0o600))
	to := "'" + name + ".err'"
	if both {
		to = "&1"
	}
	must.Get(fmt.Fprintf(s.stdin, ". '%[1]s.sh' >'%[1]s.out' 2>%[2]s </dev/null; echo $?\n", name, to))(t)
	var code string
	select {
	case code = <-s.done:
	case <-time.After(exampleTimeout):
		t.Fatalf("no end after %s:\n%s", exampleTimeout, script)
	}
	printed = string(must.Get(os.ReadFile(name + ".out"))(t))
	complaints, _ := os.ReadFile(name + ".err") // none with both
	if code != "0" || len(complaints) > 0 {
		return printed, fmt.Errorf("exit code %s, on stderr: %s", code, strings.TrimSpace(string(complaints)))
	}
	return printed, nil
}
