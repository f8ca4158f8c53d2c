package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// Sequence sends the same actions in the same order every time, whatever else the machine does:
// each connection sends one, and the next ones follow when all are answered.
type Sequence struct {
	Workload Workload
	Target   Target

	serial uint64 // of the next action
	conns  []net.Conn
	wants  []Verdict
	out    []byte
	in     []byte
}

// answerTime is far more than an emulated server needs.
const answerTime = 60 * time.Second

// Connect opens the connections to a server.
func (s *Sequence) Connect(ctx context.Context, addr string, connections int) error {
	for range connections {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return fmt.Errorf("cannot connect: %w", err)
		}
		s.conns = append(s.conns, conn)
	}
	s.wants = make([]Verdict, connections)
	s.in = make([]byte, maxAnswer)
	return nil
}

// Close closes the connections.
func (s *Sequence) Close() error {
	var failures []error
	for _, conn := range s.conns {
		failures = append(failures, conn.Close())
	}
	s.conns = nil
	return errors.Join(failures...)
}

// Round sends an action on each connection and waits for the answers, which must be
// right.
func (s *Sequence) Round() error {
	for i := range s.conns {
		if err := s.send(i); err != nil {
			return err
		}
	}
	for i := range s.conns {
		if err := s.receive(i); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sequence) send(i int) error {
	var a Action
	s.Workload.Action(s.serial, &a)
	s.serial++
	s.wants[i] = a.Want
	s.out = s.Target.AppendRequest(s.out[:0], &a)
	if _, err := s.conns[i].Write(s.out); err != nil {
		return fmt.Errorf("cannot send a check: %w", err)
	}
	return nil
}

func (s *Sequence) receive(i int) error {
	if err := s.conns[i].SetReadDeadline(time.Now().Add(answerTime)); err != nil {
		return fmt.Errorf("cannot receive an answer: %w", err)
	}
	for n := 0; ; {
		more, err := s.conns[i].Read(s.in[n:])
		if err != nil {
			return fmt.Errorf("cannot receive an answer: %w", err)
		}
		n += more
		r, ok := parseResponse(s.in[:n])
		if ok && r.end == 0 {
			continue
		}
		if !ok || r.status != 200 {
			return fmt.Errorf("no decision: %s", s.in[:n])
		}
		if wrong := s.Target.Judge(s.wants[i], s.in[:r.bodyFrom], s.in[r.bodyFrom:n]); wrong != "" {
			return fmt.Errorf("%s: %s", wrong, s.in[:n])
		}
		return nil
	}
}
