package e2e_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// testStandby: a PostgreSQL with a synchronous standby fails over and nothing
// that was answered is lost.
func testStandby(t *testing.T, binary string) {
	s := newSuite(t, binary, fleet.Options{Standby: true})
	s.inOrder(t, []test{
		{"G1 durability is reported", s.durabilityReported},
		{"G1 primary killed", s.primaryKilled},
		{"G1 primary stopped", s.primaryStopped},
		{"a standby that lags loses checks", s.standbyBehind},
	})
}

// durability returns what /readyz says of node 0.
func (s *suite) durability(t *testing.T) string {
	t.Helper()
	return string(must.Get(s.Nodes[0].Ready(t.Context()))(t).Body)
}

// G1, S27: /readyz says whether losing the database's machine can lose
// anything.
func (s *suite) durabilityReported(t *testing.T) {
	if text := s.durability(t); !strings.Contains(text, "synchronous standbys *") {
		t.Errorf("with a synchronous standby /readyz says %s", text)
	}
}

// failOver promotes the standby, once the primary is out of the way.
func (s *suite) failOver(t *testing.T) (back time.Time) {
	t.Helper()
	must.Do(t, s.Standby.Promote(limited(t, patience)))
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
	must.Do(t, s.Standby.Kill())
	must.Do(t, s.Standby.Follow(limited(t, patience), s.Postgres))
	s.durabilityReported(t)
}

// primaryGone ends the primary in some way under load; the standby is promoted,
// perhaps so soon that no check fails.
func (s *suite) primaryGone(t *testing.T, end func() error) {
	t.Helper()
	after := s.before(t)
	s.underLoad(t, func() (from, back time.Time) {
		from = time.Now()
		must.Do(t, end())
		return from, s.failOver(t)
	}, func(from, back time.Time) expectation {
		return expectation{mayFail: around(from, back), within: closedIn}
	})
	after()
	s.restore(t)
}

// G1, G2, G3, G7: the primary's machine is gone.
func (s *suite) primaryKilled(t *testing.T) { s.primaryGone(t, s.Postgres.Kill) }

// G1, G2, G3, G7: the primary does not answer any more, but closes no
// connection and takes new ones.
func (s *suite) primaryStopped(t *testing.T) { s.primaryGone(t, s.Postgres.Stop) }

// The bound of G1: without a synchronous standby, the last answers may be lost in a failover. What
// the standby has is kept. Once Redis is emptied and the nodes are restarted, as the runbook says,
// no answer names a lost check, and its action is judged again.
func (s *suite) standbyBehind(t *testing.T) {
	s.desynchronise(t)
	kept, keptKeyed := s.action("41"), s.keyed("42")
	first, original := check(t, s.client(0), kept).Result(), check(t, s.client(1), keptKeyed)
	eventually(t, patience, "the standby has the checks", func() bool {
		var n int
		err := s.Standby.Pool.QueryRow(t.Context(), "SELECT count(*) FROM checks WHERE counterparty IN ($1, $2)",
			kept.Counterparty, keptKeyed.Counterparty).Scan(&n)
		return err == nil && n == 2
	})
	must.Do(t, s.Standby.Kill()) // it receives nothing more
	lost, lostKeyed := s.action("43"), s.keyed("44")
	gone := []fleet.Answer{check(t, s.client(0), lost), check(t, s.client(1), lostKeyed)}
	for n := range 2 { // from now on the nodes have the check in memory
		if r := check(t, s.client(n), lost).Result(); !r.Duplicate() {
			t.Errorf("sent again before the failover: %+v", r)
		}
	}
	must.Do(t, s.Postgres.Kill())
	must.Do(t, s.Standby.Start(limited(t, patience)))
	s.failOver(t)
	s.answeredWithin(t, resumeIn, s.client(0), s.action("45"))
	s.answeredWithin(t, resumeIn, s.client(1), s.action("45"))

	must.Do(t, s.Redis.Client.FlushAll(t.Context()).Err())
	for _, n := range s.Nodes {
		signalled := time.Now()
		must.Do(t, n.Terminate())
		terminated(t, n, signalled)
		must.Do(t, n.Start(limited(t, patience)))
	}
	for _, before := range gone {
		ok(t, must.Get(s.client(0).GetCheck(t.Context(), before.Result().CheckID))(t), http.StatusNotFound)
	}
	for n := range 2 {
		if r := check(t, s.client(n), kept).Result(); !r.Duplicate() || named(t, r) != first.CheckID {
			t.Errorf("the action of %s, which the standby has, is answered %+v", first.CheckID, r)
		}
		if a := check(t, s.client(n), keptKeyed); !a.Replayed() || !bytes.Equal(a.Body, original.Body) {
			t.Errorf("a key that the standby has is answered %s", a)
		}
	}
	for i, action := range []fleet.Action{lost, lostKeyed} {
		if a := check(t, s.client(i), action); a.Replayed() || a.Result().Decision != "allow" {
			t.Errorf("an action whose check is gone is answered %s", a)
		}
	}
	s.restore(t)
}

// desynchronise makes the primary wait for no standby any more.
func (s *suite) desynchronise(t *testing.T) {
	t.Helper()
	for _, statement := range []string{"ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"} {
		must.Get(s.Postgres.Pool.Exec(t.Context(), statement))(t)
	}
	eventually(t, patience, "/readyz reports it", func() bool { return strings.Contains(s.durability(t), "no synchronous standby") })
}
