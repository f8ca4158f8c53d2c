package e2e_test

import (
	"strings"
	"testing"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// testSentinel: the guarantees hold on a Redis with Sentinels, also when another
// server becomes master.
func testSentinel(t *testing.T, binary string) {
	s := newSuite(t, binary, fleet.Options{Sentinel: true})
	s.inOrder(t, []test{
		{"G2 one row per key", s.oneKeyAtOnce},
		{"G3 one of many", s.oneActionAtOnce},
		{"G4 fresh policies", s.freshPolicies},
		{"G5 failover while idle", s.masterReplacedIdle},
		{"F29 master demoted", s.masterDemoted},
		{"F4 master killed", s.masterKilled},
		{"F4 failover by command", s.masterReplaced},
		{"F30 master stopped and back", s.masterStopped},
	})
}

// F4, G3, G7: the master is killed. When it restarts, empty and still a master
// until a Sentinel reconfigures it, no node claims on it.
func (s *suite) masterKilled(t *testing.T) {
	after, master := s.before(t), s.master(t)
	defer s.neverSplit(t)()
	s.underLoad(t, func() (from, back time.Time) {
		from = time.Now()
		must.Do(t, master.Kill())
		s.promoted(t, master)
		back = time.Now()
		must.Do(t, master.Start(limited(t, patience)))
		return from, back
	}, outage)
	after()
	names, err := master.Client.DBSize(t.Context()).Result()
	role := master.Client.Info(t.Context(), "replication").Val()
	again := s.master(t) == master // a slow machine's Sentinels may fail over once more
	if err != nil || strings.Contains(role, "role:master") && names > 0 && !again {
		t.Errorf("the old master was given %d names: %v", names, err)
	}
}

// replace makes the Sentinels fail over. The old master goes on answering, as a
// master for ten seconds, and no connection to it is closed.
func (s *suite) replace(t *testing.T) {
	t.Helper()
	master := s.master(t)
	eventually(t, patience, "the failover begins", func() bool { return s.Sentinel.Failover(t.Context()) == nil })
	s.promoted(t, master)
}

// F4, G3, G7: the Sentinels fail over by command.
func (s *suite) masterReplaced(t *testing.T) {
	after := s.before(t)
	s.underLoad(t, func() (from, back time.Time) {
		from = time.Now()
		s.replace(t)
		return from, time.Now()
	}, func(from, back time.Time) expectation {
		return expectation{mayFail: around(from, back), within: closedIn}
	})
	after()
}

// G5: the same without commits, by which the nodes would notice it. New keys are
// valid on both nodes from the first moment on.
func (s *suite) masterReplacedIdle(t *testing.T) {
	after := s.before(t)
	s.replace(t)
	known := 0
	for back := time.Now(); time.Since(back) < resumeIn; {
		_, key, err := s.Nodes[0].Admin(s.AdminKey).CreateKey(t.Context(), "test", plenty)
		if err != nil {
			continue // refused, as checks may be
		}
		for _, n := range s.Nodes {
			if a := must.Get(n.Client(key).Violations(t.Context(), "limit=1"))(t); a.Status == 401 {
				t.Fatalf("%s after a failover %s refuses a new key: %s", time.Since(back), n.Name, a)
			}
		}
		known++
	}
	if known == 0 {
		t.Error("no key was made")
	}
	after()
}

// F29, G7: the master becomes a replica by hand. No connection to it is
// closed, and it goes on answering reads.
func (s *suite) masterDemoted(t *testing.T) {
	after, master := s.before(t), s.master(t)
	s.underLoad(t, func() (from, back time.Time) {
		from = time.Now()
		must.Do(t, s.Sentinel.Reverse(limited(t, patience), master))
		s.promoted(t, master)
		return from, time.Now()
	}, func(from, back time.Time) expectation {
		return expectation{mayFail: around(from, back), within: closedIn}
	})
	after()
}
