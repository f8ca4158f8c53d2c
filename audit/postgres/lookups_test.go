package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/spend"
	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// hanging passes connections on, and while it hangs accepts new ones and says nothing.
type hanging struct {
	net.Listener
	hangs    atomic.Bool
	accepted atomic.Int32 // while it hung
}

func newHanging(t *testing.T, target string) *hanging {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	h := &hanging{Listener: listener}
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = from.Close() })
			if h.hangs.Load() {
				h.accepted.Add(1)
				continue
			}
			to, err := net.Dial("tcp", target)
			if err != nil {
				_ = from.Close()
				continue
			}
			t.Cleanup(func() { _ = to.Close() })
			go func() { _, _ = io.Copy(to, from) }()
			go func() { _, _ = io.Copy(from, to) }()
		}
	}()
	return h
}

// TestLookupsWhileConnectingHangs: a pooler that accepts connections and never answers does not
// keep redemptions waiting while other connections are available. Without any, redemptions are
// refused in time.
func TestLookupsWhileConnectingHangs(t *testing.T) {
	direct := must.Get(url.Parse(fleet.TestSchema(t)))(t)
	recorder := open(t, direct.String(), true)
	check := minimal(newFence(t, recorder))
	must.Do(t, audittest.Record(t.Context(), recorder, check))
	pooler := newHanging(t, direct.Host)
	direct.Host = pooler.Addr().String()
	const patience = 800 * time.Millisecond // of all look-ups that wait for one query
	look := func(s *Store) (found []*spend.Check, took time.Duration, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		begun := time.Now()
		found, err = s.Untouched(ctx, []spend.ID{check.ID})
		return found, time.Since(begun), err
	}

	var s *Store
	repeated(t, "beside a connection that hangs", func() error {
		pooler.hangs.Store(false)
		s = open(t, direct.String(), false)
		if _, err := s.Checks(t.Context(), []spend.ID{check.ID}); err != nil { // a connection for reads
			t.Fatal(err)
		}
		pooler.accepted.Store(0)
		pooler.hangs.Store(true)
		hung := int32(0)
		for n := range 3 {
			found, took, err := look(s)
			if err != nil || len(found) != 1 || found[0].ID != check.ID {
				return fmt.Errorf("look-up %d: %v, %w after %v", n, found, err, took)
			}
			if n == 0 {
				hung = pooler.accepted.Load()
			}
		}
		if now := pooler.accepted.Load(); hung == 0 || now != hung { // only the first one tries to connect
			return fmt.Errorf("%d connections hung, and then %d", hung, now)
		}
		return nil
	})
	repeated(t, "without any connection", func() error {
		if _, took, err := look(open(t, direct.String(), false)); !errors.Is(err, audit.ErrUnavailable) || took > patience+time.Second {
			return fmt.Errorf("%w after %v", err, took)
		}
		return nil
	})
	pooler.hangs.Store(false)
	for until := time.Now().Add(time.Minute); s.lookups.Stat().AcquireCount() == 0; {
		s.lookupsFrom.Store(0) // the pause is over
		if found, _, err := look(s); err != nil || len(found) != 1 || time.Now().After(until) {
			t.Fatalf("after connecting works again: %v, %v, over %d connections of its own", found, err, s.lookups.Stat().AcquireCount())
		}
	}
}
