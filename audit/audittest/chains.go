package audittest

import (
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"spendgate/audit"
	"spendgate/audit/commit"
	"spendgate/audit/spend"
)

// batchOfEachCommit: each successful commit has a batch, and no failed one has.
func batchOfEachCommit(t *testing.T, s Subject) {
	ctx := t.Context()
	batches := func() int { return s.Count(t, "SELECT count(*) FROM batches") }
	f := fence(t, s)
	first, second := newCheck(f), keyed(newCheck(f), newKeyText())
	must(t, s.Commit(ctx, []*spend.Check{first}, nil, Link(1, first)))
	must(t, s.Commit(ctx, []*spend.Check{second, newCheck(f)}, nil, Link(2, second)))
	if n := batches(); n != 2 {
		t.Fatalf("%d batches of 2 commits", n)
	}
	poison, taken, again := newCheck(f), keyed(newCheck(f), second.Action.IdempotencyKey), newCheck(f)
	poison.Action.ReasonText = "\x00"
	again.ID = first.ID
	stale, fenced := newCheck(f), newCheck(fence(t, s))
	stale.Fence.Epoch = spend.NewID(now())
	must(t, s.Fence(ctx, fenced.Fence.Node))
	for what, c := range map[string]*spend.Check{
		"poison": poison, "taken key": taken, "recorded already": again, "stale": stale, "fenced": fenced,
	} {
		if err := s.Commit(ctx, []*spend.Check{c}, nil, Link(3, c)); err == nil {
			t.Errorf("%s: was recorded", what)
		}
	}
	if n := batches(); n != 2 {
		t.Errorf("%d batches when five commits had failed", n)
	}
	poison.Action.ReasonText = ""
	if err := s.Commit(ctx, []*spend.Check{poison}, nil, Link(3, poison)); err != nil {
		t.Errorf("the place that failed commits did not take: %v", err)
	}
}

// chainNeverForks: each place of a chain is taken only once, whoever commits (F38).
func chainNeverForks(t *testing.T, s Subject) {
	ctx := t.Context()
	f := fence(t, s)
	first := newCheck(f)
	must(t, s.Commit(ctx, []*spend.Check{first}, nil, Link(1, first)))
	const racers = 6
	var mu sync.Mutex
	var won []*spend.Check
	var wg sync.WaitGroup
	for range racers {
		wg.Go(func() {
			c := keyed(newCheck(f), newKeyText())
			err := s.Commit(ctx, []*spend.Check{c}, nil, Link(2, c))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won = append(won, c)
			} else if !errors.Is(err, audit.ErrForked) {
				t.Errorf("got %v, want ErrForked", err)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Errorf("%d batches have one place", len(won))
	}
	other := newCheck(fence(t, s)) // another chain has places of its own
	if err := s.Commit(ctx, []*spend.Check{other}, nil, Link(2, other)); err != nil {
		t.Error(err)
	}
}

// writerMakesChains: what a Writer records has a chain without gaps.
func writerMakesChains(t *testing.T, s Subject) {
	w := NewWriter(t, s)
	f := fence(t, s)
	const writers, each = 8, 20
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				if err := w.Append(newCheck(f)).Wait(time.Now().Add(time.Minute)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := s.Count(t, "SELECT count(*) FROM batches"); n == 0 || n != s.Count(t, "SELECT max(seq) FROM batches") {
		t.Errorf("%d batches, numbered up to %d", n, s.Count(t, "SELECT max(seq) FROM batches"))
	}
}

// NewWriter returns a Writer for the store, which the test closes.
func NewWriter(t testing.TB, s audit.Store) *commit.Writer {
	w := commit.NewWriter(commit.Options{
		Trail: s, Capacity: 1000, Fence: s.Fence, Retire: func(spend.ID) {},
		Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
		CommitTimeout: time.Minute, // a slow machine fences nobody
	})
	t.Cleanup(w.Close)
	return w
}
