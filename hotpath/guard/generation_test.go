package guard

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// G5: right after a switch of master, which begins an epoch, a change of the
// configuration is not answered before every node has turned to the new one (F52).
func TestChangeWaitsForTheSwitch(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		g := newGuard(t)
		g.failoverLag = 300 * time.Millisecond
		must.Do(t, g.RaiseGeneration(t.Context()))
		if age := time.Since(g.windows.Load().epoch.Time()); age < g.failoverLag {
			t.Errorf("answered %s after the epoch began", age)
		}
		// The clock of the node that began it is behind, by more than that.
		own := must.Get(g.Deployment(t.Context()))(t)
		behind := marker{deployment: own, epoch: spend.NewID(time.Now().Add(-time.Second)), server: "embedded"}
		server, err := g.redis.Master(t.Context())
		if err == nil {
			_, err = g.store.RotateEpoch(t.Context(), g.windows.Load().epoch, behind.epoch)
		}
		if err == nil {
			err = server.Set(t.Context(), markerKey, behind.String(), 0).Err()
		}
		began := time.Now()
		must.Do(t, errors.Join(err, g.RaiseGeneration(t.Context())))
		if age := time.Since(began); age < g.failoverLag {
			t.Errorf("answered %s after an epoch began that seemed a second older", age)
		}
		// Once is enough, even for a node that gets no other requests.
		began = time.Now()
		if err := g.RaiseGeneration(t.Context()); err != nil || time.Since(began) >= g.failoverLag {
			t.Errorf("the next change took %s, %v", time.Since(began), err)
		}
	})
}

// G5: for a moment after a failover a server of the cluster still names the old master. A change of the
// configuration asks again.
func TestChangeAsksForTheMasterAgain(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		var refused atomic.Int64
		g := newDialingGuard(t, func(c net.Conn, err error) (net.Conn, error) {
			if refused.Add(1) <= 2 && err == nil {
				err = errors.Join(errors.New("nobody listens"), c.Close())
			}
			return c, err
		})
		if err := g.RaiseGeneration(t.Context()); err != nil || refused.Load() < 3 {
			t.Errorf("%v, after %d connections", err, refused.Load())
		}
	})
}
