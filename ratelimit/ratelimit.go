// Package ratelimit counts requests in fixed windows of 60 s that open with a
// caller's first request (S26). The arithmetic is pure; the counter lives in
// Redis and travels in the pipeline of hotpath/guard.
package ratelimit

import "time"

// Window is how long a counter lives from its first request.
const Window = 60 * time.Second

// DemoLimit is how many requests a window an address may send without a key.
const DemoLimit = 10

// Quota is what the X-RateLimit headers say of a caller (S6).
type Quota struct {
	Limit     int   // requests a window
	Remaining int   // left in this window
	ResetUnix int64 // when the window ends, in Unix seconds, rounded up
}

// Unspent is the quota of a caller whose window has not opened.
func Unspent(limit int, now time.Time) Quota {
	return Quota{Limit: limit, Remaining: limit, ResetUnix: now.Add(Window).Unix()}
}
