package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// memory is the part of an audit.Store that nodes answering checks use, in this process; its only
// listing is the newest check, and it has no feed. It holds no lock while it waits: a transaction
// is open from the moment that it has passed its fence.
type memory struct {
	audit.Store                       // nil: methods that are not implemented here are not called
	pause       func(context.Context) // inside a transaction, after its fence

	mu         sync.Mutex
	epoch      spend.ID
	fenced     map[spend.ID]bool
	open       map[*transaction]bool
	checks     []*spend.Check // in the order of their commits
	byID       map[spend.ID]*spend.Check
	events     []event // in the order of their commits
	byKey      map[spend.Hash]keyRow
	links      map[spend.ID]map[int64]*chain.Link // by chain and number
	counters   map[spend.Counter]*counter
	outcomes   map[spend.ID][]*spend.Outcome // by check
	approvals  map[spend.ID]*audit.Approval
	policies   map[string][]audit.Policy
	changed    map[string]int64 // policy to generation
	keys       map[spend.ID]audit.Key
	keyChanged map[spend.ID]int64
	changes    []audit.Change
	generation int64
	drafted    drafted
}

type transaction struct {
	fence spend.Fence
	ended chan struct{}
}

// event is something that was recorded: one of the pointers is set.
type event struct {
	at      time.Time
	check   *spend.Check
	outcome *spend.Outcome
	change  *audit.Change
}

type keyRow struct {
	check   spend.ID
	expires time.Time
}

const keysLive = 24 * time.Hour

func newMemory() *memory {
	return &memory{
		epoch: spend.NewID(time.Now()), fenced: make(map[spend.ID]bool), open: make(map[*transaction]bool),
		byID: make(map[spend.ID]*spend.Check), byKey: make(map[spend.Hash]keyRow), links: make(map[spend.ID]map[int64]*chain.Link),
		counters: make(map[spend.Counter]*counter), outcomes: make(map[spend.ID][]*spend.Outcome),
		approvals: make(map[spend.ID]*audit.Approval),
		policies:  make(map[string][]audit.Policy), changed: make(map[string]int64),
		keys: make(map[spend.ID]audit.Key), keyChanged: make(map[spend.ID]int64),
		drafted: newDrafted(),
	}
}

// ended returns the error of a call whose context has ended.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	return nil
}

func unavailable(err error) error { return fmt.Errorf("%w: %w", audit.ErrUnavailable, err) }

func (m *memory) Commit(ctx context.Context, checks []*spend.Check, outcomes []*spend.Outcome, link chain.Link) error {
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	var fence spend.Fence
	switch {
	case len(checks) > 0:
		fence = checks[0].Fence
	case len(outcomes) > 0:
		fence = outcomes[0].Fence
	default:
		return nil
	}
	t, err := m.enter(fence)
	if err != nil {
		return err
	}
	defer m.leave(t)
	if m.pause != nil {
		m.pause(ctx)
	}
	return m.record(fence.Node, checks, outcomes, link)
}

// enter checks the fence at the beginning of a commit.
func (m *memory) enter(f spend.Fence) (*transaction, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case f.Epoch != m.epoch:
		return nil, audit.ErrStaleEpoch
	case m.fenced[f.Node]:
		return nil, audit.ErrFencedNode
	}
	t := &transaction{f, make(chan struct{})}
	m.open[t] = true
	return t, nil
}

func (m *memory) leave(t *transaction) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.open, t)
	close(t.ended)
}

func (m *memory) record(chainID spend.ID, checks []*spend.Check, outcomes []*spend.Outcome, link chain.Link) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	var taken []spend.Hash
	for _, c := range checks {
		if text := c.Action.ReasonText; strings.Contains(text, "\x00") || !utf8.ValidString(text) {
			return &audit.RowError{Err: errors.New("text that cannot be stored")}
		}
		if m.byID[c.ID] != nil {
			return &audit.RowError{Err: errors.New("the check is recorded already")}
		}
		if c.Action.IdempotencyKey != "" {
			if row, ok := m.byKey[c.KeyHash()]; ok && row.expires.After(now) {
				taken = append(taken, c.KeyHash())
			}
		}
	}
	if taken != nil {
		return &audit.KeysTakenError{Hashes: taken}
	}
	if err := m.reportable(outcomes); err != nil {
		return err
	}
	if m.links[chainID][link.Seq] != nil {
		return audit.ErrForked
	}
	if err := m.takeAndUse(checks, outcomes); err != nil {
		return err
	}
	if m.links[chainID] == nil {
		m.links[chainID] = make(map[int64]*chain.Link)
	}
	link.Entries = slices.Clone(link.Entries)
	m.links[chainID][link.Seq] = &link
	for _, c := range checks {
		stored := *c
		stored.Charges, _ = spend.ParseTaken(c.Action.PolicyID, string(c.AppendTaken(nil)))
		stored.Refused = nil
		if c.Approval != nil {
			at := now.UTC().Truncate(time.Millisecond)
			m.approvals[c.ID] = &audit.Approval{Check: &stored, CreatedAt: at, ExpiresAt: at.Add(c.Approval.Expires)}
		}
		m.checks = append(m.checks, &stored)
		m.byID[c.ID] = &stored
		m.events = append(m.events, event{at: now, check: &stored})
		if c.Action.IdempotencyKey != "" {
			m.byKey[c.KeyHash()] = keyRow{c.ID, now.Add(keysLive)}
		}
	}
	for _, o := range outcomes {
		stored := *o
		stored.Check, stored.Unread, stored.Follows, stored.RedeemBy = nil, false, nil, time.Time{}
		m.outcomes[o.CheckID] = append(m.outcomes[o.CheckID], &stored)
		m.events = append(m.events, event{at: now, outcome: &stored})
		if o.Unread {
			read := *m.byID[o.CheckID]
			o.Check, o.Unread = &read, false
		}
	}
	return nil
}

// wait returns when the open transactions that match have ended. It is called with mu held and
// unlocks it meanwhile; the caller first sets what stops later ones.
func (m *memory) wait(ctx context.Context, match func(spend.Fence) bool) error {
	var open []*transaction
	for t := range m.open {
		if match(t.fence) {
			open = append(open, t)
		}
	}
	m.mu.Unlock()
	defer m.mu.Lock()
	for _, t := range open {
		select {
		case <-t.ended:
		case <-ctx.Done():
			return unavailable(ctx.Err())
		}
	}
	return nil
}

func (m *memory) Deployment(ctx context.Context) (spend.ID, error) {
	return spend.ID{1}, ended(ctx)
}

func (m *memory) Epoch(ctx context.Context) (spend.ID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.epoch, ended(ctx)
}

func (m *memory) RotateEpoch(ctx context.Context, seen, next spend.ID) (spend.ID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return spend.ID{}, unavailable(err)
	}
	if m.epoch == seen {
		m.epoch = next // stops later ones
		if err := m.wait(ctx, func(spend.Fence) bool { return true }); err != nil {
			return spend.ID{}, err
		}
	}
	return m.epoch, nil
}

func (m *memory) Fence(ctx context.Context, node spend.ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	m.fenced[node] = true
	return m.wait(ctx, func(f spend.Fence) bool { return f.Node == node })
}

func (m *memory) Checks(ctx context.Context, ids []spend.ID) (found []*spend.Check, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		if c := m.byID[id]; c != nil {
			stored := *c
			found = append(found, &stored)
		}
	}
	return found, ended(ctx)
}

// ListChecks has only the newest check, which is what a guard asks about another's records.
func (m *memory) ListChecks(ctx context.Context, _ audit.CheckQuery) (page audit.CheckPage, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.checks) > 0 {
		newest := *slices.MaxFunc(m.checks, func(a, b *spend.Check) int { return bytes.Compare(a.ID[:], b.ID[:]) })
		page.Checks = []*spend.Check{&newest}
	}
	return page, ended(ctx)
}

func (m *memory) CheckIDsByKey(ctx context.Context, hashes []spend.Hash) (map[spend.Hash]spend.ID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := make(map[spend.Hash]spend.ID)
	for _, h := range hashes {
		if row, ok := m.byKey[h]; ok && row.expires.After(time.Now()) {
			found[h] = row.check
		}
	}
	return found, ended(ctx)
}

func (m *memory) LivePasses(
	ctx context.Context, fingerprints []spend.Hash, nowMS int64, upTo spend.Effect,
) (map[spend.Hash]audit.LivePass, error) {
	all, err := m.PagePasses(ctx, spend.ID{}, nowMS, len(m.snapshot()))
	found := make(map[spend.Hash]audit.LivePass)
	for _, p := range slices.Backward(all) {
		if slices.Contains(fingerprints, p.Fingerprint) && p.Effect <= upTo {
			found[p.Fingerprint] = p
		}
	}
	return found, err
}

func (m *memory) snapshot() []*spend.Check {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.checks)
}

func (m *memory) PagePasses(ctx context.Context, before spend.ID, nowMS int64, limit int) (page []audit.LivePass, err error) {
	all := m.snapshot()
	slices.SortFunc(all, func(a, b *spend.Check) int { return slices.Compare(b.ID[:], a.ID[:]) })
	for _, c := range all {
		if c.Pass.UntilMS > nowMS && !m.released(c.ID) && (before.IsZero() || slices.Compare(c.ID[:], before[:]) < 0) && len(page) < limit {
			page = append(page, audit.LivePass{Fingerprint: c.Fingerprint, CheckID: c.ID, Effect: c.Decision.Effect, Pass: c.Pass})
		}
	}
	return page, ended(ctx)
}

func (m *memory) Tidy(_ context.Context, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.counters, func(_ spend.Counter, c *counter) bool {
		return c.change.Charge.EndMS != 0 && c.change.Charge.EndMS <= now.Add(-audit.KeepCounters).UnixMilli()
	})
	maps.DeleteFunc(m.byKey, func(_ spend.Hash, row keyRow) bool { return !row.expires.After(now) })
	return nil
}
