package httpapi

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"spendgate/hotpath"
)

// unauthorized is a node's memory of one reason for a 401.
type unauthorized struct {
	reason  string // also a label value
	counter prometheus.Counter
	tally   tally
}

// The reasons, in the order of API.unauthorized.
const (
	keyMissing = iota
	keyUnknown
	keyInactive
	keyAdmin
	keySession
)

var unauthorizedReasons = [...]string{
	keyMissing: "missing", keyUnknown: "unknown", keyInactive: "inactive", keyAdmin: "admin", keySession: "session",
}

// noteUnauthorized counts a 401 and returns the attributes that its line of the
// log has besides the usual ones. Such lines are one a second for each reason,
// since anybody can cause them; due is false for the others.
func (a *API) noteUnauthorized(x *exchange) (attrs []slog.Attr, due bool) {
	reason := keyUnknown
	switch {
	case errors.Is(x.failure, errAdminKey):
		reason = keyAdmin
	case errors.Is(x.failure, hotpath.ErrSessionEnded):
		reason = keySession
	case errors.Is(x.failure, hotpath.ErrKeyInactive):
		reason = keyInactive
	case len(x.ctx.Request.Header.PeekCanonical(headerAPIKey)) == 0:
		reason = keyMissing
	}
	u := &a.unauthorized[reason]
	u.counter.Inc()
	requests, due := u.tally.add(time.Now())
	if !due {
		return nil, false
	}
	return []slog.Attr{slog.String("reason", u.reason), slog.Int64("requests", requests)}, true
}

// tallied is how often a tally is logged.
const tallied = time.Second

// tally counts events that are too frequent for a line of the log each.
type tally struct{ count, logged atomic.Int64 }

// add counts one event. When a line is due it returns how many events it stands for.
func (t *tally) add(now time.Time) (n int64, due bool) {
	t.count.Add(1)
	last := t.logged.Load()
	if now.UnixNano()-last < int64(tallied) || !t.logged.CompareAndSwap(last, now.UnixNano()) {
		return 0, false
	}
	return t.count.Swap(0), true
}

const (
	// maxAdminFailures is how many wrong admin keys of one address are compared
	// in adminFailuresFor. The others are refused without a comparison.
	maxAdminFailures = 10
	adminFailuresFor = time.Minute
	// maxFailedClients bounds the number of addresses in memory; beyond it all are forgotten.
	maxFailedClients = 4096
)

// adminFailures remembers which addresses sent wrong admin keys.
type adminFailures struct {
	lockouts prometheus.Counter

	mu      sync.Mutex
	clients map[string]failedClient
}

type failedClient struct {
	failures int
	until    time.Time
}

// compare reports whether the address has an attempt left and matches is true. Attempts take turns, so
// that concurrent ones count like consecutive ones.
func (f *adminFailures) compare(address string, now time.Time, matches func() bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.clients[address]
	if now.After(c.until) {
		c = failedClient{until: now.Add(adminFailuresFor)}
	}
	if c.failures >= maxAdminFailures {
		return false
	}
	if matches() {
		return true
	}
	if c.failures++; c.failures == maxAdminFailures {
		f.lockouts.Inc()
	}
	if f.clients == nil || len(f.clients) >= maxFailedClients {
		f.clients = make(map[string]failedClient)
	}
	f.clients[address] = c
	return false
}
