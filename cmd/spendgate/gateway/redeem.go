package gateway

import (
	"context"
	"crypto/rand"
	"sync"
)

// redemptions has the idempotency keys of redemptions of which it is not known whether
// they were recorded, and whose calls were not made.
type redemptions struct {
	mu   sync.Mutex
	keys map[string]string // by check
}

// take returns the key for redeeming a check: that of an open redemption, which nobody
// else gets then, or a new one.
func (r *redemptions) take(checkID string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	key, open := r.keys[checkID]
	delete(r.keys, checkID)
	if !open {
		key = "gw-" + rand.Text()
	}
	return key
}

// keep remembers a redemption of which it is not known whether it was recorded.
func (r *redemptions) keep(checkID, key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys == nil || len(r.keys) >= maxRemembered {
		r.keys = make(map[string]string)
	}
	r.keys[checkID] = key
}

// doubt records that nobody knows what became of a redeemed check. Where that fails the
// service does it by itself, later.
func (g *Gateway) doubt(ctx context.Context, checkID string) {
	if _, err := g.api.ReportInDoubt(ctx, checkID, ""); err != nil {
		g.log.Warn("what is in doubt was not recorded; the service does it by itself", "check_id", checkID, "error", err)
	}
}
