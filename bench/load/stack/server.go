package stack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Command is a server that benchmarks run.
type Command struct {
	Name   string
	Binary string
	Args   []string
	Env    []string // added to this process's own
	Ready  string   // URL that answers 200 once the server works
	Log    string   // file that takes what it prints
}

// Server is a running server.
type Server struct {
	name  string
	cmd   *exec.Cmd
	log   *os.File
	ended chan error
}

// How long a server may take to begin and to end.
const (
	startIn = 30 * time.Second
	stopIn  = 15 * time.Second
)

// Start starts a server and waits until it is ready.
func Start(ctx context.Context, c Command) (*Server, error) {
	log, err := os.Create(c.Log)
	if err != nil {
		return nil, fmt.Errorf("cannot keep the log of %s: %w", c.Name, err)
	}
	s := &Server{name: c.Name, cmd: exec.Command(c.Binary, c.Args...), log: log, ended: make(chan error, 1)} //nolint:noctx // ended by Stop, not by a context, which would kill it
	s.cmd.Env = append(os.Environ(), c.Env...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot start %s: %w", c.Name, err), log.Close())
	}
	go func() { s.ended <- s.cmd.Wait() }()
	if err := s.await(ctx, c.Ready); err != nil {
		tail, _ := os.ReadFile(c.Log)
		return nil, errors.Join(fmt.Errorf("%w; it printed: %s", err, tail[max(0, len(tail)-2000):]), s.Stop())
	}
	return s, nil
}

// PID is the server's process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

func (s *Server) await(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, startIn)
	defer cancel()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if response, err := http.DefaultClient.Do(r); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case err := <-s.ended:
			s.ended <- err
			return fmt.Errorf("%s ended: %w", s.name, err)
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w", s.name, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Stop asks the server to end, makes it if it does not, and reports a failure
// of its own.
func (s *Server) Stop() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	var err error
	select {
	case err = <-s.ended:
	case <-time.After(stopIn):
		_ = s.cmd.Process.Kill()
		err = errors.Join(errors.New("it had to be killed"), <-s.ended)
	}
	if err = errors.Join(err, s.log.Close()); err != nil {
		return fmt.Errorf("%s did not end well: %w", s.name, err)
	}
	return nil
}

// FreeAddr gives a loopback address that nobody listens on.
func FreeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("cannot find a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// Binary is the path of what the Makefile built.
func Binary(name string) string { return filepath.Join(".bin", name) }
