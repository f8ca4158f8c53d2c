package gateway

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// childGrace is how long a server may take to end once its input is closed, and
// again once it was asked to by a signal.
const childGrace = 2 * time.Second

// startChild starts a server as a child process, which communicates over its standard
// streams. The child gets this process' environment without the settings of spendgate,
// which have keys that the child must not know.
func startChild(u *upstream, environ []string, log *slog.Logger) (conn, error) {
	cmd := exec.Command(u.Command[0], u.Command[1:]...) //nolint:noctx // it ends with its conn
	cmd.Dir = u.folder
	cmd.Env = []string{} // with nil, the child would get everything
	for _, entry := range environ {
		if !strings.HasPrefix(entry, "SPENDGATE_") {
			cmd.Env = append(cmd.Env, entry)
		}
	}
	for name, v := range u.Env {
		cmd.Env = append(cmd.Env, name+"="+v.now())
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("cannot make a pipe: %w", err)
	}
	// Pipes of its own: cmd.Wait must not close the output before it is read.
	stdout, output, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("cannot make a pipe: %w", err)
	}
	stderr, errors, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("cannot make a pipe: %w", err)
	}
	cmd.Stdout, cmd.Stderr = output, errors
	err = cmd.Start()
	output.Close() //nolint:errcheck // the child has it
	errors.Close() //nolint:errcheck // the child has it
	if err != nil {
		stdout.Close() //nolint:errcheck // nothing was read
		stderr.Close() //nolint:errcheck // nothing was read
		return nil, fmt.Errorf("%w: cannot start %s: %w", errNotSent, u.Command[0], err)
	}
	go logLines(stderr, u.name, log)
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the end of its output is noticed anyway
		close(ended)
		time.Sleep(childGrace) // output may still be in the pipe
		stdout.Close()         //nolint:errcheck // a child of the child may have it still
	}()
	input := newQueue(stdin)
	return newLines(stdout, input, maxServerMessage, func() {
		input.Close() //nolint:errcheck // it may have ended before
		go stop(cmd.Process, ended)
	}), nil
}

// stop ends a process: by itself, by SIGTERM, by SIGKILL.
func stop(process *os.Process, ended <-chan struct{}) {
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		select {
		case <-ended:
			return
		case <-time.After(childGrace):
			_ = process.Signal(signal) // it may have ended meanwhile
		}
	}
}

// logLines logs what a server says on its standard error.
func logLines(r io.ReadCloser, name string, log *slog.Logger) {
	defer r.Close() //nolint:errcheck // only read
	const most = 4 << 10
	in := bufio.NewReaderSize(r, most)
	for {
		line, isPrefix, err := in.ReadLine()
		if err != nil {
			return
		}
		if !isPrefix && len(line) > 0 {
			log.Info("upstream says", "upstream", name, "text", string(line))
		}
	}
}
