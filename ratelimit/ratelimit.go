// Package ratelimit counts requests in fixed windows of 60 s that open with a
// caller's first request (S26).
//
// The counter of a caller lives in Redis, one for the fleet, and counts by
// INCRBY: the requests of one batch take consecutive positions, and a request
// is admitted when its position is within the limit. So the fleet can never
// admit more than the limit in one window (G6). Refused requests are subtracted
// again, since they do not count, but only from the window in which they were counted;
// until then the counter is too high, never too low.
//
// This package has the arithmetic; hotpath/pipeline sends the commands. Losing
// Redis opens a new window.
package ratelimit

import "time"

// KeyPrefix begins the name of every counter; the braces keep all of them in
// one slot of a Redis Cluster.
const KeyPrefix = "r:{0}:"

// Window is how long a counter lives from its first request.
const Window = 60 * time.Second

// DemoLimit is how many requests a window an address may send without a key.
const DemoLimit = 10

// Quota is what the X-RateLimit headers say of a caller (S6).
type Quota struct {
	Limit     int   // requests a window
	Remaining int   // left in this window
	ResetMS   int64 // when the window ends, in Unix milliseconds by Redis' clock
}

// ResetUnix is when the window has ended, in Unix seconds, rounded up.
func (q Quota) ResetUnix() int64 { return ceilSeconds(q.ResetMS) }

// RetryAfter is how many seconds to wait until the window has ended: rounded
// up, at least 1, and never more than a window, whatever the clocks say.
func (q Quota) RetryAfter(now time.Time) int64 {
	return min(max(1, ceilSeconds(q.ResetMS-now.UnixMilli())), int64(Window/time.Second))
}

func ceilSeconds(ms int64) int64 { return (ms + 999) / 1000 }

// Unspent is the quota of a caller whose window has not opened.
func Unspent(limit int, now time.Time) Quota {
	return Quota{Limit: limit, Remaining: limit, ResetMS: now.Add(Window).Truncate(time.Second).UnixMilli()}
}

// Place is where a request stands in its window. The zero Place is nowhere:
// the request was not counted.
type Place struct {
	Position  int64 // 1 for the first request of the window
	ExpiresMS int64 // the window's end by Redis' clock: its identity
}

// Judge admits a request whose place is within the limit.
func (p Place) Judge(limit int) (q Quota, admitted bool) {
	q = Quota{
		Limit:     limit,
		Remaining: max(0, limit-int(min(p.Position, int64(limit)))),
		ResetMS:   p.ExpiresMS,
	}
	return q, p.Position <= int64(limit)
}

// Ended reports whether the place's window is over.
func (p Place) Ended(now time.Time) bool { return now.UnixMilli() >= p.ExpiresMS }

// Hit is a request to be counted against a caller's limit. The zero Hit
// counts nothing.
type Hit struct {
	Key   string // the name of the caller's counter
	Limit int    // requests a window
}
