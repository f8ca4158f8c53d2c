package sim

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
	"spendgate/audit/sqlite"
	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// store is the store of a single node, shared by several: commits may be open at the same time, and
// a fence waits for those that carry it, as in PostgreSQL. It keeps the order and the times of what
// was committed.
type store struct {
	*sqlite.Store
	path string
	turn chan struct{} // of the one that writes; a lock would keep virtual time from passing

	mu    sync.Mutex
	open  map[*transaction]bool
	stops map[*stop]bool

	events []event // each names its row
	noted  int64   // the last change among them
}

// transaction is a commit in progress.
type transaction struct {
	fence spend.Fence
	ended chan struct{}
}

// stop is a fence or an epoch that waits for the commits in progress, and keeps others waiting.
type stop struct {
	stops func(spend.Fence) bool
	ended chan struct{}
}

// event is something that was recorded: one of the pointers is set.
type event struct {
	at      time.Time
	check   *spend.Check
	outcome *spend.Outcome
	change  *audit.Change
}

// files are the stores' files. They are in memory, where the machine has a folder for that: the syncs
// of a schedule cost more than all else.
type files struct {
	folder string
	empty  []byte // a new store
}

func newFiles(t *testing.T) *files {
	t.Helper()
	f := &files{folder: fleet.MemoryDir(t)}
	path := filepath.Join(f.folder, "empty.db")
	newStore(t, path).Close()
	var err error
	if f.empty, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return f
}

// schedule returns the path of a schedule's file, which is new.
func (f *files) schedule(t *testing.T, seed uint64) string {
	t.Helper()
	path := filepath.Join(f.folder, fmt.Sprint("seed-", seed, ".db"))
	must.Do(t, os.WriteFile(path, f.empty, 0o600))
	return path
}

func newStore(t *testing.T, path string) *store {
	t.Helper()
	s := &store{path: path, turn: make(chan struct{}, 1), open: make(map[*transaction]bool), stops: make(map[*stop]bool)}
	var err error
	if s.Store, err = sqlite.Open(t.Context(), path, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	return s
}

func unavailable(err error) error { return fmt.Errorf("%w: %w", audit.ErrUnavailable, err) }

// inside is how long a commit pauses in the middle, in its context.
type inside struct{}

// Commit pauses while the commit is open. A commit that has begun goes on when its context ends.
func (s *store) Commit(ctx context.Context, checks []*spend.Check, outcomes []*spend.Outcome, link chain.Link) error {
	var fence spend.Fence
	if len(checks) > 0 {
		fence = checks[0].Fence
	} else if len(outcomes) > 0 {
		fence = outcomes[0].Fence
	}
	t, err := s.enter(ctx, fence)
	if err != nil {
		return unavailable(err)
	}
	defer s.leave(t)
	if pause, ok := ctx.Value(inside{}).(time.Duration); ok {
		time.Sleep(pause)
	}
	return s.write(func() error {
		if err := s.Store.Commit(context.WithoutCancel(ctx), checks, outcomes, link); err != nil {
			return err
		}
		s.noteChanges()
		replacing := func(o *spend.Outcome) bool { return slices.Contains(o.Payment.Flags, spend.FlagReplaced) }
		s.noteOutcomes(outcomes, replacing) // so that a check of the commit can follow
		for _, c := range checks {
			s.note(event{check: &spend.Check{ID: c.ID}})
		}
		s.noteOutcomes(outcomes, func(o *spend.Outcome) bool { return !replacing(o) })
		return nil
	})
}

func (s *store) noteOutcomes(outcomes []*spend.Outcome, which func(*spend.Outcome) bool) {
	for _, o := range outcomes {
		if which(o) {
			s.note(event{outcome: &spend.Outcome{ID: o.ID}})
		}
	}
}

func (s *store) note(e event) {
	e.at = time.Now()
	s.events = append(s.events, e)
}

// write takes its turn, which gives all writes an order.
func (s *store) write(do func() error) error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	return do()
}

// noteChanges notes what was recorded of the configuration, and of decisions.
func (s *store) noteChanges() {
	changes, err := s.Changes(context.Background(), audit.ChangeQuery{After: s.noted, Limit: 100})
	if err != nil {
		panic("BUG: cannot read the changes: " + err.Error())
	}
	for i := range changes {
		s.note(event{change: &changes[i]})
		s.noted = changes[i].Seq
	}
}

// change does what may record changes.
func (s *store) change(do func() error) error {
	return s.write(func() error {
		defer s.noteChanges()
		return do()
	})
}

func (s *store) CreatePolicy(ctx context.Context, by audit.Actor, p *audit.Policy, b audit.NewBudgets, now time.Time) error {
	return s.change(func() error { return s.Store.CreatePolicy(ctx, by, p, b, now) })
}

func (s *store) CreateKey(ctx context.Context, by audit.Actor, k *audit.Key) error {
	return s.change(func() error { return s.Store.CreateKey(ctx, by, k) })
}

func (s *store) CreateFreeze(ctx context.Context, by audit.Actor, n audit.NewFreeze) (f *audit.Freeze, replayed bool, err error) {
	err = s.change(func() (err error) {
		f, replayed, err = s.Store.CreateFreeze(ctx, by, n)
		return err
	})
	return f, replayed, err
}

func (s *store) ReleaseFreeze(ctx context.Context, by audit.Actor, r audit.FreezeRelease) error {
	return s.change(func() error { return s.Store.ReleaseFreeze(ctx, by, r) })
}

func (s *store) EndFreeze(ctx context.Context, f *audit.Freeze) error {
	return s.change(func() error { return s.Store.EndFreeze(ctx, f) })
}

func (s *store) Decide(ctx context.Context, d audit.ApprovalDecisionRequest) (result audit.ApprovalDecisionResult, err error) {
	err = s.change(func() (err error) {
		result, err = s.Store.Decide(ctx, d)
		return err
	})
	return result, err
}

// enter waits until nothing stops the fence.
func (s *store) enter(ctx context.Context, f spend.Fence) (*transaction, error) {
	for ctx.Err() == nil {
		s.mu.Lock()
		first := s.stopping(f)
		if first == nil {
			t := &transaction{f, make(chan struct{})}
			s.open[t] = true
			s.mu.Unlock()
			return t, nil
		}
		s.mu.Unlock()
		select {
		case <-first.ended:
		case <-ctx.Done():
		}
	}
	return nil, ctx.Err()
}

// stopping returns what stops the fence, nil if nothing does, with mu held.
func (s *store) stopping(f spend.Fence) *stop {
	for one := range s.stops {
		if one.stops(f) {
			return one
		}
	}
	return nil
}

func (s *store) leave(t *transaction) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, t)
	close(t.ended)
}

// fence writes once the open commits that match have ended, and lets none begin meanwhile.
func (s *store) fence(ctx context.Context, match func(spend.Fence) bool, do func() error) error {
	stopped := &stop{match, make(chan struct{})}
	var open []*transaction
	s.mu.Lock()
	s.stops[stopped] = true
	for t := range s.open {
		if match(t.fence) {
			open = append(open, t)
		}
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.stops, stopped)
		close(stopped.ended)
	}()
	for _, t := range open {
		select {
		case <-t.ended:
		case <-ctx.Done():
			return unavailable(ctx.Err())
		}
	}
	return s.write(do)
}

func (s *store) RotateEpoch(ctx context.Context, seen, next spend.ID) (current spend.ID, err error) {
	err = s.fence(ctx, func(f spend.Fence) bool { return f.Epoch == seen }, func() (err error) {
		current, err = s.Store.RotateEpoch(ctx, seen, next)
		return err
	})
	return current, err
}

func (s *store) Fence(ctx context.Context, node spend.ID) error {
	return s.fence(ctx, func(f spend.Fence) bool { return f.Node == node }, func() error { return s.Store.Fence(ctx, node) })
}
