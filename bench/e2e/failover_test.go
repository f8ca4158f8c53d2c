package e2e_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// claimSlot is a name in the slot that holds all the claims.
const claimSlot = "m:{0}"

// agreed returns the server that has the claims, if the Redis Cluster or the
// Sentinels agree on one.
func (s *suite) agreed(ctx context.Context) (*fleet.Redis, error) {
	if s.Cluster != nil {
		return s.Cluster.Master(ctx, claimSlot)
	}
	return s.Sentinel.Master(ctx)
}

// master returns the server that has the claims.
func (s *suite) master(t *testing.T) *fleet.Redis {
	t.Helper()
	var master *fleet.Redis
	eventually(t, patience, "they agree on a master", func() (agreed bool) {
		var err error
		master, err = s.agreed(t.Context())
		return err == nil
	})
	return master
}

// promoted waits until another server has the claims, and takes writes.
func (s *suite) promoted(t *testing.T, before *fleet.Redis) {
	t.Helper()
	eventually(t, patience, "there is another master", func() bool {
		master, err := s.agreed(t.Context())
		return err == nil && master != before && writable(t, master)
	})
}

// writable reports whether a server takes a write in the slot of the claims.
func writable(t *testing.T, r *fleet.Redis) bool {
	t.Helper()
	return r.Client.Set(t.Context(), "test:{0}", "", time.Minute).Err() == nil
}

// before makes a check before a fault. The returned function shows afterwards that
// the same action is a duplicate of that check, on either node.
func (s *suite) before(t *testing.T) (after func()) {
	t.Helper()
	action := s.action("42")
	first := check(t, s.client(0), action).Result()
	return func() {
		t.Helper()
		for n := range 2 {
			again := s.answeredWithin(t, resumeIn, s.client(n), action)
			if r := again.Result(); !r.Duplicate() || named(t, r) != first.CheckID {
				t.Errorf("the action of %s was answered %s", first.CheckID, again)
			}
		}
	}
}

// neverSplit watches whether a node takes a failover for a split brain, in which
// it would have to wait. The returned function ends the watch.
func (s *suite) neverSplit(t *testing.T) (end func()) {
	t.Helper()
	var before []int
	for _, n := range s.Nodes {
		before = append(before, len(n.Log()))
	}
	return func() {
		t.Helper()
		for i, n := range s.Nodes {
			if strings.Contains(n.Log()[before[i]:], "another node began an epoch") {
				t.Errorf("%s took a failover for a split brain (F30)", n.Name)
			}
		}
	}
}

// F29, F30, G3, G7: the master stops, is failed over, and continues as a master,
// with open connections of the nodes.
func (s *suite) masterStopped(t *testing.T) {
	after, master := s.before(t), s.master(t)
	s.underLoad(t, func() (from, back time.Time) {
		from = time.Now()
		must.Do(t, master.Stop())
		s.promoted(t, master)
		back = time.Now()
		must.Do(t, master.Continue())
		return from, back
	}, outage)
	after()
	if s.Cluster != nil {
		must.Do(t, s.Cluster.Await(limited(t, patience)))
	}
}
