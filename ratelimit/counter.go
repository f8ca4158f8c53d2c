package ratelimit

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"spendgate/hotpath/pipeline/resp"
)

// KeyPrefix begins the name of every counter; the braces keep all of them in
// one slot of a Redis Cluster.
const KeyPrefix = "r:{0}:"

// Count is the counting of n requests of one caller, queued in a pipeline.
type Count struct {
	n         int64
	total     resp.Index
	expires   resp.Index // unless the window's end was known
	expiresMS int64      // that end; 0 when not known
}

// QueueCount adds n requests to a counter. The window is opened by the first
// and closed by Redis; a counter left without an end by a broken connection
// gets it from the next.
func QueueCount(pipe *resp.Pipeline, key string, n int64) Count {
	c := Count{n: n, total: incrBy(pipe, key, n)}
	QueueEnd(pipe, key)
	c.expires = pipe.Command("PEXPIRETIME")
	pipe.Key(key)
	return c
}

// QueueCountWithin is QueueCount for a window whose end is known and not near:
// one command instead of three.
func QueueCountWithin(pipe *resp.Pipeline, key string, n, expiresMS int64) Count {
	return Count{n: n, total: incrBy(pipe, key, n), expiresMS: expiresMS}
}

func incrBy(pipe *resp.Pipeline, key string, n int64) resp.Index {
	i := pipe.Command("INCRBY")
	pipe.Key(key)
	pipe.Int(n)
	return i
}

// QueueEnd makes a counter expire after Window, unless it has an expiry.
func QueueEnd(pipe *resp.Pipeline, key string) resp.Index {
	i := pipe.Command("PEXPIRE")
	pipe.Key(key)
	pipe.Int(Window.Milliseconds())
	pipe.Text("NX")
	return i
}

// Place gives the i-th of the n requests its place, once the pipeline has run.
func (c Count) Place(pipe *resp.Pipeline, i int64) (Place, error) {
	total, err := pipe.Reply(c.total).Int()
	if err != nil {
		return Place{}, fmt.Errorf("cannot count a request: %w", err)
	}
	p := Place{Position: total - c.n + i + 1, ExpiresMS: c.expiresMS}
	if c.expiresMS == 0 {
		if p.ExpiresMS, err = pipe.Reply(c.expires).Int(); err != nil {
			return Place{}, fmt.Errorf("cannot read the end of a rate window: %w", err)
		}
	}
	return p, nil
}

// Endless reports whether the count opened a counter whose end it did not set:
// the window that was known is gone. QueueEnd mends that.
func (c Count) Endless(pipe *resp.Pipeline) bool {
	total, err := pipe.Reply(c.total).Int()
	return err == nil && c.expiresMS != 0 && total == c.n
}

// maxTotal is more than any counter counts: it is an exact number of Lua's, too.
const maxTotal = 1 << 52

// lateEnd is later than the end of any window of this service.
const lateEnd = 2 * Window

// Spoilt reports whether the counter holds what this service never counts:
// another type, no number, or one that is out of its range. QueueReset mends
// that. now is Redis' time.
func (c Count) Spoilt(pipe *resp.Pipeline, now time.Time) bool {
	total, err := pipe.Reply(c.total).Int()
	if refused, ok := errors.AsType[resp.Error](err); ok {
		return strings.HasPrefix(string(refused), "WRONGTYPE ") || strings.HasPrefix(string(refused), "ERR ")
	}
	if err != nil {
		return false
	}
	end := c.expiresMS
	if end == 0 {
		end, _ = pipe.Reply(c.expires).Int()
	}
	return total < c.n || total > maxTotal || end > now.Add(lateEnd).UnixMilli()
}

// resetScript deletes a counter that is spoilt, and none that others count on
// by now: a counter below the truth would admit too many.
const resetScript = `local value = redis.pcall('GET', KEYS[1])
if value == false then return 0 end
if type(value) == 'string' and #value <= 15 and string.match(value, '^%d+$') and redis.call('PTTL', KEYS[1]) <= tonumber(ARGV[1]) then return 0 end
return redis.call('DEL', KEYS[1])`

// QueueReset opens a new window in place of a counter that is spoilt.
func QueueReset(pipe *resp.Pipeline, key string) resp.Index {
	i := pipe.Script(resetScript, key)
	pipe.Int(lateEnd.Milliseconds())
	return i
}

// refundScript takes refused requests off the window they were counted in, and
// off no later one: a counter below the truth would admit too many.
const refundScript = `if redis.call('PEXPIRETIME', KEYS[1]) == tonumber(ARGV[1]) then return redis.call('DECRBY', KEYS[1], ARGV[2]) end return 0`

// QueueRefund takes a refused request off again.
func QueueRefund(pipe *resp.Pipeline, key string, expiresMS int64) resp.Index {
	i := pipe.Script(refundScript, key)
	pipe.Int(expiresMS)
	pipe.Int(1)
	return i
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
