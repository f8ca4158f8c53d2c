package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/load"
	"spendgate/bench/must"
)

// racing is how many requests are sent at once: fewer than there are connections.
const racing = 16

// newService returns a service with a schema of its own.
func newService(t *testing.T) *service {
	t.Helper()
	schema := "peer_" + strings.ToLower(rand.Text())
	s := must.Get(openService(t.Context(), fleet.TestDatabase(t), schema, 32))(t)
	t.Cleanup(func() {
		if _, err := s.pool.Exec(context.Background(), "DROP SCHEMA "+schema+" CASCADE"); err != nil {
			t.Error(err)
		}
		s.pool.Close()
	})
	return s
}

// body is a check of an allowed payment.
func body(amount, members string) []byte {
	return fmt.Appendf(nil, `{"agent_id":"a","policy_id":"bench_0","action_type":"spend","amount":%s,
		"currency":"USD","counterparty":"vendor-01"%s}`, amount, members)
}

// send returns the answers to requests that are sent at once.
func send(t *testing.T, s *service, bodies ...[]byte) (statuses []int, answers []string) {
	t.Helper()
	statuses, answers = make([]int, len(bodies)), make([]string, len(bodies))
	var all sync.WaitGroup
	for i, body := range bodies {
		all.Go(func() {
			status, answer, _ := s.check(t.Context(), body)
			statuses[i], answers[i] = status, string(answer)
		})
	}
	all.Wait()
	return statuses, answers
}

// race is send while a lock keeps every insert waiting until all requests wait,
// for it or for each other.
func race(t *testing.T, s *service, bodies ...[]byte) (answers []string) {
	t.Helper()
	tx := must.Get(s.pool.Begin(t.Context()))(t)
	must.Get(tx.Exec(t.Context(), "LOCK TABLE decisions IN EXCLUSIVE MODE"))(t)
	released := make(chan error, 1)
	go func() {
		var waiting int
		var err error
		for begun := time.Now(); err == nil && waiting < len(bodies) && time.Since(begun) < time.Minute; {
			err = s.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
				WHERE application_name = current_setting('application_name') AND wait_event_type = 'Lock'`).Scan(&waiting)
		}
		released <- errors.Join(err, tx.Commit(t.Context()))
	}()
	_, answers = send(t, s, bodies...)
	if err := <-released; err != nil {
		t.Fatal(err)
	}
	return answers
}

func rows(t *testing.T, s *service) (n int) {
	t.Helper()
	must.Do(t, s.pool.QueryRow(t.Context(), "SELECT count(*) FROM decisions").Scan(&n))
	return n
}

// Of identical actions sent at once, with keys of their own and without, one passes, and the others
// name it.
func TestOneOfManyIdenticalActionsPasses(t *testing.T) {
	s := newService(t)
	bodies := make([][]byte, racing)
	for i := range bodies {
		bodies[i] = body("10", "")
		if i%2 == 0 {
			bodies[i] = body("1e1", fmt.Sprintf(`,"idempotency_key":"k%d"`, i))
		}
	}
	answers := race(t, s, bodies...)
	passed := slices.DeleteFunc(slices.Clone(answers), func(a string) bool { return !strings.Contains(a, `"decision":"allow"`) })
	if len(passed) != 1 {
		t.Fatalf("%d passed: %q", len(passed), answers)
	}
	id, _, _ := strings.Cut(strings.TrimPrefix(passed[0], `{"check_id":"`), `"`)
	for _, a := range answers {
		if a != passed[0] && !strings.Contains(a, `"decision":"block","violated_rule_id":"repeats","duplicate_of":"`+id+`"`) {
			t.Errorf("%s passed, and another answer is %s", id, a)
		}
	}
	if n := rows(t, s); n != racing {
		t.Errorf("%d rows for %d checks", n, racing)
	}
}

// Requests with one key, sent at once, have one row and one answer; with
// another request the key is refused.
func TestOneDecisionForAKey(t *testing.T) {
	s := newService(t)
	const key = `,"idempotency_key":"k"`
	answers := race(t, s, slices.Repeat([][]byte{body("10", key)}, racing)...)
	if distinct := slices.Compact(slices.Sorted(slices.Values(answers))); len(distinct) != 1 || !strings.Contains(distinct[0], `"allow"`) {
		t.Errorf("answers: %q", distinct)
	}
	if statuses, answers := send(t, s, body("11", key)); statuses[0] != 422 {
		t.Errorf("another request with the key got %d: %s", statuses[0], answers[0])
	}
	if n := rows(t, s); n != 1 {
		t.Errorf("%d rows", n)
	}
}

// A key and a window end after their time, and a duplicate does not extend the window.
func TestWhatEnds(t *testing.T) {
	s := newService(t)
	age := func(interval string) {
		t.Helper()
		must.Get(s.pool.Exec(t.Context(), "UPDATE decisions SET decided_at = decided_at - $1::text::interval", interval))(t)
	}
	expect := func(key, decision string) {
		t.Helper()
		if _, answers := send(t, s, body("10", `,"idempotency_key":"`+key+`"`)); !strings.Contains(answers[0], decision) {
			t.Errorf("want %s, got %s", decision, answers[0])
		}
	}
	expect("k1", `"allow"`)
	age("4 minutes")
	expect("k2", `"block"`)
	age("2 minutes")
	expect("k3", `"allow"`)
	expect("k2", `"block"`) // replayed
	age("24 hours")
	expect("k2", `"allow"`)
}

// The actions of the benchmark are decided as the workload says.
func TestDecidesAsTheWorkloadSays(t *testing.T) {
	s, w := newService(t), load.DefaultWorkload(1)
	var bodies [][]byte
	var wanted []load.Verdict
	for serial := range uint64(500) {
		var a load.Action
		w.Action(serial, &a)
		bodies = append(bodies, append(load.AppendMembers([]byte{'{'}, &a), '}'))
		wanted = append(wanted, a.Want)
	}
	statuses, answers := send(t, s, bodies...)
	target := load.NewSpendgate(nil)
	for i, want := range wanted {
		if wrong := target.Judge(want, nil, []byte(answers[i])); statuses[i] != 200 || wrong != "" {
			t.Errorf("%s: %d %s: %s", bodies[i], statuses[i], answers[i], wrong)
		}
	}
}
