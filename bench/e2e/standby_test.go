package e2e_test

import (
	"strings"
	"testing"
	"time"

	"spendgate/bench/fleet"
)

// testStandby: a PostgreSQL with a synchronous standby fails over and nothing
// that was answered is lost.
func testStandby(t *testing.T, binary string) {
	s := newSuite(t, binary, fleet.Options{Standby: true})
	s.inOrder(t, []test{
		{"G1 durability is told", s.durabilityTold},
		{"G1 primary killed", s.primaryKilled},
		{"G1 primary stopped", s.primaryStopped},
	})
}

// durability is what /readyz says of node 0.
func (s *suite) durability(t *testing.T) string {
	t.Helper()
	return string(must(s.Nodes[0].Ready(t.Context()))(t).Body)
}

// G1, S27: /readyz says whether losing the database's machine can lose
// anything.
func (s *suite) durabilityTold(t *testing.T) {
	if text := s.durability(t); !strings.Contains(text, "synchronous standbys *") {
		t.Errorf("with a synchronous standby /readyz says %s", text)
	}
}

// failOver promotes the standby, once the primary is out of the way.
func (s *suite) failOver(t *testing.T) (back time.Time) {
	t.Helper()
	act(t, s.Standby.Promote(limited(t, patience)))
	back = time.Now()
	s.Postgres, s.Standby = s.Standby, s.Postgres
	return back
}

// restore makes the old primary the standby of the new one.
func (s *suite) restore(t *testing.T) {
	t.Helper()
	if text := s.durability(t); !strings.Contains(text, "no synchronous standby") {
		t.Errorf("without a synchronous standby /readyz says %s", text)
	}
	act(t, s.Standby.Kill())
	act(t, s.Standby.Follow(limited(t, patience), s.Postgres))
	s.durabilityTold(t)
}

// primaryGone ends the primary in some way under load; the standby is promoted.
func (s *suite) primaryGone(t *testing.T, end func() error) {
	t.Helper()
	after := s.before(t)
	s.underLoad(t, func() (from, back time.Time) {
		from = time.Now()
		act(t, end())
		return from, s.failOver(t)
	}, blind)
	after()
	s.restore(t)
}

// G1, G2, G3, G7: the primary's machine is gone.
func (s *suite) primaryKilled(t *testing.T) { s.primaryGone(t, s.Postgres.Kill) }

// G1, G2, G3, G7: the primary does not answer any more, but closes no
// connection and takes new ones.
func (s *suite) primaryStopped(t *testing.T) { s.primaryGone(t, s.Postgres.Stop) }
