package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// ErrOtherRedis says that other nodes record checks in an epoch which this node's Redis
// does not know: they have another Redis.
var ErrOtherRedis = errors.New(
	"other nodes record checks in an epoch that this redis does not know: they use another redis, give this node theirs")

const (
	// contestPause is longer than nodes take to notice that Redis lost its windows, and
	// than commits in progress then take to end.
	contestPause = 1500 * time.Millisecond
	// contestRecent is the age up to which the newest check shows that other nodes are at work.
	contestRecent = time.Minute
)

// Vet checks, before anything is claimed, whether this node's Redis is that of the other nodes. A node
// on another Redis would take the epoch from them and they from it, and checks would fail on both
// sides (F30). Vet changes nothing, and takes 3 s if the windows are not those of the epoch although
// checks were recorded in the last minute. Errors: ErrOtherRedis, errors for windows of another
// deployment or of a newer format, or a failure to ask.
func (g *Guard) Vet(ctx context.Context) error {
	if g.embedded {
		return nil
	}
	var before spend.ID
	for look := range 3 {
		newest, known, err := g.lookAtRecord(ctx)
		switch {
		case err != nil:
			return err
		case known || time.Since(newest.id.Time()) > contestRecent:
			return nil
		case look == 2 && newest.id != before:
			return fmt.Errorf("%w (the newest is %s of node %s)", ErrOtherRedis, newest.id.Text(spend.PrefixCheck), newest.node.Text(""))
		case look == 2:
			return nil
		}
		before = newest.id
		select {
		case <-time.After(contestPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// VetNew fails if Redis has windows: they cannot belong to a database that has no schema yet.
func (g *Guard) VetNew(ctx context.Context) error {
	return g.redis.OnMaster(ctx, func(server *redis.Client) error {
		w, err := g.readMarker(ctx, server)
		if err == nil && !w.marker.epoch.IsZero() {
			err = fmt.Errorf("%s: %w: %s, and this is a new one; give one of them SPENDGATE_REDIS_KEY_PREFIX, or delete the key if that one is gone",
				g.redis.Key(markerKey), errOtherDeployment, w.marker.deployment.Text(""))
		}
		return err
	})
}

// Forgotten reports whether checks were recorded in an epoch that this node's Redis does not know:
// Redis lost its windows or, while no node receives requests, is not the Redis of the other nodes.
func (g *Guard) Forgotten(ctx context.Context) (bool, error) {
	newest, known, err := g.lookAtRecord(ctx)
	return err == nil && !known && !newest.id.IsZero(), err
}

// recorded is the newest check in the store, zero if there is none.
type recorded struct{ id, node spend.ID }

func (g *Guard) newest(ctx context.Context) (r recorded, err error) {
	page, err := g.store.ListChecks(ctx, audit.CheckQuery{Limit: 1, Examine: 2})
	if err == nil && len(page.Checks) > 0 {
		r = recorded{page.Checks[0].ID, page.Checks[0].Fence.Node}
	}
	return r, err
}

// lookAtRecord returns the newest check, and then whether Redis knows the epoch in which
// checks are recorded.
func (g *Guard) lookAtRecord(ctx context.Context) (newest recorded, known bool, err error) {
	newest, err = g.newest(ctx)
	if err != nil {
		return newest, false, err
	}
	var w windowsOf
	err = g.redis.OnMaster(ctx, func(server *redis.Client) (err error) {
		w, err = g.inspect(ctx, server)
		return err
	})
	if err != nil {
		return newest, false, err
	}
	epoch, err := g.store.Epoch(ctx)
	return newest, w.marker.epoch == epoch, err
}

// rival names, for people, the node that recorded last, which may be one on another Redis; it returns
// nothing if it was this node or none.
func (g *Guard) rival(ctx context.Context) string {
	r, err := g.newest(ctx)
	if err != nil || r.node.IsZero() || r.node == g.Node() {
		return "unknown"
	}
	return r.node.Text("")
}
