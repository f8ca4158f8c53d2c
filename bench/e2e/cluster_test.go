package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// testCluster: the guarantees hold on a Redis Cluster, also when the owner of the
// claims changes.
func testCluster(t *testing.T, binary string) {
	s := newSuite(t, binary, fleet.Options{Cluster: true})
	s.inOrder(t, []test{
		{"G2 one row per key", s.oneKeyAtOnce},
		{"G3 one of many", s.oneActionAtOnce},
		{"G6 one limit for all nodes", s.rateLimit},
		{"G4 fresh policies", s.freshPolicies},
		{"G5 fresh keys", s.freshKeys},
		{"F4 owner killed", s.ownerKilled},
		{"F29 owner stopped and back", s.masterStopped},
		{"F19 slot migrated", s.slotMigrated},
		{"G3 rolling restart of the cluster", s.clusterRestarted},
		{"F4 owner back empty", s.ownerBackEmpty},
	})
}

// F4, G3, G7: the owner is killed; its replica takes over, perhaps without its
// last claims, but with a valid marker.
func (s *suite) ownerKilled(t *testing.T) {
	after, owner := s.before(t), s.master(t)
	defer s.neverSplit(t)()
	s.underLoad(t, func() (from, back time.Time) {
		from = time.Now()
		must.Do(t, owner.Kill())
		s.promoted(t, owner)
		return from, time.Now()
	}, outage)
	after()
	must.Do(t, owner.Start(t.Context()))
	must.Do(t, s.Cluster.Await(limited(t, patience)))
}

// F19, G3: the slot of the claims is moved to another master, key by key.
// Meanwhile claims are refused: the slot has no single owner. Then its windows are
// on another server, and are rebuilt.
func (s *suite) slotMigrated(t *testing.T) {
	const names = 4000 // so that it takes a while
	after, owner := s.before(t), s.master(t)
	must.Get(owner.Client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range names {
			p.Set(t.Context(), fmt.Sprintf("test:{0}:%d", i), "", time.Minute)
		}
		return nil
	}))(t)
	target := s.Cluster.Masters(t.Context())[0]
	if target == owner {
		target = s.Cluster.Masters(t.Context())[1]
	}
	s.underLoad(t, func() (from, back time.Time) {
		from = time.Now()
		moved := must.Get(s.Cluster.Migrate(t.Context(), claimSlot, owner, target))(t)
		if moved < names {
			t.Errorf("%d names moved", moved)
		}
		return from, time.Now()
	}, outage)
	after()
	if s.master(t) != target {
		t.Error("the slot has not moved")
	}
}

// G3, G7: the servers are restarted one after the other, replicas first, and
// masters hand over to their replica before: the pair that has the claims, and
// if time permits the others too.
func (s *suite) clusterRestarted(t *testing.T) {
	after := s.before(t)
	masters := []*fleet.Redis{s.master(t)}
	if thorough() {
		masters = s.Cluster.Masters(t.Context())
	}
	restart := func(r *fleet.Redis) {
		must.Do(t, r.Terminate())
		must.Get(r.Wait(limited(t, patience)))(t)
		must.Do(t, r.Start(limited(t, patience)))
		must.Do(t, s.Cluster.Await(limited(t, patience)))
	}
	for _, master := range masters {
		s.underLoad(t, func() (from, back time.Time) {
			from = time.Now()
			replica := must.Get(s.Cluster.Replica(t.Context(), master))(t)
			restart(replica)
			must.Do(t, replica.Client.ClusterFailover(t.Context()).Err())
			eventually(t, patience, "the replica is master", func() bool {
				return strings.Contains(replica.Client.Info(t.Context(), "replication").Val(), "role:master") && writable(t, s.master(t))
			})
			restart(master)
			return from, time.Now()
		}, func(from, back time.Time) expectation {
			return expectation{mayFail: around(from, back), within: closedIn}
		})
		after()
	}
}

// F4, G3: the owner is killed and restarts empty before a failover, so it is still
// the owner.
func (s *suite) ownerBackEmpty(t *testing.T) {
	after, owner := s.before(t), s.master(t)
	s.underLoad(t, func() (from, back time.Time) {
		from = time.Now()
		must.Do(t, owner.Kill())
		must.Do(t, owner.Start(limited(t, patience)))
		eventually(t, patience, "the cluster works again", func() bool { return writable(t, s.master(t)) })
		return from, time.Now()
	}, outage)
	after()
	must.Do(t, s.Cluster.Await(limited(t, patience)))
}
