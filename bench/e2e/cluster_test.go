package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"spendgate/bench/fleet"
)

// claimSlot is a name in the slot that holds all the claims.
const claimSlot = "m:{0}"

// testCluster: the fleet's promises hold on a Redis Cluster, also when the
// owner of the claims changes.
func testCluster(t *testing.T, binary string) {
	s := newSuite(t, binary, fleet.Options{Cluster: true})
	s.inOrder(t, []test{
		{"G2 one row per key", s.oneKeyAtOnce},
		{"G3 one of many", s.oneActionAtOnce},
		{"G6 one limit for all nodes", s.rateLimit},
		{"G4 fresh policies", s.freshPolicies},
		{"G5 fresh keys", s.freshKeys},
		{"F4 owner killed", s.ownerKilled},
		{"F29 owner stopped and back", s.ownerStopped},
		{"F19 slot migrated", s.slotMigrated},
		{"G3 rolling restart of the cluster", s.clusterRestarted},
		{"F4 owner back empty", s.ownerBackEmpty},
	})
}

// owner is the server that owns the claims.
func (s *suite) owner(t *testing.T) *fleet.Redis {
	t.Helper()
	var owner *fleet.Redis
	eventually(t, patience, "the cluster agrees on an owner", func() (agreed bool) {
		var err error
		owner, err = s.Cluster.Master(t.Context(), claimSlot)
		return err == nil
	})
	return owner
}

// failedOver waits until the claims have another owner, which takes writes.
func (s *suite) failedOver(t *testing.T, before *fleet.Redis) {
	t.Helper()
	eventually(t, patience, "the claims have another owner", func() bool {
		owner, err := s.Cluster.Master(t.Context(), claimSlot)
		return err == nil && owner != before && writable(t, owner)
	})
}

// writable reports whether a server takes a write in the slot of the claims.
func writable(t *testing.T, r *fleet.Redis) bool {
	t.Helper()
	return r.Client.Set(t.Context(), "test:{0}", "", time.Minute).Err() == nil
}

// before makes a check before a fault. The function that it gives shows, after
// it, that the same action is a duplicate of that check, on either node.
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

// neverSplit begins to watch whether a node takes a failover for a split brain,
// in which it would have to wait; the function that it gives ends that.
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

// F4, G3, G7: the owner is killed; its replica takes over without its last
// claims, perhaps, but with a marker that looks right.
func (s *suite) ownerKilled(t *testing.T) {
	after, owner := s.before(t), s.owner(t)
	defer s.neverSplit(t)()
	s.underLoad(t, func() (from, back time.Time) {
		from = time.Now()
		act(t, owner.Kill())
		s.failedOver(t, owner)
		return from, time.Now()
	}, blind)
	after()
	act(t, owner.Start(t.Context()))
	act(t, s.Cluster.Await(limited(t, patience)))
}

// F29, G3, G7: the owner stops, is failed over, and wakes up believing that it
// still owns the claims, with open connections of the nodes.
func (s *suite) ownerStopped(t *testing.T) {
	after, owner := s.before(t), s.owner(t)
	s.underLoad(t, func() (from, back time.Time) {
		from = time.Now()
		act(t, owner.Stop())
		s.failedOver(t, owner)
		back = time.Now()
		act(t, owner.Continue())
		return from, back
	}, blind)
	after()
	act(t, s.Cluster.Await(limited(t, patience)))
}

// F19, G3: the slot of the claims is moved to another master, key by key.
// While it is, claims are refused: the slot has no one owner. Then its windows
// are another server's, and begin anew.
func (s *suite) slotMigrated(t *testing.T) {
	const names = 10_000 // so that it takes a while
	after, owner := s.before(t), s.owner(t)
	_, err := owner.Client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range names {
			p.Set(t.Context(), fmt.Sprintf("test:{0}:%d", i), "", time.Minute)
		}
		return nil
	})
	act(t, err)
	target := s.Cluster.Masters(t.Context())[0]
	if target == owner {
		target = s.Cluster.Masters(t.Context())[1]
	}
	s.underLoad(t, func() (from, back time.Time) {
		from = time.Now()
		moved, err := s.Cluster.Migrate(t.Context(), claimSlot, owner, target)
		act(t, err)
		if moved < names {
			t.Errorf("%d names moved", moved)
		}
		return from, time.Now()
	}, blind)
	after()
	if s.owner(t) != target {
		t.Error("the slot has not moved")
	}
}

// G3, G7: the servers are restarted one after the other, replicas first, and
// masters hand over to their replica before: the pair that has the claims, and
// if time permits the others too.
func (s *suite) clusterRestarted(t *testing.T) {
	after := s.before(t)
	masters := []*fleet.Redis{s.owner(t)}
	if thorough() {
		masters = s.Cluster.Masters(t.Context())
	}
	restart := func(r *fleet.Redis) {
		act(t, r.Terminate())
		_, err := r.Wait(limited(t, patience))
		act(t, err)
		act(t, r.Start(limited(t, patience)))
		act(t, s.Cluster.Await(limited(t, patience)))
	}
	for _, master := range masters {
		s.underLoad(t, func() (from, back time.Time) {
			from = time.Now()
			replica, err := s.Cluster.Replica(t.Context(), master)
			act(t, err)
			restart(replica)
			act(t, replica.Client.ClusterFailover(t.Context()).Err())
			eventually(t, patience, "the replica is master", func() bool {
				return strings.Contains(replica.Client.Info(t.Context(), "replication").Val(), "role:master") && writable(t, s.owner(t))
			})
			restart(master)
			return from, time.Now()
		}, func(from, back time.Time) expectation {
			return expectation{mayFail: around(from, back), within: closedIn}
		})
		after()
	}
}

// F4, G3: the owner is killed and is back before anyone misses it, empty, and
// is the owner still.
func (s *suite) ownerBackEmpty(t *testing.T) {
	after, owner := s.before(t), s.owner(t)
	s.underLoad(t, func() (from, back time.Time) {
		from = time.Now()
		act(t, owner.Kill())
		act(t, owner.Start(limited(t, patience)))
		eventually(t, patience, "the cluster works again", func() bool { return writable(t, s.owner(t)) })
		return from, time.Now()
	}, blind)
	after()
	act(t, s.Cluster.Await(limited(t, patience)))
}
