package e2e_test

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// outage returns the expectation while a dependency is down: 500 within 2 s, and service within 2 s
// after its return (G7).
func outage(from, back time.Time) expectation {
	return expectation{mayFail: around(from, back), within: closedIn, mustHit: true}
}

// G1, G2, G3, G7: Redis is killed and comes back empty.
func (s *suite) redisKilled(t *testing.T) {
	s.underLoad(t, func() (from, back time.Time) {
		from = time.Now()
		must.Do(t, s.Redis.Kill())
		time.Sleep(500 * time.Millisecond)
		must.Do(t, s.Redis.Start(t.Context()))
		return from, time.Now()
	}, outage)
}

// G3, G7: Redis is emptied, twice in a row.
func (s *suite) redisFlushed(t *testing.T) {
	s.underLoad(t, func() (from, back time.Time) {
		from = time.Now()
		for range 2 {
			must.Do(t, s.Redis.Client.FlushAll(t.Context()).Err())
			back = time.Now()
			time.Sleep(100 * time.Millisecond)
		}
		return from, back
	}, func(from, back time.Time) expectation {
		return expectation{mayFail: around(from, back), within: closedIn}
	})
	// Duplicates of actions from before the flush are found in the trail.
	action := s.action("42")
	first := check(t, s.client(0), action).Result()
	must.Do(t, s.Redis.Client.FlushAll(t.Context()).Err())
	second := check(t, s.client(1), action).Result()
	if !second.Duplicate() || named(t, second) != first.CheckID {
		t.Errorf("after a flush the action of %s was answered %+v", first.CheckID, second)
	}
}

// F18, G3: Redis is made to evict while nodes work. They refuse checks until it is not, and what was
// evicted stays a duplicate.
func (s *suite) redisEvicts(t *testing.T) {
	set := func(name, value string) { must.Do(t, s.Redis.Client.ConfigSet(t.Context(), name, value).Err()) }
	action := s.action("42")
	first := check(t, s.client(0), action).Result()
	set("maxmemory-policy", "volatile-random") // the marker stays
	defer set("maxmemory-policy", "noeviction")
	for node := range s.Nodes {
		eventually(t, patience, "checks are refused", func() bool {
			return must.Get(s.client(node).Check(t.Context(), s.action("43")))(t).Status == http.StatusInternalServerError
		})
	}
	set("maxmemory", "1")
	eventually(t, patience, "everything is evicted", func() bool {
		return strings.Contains(s.Redis.Client.Info(t.Context(), "keyspace").Val(), "expires=0")
	})
	set("maxmemory", "0")
	set("maxmemory-policy", "noeviction")
	for node := range s.Nodes {
		again := s.answeredWithin(t, resumeIn, s.client(node), action)
		if r := again.Result(); !r.Duplicate() || named(t, r) != first.CheckID {
			t.Errorf("the action of %s was answered %s", first.CheckID, again)
		}
	}
}

// G3 (a restart from an old copy brings old windows back, and the marker that
// certifies them): what passed after the copy stays a duplicate.
func (s *suite) redisFromOldCopy(t *testing.T) {
	must.Do(t, s.Redis.Client.Save(t.Context()).Err())
	action, keyed := s.action("42"), s.keyed("43")
	first, original := check(t, s.client(0), action).Result(), check(t, s.client(0), keyed)
	must.Do(t, s.Redis.Kill())
	must.Do(t, s.Redis.Start(t.Context()))
	if n, err := s.Redis.Client.DBSize(t.Context()).Result(); err != nil || n == 0 {
		t.Fatalf("the old copy holds %d names: %v", n, err)
	}
	second := s.answeredWithin(t, resumeIn, s.client(1), action)
	if r := second.Result(); !r.Duplicate() || named(t, r) != first.CheckID {
		t.Errorf("the action of %s was answered %s", first.CheckID, second)
	}
	again := s.answeredWithin(t, resumeIn, s.client(1), keyed)
	if !again.Replayed() || string(again.Body) != string(original.Body) {
		t.Errorf("a key answered by %s is answered by %s", original, again)
	}
	must.Do(t, s.Redis.RemoveSaved()) // later restarts are empty again
}

// F48, G3: Redis fails over to a replica that lacks the last claim, and later
// back, without requests meanwhile. The marker, the process and the nodes'
// connections are unchanged; the claim is lost.
func (s *suite) redisFailedOverAndBack(t *testing.T) {
	other := must.Get(fleet.StartRedis(t.Context(), t.TempDir()))(t)
	defer other.Close() //nolint:errcheck // it ends with the test
	check(t, s.client(0), s.action("41")).Result()
	replicate(t, other, s.Redis, 0)
	action := s.action("42")
	first := check(t, s.client(0), action).Result()
	// As long as any failover takes: after a second a connection is looked at again.
	// No node uses it meanwhile, for a replica takes no writes.
	replicate(t, s.Redis, other, 1100*time.Millisecond)
	for _, c := range []*fleet.Client{s.client(0), s.client(1)} {
		again := s.answeredWithin(t, resumeIn, c, action)
		if r := again.Result(); !r.Duplicate() || named(t, r) != first.CheckID {
			t.Errorf("the action of %s was answered %s", first.CheckID, again)
		}
	}
}

// replicate makes one server a replica of another until it has its data, and for
// that time, then a master again.
func replicate(t *testing.T, replica, master *fleet.Redis, hold time.Duration) {
	t.Helper()
	ctx := t.Context()
	must.Do(t, master.Client.ConfigSet(ctx, "repl-diskless-sync-delay", "0").Err())
	must.Do(t, replica.Client.ConfigSet(ctx, "masterauth", master.Client.Options().Password).Err())
	host, port, err := net.SplitHostPort(master.Addr)
	must.Do(t, errors.Join(err, replica.Client.ReplicaOf(ctx, host, port).Err()))
	eventually(t, patience, "the replica has the data", func() bool {
		return strings.Contains(replica.Client.Info(ctx, "replication").Val(), "master_link_status:up")
	})
	time.Sleep(hold)
	must.Do(t, replica.Client.ReplicaOf(ctx, "NO", "ONE").Err())
}

// answeredWithin sends a check until it is answered 200, which must be soon.
func (s *suite) answeredWithin(t *testing.T, within time.Duration, c *fleet.Client, a fleet.Action) fleet.Answer {
	t.Helper()
	for due := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
		answer := must.Get(c.Check(t.Context(), a))(t)
		switch {
		case answer.Took() > closedIn:
			t.Fatalf("answered too late (G7): %s", answer)
		case answer.Status == http.StatusOK:
			return answer
		case answer.Sent.After(due):
			t.Fatalf("no service %s after it was due: %s", time.Since(due), answer)
		}
		refusedInOutage(t, answer)
	}
}

// refusedInOutage ends the test unless the answer comes from a node whose
// dependency is down (G7).
func refusedInOutage(t *testing.T, a fleet.Answer) {
	t.Helper()
	if a.Status != 500 || a.ErrorCode() != "internal_error" || a.Header.Get("Retry-After") == "" || a.Took() > closedIn {
		t.Fatalf("a check without a dependency was answered %s, Retry-After %q", a, a.Header.Get("Retry-After"))
	}
}

// pause stops a dependency for 3 s; it then continues with all its state.
func (s *suite) pause(t *testing.T, dependency interface {
	Stop() error
	Continue() error
},
) {
	t.Helper()
	s.underLoad(t, func() (from, back time.Time) {
		from = time.Now()
		must.Do(t, dependency.Stop())
		time.Sleep(3 * time.Second)
		must.Do(t, dependency.Continue())
		return from, time.Now()
	}, outage)
}

// G7: Redis stops.
func (s *suite) redisStopped(t *testing.T) { s.pause(t, s.Redis) }

// G1, G2, G3, G7: PostgreSQL is killed with all its sessions, and recovers.
func (s *suite) postgresKilled(t *testing.T) {
	s.underLoad(t, func() (from, back time.Time) {
		from = time.Now()
		must.Do(t, s.Postgres.Kill())
		time.Sleep(300 * time.Millisecond)
		must.Do(t, s.Postgres.Start(t.Context()))
		return from, time.Now()
	}, outage)
}

// G7: PostgreSQL stops, commits and all.
func (s *suite) postgresStopped(t *testing.T) { s.pause(t, s.Postgres) }

// G7: without Redis, GETs continue with the keys' state from PostgreSQL; checks are refused in
// time, and a refused check blocks nothing afterwards.
func (s *suite) readsWithoutRedis(t *testing.T) {
	recorded := check(t, s.client(0), s.action("900"))
	known := check(t, s.client(0), s.action("12")).Result()
	inactiveID, inactive := s.newKey(t, plenty)
	ok(t, must.Get(s.Nodes[0].Admin(s.AdminKey).PatchKey(t.Context(), inactiveID, map[string]any{"active": false}))(t), 200)

	logged := make([]int, 2)
	for i := range logged {
		must.Do(t, s.Nodes[i].WaitReady(limited(t, patience))) // seen after an earlier outage
		logged[i] = len(s.Nodes[i].Log())
	}
	must.Do(t, s.Redis.Kill())
	refused, keyed := s.action("55"), s.keyed("56")
	for n := range 2 {
		c := s.client(n)
		refusedInOutage(t, must.Get(c.Check(t.Context(), refused))(t))
		refusedInOutage(t, must.Get(c.Check(t.Context(), keyed))(t))
		for _, path := range []string{"/v1/checks/" + known.CheckID, "/v1/policies/" + standard, "/v1/violations?limit=1"} {
			if a := must.Get(c.Do(t.Context(), http.MethodGet, path, nil))(t); a.Status != 200 || a.Took() > closedIn {
				t.Errorf("GET %s without redis: %s", path, a)
			} else if a.Number("X-RateLimit-Limit") != plenty {
				t.Errorf("GET %s without redis: X-RateLimit-Limit %s", path, a.Header.Get("X-RateLimit-Limit"))
			}
		}
		if a := must.Get(c.GetCheck(t.Context(), recorded.Result().CheckID))(t); string(a.Body) != string(recorded.Body) {
			t.Errorf("answered\n%s\nread without redis\n%s", recorded.Body, a)
		}
		for key, code := range map[string]string{inactive: "api_key_inactive", "svc_live_wrong": "unauthorized"} {
			if a := must.Get(s.Nodes[n].Client(key).Violations(t.Context(), "limit=1"))(t); a.Status != 401 || a.ErrorCode() != code {
				t.Errorf("a read without redis with a key that is no good: %s; want %s", a, code)
			}
		}
		ok(t, must.Get(c.Do(t.Context(), http.MethodGet, "/health", nil))(t), 200)
		for range 2 {
			if a := must.Get(s.Nodes[n].Ready(t.Context()))(t); a.Status != 503 || !strings.Contains(string(a.Body), `"redis","status":"failing"`) {
				t.Errorf("/readyz without redis: %s", a)
			}
		}
	}
	must.Do(t, s.Redis.Start(t.Context()))
	for _, action := range []fleet.Action{refused, keyed} {
		if r := s.answeredWithin(t, resumeIn, s.client(1), action).Result(); r.Decision != "allow" {
			t.Errorf("the retry of a check that was refused is %+v", r)
		}
	}
	for i, n := range s.Nodes[:2] {
		must.Do(t, n.WaitReady(limited(t, patience)))
		// What is written in the background may begin with "ready again" of an earlier outage.
		const down, up = `"not ready","dependency":"redis","error":`, `"ready again"`
		since := func() string { return n.Log()[logged[i]+strings.Index(n.Log()[logged[i]:], down):] }
		eventually(t, patience, n.Name+" logs that it is ready again", func() bool { return strings.Contains(since(), up) })
		if said := since(); strings.Count(said, down) != 1 || strings.Count(said, up) != 1 {
			t.Errorf("%s does not log once that it is not ready, and once that it is again", n.Name)
		}
	}
}

// G7: a check whose commit is in doubt is answered 500 in time, and so is its
// retry meanwhile; the outcome goes to the next identical request, as the
// original or as a replay, and never as a duplicate of an unanswered check.
func (s *suite) retryInDoubt(t *testing.T) {
	const stopped = 5 * time.Second // longer than every timeout
	actions := []fleet.Action{s.action("55"), s.keyed("56"), s.action("57"), s.keyed("58")}
	must.Do(t, s.Postgres.Stop())
	var goingOn sync.WaitGroup
	back := time.Now().Add(stopped)
	goingOn.Go(func() {
		time.Sleep(stopped)
		must.Check(t, s.Postgres.Continue())
	})
	defer goingOn.Wait()
	sequences := make([][]fleet.Answer, len(actions))
	var asking sync.WaitGroup
	for i, action := range actions {
		// The first two are sent to the same node again, the others to the other.
		asking.Go(func() { sequences[i] = s.askUntil(t, i/2, action, back.Add(resumeIn)) })
	}
	asking.Wait()
	for i, answers := range sequences {
		for _, a := range answers {
			if a.Took() > closedIn {
				t.Errorf("answered too late: %s", a)
			}
		}
		last := answers[len(answers)-1]
		if last.Result().Decision != "allow" {
			t.Errorf("a check that was answered 500 was answered again by %s (replayed: %t)", last, last.Replayed())
		}
		rows := s.rows(t, "counterparty = $1 AND claimed_ms IS NOT NULL", actions[i].Counterparty)
		if len(rows) != 1 || last.Result().Decision == "allow" && rows[0].CheckID != last.Result().CheckID {
			t.Errorf("answered %s; recorded as passed: %+v", last, rows)
		}
	}
}

// askUntil sends a check to node 0, then to a node until it is answered 200 or
// due.
func (s *suite) askUntil(t *testing.T, node int, a fleet.Action, due time.Time) (answers []fleet.Answer) {
	for n := 0; ; n = node {
		answer, err := s.client(n).Check(t.Context(), a)
		answers = append(answers, answer)
		switch {
		case err == nil && answer.Status == http.StatusOK:
			return answers
		case err != nil || answer.Status != 500 || answer.ErrorCode() != "internal_error" || answer.Sent.After(due):
			t.Errorf("a check in doubt was answered %s %v", answer, err)
			return answers
		}
	}
}
