package hotpath

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/guard"
	"spendgate/hotpath/policy"
)

const (
	// pollEvery bounds how long a node may miss a change whose author crashed
	// between its commit and raising the generation (F12).
	pollEvery = 2 * time.Second
	// loadTimeout bounds one load; a check waits for two at most, the one under
	// way and the next (G7).
	loadTimeout = 600 * time.Millisecond
	// The programs kept compiled, by number and by their size in memory.
	maxPrograms     = 4096
	maxProgramBytes = 128 << 20
	// compilesAtOnce bounds how many policies are read and compiled at once: the
	// largest allocates some 36 MB on the way.
	compilesAtOnce = 4
)

// catalog is this node's copy of the configuration: all keys, and the policies
// in use, compiled.
type catalog struct {
	store   Store
	log     *slog.Logger
	metrics *metrics
	current atomic.Pointer[view]

	loads     *guard.Gathering[string] // of the generation that is read before the load begins
	compiling singleflight.Group
	compiles  permits

	mu           sync.Mutex
	programs     map[string]*policy.Program
	programBytes int
	maxBytes     int   // of programBytes
	drops        int64 // counts invalidations, so that a slow load cannot store an outdated program

	stop context.CancelFunc
	done sync.WaitGroup
}

// view is an immutable state of the configuration: at least as new as the
// generation it is labelled with.
type view struct {
	generation string // as the guard reads it
	number     int64  // the store's
	keys       map[spend.Hash]*key
	named      map[string]*key // the same, by key_id
	freezes    freezes
	grants     grants
	keyStops   *keyStops
	stops      int64 // the last change that stops something (S87)
}

func newCatalog(store Store, log *slog.Logger, m *metrics) *catalog {
	ctx, stop := context.WithCancel(context.Background())
	c := &catalog{
		store: store, log: log, metrics: m, stop: stop,
		maxBytes: maxProgramBytes, compiles: make(permits, compilesAtOnce), programs: make(map[string]*policy.Program),
	}
	c.loads = guard.NewGathering(func(generation *string) error { return c.refresh(*generation) })
	c.current.Store(&view{})
	c.done.Go(func() { c.poll(ctx) })
	return c
}

func (c *catalog) close() {
	c.stop()
	c.done.Wait()
}

func (c *catalog) view() *view { return c.current.Load() }

// load makes the view at least as new as a generation that was read before the call. A view that
// already has this generation was loaded after the generation was raised, so it is new enough; else
// only a load that begins after the call is (F12).
func (c *catalog) load(ctx context.Context, generation string) error {
	if c.view().generation == generation {
		return nil
	}
	_, err := c.loads.Do(ctx, func(read *string) { *read = generation })
	return err
}

// reload makes the view at least as new as the store is now.
func (c *catalog) reload(ctx context.Context) error {
	_, err := c.loads.Do(ctx, func(read *string) { // a generation that a waiting request read is newer
		if *read == "" {
			*read = c.view().generation
		}
	})
	return err
}

// refresh applies the changes in the store.
func (c *catalog) refresh(generation string) error {
	ctx, cancel := context.WithTimeout(context.Background(), loadTimeout)
	defer cancel()
	old := c.view()
	changes, err := c.store.ConfigChanges(ctx, old.number)
	if err == nil && changes.Generation < old.number {
		old = &view{} // the store was replaced by an older one
		changes, err = c.store.ConfigChanges(ctx, 0)
	}
	if err != nil {
		c.metrics.reloadFailures.Inc()
		return fmt.Errorf("%w: cannot load the configuration: %w", ErrUnavailable, err)
	}
	if changes.Generation == old.number && old.generation == generation {
		return nil
	}
	next := &view{generation: generation, number: changes.Generation, keys: old.keys, named: old.named}
	next.keyStops = old.keyStops.with(changes.Keys, time.Now())
	if len(changes.Keys) > 0 || old.keys == nil {
		next.keys, next.named = maps.Clone(old.keys), maps.Clone(old.named)
		if next.keys == nil {
			next.keys, next.named = make(map[spend.Hash]*key, len(changes.Keys)), make(map[string]*key, len(changes.Keys))
		}
		for _, k := range changes.Keys {
			made := newKey(&k, spend.PrefixKey)
			made.used = new(lastUse)
			if known, ok := c.view().keys[k.Hash]; ok {
				made.used = known.used
			}
			next.keys[k.Hash], next.named[made.name] = made, made
		}
	}
	next.stops = changes.Stops
	if err := next.follow(old, changes.Stopping, time.Now()); err != nil {
		c.metrics.reloadFailures.Inc()
		return fmt.Errorf("%w: cannot load freezes and grants: %w", ErrUnavailable, err)
	}
	c.drop(changes.PolicyIDs, old.number == 0)
	c.current.Store(next)
	c.metrics.reloads.Inc()
	return nil
}

// follow makes the freezes and grants of a view those of the one before, with what changed since.
func (v *view) follow(old *view, changes []audit.Change, now time.Time) (err error) {
	slices.SortFunc(changes, func(a, b audit.Change) int { return cmp.Compare(a.Seq, b.Seq) })
	var ofFreezes, ofGrants []audit.Change
	for _, c := range changes {
		if c.Kind.IsGrant() {
			ofGrants = append(ofGrants, c)
		} else {
			ofFreezes = append(ofFreezes, c)
		}
	}
	if v.freezes, err = old.freezes.with(ofFreezes); err != nil {
		return err
	}
	v.grants, err = old.grants.with(ofGrants, now)
	return err
}

// drop forgets programs that have a newer version.
func (c *catalog) drop(policyIDs []string, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drops++
	if all {
		clear(c.programs)
		c.programBytes = 0
		return
	}
	for _, id := range policyIDs {
		c.forgetLocked(id)
	}
}

func (c *catalog) forgetLocked(id string) {
	if p := c.programs[id]; p != nil {
		c.programBytes -= p.Size()
		delete(c.programs, id)
	}
}

// program returns the latest version of a policy, compiled: at least as new as the view that the
// caller took before. Concurrent callers share one load. Its name has the count of drops in it, so
// that nobody joins a load that began before a change that they have seen.
func (c *catalog) program(policyID string) (*policy.Program, error) {
	p, drops := c.cached(policyID)
	if p != nil {
		return p, nil
	}
	v, err, _ := c.compiling.Do(policyID+"@"+strconv.FormatInt(drops, 10), func() (any, error) {
		p, err := c.compile(policyID, 0)
		if err != nil {
			return nil, err
		}
		c.keep(policyID, p, drops)
		return p, nil
	})
	p, _ = v.(*policy.Program)
	return p, err
}

// cached returns the program that is in memory, or nil, and the count of drops.
func (c *catalog) cached(policyID string) (*policy.Program, int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.programs[policyID], c.drops
}

// compile compiles a version of a policy, 0 the latest.
func (c *catalog) compile(policyID string, version int) (*policy.Program, error) {
	ctx, cancel := context.WithTimeout(context.Background(), loadTimeout)
	defer cancel()
	if err := c.compiles.take(ctx); err != nil {
		return nil, fmt.Errorf("%w: cannot compile policy %s: %w", ErrUnavailable, policyID, err)
	}
	defer c.compiles.free()
	stored, err := c.store.Policy(ctx, policyID, version)
	switch {
	case errors.Is(err, audit.ErrNotFound):
		return nil, &PolicyNotFoundError{policyID}
	case err != nil:
		return nil, fmt.Errorf("%w: cannot load policy %s: %w", ErrUnavailable, policyID, err)
	}
	var faults spend.Faults
	p := policy.CompileStored(stored.PolicyID, stored.Version, stored.Rules, &faults)
	if err := faults.Err(); err != nil {
		return nil, fmt.Errorf("stored policy %s version %d does not compile: %w", stored.PolicyID, stored.Version, err)
	}
	p.SetRedeemTerms(stored.Redeem)
	p.CountSince(stored.Budgets)
	return p, nil
}

// compileRules compiles rules that are not of a stored version, and adds their faults to the faults.
func (c *catalog) compileRules(
	ctx context.Context, policyID string, version int, rules string, faults *spend.Faults,
) (*policy.Program, error) {
	if err := c.compiles.take(ctx); err != nil {
		return nil, fmt.Errorf("%w: too many policies are compiled: %w", ErrOverloaded, err)
	}
	defer c.compiles.free()
	return policy.Compile(policyID, version, rules, faults), nil
}

// keep stores a program, unless programs were dropped since it was read, since it may be one of them.
func (c *catalog) keep(id string, p *policy.Program, drops int64) {
	size := p.Size()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.drops != drops {
		return
	}
	c.forgetLocked(id)
	for other := range c.programs { // any will do: programs in use are loaded again
		if len(c.programs) < maxPrograms && c.programBytes+size <= c.maxBytes {
			break
		}
		c.forgetLocked(other)
	}
	c.programs[id] = p
	c.programBytes += size
}

// permits bound how much work of a kind runs at once.
type permits chan struct{}

// take waits for a place until the context ends.
func (p permits) take(ctx context.Context) error {
	select {
	case p <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p permits) free() { <-p }

// poll follows the store's own generation, so that a change is also noticed if the node that made it
// died before it raised the generation in Redis.
func (c *catalog) poll(ctx context.Context) {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if c.view().keys == nil {
			continue // nothing was asked of this node yet
		}
		if err := c.reload(context.WithoutCancel(ctx)); err != nil && ctx.Err() == nil {
			c.log.Warn("cannot follow the configuration", "error", err)
		}
	}
}
