package pipeline

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"spendgate/hotpath/pipeline/resp"
	"spendgate/ratelimit"
)

// counters are the counters that one batch adds to, each once.
type counters struct {
	all   []counter
	byKey map[string]int // index in all
}

type counter struct {
	key    string
	count  count
	spoilt bool
}

// position is where a counted request is in its batch: the nth of a counter,
// from 0.
type position struct {
	counter int
	nth     int64
}

// chargeLocked refuses a request that is known to be over its limit, and else has it
// counted.
func (c *Client) chargeLocked(r *Request, now time.Time) {
	if r.Hit.Key == "" {
		return
	}
	var refused bool
	r.Place, refused = c.memory.Refused(r.Hit.Key, r.Hit.Limit, now)
	if r.Counted = !refused; refused {
		r.Sets = [2]Set{}
	}
	if ends, ok := c.memory.End(r.Hit.Key, now); ok {
		r.ends = ends
	}
}

// queue adds the counters' commands and sets the position of every
// counted request.
func (c *counters) queue(p *resp.Pipeline, requests []*Request) {
	clear(c.all)
	clear(c.byKey)
	c.all = c.all[:0]
	for _, r := range requests {
		if !r.Counted {
			continue
		}
		i, ok := c.byKey[r.Hit.Key]
		if !ok {
			if c.byKey == nil {
				c.byKey = make(map[string]int)
			}
			i = len(c.all)
			c.byKey[r.Hit.Key] = i
			c.all = append(c.all, counter{key: r.Hit.Key, count: count{expiresMS: r.ends}})
		}
		n := &c.all[i].count.n
		r.position = position{i, *n}
		*n++
	}
	for i := range c.all {
		c.all[i].count.queue(p, c.all[i].key)
	}
}

var errSpoiltCounter = errors.New("a counter in Redis holds what no node counts")

// placeAll sets the place of every counted request, and remembers the windows.
func (c *Client) placeAll(requests []*Request, now time.Time) {
	p := &c.commands
	var mend []deferred
	for i := range c.counters.all {
		if n := &c.counters.all[i]; n.count.spoilt(p, now) {
			n.spoilt = true
			mend = append(mend, resetCounter(n.key))
		}
	}
	for _, r := range requests {
		if !r.Counted {
			continue
		}
		var err error
		n := &c.counters.all[r.position.counter]
		if r.Place, err = n.count.place(p, r.position.nth); err == nil && n.spoilt {
			err = errSpoiltCounter
		}
		if r.err == nil {
			r.err = err
		}
	}
	c.mu.Lock()
	for _, n := range c.counters.all {
		if n.spoilt {
			c.memory.ForgetWindow(n.key)
		} else if n.count.endless(p) {
			c.memory.ForgetWindow(n.key)
			mend = append(mend, endWindow(n.key))
		} else if first, err := n.count.place(p, 0); err == nil {
			c.memory.NoteEnd(n.key, first.ExpiresMS)
		}
	}
	c.mu.Unlock()
	if len(mend) > 0 {
		c.later(mend...)
	}
}

// Refuse takes a refused request off its window again, and remembers the refusal
// until the window ends.
func (c *Client) Refuse(hit ratelimit.Hit, place ratelimit.Place) {
	c.mu.Lock()
	c.memory.NoteRefusal(hit.Key, hit.Limit, place)
	c.mu.Unlock()
	c.later(refund(hit.Key, place))
}

// ForgetWindows drops the memory of rate windows, since their counters are gone.
func (c *Client) ForgetWindows() {
	c.mu.Lock()
	c.memory.Forget()
	c.mu.Unlock()
}

// count is the counting of n requests of one caller.
type count struct {
	n         int64
	total     resp.Index
	expires   resp.Index // unless the window's end was known
	expiresMS int64      // that end, if it is known and not near; else 0
}

// queue adds the requests to the counter. The window is opened by the first and
// closed by Redis; a counter left without an end by a broken connection gets it
// from the next. One command does when the end is known.
func (c *count) queue(p *resp.Pipeline, key string) {
	c.total = p.Command("INCRBY")
	p.Key(key)
	p.Int(c.n)
	if c.expiresMS > 0 {
		return
	}
	queueEnd(p, key)
	c.expires = p.Command("PEXPIRETIME")
	p.Key(key)
}

// queueEnd makes a counter expire after a window, unless it has an expiry.
func queueEnd(p *resp.Pipeline, key string) resp.Index {
	i := p.Command("PEXPIRE")
	p.Key(key)
	p.Int(ratelimit.Window.Milliseconds())
	p.Text("NX")
	return i
}

// place returns the place of the nth of the n requests, from 0.
func (c *count) place(p *resp.Pipeline, nth int64) (ratelimit.Place, error) {
	total, err := p.Reply(c.total).Int()
	if err != nil {
		return ratelimit.Place{}, fmt.Errorf("cannot count a request: %w", err)
	}
	place := ratelimit.Place{Position: total - c.n + nth + 1, ExpiresMS: c.expiresMS}
	if c.expiresMS == 0 {
		if place.ExpiresMS, err = p.Reply(c.expires).Int(); err != nil {
			return ratelimit.Place{}, fmt.Errorf("cannot read the end of a rate window: %w", err)
		}
	}
	return place, nil
}

// endless reports whether the count opened a counter without setting its end, because the known window
// is gone. endWindow sets the end.
func (c *count) endless(p *resp.Pipeline) bool {
	total, err := p.Reply(c.total).Int()
	return err == nil && c.expiresMS != 0 && total == c.n
}

// maxTotal is more than any counter counts: it is an exact number of Lua's, too.
const maxTotal = 1 << 52

// lateEnd is later than the end of any window of this service.
const lateEnd = 2 * ratelimit.Window

// spoilt reports whether the counter has a value that this service never writes: another type, no
// number, or a number out of range. resetCounter repairs it. now is Redis' time.
func (c *count) spoilt(p *resp.Pipeline, now time.Time) bool {
	total, err := p.Reply(c.total).Int()
	if refused, ok := errors.AsType[resp.Error](err); ok {
		return strings.HasPrefix(string(refused), "WRONGTYPE ") || strings.HasPrefix(string(refused), "ERR ")
	}
	if err != nil {
		return false
	}
	end := c.expiresMS
	if end == 0 {
		end, _ = p.Reply(c.expires).Int()
	}
	return total < c.n || total > maxTotal || end > now.Add(lateEnd).UnixMilli()
}

// endWindow sets the end of a counter that was opened without one.
func endWindow(key string) deferred {
	return deferred{born: time.Now(), queue: func(p *resp.Pipeline) resp.Index { return queueEnd(p, key) }}
}

// resetScript deletes a spoilt counter, unless others count on it by now: a counter below the truth
// would admit too many.
const resetScript = `local value = redis.pcall('GET', KEYS[1])
if value == false then return 0 end
if type(value) == 'string' and #value <= 15 and string.match(value, '^%d+$') and
  redis.call('PTTL', KEYS[1]) <= tonumber(ARGV[1]) then return 0 end
return redis.call('DEL', KEYS[1])`

// resetCounter opens a new window in place of a counter that is spoilt.
func resetCounter(key string) deferred {
	return deferred{born: time.Now(), queue: func(p *resp.Pipeline) resp.Index {
		i := p.Script(resetScript, key)
		p.Int(lateEnd.Milliseconds())
		return i
	}}
}

// refundScript takes refused requests off the window they were counted in, and
// off no later one: a counter below the truth would admit too many.
const refundScript = `if redis.call('PEXPIRETIME', KEYS[1]) == tonumber(ARGV[1]) then return redis.call('DECRBY', KEYS[1], ` +
	`ARGV[2]) end return 0`

// refund takes a refused request off its window. It is sent once (F25).
func refund(key string, place ratelimit.Place) deferred {
	return deferred{born: time.Now(), once: true, queue: func(p *resp.Pipeline) resp.Index {
		i := p.Script(refundScript, key)
		p.Int(place.ExpiresMS)
		p.Int(1)
		return i
	}}
}
