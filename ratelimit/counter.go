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
	n         int64
	total     *redis.IntCmd
	expires   *redis.DurationCmd // nil when the window's end was known
	expiresMS int64
}

// QueueCount adds n requests to a counter. The window is opened by the first
// and closed by Redis; a counter left without an end by a broken connection
// gets it from the next.
func QueueCount(ctx context.Context, pipe redis.Pipeliner, key string, n int64) Count {
	c := Count{n: n, total: pipe.IncrBy(ctx, key, n)}
	QueueEnd(ctx, pipe, key)
	c.expires = pipe.PExpireTime(ctx, key)
	return c
}

// QueueCountWithin is QueueCount for a window whose end is known and not near:
// one command instead of three.
func QueueCountWithin(ctx context.Context, pipe redis.Pipeliner, key string, n, expiresMS int64) Count {
	return Count{n: n, total: pipe.IncrBy(ctx, key, n), expiresMS: expiresMS}
}

// QueueEnd gives a counter without an end one.
func QueueEnd(ctx context.Context, pipe redis.Pipeliner, key string) *redis.Cmd {
	return pipe.Do(ctx, "PEXPIRE", key, Window.Milliseconds(), "NX")
}

// Place gives the i-th of the n requests its place, once the pipeline has run.
func (c Count) Place(i int64) (Place, error) {
	total, err := c.total.Result()
	if err != nil {
		return Place{}, fmt.Errorf("cannot count a request: %w", err)
	}
	p := Place{Position: total - c.n + i + 1, ExpiresMS: c.expiresMS}
	if c.expires != nil {
		expires, err := c.expires.Result()
		if err != nil {
			return Place{}, fmt.Errorf("cannot read the end of a rate window: %w", err)
		}
		p.ExpiresMS = expires.Milliseconds()
	}
	return p, nil
}

// Endless reports whether the count opened a counter whose end it did not set:
// the window that was known is gone. QueueEnd mends that.
func (c Count) Endless() bool { return c.expires == nil && c.total.Val() == c.n }

// refundScript takes refused requests off the window they were counted in, and
// off no later one: a counter below the truth would admit too many.
const refundScript = `if redis.call('PEXPIRETIME', KEYS[1]) == tonumber(ARGV[1]) then return redis.call('DECRBY', KEYS[1], ARGV[2]) end return 0`

// QueueRefund takes n refused requests off again.
func QueueRefund(ctx context.Context, pipe redis.Pipeliner, key string, expiresMS, n int64) *redis.Cmd {
	return pipe.Eval(ctx, refundScript, []string{key}, expiresMS, n)
}

// Memory is what a node remembers of windows, to spare Redis commands: when
// they end, and which callers were refused. It is never asked whether a
// request is admitted. It belongs to one goroutine at a time.
type Memory struct {
	windows map[string]window
}

type window struct {
	expiresMS int64
	limit     int   // refused under this limit; 0 when not refused
	refused   Place // where
}

const (
	// maxWindows bounds the memory; past it windows are forgotten, which costs
	// commands, not correctness.
	maxWindows = 1 << 16
	// margin keeps away from a window's end, which this node's idea of Redis'
	// time could miss.
	margin = 2 * time.Second
)

func (m *Memory) put(key string, w window) {
	if m.windows == nil || len(m.windows) >= maxWindows {
		m.windows = make(map[string]window)
	}
	m.windows[key] = w
}

// NoteEnd remembers when a window ends.
func (m *Memory) NoteEnd(key string, expiresMS int64) {
	if m.windows[key].expiresMS != expiresMS {
		m.put(key, window{expiresMS: expiresMS})
	}
}

// End gives the end of the window that is open at now, unless that is near.
func (m *Memory) End(key string, now time.Time) (expiresMS int64, ok bool) {
	w := m.windows[key]
	return w.expiresMS, now.Add(margin).UnixMilli() < w.expiresMS
}

// NoteRefusal remembers that a request was refused under a limit.
func (m *Memory) NoteRefusal(key string, limit int, place Place) {
	m.put(key, window{expiresMS: place.ExpiresMS, limit: limit, refused: place})
}

// Refused gives the refusal that still holds for the key: its window has not
// ended at now, and the limit is the one it was refused under, since a changed
// key is judged anew.
func (m *Memory) Refused(key string, limit int, now time.Time) (Place, bool) {
	w := m.windows[key]
	if w.limit == 0 || w.limit != limit || w.refused.Ended(now) {
		return Place{}, false
	}
	return w.refused, true
}

// ForgetWindow drops one window: it is not what it was.
func (m *Memory) ForgetWindow(key string) { delete(m.windows, key) }

// Forget drops every window: the counters they were read from are gone.
func (m *Memory) Forget() { m.windows = nil }
