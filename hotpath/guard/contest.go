package guard

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/redis/go-redis/v9"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// maxIdentity is longer than any identity.
const maxIdentity = 64

// Identity returns a random value that Redis has. Nodes that read different ones use different data: another Redis, another
// database in it or another prefix of names. A failover leaves the value, and a flush ends it.
func (g *Guard) Identity(ctx context.Context) (id string, err error) {
	err = g.redis.OnMaster(ctx, func(server *redis.Client) error {
		if id, err = g.readIdentity(ctx, server); err != nil || id != "" {
			return err
		}
		if err := server.SetNX(ctx, g.redis.Key(identityKey), rand.Text(), 0).Err(); err != nil {
			return fmt.Errorf("cannot name this redis: %w", err)
		}
		id, err = g.readIdentity(ctx, server) // another node's, if that was first
		return err
	})
	return id, err
}

func (g *Guard) readIdentity(ctx context.Context, server *redis.Client) (string, error) {
	id, err := server.GetRange(ctx, g.redis.Key(identityKey), 0, maxIdentity-1).Result()
	if err != nil {
		return "", fmt.Errorf("cannot read which redis this is: %w", err)
	}
	return id, nil
}

// Vet fails if Redis cannot be asked, or has windows of another deployment or of a newer format. It returns what Identity does,
// or nothing if there is no value yet. It changes nothing.
func (g *Guard) Vet(ctx context.Context) (identity string, err error) {
	err = g.redis.OnMaster(ctx, func(server *redis.Client) error {
		if _, err := g.inspect(ctx, server); err != nil {
			return err
		}
		identity, err = g.readIdentity(ctx, server)
		return err
	})
	return identity, err
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
