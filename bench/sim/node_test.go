package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/commit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
	"spendgate/hotpath/guard"
)

var errFault = errors.New("made to fail")

// simNode is one whole node.
type simNode struct {
	*hotpath.Authorizer
	store  *flaky
	guard  *guard.Guard
	writer *commit.Writer
}

func (f *simulation) newNode(number int) *simNode {
	log := slog.New(slog.DiscardHandler)
	reg := prometheus.NewRegistry()
	n := &simNode{store: &flaky{store: f.store, simulation: f, rand: chance(f.seed, 1000+number), mortal: number > 0}}
	n.guard = guard.New(guard.Options{
		Redis: redis.UniversalOptions{Addrs: []string{"redis:6379"}, Dialer: n.store.dial(f.redis)},
		Store: n.store, Logger: log, Registerer: reg,
	})
	n.writer = commit.NewWriter(commit.Options{
		Trail: n.store, Capacity: 256, Fence: n.guard.Fence, Retire: n.guard.Retire, Logger: log, Registerer: reg,
	})
	n.Authorizer = hotpath.New(hotpath.Components{
		Guard: n.guard, Writer: n.writer, Store: n.store, Logger: log, Registerer: reg, Now: time.Now,
	})
	return n
}

func (n *simNode) close() {
	n.writer.Close()
	n.Authorizer.Close()
	_ = n.guard.Close()
}

// flaky is a node's connection to the store and to Redis, with faults, until the
// node dies.
type flaky struct {
	*store
	simulation *simulation

	mortal bool

	mu    sync.Mutex
	rand  *rand.Rand
	dead  bool
	conns []net.Conn
}

func (s *flaky) dial(r *fakeRedis) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.dead || s.simulation.redisAway.Load() {
			return nil, errFault
		}
		c, err := r.dial(ctx, network, addr)
		s.conns = append(s.conns, c)
		return c, err
	}
}

// die disconnects the node. Commands that it sent may still be executed.
func (s *flaky) die() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = true
	for _, c := range s.conns {
		_ = c.Close()
	}
}

func (s *flaky) isDead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

// draw returns a delay, and whether the call fails.
func (s *flaky) draw() (delay time.Duration, fails bool, kind int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delay = time.Duration(s.rand.Int64N(int64(2*time.Millisecond))) + time.Microsecond
	if s.simulation.calm.Load() {
		return delay, s.dead, 0
	}
	if s.rand.IntN(20) == 0 {
		delay += time.Duration(s.rand.Int64N(int64(3 * time.Second)))
	}
	return delay, s.dead || s.rand.IntN(12) == 0, s.rand.IntN(5)
}

// call is a call to the store: it is delayed, or fails.
func (s *flaky) call(ctx context.Context) error {
	delay, fails, _ := s.draw()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", audit.ErrUnavailable, ctx.Err())
	}
	if fails {
		return fmt.Errorf("%w: %w", audit.ErrUnavailable, errFault)
	}
	return nil
}

// called returns the result of a call to the store, unless the connection fails.
func called[T any](ctx context.Context, s *flaky, do func() (T, error)) (none T, err error) {
	if err := s.call(ctx); err != nil {
		return none, err
	}
	return do()
}

// Commit fails before, after and during the transaction; its connection may be lost while the
// transaction goes on, or before it has begun.
func (s *flaky) Commit(ctx context.Context, checks []*spend.Check, outcomes []*spend.Outcome, link chain.Link) error {
	delay, fails, kind := s.draw()
	unknown := fmt.Errorf("%w: %w", audit.ErrUnknown, errFault)
	copies := make([]*spend.Check, len(checks))
	for i, c := range checks {
		stored := *c
		copies[i] = &stored
	}
	link.Entries = slices.Clone(link.Entries)
	unanswered := make([]*spend.Outcome, len(outcomes)) // the checks of unread redemptions do not come back, either
	for i, o := range outcomes {
		stored := *o
		unanswered[i] = &stored
	}
	later := func(before, middle time.Duration) {
		go func() {
			time.Sleep(before)
			_ = s.store.Commit(context.WithValue(context.Background(), inside{}, middle), copies, unanswered, link)
		}()
	}
	switch {
	case fails && kind == 0:
		time.Sleep(min(delay, time.Second))
		return fmt.Errorf("%w: %w", audit.ErrUnavailable, errFault)
	case fails && kind == 1: // recorded, the answer lost
		if err := s.store.Commit(ctx, copies, unanswered, link); err != nil {
			return err
		}
		return unknown
	case fails && kind == 2: // still in the network
		later(delay+100*time.Millisecond, time.Millisecond)
		return unknown
	case fails && kind == 3 && s.mortal: // the node dies, and its commit arrives after others fenced it
		s.die()
		later(2*time.Second+delay+2*time.Duration(len(checks))*time.Second, time.Millisecond)
		return unknown
	case fails: // inside, for longer than every timeout
		later(time.Microsecond, delay+100*time.Millisecond)
		time.Sleep(time.Millisecond)
		return unknown
	case delay > time.Second: // later than its context allows
		later(time.Microsecond, delay)
		<-ctx.Done()
		return unknown
	default:
		return s.store.Commit(context.WithValue(ctx, inside{}, delay), copies, outcomes, link)
	}
}

func (s *flaky) PassStates(ctx context.Context, ids []spend.ID) (map[spend.ID]audit.PassState, error) {
	return called(ctx, s, func() (map[spend.ID]audit.PassState, error) { return s.store.PassStates(ctx, ids) })
}

func (s *flaky) Outcomes(ctx context.Context, checkIDs []spend.ID) ([]*spend.Outcome, error) {
	return called(ctx, s, func() ([]*spend.Outcome, error) { return s.store.Outcomes(ctx, checkIDs) })
}

func (s *flaky) Untouched(ctx context.Context, ids []spend.ID) ([]*spend.Check, error) {
	s.mu.Lock()
	remembers := s.rand.IntN(3) == 0 // whatever was recorded since
	s.mu.Unlock()
	return called(ctx, s, func() ([]*spend.Check, error) {
		if remembers {
			return s.store.Checks(ctx, ids)
		}
		return s.store.Untouched(ctx, ids)
	})
}

func (s *flaky) Unread(spend.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rand.IntN(4) > 0
}

func (s *flaky) Payments(ctx context.Context, hashes []spend.Hash) (map[spend.Hash]*spend.Payment, error) {
	return called(ctx, s, func() (map[spend.Hash]*spend.Payment, error) { return s.store.Payments(ctx, hashes) })
}

func (s *flaky) PaymentApprovals(ctx context.Context, payments []spend.Hash) ([]*audit.Approval, error) {
	return called(ctx, s, func() ([]*audit.Approval, error) { return s.store.PaymentApprovals(ctx, payments) })
}

func (s *flaky) Lapses(ctx context.Context, limit int) ([]spend.ID, error) {
	return called(ctx, s, func() ([]spend.ID, error) { return s.store.Lapses(ctx, limit) })
}

func (s *flaky) CounterUsages(ctx context.Context, counters []spend.Counter) ([]spend.Usage, error) {
	return called(ctx, s, func() ([]spend.Usage, error) { return s.store.CounterUsages(ctx, counters) })
}

func (s *flaky) Approvals(ctx context.Context, ids []spend.ID) ([]*audit.Approval, error) {
	return called(ctx, s, func() ([]*audit.Approval, error) { return s.store.Approvals(ctx, ids) })
}

func (s *flaky) Parties(ctx context.Context, keyIDs []string) (map[string]audit.Party, error) {
	return called(ctx, s, func() (map[string]audit.Party, error) { return s.store.Parties(ctx, keyIDs) })
}

func (s *flaky) SignInBegins(ctx context.Context) (time.Time, error) {
	return called(ctx, s, func() (time.Time, error) { return s.store.SignInBegins(ctx) })
}

func (s *flaky) Freeze(ctx context.Context, id spend.ID) (*audit.Freeze, error) {
	return called(ctx, s, func() (*audit.Freeze, error) { return s.store.Freeze(ctx, id) })
}

func (s *flaky) FreezeReach(ctx context.Context, scope audit.FreezeScope, since time.Time) ([]audit.FreezeReach, error) {
	return called(ctx, s, func() ([]audit.FreezeReach, error) { return s.store.FreezeReach(ctx, scope, since) })
}

// unanswered does what may fail before and after it.
func (s *flaky) unanswered(ctx context.Context, do func() error) error {
	if err := s.call(ctx); err != nil {
		return err
	}
	err := do()
	if _, fails, _ := s.draw(); fails {
		return fmt.Errorf("%w: %w", audit.ErrUnknown, errFault)
	}
	return err
}

func (s *flaky) CreateFreeze(ctx context.Context, by audit.Actor, n audit.NewFreeze) (f *audit.Freeze, replayed bool, err error) {
	err = s.unanswered(ctx, func() (err error) {
		f, replayed, err = s.store.CreateFreeze(ctx, by, n)
		return err
	})
	return f, replayed, err
}

func (s *flaky) ReleaseFreeze(ctx context.Context, by audit.Actor, r audit.FreezeRelease) error {
	return s.unanswered(ctx, func() error { return s.store.ReleaseFreeze(ctx, by, r) })
}

func (s *flaky) EndFreeze(ctx context.Context, f *audit.Freeze) error {
	return s.unanswered(ctx, func() error { return s.store.EndFreeze(ctx, f) })
}

func (s *flaky) Decide(ctx context.Context, d audit.ApprovalDecisionRequest) (result audit.ApprovalDecisionResult, err error) {
	err = s.unanswered(ctx, func() (err error) {
		result, err = s.store.Decide(ctx, d)
		return err
	})
	return result, err
}

func (s *flaky) Deployment(ctx context.Context) (spend.ID, error) {
	return called(ctx, s, func() (spend.ID, error) { return s.store.Deployment(ctx) })
}

func (s *flaky) Epoch(ctx context.Context) (spend.ID, error) {
	return called(ctx, s, func() (spend.ID, error) { return s.store.Epoch(ctx) })
}

func (s *flaky) RotateEpoch(ctx context.Context, seen, next spend.ID) (spend.ID, error) {
	return called(ctx, s, func() (spend.ID, error) { return s.store.RotateEpoch(ctx, seen, next) })
}

func (s *flaky) Fence(ctx context.Context, node spend.ID) error {
	if err := s.call(ctx); err != nil {
		return err
	}
	return s.store.Fence(ctx, node)
}

func (s *flaky) Checks(ctx context.Context, ids []spend.ID) ([]*spend.Check, error) {
	return called(ctx, s, func() ([]*spend.Check, error) { return s.store.Checks(ctx, ids) })
}

func (s *flaky) ListChecks(ctx context.Context, q audit.CheckQuery) (audit.CheckPage, error) {
	return called(ctx, s, func() (audit.CheckPage, error) { return s.store.ListChecks(ctx, q) })
}

func (s *flaky) CheckIDsByKey(ctx context.Context, hashes []spend.Hash) (map[spend.Hash]spend.ID, error) {
	return called(ctx, s, func() (map[spend.Hash]spend.ID, error) { return s.store.CheckIDsByKey(ctx, hashes) })
}

func (s *flaky) LivePasses(
	ctx context.Context, fingerprints []spend.Hash, before spend.ID, nowMS int64, upTo spend.Effect,
) (map[spend.Hash]audit.LivePass, error) {
	return called(ctx, s, func() (map[spend.Hash]audit.LivePass, error) {
		return s.store.LivePasses(ctx, fingerprints, before, nowMS, upTo)
	})
}

func (s *flaky) PagePasses(ctx context.Context, before spend.ID, nowMS int64, limit int) ([]audit.LivePass, error) {
	// so that there are pages
	return called(ctx, s, func() ([]audit.LivePass, error) { return s.store.PagePasses(ctx, before, nowMS, min(limit, 2)) })
}

func (s *flaky) ConfigChanges(ctx context.Context, since int64) (audit.ConfigChanges, error) {
	return called(ctx, s, func() (audit.ConfigChanges, error) { return s.store.ConfigChanges(ctx, since) })
}

func (s *flaky) Policy(ctx context.Context, policyID string, version int) (*audit.Policy, error) {
	return called(ctx, s, func() (*audit.Policy, error) { return s.store.Policy(ctx, policyID, version) })
}
