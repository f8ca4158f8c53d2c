package postgres

import (
	"context"
	"net/url"
	"sync"
	"testing"
	"time"

	"spendgate/audit/audittest"
	"spendgate/audit/spend"
	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// TestHalfOpenNetwork: a network silently loses what is sent. When it works again, one question
// without an answer is enough: no other connection of that time is waited for, and none keeps its
// place (G7, F31).
func TestHalfOpenNetwork(t *testing.T) {
	for _, readers := range []string{"1", "2"} {
		t.Run(readers+" for reads", func(t *testing.T) { testHalfOpenNetwork(t, readers) })
	}
}

func testHalfOpenNetwork(t *testing.T, readers string) {
	direct := must.Get(url.Parse(migrated(t)))(t)
	network := must.Get(fleet.NewProxy(direct.Host))(t)
	t.Cleanup(func() { _ = network.Close() })
	open(t, direct.String(), true)
	direct.Host = network.Addr
	s := open(t, with(t, direct.String(), "pool_max_conns", readers), false)

	// All connections that there can be.
	within := func(d time.Duration) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		t.Cleanup(cancel)
		return ctx
	}
	f := newFence(t, s)
	var asking sync.WaitGroup
	for range 4 * controls {
		asking.Go(func() {
			must.Check(t, s.Ping(within(20*time.Second)))
			must.Check(t, s.Fence(within(20*time.Second), spend.NewID(time.Now())))
			must.Check(t, audittest.Record(within(20*time.Second), s, minimal(f)))
		})
	}
	asking.Wait()
	time.Sleep(1200 * time.Millisecond) // idle for as long that pgx would rather ask them first

	network.Silence(true)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	for range 4 * controls { // nobody waits for them, so they have time
		tasks.Go(func() { _ = s.CountChecks(within(time.Minute)) })
		tasks.Go(func() { _, _ = s.ExpireApprovals(within(time.Minute)) })
		tasks.Go(func() { _, _ = s.Doubts(within(time.Minute), 1) })
	}
	if err := s.Ping(within(time.Second)); err == nil {
		t.Fatal("the network is not silent")
	}
	network.Silence(false)
	const patience = 10 * time.Second // less than a place is kept; alone it takes milliseconds
	for what, ask := range map[string]func() error{
		"read":   func() error { _, err := s.Checks(within(patience), []spend.ID{f.Node}); return err },
		"fence":  func() error { return s.Fence(within(patience), spend.NewID(time.Now())) },
		"commit": func() error { return audittest.Record(within(patience), s, minimal(f)) },
	} {
		if err := ask(); err != nil {
			t.Errorf("the first %s after the network came back: %v", what, err)
		}
	}
}
