package hotpath_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// faultyStore is a store whose calls can be delayed or made to fail. Hooks other than commit are
// set only while nothing is in progress.
type faultyStore struct {
	audit.Store
	pages                       func()
	epoch, config, reads, fence func(context.Context) error
	claims                      func(context.Context) error // of look-ups for claims; nil from it lets the call go on
	keys                        func(context.Context) error // also of policies, when they are written
	policy, approvals           func() error                // nil from it lets the call go on

	decide func(context.Context) error // of an approval; nil from it lets the call go on
	looked func()                      // before payments are looked up
	read   func()                      // after payments were read, before their checks are
	due    []spend.ID                  // redeemed checks that nobody reported on in time
	write  func()                      // once, before a version, a freeze or its release is written

	archived   []audit.ArchivedDay // nil: those of the store
	kept       spend.ID            // the least violation that is not archived; zero: that of the store
	unread     func()              // before an unread redemption
	unanswered bool                // checks of unread redemptions do not come back from commits

	mu     sync.Mutex
	commit commitFault
}

func (s *faultyStore) Doubts(ctx context.Context, limit int) (audit.Doubts, error) {
	d, err := s.Store.Doubts(ctx, limit)
	d.Due = append(d.Due, s.due[:min(limit, len(s.due))]...)
	return d, err
}

func (s *faultyStore) ArchivedDays(ctx context.Context, from, to time.Time) ([]audit.ArchivedDay, error) {
	if s.archived != nil {
		return s.archived, nil
	}
	return s.Store.ArchivedDays(ctx, from, to)
}

func (s *faultyStore) ViolationsFrom(ctx context.Context) (spend.ID, error) {
	if !s.kept.IsZero() {
		return s.kept, nil
	}
	return s.Store.ViolationsFrom(ctx)
}

func (s *faultyStore) Payments(ctx context.Context, hashes []spend.Hash) (map[spend.Hash]*spend.Payment, error) {
	if s.looked != nil {
		s.looked()
	}
	found, err := s.Store.Payments(ctx, hashes)
	if s.read != nil {
		s.read()
	}
	return found, err
}

// Unread is as of a node that did not record the check.
func (s *faultyStore) Unread(spend.ID) bool {
	if s.unread != nil {
		s.unread()
	}
	return true
}

func (s *faultyStore) Decide(ctx context.Context, d audit.ApprovalDecisionRequest) (audit.ApprovalDecisionResult, error) {
	if s.decide != nil {
		if err := s.decide(ctx); err != nil {
			return "", err
		}
	}
	return s.Store.Decide(ctx, d)
}

func (s *faultyStore) PagePasses(ctx context.Context, before spend.ID, nowMS int64, limit int) ([]audit.LivePass, error) {
	if s.pages != nil {
		s.pages()
	}
	return s.Store.PagePasses(ctx, before, nowMS, limit)
}

func (s *faultyStore) Epoch(ctx context.Context) (spend.ID, error) {
	if s.epoch != nil {
		return spend.ID{}, s.epoch(ctx)
	}
	return s.Store.Epoch(ctx)
}

func (s *faultyStore) ConfigChanges(ctx context.Context, since int64) (audit.ConfigChanges, error) {
	if s.config != nil {
		return audit.ConfigChanges{}, s.config(ctx)
	}
	return s.Store.ConfigChanges(ctx, since)
}

func (s *faultyStore) Policy(ctx context.Context, policyID string, version int) (*audit.Policy, error) {
	if s.policy != nil {
		if err := s.policy(); err != nil {
			return nil, err
		}
	}
	return s.Store.Policy(ctx, policyID, version)
}

func (s *faultyStore) CreatePolicy(ctx context.Context, by audit.Actor, p *audit.Policy, b audit.NewBudgets, now time.Time) error {
	if s.keys != nil {
		return s.keys(ctx)
	}
	s.writing()
	return s.Store.CreatePolicy(ctx, by, p, b, now)
}

func (s *faultyStore) CreateFreeze(ctx context.Context, by audit.Actor, f audit.NewFreeze) (*audit.Freeze, bool, error) {
	s.writing()
	return s.Store.CreateFreeze(ctx, by, f)
}

func (s *faultyStore) ReleaseFreeze(ctx context.Context, by audit.Actor, r audit.FreezeRelease) error {
	s.writing()
	return s.Store.ReleaseFreeze(ctx, by, r)
}

func (s *faultyStore) writing() {
	if write := s.write; write != nil {
		s.write = nil
		write()
	}
}

func (s *faultyStore) CreateKey(ctx context.Context, by audit.Actor, k *audit.Key) error {
	if s.keys != nil {
		return s.keys(ctx)
	}
	return s.Store.CreateKey(ctx, by, k)
}

func (s *faultyStore) UpdateKey(ctx context.Context, by audit.Actor, id spend.ID, change audit.KeyChange) (*audit.Key, error) {
	if s.keys != nil {
		return nil, s.keys(ctx)
	}
	return s.Store.UpdateKey(ctx, by, id, change)
}

func (s *faultyStore) KeyByHash(ctx context.Context, hash spend.Hash) (*audit.Key, error) {
	if s.keys != nil {
		return nil, s.keys(ctx)
	}
	return s.Store.KeyByHash(ctx, hash)
}

func (s *faultyStore) Checks(ctx context.Context, ids []spend.ID) ([]*spend.Check, error) {
	if s.reads != nil {
		return nil, s.reads(ctx)
	}
	return s.Store.Checks(ctx, ids)
}

func (s *faultyStore) Approvals(ctx context.Context, ids []spend.ID) ([]*audit.Approval, error) {
	if s.approvals != nil {
		if err := s.approvals(); err != nil {
			return nil, err
		}
	}
	return s.Store.Approvals(ctx, ids)
}

func (s *faultyStore) Fence(ctx context.Context, node spend.ID) error {
	if s.fence != nil {
		return s.fence(ctx)
	}
	return s.Store.Fence(ctx, node)
}

type (
	realCommit  func(context.Context, []*spend.Check) error
	commitFault func(context.Context, []*spend.Check, realCommit) error
)

func (s *faultyStore) onCommit(f commitFault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commit = f
}

func (s *faultyStore) PassStates(ctx context.Context, ids []spend.ID) (map[spend.ID]audit.PassState, error) {
	if s.reads != nil {
		return nil, s.reads(ctx)
	}
	return s.Store.PassStates(ctx, ids)
}

func (s *faultyStore) LivePasses(
	ctx context.Context, fingerprints []spend.Hash, before spend.ID, nowMS int64, upTo spend.Effect,
) (map[spend.Hash]audit.LivePass, error) {
	if s.reads != nil {
		return nil, s.reads(ctx)
	}
	if s.claims != nil {
		if err := s.claims(ctx); err != nil {
			return nil, err
		}
	}
	return s.Store.LivePasses(ctx, fingerprints, before, nowMS, upTo)
}

func (s *faultyStore) CheckIDsByKey(ctx context.Context, hashes []spend.Hash) (map[spend.Hash]spend.ID, error) {
	if s.claims != nil {
		if err := s.claims(ctx); err != nil {
			return nil, err
		}
	}
	return s.Store.CheckIDsByKey(ctx, hashes)
}

func (s *faultyStore) Commit(ctx context.Context, checks []*spend.Check, outcomes []*spend.Outcome, link chain.Link) error {
	s.mu.Lock()
	f := s.commit
	s.mu.Unlock()
	if s.unanswered {
		outcomes = slices.Clone(outcomes)
		for i, o := range outcomes {
			stored := *o
			outcomes[i] = &stored
		}
	}
	if f == nil {
		return s.Store.Commit(ctx, checks, outcomes, link)
	}
	link.Entries = slices.Clone(link.Entries) // the commit may be carried out later
	return f(ctx, checks, func(ctx context.Context, checks []*spend.Check) error {
		return s.Store.Commit(ctx, checks, outcomes, link)
	})
}

var errTest = errors.New("made to fail")

// proxy stands before Redis: it delays requests and loses replies.
type proxy struct {
	target  func() (net.Conn, error)
	delay   atomic.Int64
	swallow atomic.Pointer[[]byte] // the next request with this text is carried out, its reply lost
}

// newProxy stands before the server of the options, which then lead to it.
func newProxy(o *redis.UniversalOptions) *proxy {
	p := &proxy{target: dialer(*o)}
	o.Dialer = func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go p.serve(theirs)
		return ours, nil
	}
	return p
}

// dialer connects to the server of the options.
func dialer(o redis.UniversalOptions) func() (net.Conn, error) {
	if o.Dialer == nil {
		return func() (net.Conn, error) { return net.Dial("tcp", o.Addrs[0]) }
	}
	return func() (net.Conn, error) { return o.Dialer(context.Background(), "tcp", o.Addrs[0]) }
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close() //nolint:errcheck // nothing is lost with it
	server, err := p.target()
	if err != nil {
		return
	}
	defer server.Close() //nolint:errcheck // nothing is lost with it
	var lose atomic.Bool
	go func() {
		defer client.Close() //nolint:errcheck // nothing is lost with it
		buf := make([]byte, 1<<20)
		for {
			n, err := server.Read(buf)
			if err != nil || lose.Load() {
				return
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 1<<20)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		time.Sleep(time.Duration(p.delay.Load()))
		if w := p.swallow.Load(); w != nil && bytes.Contains(buf[:n], *w) {
			p.swallow.Store(nil)
			lose.Store(true)
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}
