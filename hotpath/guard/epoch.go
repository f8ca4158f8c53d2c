package guard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"spendgate/audit/pause"
	"spendgate/audit/spend"
	"spendgate/hotpath/pipeline"
)

// An epoch is one life of Redis' windows. It is over when their marker is gone
// or names another server: after a flush, a restart, a failover, a split
// brain. A new epoch begins in Postgres, where it waits for the commits under
// way and refuses later ones of older epochs (F2); only then is it published
// in Redis. Its windows are lazy: a fresh claim is also looked up in Postgres,
// until a loader has copied every live window.

const (
	renewTimeout  = time.Second
	renewAttempts = 8
	// othersRenewal is how long a node that lost the race for an epoch waits
	// for the winner to publish it.
	othersRenewal = 20 * time.Millisecond
)

// renewal is one attempt to enter an epoch, shared with its failure by all checks that need it: none
// of them may wait for another attempt (G7).
type renewal struct {
	done chan struct{}
	err  error
}

// renew brings the node into the epoch in force, beginning one if Redis'
// windows are lost. stale is the marker that the caller found void.
func (g *Guard) renew(ctx context.Context, stale marker) error {
	g.mu.Lock()
	if *g.windows.Load() != stale && !g.foreign.Load() {
		g.mu.Unlock()
		return nil // another check has renewed the marker
	}
	r := g.renewing
	if r == nil {
		r = &renewal{done: make(chan struct{})}
		g.renewing = r
		go g.runRenewal(r)
	}
	g.mu.Unlock()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
}

func (g *Guard) runRenewal(r *renewal) {
	ctx, cancel := context.WithTimeout(context.Background(), renewTimeout)
	defer cancel()
	if err := g.enterSomeEpoch(ctx); err != nil {
		g.notOurs(err)
		r.err = fmt.Errorf("%w: cannot enter an epoch: %w", ErrUnavailable, err)
	}
	g.mu.Lock()
	g.renewing = nil
	g.mu.Unlock()
	close(r.done)
}

// notOurs handles a renewal that met windows of another deployment: nothing more is claimed there, and
// it is logged once. Called by one renewal at a time.
func (g *Guard) notOurs(err error) {
	if !errors.Is(err, errOtherDeployment) && !errors.Is(err, errNewerFormat) {
		return
	}
	g.windows.Store(&marker{})
	if g.refused != err.Error() {
		g.refused = err.Error()
		g.log.Error("every check is refused: these windows are not of this deployment and version", "error", err)
	}
}

func (g *Guard) enterSomeEpoch(ctx context.Context) error {
	var last disagreement
	for range renewAttempts {
		g.foreign.Store(false)
		var done bool
		err := g.redis.OnMaster(ctx, func(server *redis.Client) (err error) {
			done, err = g.enterEpoch(ctx, server, &last)
			return err
		})
		if err != nil || done {
			return err
		}
		if err := pause.For(ctx, othersRenewal); err != nil {
			return err
		}
	}
	return errEpochsChange
}

// disagreement is a state in which Redis' marker is not the marker of the store's epoch. Seen once,
// another node's renewal may be half done; seen twice in a row, no node is working on it.
type disagreement struct {
	epoch  spend.ID
	marker string
}

// enterEpoch adopts the epoch that Redis and Postgres agree on, or begins one.
// It returns false when another node may be faster.
func (g *Guard) enterEpoch(ctx context.Context, server *redis.Client, last *disagreement) (done bool, err error) {
	epoch, err := g.store.Epoch(ctx)
	if err != nil {
		return false, err
	}
	w, err := g.inspect(ctx, server)
	if err != nil {
		return false, err
	}
	found := w.marker
	if found.epoch != epoch || found.server != w.server {
		if seen := (disagreement{epoch, w.text}); *last != seen {
			*last = seen
			return false, nil
		}
		if found.epoch.IsZero() || found.epoch == epoch { // emptied, or a promoted replica
			return g.beginEpoch(ctx, server, epoch, w)
		}
		if found.sameWindows(*g.windows.Load()) && !g.superseded.persists(epoch) {
			return false, fmt.Errorf("%w: %s; the last check is of node %s", errSuperseded, epoch.Text(""), g.rival(ctx))
		}
		return g.beginEpoch(ctx, server, epoch, w)
	}
	if err := g.mendGeneration(ctx, server); err != nil {
		return false, err
	}
	g.enter(found)
	g.metrics.epochs.WithLabelValues("adopted").Inc()
	return true, nil
}

// mendGeneration replaces a generation that is missing, empty or no text. A new
// one is never wrong: nodes load the configuration once more.
func (g *Guard) mendGeneration(ctx context.Context, server *redis.Client) error {
	key := g.redis.Key(generationKey)
	if nonce, err := server.GetRange(ctx, key, 0, 0).Result(); err == nil && nonce != "" || err != nil && !pipeline.WrongType(err) {
		return err
	}
	return server.Set(ctx, key, rand.Text(), 0).Err()
}

// errSuperseded: Redis has lost nothing, yet the store's epoch is another. Most
// likely another node lives on another Redis, the winner of a split brain, and
// taking the epoch back would refuse its commits.
var errSuperseded = errors.New("another node began an epoch that this redis does not know")

// superseded notices when a disagreement persists: then the other node died between the store and
// Redis, and this node has to continue.
type superseded struct {
	epoch spend.ID
	since time.Time
}

const supersededFor = time.Second

// persists is called by one renewal at a time.
func (s *superseded) persists(epoch spend.ID) bool {
	if now := time.Now(); s.epoch != epoch || now.Sub(s.since) > 10*supersededFor {
		*s = superseded{epoch, now}
	}
	return time.Since(s.since) > supersededFor
}

// beginEpoch: first the fence in Postgres, then a new generation, and the
// marker last, by compare-and-set against what was seen (F7).
func (g *Guard) beginEpoch(ctx context.Context, server *redis.Client, seen spend.ID, w windowsOf) (done bool, err error) {
	own, err := g.Deployment(ctx)
	if err != nil {
		return false, err
	}
	next := marker{deployment: own, epoch: spend.NewID(time.Now()), server: w.server}
	current, err := g.store.RotateEpoch(ctx, seen, next.epoch)
	if err != nil || current != next.epoch {
		return false, err
	}
	if err := server.Set(ctx, g.redis.Key(generationKey), rand.Text(), 0).Err(); err != nil {
		return false, err
	}
	if swapped, err := g.swapMarker(ctx, server, w.text, next.String()); err != nil || !swapped {
		return false, err
	}
	g.enter(next)
	level, rival := slog.LevelWarn, ""
	if g.embedded {
		level = slog.LevelInfo // every start of an in-process Redis
	} else {
		rival = g.rival(ctx) // the node on another Redis, if two were confused
	}
	g.log.Log(ctx, level, "a new epoch began: redis' windows were lost, or new; duplicates are looked up in the store until they are loaded",
		"epoch", next.epoch.Text(""), "node", g.Node().Text(""), "last_check_of_node", rival)
	g.metrics.epochs.WithLabelValues("started").Inc()
	return true, nil
}

// entry is when this node entered an epoch, or saw it first, by its own clock.
type entry struct {
	epoch spend.ID
	at    time.Time
}

// enter has this node's next claims use the windows.
func (g *Guard) enter(m marker) {
	g.refused = ""
	g.redis.ForgetWindows()
	g.entered.Store(&entry{m.epoch, time.Now()})
	g.windows.Store(&m)
	select {
	case g.load <- struct{}{}:
	default:
	}
}
