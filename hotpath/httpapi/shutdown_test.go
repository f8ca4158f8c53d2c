package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"spendgate/bench/must"
)

func TestShutdownFinishesWhatIsInFlight(t *testing.T) {
	s := start(t, nil)
	s.fake.hold = make(chan struct{})
	idle, busy := s.dial(), s.dial()
	idle.send(smuggled)
	idle.receive()
	busy.send(post(length(plainCheck), plainCheck))
	for s.api.inFlight.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	stopped := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		stopped <- s.api.Shutdown(ctx)
	}()
	idle.closed()
	if _, err := net.DialTimeout("tcp", s.address, time.Second); err == nil {
		t.Error("a new connection is taken")
	}
	close(s.fake.hold)
	if a := busy.receive(); a.status != 200 || a.header.Get("Connection") != "close" {
		t.Errorf("in flight: %d %v", a.status, a.header)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// A stop may come before the listener is served: Serve then returns and closes it.
func TestShutdownBeforeServe(t *testing.T) {
	a := New(Options{Store: new(fakeStore), Authorizer: newFake(), Logger: slog.New(slog.DiscardHandler)})
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	must.Do(t, a.Shutdown(t.Context()))
	must.Check(t, a.Serve(l))
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is open: %v", err)
	}
}

// Neither a client that has yet to ask nor one that asks slowly holds it up.
func TestShutdownWaitsForNobodyElse(t *testing.T) {
	s := start(t, nil)
	silent, slow := s.dial(), s.dial()
	slow.send(post("Content-Length: 100\r\n", "half"))
	for s.api.open.count() < 2 {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	must.Check(t, s.api.Shutdown(ctx))
	silent.closed()
	slow.receive().is(t, "half a request", 408)
	slow.closed()
	if n := s.api.open.count(); n != 0 {
		t.Errorf("%d connections stay open", n)
	}
}

// A client whose connection was accepted just before may have sent its request.
func TestShutdownAnswersWhoJustConnected(t *testing.T) {
	s := start(t, nil)
	s.api.open.hurry()
	c := s.dial()
	c.send(post(length(plainCheck), plainCheck))
	c.receive().is(t, "", 200)
}

func (o *openConns) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.conns)
}

func TestDrainingSendsClientsElsewhere(t *testing.T) {
	s := start(t, nil)
	c := s.dial()
	c.send(smuggled)
	if a := c.receive(); a.header.Get("Connection") != "" {
		t.Errorf("before: %v", a.header)
	}
	s.api.Drain()
	c.send(smuggled)
	if a := c.receive(); a.status != 200 || a.header.Get("Connection") != "close" {
		t.Errorf("after: %d %v", a.status, a.header)
	}
	c.closed()
}
