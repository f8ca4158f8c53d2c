package ratelimit

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// KeyPrefix begins the name of every counter; the braces keep it in the slot
// of its bucket.
const KeyPrefix = "r:{0}:"

// Count is the counting of n requests of one caller, queued in a pipeline.
type Count struct {
	n       int64
	total   *redis.IntCmd
	expires *redis.DurationCmd
}

// QueueCount adds n requests to a counter. The window is opened by the first
// and closed by Redis; a counter left without an end by a broken connection
// gets it from the next.
func QueueCount(ctx context.Context, pipe redis.Pipeliner, key string, n int64) Count {
	c := Count{n: n, total: pipe.IncrBy(ctx, key, n)}
	pipe.Do(ctx, "PEXPIRE", key, Window.Milliseconds(), "NX")
	c.expires = pipe.PExpireTime(ctx, key)
	return c
}

// Place gives the i-th of the n requests its place, once the pipeline has run.
func (c Count) Place(i int64) (Place, error) {
	total, err := c.total.Result()
	if err != nil {
		return Place{}, fmt.Errorf("cannot count a request: %w", err)
	}
	expires, err := c.expires.Result()
	if err != nil {
		return Place{}, fmt.Errorf("cannot read the end of a rate window: %w", err)
	}
	return Place{Position: total - c.n + i + 1, ExpiresMS: expires.Milliseconds()}, nil
}

// refundScript takes refused requests off the window they were counted in, and
// off no later one: a counter below the truth would admit too many.
const refundScript = `if redis.call('PEXPIRETIME', KEYS[1]) == tonumber(ARGV[1]) then return redis.call('DECRBY', KEYS[1], ARGV[2]) end return 0`

// QueueRefund takes n refused requests off again.
func QueueRefund(ctx context.Context, pipe redis.Pipeliner, key string, expiresMS, n int64) *redis.Cmd {
	return pipe.Eval(ctx, refundScript, []string{key}, expiresMS, n)
}

// Refusals remembers callers that were refused, so that asking again costs
// Redis nothing until their window ends. It belongs to one goroutine.
type Refusals struct {
	byKey map[string]refusal
}

type refusal struct {
	limit int
	place Place
}

// maxRefusals bounds the memory of refusals; past it they are forgotten, which
// costs commands, not correctness.
const maxRefusals = 1 << 16

// Note remembers that a request was refused under a limit.
func (r *Refusals) Note(key string, limit int, place Place) {
	if r.byKey == nil || len(r.byKey) >= maxRefusals {
		r.byKey = make(map[string]refusal)
	}
	r.byKey[key] = refusal{limit, place}
}

// Forget drops every refusal: the counters they were read from are gone.
func (r *Refusals) Forget() { r.byKey = nil }

// Known gives the refusal that still holds for the key: its window has not
// ended at now, and the limit is the one it was refused under, since a changed
// key is judged anew.
func (r *Refusals) Known(key string, limit int, now time.Time) (Place, bool) {
	known, ok := r.byKey[key]
	if !ok || known.limit != limit || known.place.Ended(now) {
		return Place{}, false
	}
	return known.place, true
}
