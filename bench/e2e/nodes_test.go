package e2e_test

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

const atOnce = 30

// G2, S18: any number of concurrent requests over all nodes with one key is
// one row and one body.
func (s *suite) oneKeyAtOnce(t *testing.T) {
	for _, amount := range []string{"10", "300", "900", "11", "301"} {
		action := s.keyed(amount)
		answers := together(t, atOnce, func(i int) (fleet.Answer, error) { return s.client(i).Check(t.Context(), action) })
		originals := 0
		for _, a := range answers {
			ok(t, a, http.StatusOK)
			if !a.Replayed() {
				originals++
			}
			if !bytes.Equal(a.Body, answers[0].Body) {
				t.Errorf("two bodies for one key:\n%s\n%s", answers[0].Body, a.Body)
			}
		}
		if originals != 1 {
			t.Errorf("%d answers without Idempotent-Replayed, want 1", originals)
		}
		rows := s.rows(t, "idempotency_key = $1", action.IdempotencyKey)
		if len(rows) != 1 || rows[0].CheckID != answers[0].Result().CheckID {
			t.Errorf("rows of one key: %+v", rows)
		}
		if same := s.rows(t, "counterparty = $1", action.Counterparty); len(same) != 1 {
			t.Errorf("%d rows of one action with one key", len(same))
		}
		// The same key with another request is refused, on any node (S18).
		other := action
		other.Amount += "1"
		if a := must.Get(s.client(1).Check(t.Context(), other))(t); a.Status != 422 || a.ErrorCode() != "validation_error" {
			t.Errorf("a key used for another request: %s", a)
		}
	}
}

// G3, S17: of identical actions over all nodes one passes; the others name it.
func (s *suite) oneActionAtOnce(t *testing.T) {
	for _, amount := range []string{"10", "300", "900", "11", "301"} {
		action := s.action(amount)
		answers := together(t, atOnce, func(i int) (fleet.Answer, error) { return s.client(i).Check(t.Context(), action) })
		var passed []string
		for _, a := range answers {
			if r := ok(t, a, http.StatusOK).Result(); !r.Duplicate() {
				passed = append(passed, r.CheckID)
			} else if r.Decision != "block" || r.RuleID == nil || *r.RuleID != "duplicate_guard" {
				t.Errorf("a duplicate: %s", a)
			}
		}
		if len(passed) != 1 {
			t.Fatalf("%d of %d identical actions passed: %q", len(passed), atOnce, passed)
		}
		for i, a := range answers {
			if r := a.Result(); r.Duplicate() {
				id := named(t, r)
				if id != passed[0] {
					t.Errorf("a duplicate of %s, which did not pass", id)
				}
				ok(t, must.Get(s.client(i).GetCheck(t.Context(), id))(t), http.StatusOK)
			}
		}
		rows := s.rows(t, "counterparty = $1", action.Counterparty)
		passes := slices.DeleteFunc(slices.Clone(rows), func(r fleet.Row) bool { return !r.Passed })
		if len(rows) != atOnce || len(passes) != 1 {
			t.Errorf("%d rows, %d of which passed", len(rows), len(passes))
		}
	}
}

// G6, S26: one limit over all nodes, and headers that add up.
func (s *suite) rateLimit(t *testing.T) {
	const limit = 5
	_, key := s.newKey(t, limit)
	opened := time.Now()
	answers := together(t, atOnce, func(i int) (fleet.Answer, error) {
		return s.Nodes[i%2].Client(key).Check(t.Context(), s.action("1"))
	})
	var left []int64
	for _, a := range answers {
		if got := a.Number("X-RateLimit-Limit"); got != limit {
			t.Errorf("X-RateLimit-Limit %d", got)
		}
		reset, earliest := a.Number("X-RateLimit-Reset"), opened.Add(time.Minute).Unix()
		if reset < earliest || reset > earliest+2 {
			t.Errorf("X-RateLimit-Reset %d, the window ends at %d", reset, earliest)
		}
		switch a.Status {
		case http.StatusOK:
			left = append(left, a.Number("X-RateLimit-Remaining"))
		case http.StatusTooManyRequests:
			if after := a.Number("Retry-After"); after < 1 || after > 61 || a.ErrorCode() != "rate_limit_exceeded" ||
				a.Number("X-RateLimit-Remaining") != 0 {
				t.Errorf("a refusal: %s with %v", a, a.Header)
			}
		default:
			t.Errorf("answered %s", a)
		}
	}
	slices.Sort(left)
	if !slices.Equal(left, []int64{0, 1, 2, 3, 4}) {
		t.Errorf("X-RateLimit-Remaining of the admitted requests: %d", left)
	}
	// Every endpoint counts, on the other node too, later as well.
	for i := range 4 {
		if a := must.Get(s.Nodes[i%2].Client(key).Violations(t.Context(), "limit=1"))(t); a.Status != http.StatusTooManyRequests {
			t.Errorf("a read beyond the limit: %s", a)
		}
	}
}

// G4: what starts after a policy was answered is decided by it, on every node.
func (s *suite) freshPolicies(t *testing.T) {
	id := s.name("policy")
	for round := range 50 {
		limit, want := 100, "block"
		if round%2 == 1 {
			limit, want = 1000, "allow"
		}
		writer, reader := s.Nodes[round%2], s.client(round+1)
		version := s.post(t, writer, fleet.Policy{PolicyID: id, Name: "fresh", Rules: []fleet.Rule{
			{RuleID: "cap", RuleType: "max_amount", Parameters: map[string]any{"limit": limit}},
		}})
		action := s.action("150")
		action.PolicyID = id
		if r := check(t, reader, action).Result(); r.PolicyVersion != version || r.Decision != want {
			t.Fatalf("round %d: judged %s by version %d; version %d was answered before", round, r.Decision, r.PolicyVersion, version)
		}
	}
}

// G5: a key is changed on every node when the PATCH is answered.
func (s *suite) freshKeys(t *testing.T) {
	id, key := s.newKey(t, plenty)
	patch := func(n int, change map[string]any) {
		t.Helper()
		ok(t, must.Get(s.Nodes[n%2].Admin(s.AdminKey).PatchKey(t.Context(), id, change))(t), http.StatusOK)
	}
	refused := func(a fleet.Answer, status int, code string) {
		t.Helper()
		if a.Status != status || a.ErrorCode() != code {
			t.Fatalf("answered %s; want %d %s", a, status, code)
		}
	}
	for round := range 20 {
		other := s.Nodes[(round+1)%2].Client(key)
		check(t, other, s.action("1"))

		patch(round, map[string]any{"active": false})
		refused(must.Get(other.Check(t.Context(), s.action("1")))(t), 401, "api_key_inactive")
		refused(must.Get(other.Violations(t.Context(), "limit=1"))(t), 401, "api_key_inactive")

		patch(round, map[string]any{"active": true})
		check(t, other, s.action("1"))

		patch(round, map[string]any{"rate_limit_rpm": 1})
		refused(must.Get(other.Check(t.Context(), s.action("1")))(t), 429, "rate_limit_exceeded")

		patch(round, map[string]any{"rate_limit_rpm": plenty})
		check(t, other, s.action("1"))
	}
	// A new key, and one that never was.
	_, fresh := s.newKey(t, plenty)
	check(t, s.Nodes[1].Client(fresh), s.action("1"))
	refused(must.Get(s.Nodes[1].Client(fresh[:len(fresh)-1]).Check(t.Context(), s.action("1")))(t), 401, "unauthorized")
}

// S22: a violation is listed on the other node at once. That a check reads there as it
// was answered is shown under load.
func (s *suite) violationsElsewhere(t *testing.T) {
	for round, amount := range slices.Repeat([]string{"10.50", "300", "900"}, 10) {
		action := s.action(amount)
		action.AgentID = s.name("agent")
		answer := check(t, s.client(round), action).Result()
		want := `{"data":[],"pagination":{"next_cursor":null,"has_more":false,"total_count":0}}`
		if answer.Decision != "allow" {
			want = `"total_count":1}}`
		}
		listed := ok(t, must.Get(s.client(round+1).Violations(t.Context(), "agent_id="+action.AgentID))(t), http.StatusOK)
		if text := string(listed.Body); !strings.HasSuffix(text, want) || strings.Contains(text, answer.CheckID) != (answer.Decision != "allow") {
			t.Fatalf("%s of %s, then the other node listed %s", answer.Decision, answer.CheckID, text)
		}
	}
}
