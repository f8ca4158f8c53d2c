package e2e_test

import (
	"net/url"
	"testing"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// staleClaim is when a waiter takes over an abandoned claim: about 2.5 s, and the
// time to look it up.
const staleClaim = 4*time.Second + slack

// G1, G2, G3: a node is killed under load. Nothing that it answered is lost, and
// the other node fails no request: waiters take over the dead node's claims.
func (s *suite) nodeKilled(t *testing.T) {
	s.underLoad(t, func() (from, back time.Time) {
		from = time.Now()
		must.Do(t, s.Nodes[0].Kill())
		time.Sleep(500 * time.Millisecond)
		must.Do(t, s.Nodes[0].Start(t.Context()))
		return from, time.Now()
	}, func(from, back time.Time) expectation {
		return expectation{
			mayFail: func(x shot) bool { return x.worker%2 == 0 && x.err != nil && around(from, back)(x) },
			within:  staleClaim, mustHit: true,
		}
	})
}

// distantNode is a third node, with a network between it and PostgreSQL.
type distantNode struct {
	*fleet.Node
	network *fleet.Proxy
	answer  chan shot // to the check during which the node was paused
}

// distantName is the application_name of its database sessions.
const distantName = "distant"

func (s *suite) distant(t *testing.T) *distantNode {
	t.Helper()
	database := must.Get(url.Parse(s.Postgres.URL))(t)
	network := must.Get(fleet.NewProxy(database.Host))(t)
	database.Host = network.Addr
	query := database.Query()
	query.Set("application_name", distantName)
	database.RawQuery = query.Encode()
	node := must.Get(s.AddNode(fleet.Settings{"DATABASE_URL": database.String()}))(t)
	t.Cleanup(func() {
		must.Check(t, node.Kill())
		_ = network.Close()
	})
	must.Do(t, node.Start(limited(t, patience)))
	d := &distantNode{Node: node, network: network, answer: make(chan shot, 1)}
	s.warm(t, d)
	return d
}

// warm makes all connections of a node and compiles the policy. If a test before
// emptied Redis, checks read the database until the windows are loaded.
func (s *suite) warm(t *testing.T, d *distantNode) {
	t.Helper()
	for range 4 {
		s.answeredWithin(t, resumeIn, d.Client(s.key), s.action("1"))
	}
	eventually(t, patience, "the windows are loaded", func() bool {
		return metricsOf(t, d.Node)["spendgate_guard_windows_lazy"] == "0"
	})
}

// pauseWith stops a node with a claim in Redis and its commit on the way, not
// yet at PostgreSQL.
func (s *suite) pauseWith(t *testing.T, action fleet.Action) *distantNode {
	t.Helper()
	d := s.distant(t)
	claims := s.claims(t)
	d.network.Hold()
	go func() {
		answer, err := d.Client(s.key).Check(t.Context(), action)
		d.answer <- shot{action: action, answer: answer, err: err}
	}()
	eventually(t, patience, "the claim is in Redis and its commit on the way", func() bool {
		return s.claims(t) > claims && d.network.Kept()
	})
	must.Do(t, d.Stop())
	return d
}

// claims counts the fingerprints in Redis.
func (s *suite) claims(t *testing.T) int {
	t.Helper()
	names := must.Get(s.Redis.Client.Keys(t.Context(), "f:*").Result())(t)
	return len(names)
}

// resume lets the node's commit arrive late, then continues the node and returns
// its answer.
func (s *suite) resume(t *testing.T, p *distantNode) shot {
	t.Helper()
	returned := p.network.Returned()
	p.network.Release()
	eventually(t, patience, "the late commit has come to an end", func() bool {
		var busy int
		err := s.Postgres.Pool.QueryRow(t.Context(),
			"SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND state = 'active'", distantName).Scan(&busy)
		return err == nil && busy == 0 && p.network.Returned() > returned
	})
	must.Do(t, p.Continue())
	select {
	case x := <-p.answer:
		return x
	case <-time.After(patience):
		t.Fatal("the resumed node does not answer")
		return shot{}
	}
}

// G3: a waiter takes over a stopped node's claim after about 2.5 s; the resumed
// node must not pass the same action, though its commit was in flight.
func (s *suite) claimOfStoppedNode(t *testing.T) {
	action := s.action("77")
	paused := s.pauseWith(t, action)

	first := check(t, s.client(0), action)
	if first.Result().Decision != "allow" || first.Took() > staleClaim {
		t.Errorf("the waiter was answered %s", first)
	}
	s.resumesInVain(t, paused, action, first)
}

// G3: Redis loses the claim of a stopped node, whose commit then arrives. It
// belongs to an older epoch and is refused: the action has passed on another node
// meanwhile.
func (s *suite) commitOfLostWindows(t *testing.T) {
	action := s.action("79")
	paused := s.pauseWith(t, action)
	must.Do(t, s.Redis.Client.FlushAll(t.Context()).Err())

	first := check(t, s.client(0), action)
	if first.Result().Decision != "allow" || first.Took() > closedIn {
		t.Errorf("after a flush the other node answered %s", first)
	}
	s.resumesInVain(t, paused, action, first)
}

// resumesInVain continues a node whose action has passed elsewhere.
func (s *suite) resumesInVain(t *testing.T, paused *distantNode, action fleet.Action, first fleet.Answer) {
	t.Helper()
	second := check(t, s.client(1), action).Result()
	if !second.Duplicate() || named(t, second) != first.Result().CheckID {
		t.Errorf("after %s the other node answered %+v", first.Result().CheckID, second)
	}

	late := s.resume(t, paused)
	switch r := late.answer.Result(); {
	case late.err != nil:
		t.Error(late)
	case late.answer.Status == 500: // nothing was decided
	case !r.Duplicate() || named(t, r) != first.Result().CheckID:
		t.Errorf("the resumed node answered %s; %s had passed", late, first.Result().CheckID)
	}
	rows := s.rows(t, "counterparty = $1 AND claimed_ms IS NOT NULL", action.Counterparty)
	if len(rows) != 1 || rows[0].CheckID != first.Result().CheckID {
		t.Errorf("recorded as passed: %+v", rows)
	}
	// The node works again, under a new name.
	if r := s.answeredWithin(t, resumeIn, paused.Client(s.key), s.action("77")).Result(); r.Decision != "allow" {
		t.Errorf("the resumed node answers %+v", r)
	}
}

// G2: the same for the key of a stopped node: one row, one answer.
func (s *suite) keyOfStoppedNode(t *testing.T) {
	action := s.keyed("78")
	paused := s.pauseWith(t, action)

	first := check(t, s.client(0), action)
	if first.Result().Decision != "allow" || first.Took() > staleClaim {
		t.Errorf("the waiter was answered %s", first)
	}
	late := s.resume(t, paused)
	if late.err != nil || late.answer.Status != 500 && (string(late.answer.Body) != string(first.Body) || !late.answer.Replayed()) {
		t.Errorf("the resumed node answered %s; %s had been answered", late, first)
	}
	if again := check(t, paused.Client(s.key), action); string(again.Body) != string(first.Body) || !again.Replayed() {
		t.Errorf("the key answered by %s is answered by %s", first, again)
	}
	if rows := s.rows(t, "counterparty = $1", action.Counterparty); len(rows) != 1 {
		t.Errorf("rows of one key: %+v", rows)
	}
}
