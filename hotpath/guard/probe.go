package guard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"spendgate/ratelimit"
)

// Ping fails when a check would, as far as Redis goes: it cannot be reached, is
// not fit for claims, holds another deployment's windows, refuses a command that
// claims need, or its windows are lost and no epoch can be begun.
func (g *Guard) Ping(ctx context.Context) error {
	err := g.conns.onMaster(ctx, func(server *redis.Client) error {
		if _, err := g.inspect(ctx, server); err != nil {
			return err // before anything is written
		}
		return g.conns.probe(ctx, server)
	})
	if err != nil {
		return err
	}
	_, err = g.Ask(ctx, ratelimit.Charge{})
	return err
}

// Probe fails when Redis cannot be reached, is not fit for claims or refuses a
// command that they need, and returns its time. It needs no Guard, and no store.
func Probe(ctx context.Context, o Options) (now time.Time, err error) {
	c := connect(o.Redis, o.KeyPrefix, o.Embedded)
	defer func() { err = errors.Join(err, c.close()) }()
	err = c.onMaster(ctx, func(server *redis.Client) error {
		if _, err := c.name(ctx, server); err != nil {
			return err
		}
		if err := c.probe(ctx, server); err != nil {
			return err
		}
		now, err = server.Time(ctx).Result()
		return err
	})
	return now, err
}

// probe sends each command that the guard sends, for names of its own that
// vanish, and on the others only what changes nothing.
func (c *connections) probe(ctx context.Context, server *redis.Client) error {
	const life = 1000 // ms
	mine := rand.Text()
	pipe := server.Pipeline()
	var sent []*redis.Cmd
	do := func(args ...any) { sent = append(sent, pipe.Do(ctx, args...)) }
	for _, kind := range []string{"k:{0}:probe:", "f:{0}:probe:"} {
		claim := c.key(kind + mine)
		do("set", claim, mine, "nx", "get", "px", life)
		do("get", claim)
		do("eval", swapScript, 1, claim, mine, mine, life, 0)
		do("pttl", claim)
		do("eval", releaseScript, 1, claim, mine)
	}
	counter := c.key(ratelimit.KeyPrefix + "probe:" + mine)
	do("incrby", counter, 2)
	do("pexpire", counter, life, "nx")
	do("pexpiretime", counter)
	do("decrby", counter, 1)
	lease := c.key("l:{0}:probe:" + mine)
	do("set", lease, mine, "nx", "px", life)
	do("del", lease)
	for _, name := range []string{markerKey, generationKey} {
		do("getrange", c.key(name), 0, maxMarker-1)
		do("eval", swapMarkerScript, 1, c.key(name), mine, "") // another value than any that is there
	}
	do("time")
	_, _ = pipe.Exec(ctx) // each reply is looked at
	return refusals(sent)
}

// refusals says which commands were refused, and why the first of them was.
func refusals(sent []*redis.Cmd) error {
	var names []string
	var first error
	for _, cmd := range sent {
		err := cmd.Err()
		var told redis.Error
		switch {
		case !failed(err), mistyped(err): // a name of another type is mended by whoever needs it
			continue
		case !errors.As(err, &told):
			return err // no answer
		case first == nil:
			first = err
		}
		if name := strings.ToUpper(cmd.Name()); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if first == nil {
		return nil
	}
	return fmt.Errorf("redis refuses %s: %w", strings.Join(names, ", "), first)
}
