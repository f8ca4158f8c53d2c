package commit_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/commit"
	"spendgate/audit/spend"
)

// trail is a Trail in memory whose commits take a while and can be spoilt.
type trail struct {
	audit.Trail
	takes time.Duration
	begin func()
	spoil func(batch []*spend.Check) (record bool, err error)
	fence func() error
	// refuse is asked about the outcomes of a commit, which are not kept.
	refuse func(outcomes []*spend.Outcome) error

	mu       sync.Mutex
	batches  [][]*spend.Check
	rows     map[spend.ID]*spend.Check
	fenced   []spend.ID
	retired  []spend.ID
	recorded []recordedBatch
	log      slog.Handler // nil discards
	metrics  *prometheus.Registry
}

type recordedBatch struct {
	checks []*spend.Check
	link   chain.Link
}

func (s *trail) Commit(_ context.Context, checks []*spend.Check, outcomes []*spend.Outcome, link chain.Link) error {
	if s.begin != nil {
		s.begin()
	}
	if s.refuse != nil {
		if err := s.refuse(outcomes); err != nil {
			return err
		}
	}
	time.Sleep(s.latency())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches = append(s.batches, checks)
	record, err := true, error(nil)
	if s.spoil != nil {
		record, err = s.spoil(checks)
	}
	if record {
		link.Entries = slices.Clone(link.Entries)
		s.recorded = append(s.recorded, recordedBatch{checks, link})
		for _, c := range checks {
			s.rows[c.ID] = c
		}
	}
	return err
}

func (s *trail) latency() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takes
}

func (s *trail) Checks(_ context.Context, ids []spend.ID) (found []*spend.Check, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if c := s.rows[id]; c != nil {
			found = append(found, c)
		}
	}
	return found, nil
}

func (s *trail) newWriter(capacity int) *commit.Writer {
	s.rows = make(map[spend.ID]*spend.Check)
	if s.log == nil {
		s.log = slog.DiscardHandler
	}
	s.metrics = prometheus.NewRegistry()
	return commit.NewWriter(commit.Options{
		Trail: s, Capacity: capacity, Logger: slog.New(s.log), Registerer: s.metrics,
		Fence: func(_ context.Context, node spend.ID) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.fenced = append(s.fenced, node)
			if s.fence != nil {
				return s.fence()
			}
			return nil
		},
		Retire: func(node spend.ID) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.retired = append(s.retired, node)
		},
	})
}

func check(node byte, key string) *spend.Check {
	return &spend.Check{
		ID: spend.NewID(time.Now()), Fence: spend.Fence{Node: spend.ID{node}},
		Action: spend.Action{IdempotencyKey: key},
	}
}

// record appends the checks at once and returns their outcomes.
func record(w *commit.Writer, checks ...*spend.Check) []error {
	errs := make([]error, len(checks))
	var wg sync.WaitGroup
	for i, c := range checks {
		e := w.Append(c)
		wg.Go(func() { errs[i] = e.Wait(time.Now().Add(time.Second)) })
	}
	wg.Wait()
	return errs
}
