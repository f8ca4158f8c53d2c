package judge_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"spendgate/bench/chaos/judge"
	"spendgate/bench/must"
)

// builder builds a history that the contract allows, for a test to change.
type builder struct {
	judge.History
	now time.Duration
	ids int
}

const (
	second   = time.Second
	ms       = time.Millisecond
	theKey   = "key_1"
	limit    = 5
	policyID = "p"
	tooMuch  = "500"
)

// newBuilder begins with a key and with version 1 of a policy: above 100 blocked,
// above 50 escalated.
func newBuilder() *builder {
	s := &builder{now: second}
	s.Run = judge.Run{Seed: 1, Began: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)}
	// Enough capacity, so that returned pointers stay valid.
	s.Ops, s.Rows = make([]judge.Op, 0, 64), make([]judge.Row, 0, 64)
	s.Keys = []judge.Key{{ID: theKey, Limit: 10000}}
	s.post(1)
	return s
}

// op adds a request that takes 10 ms; the next begins 10 ms later.
func (s *builder) op(o judge.Op) *judge.Op {
	o.ID, o.Agent = len(s.Ops)+1, "agent"
	if o.Via == "" {
		o.Via = "node0"
	}
	o.Sent, o.Done = s.now, s.now+10*ms
	s.now += 20 * ms
	s.Ops = append(s.Ops, o)
	return &s.Ops[len(s.Ops)-1]
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return string(b)
}

func (s *builder) post(version int) *judge.Op {
	rules := fmt.Sprintf(`[{"rule_id":"cap-%d","rule_type":"max_amount","parameters":{"limit":100,"currency":"USD"}},
		{"rule_id":"review-%d","rule_type":"escalate_if","parameters":{"amount_above":50}},
		{"rule_id":"guard","rule_type":"duplicate_guard","parameters":{"window_minutes":1}}]`, version, version)
	s.Policies = append(s.Policies, judge.Policy{ID: policyID, Version: version, Rules: json.RawMessage(rules)})
	return s.op(judge.Op{
		Kind: judge.Post, Key: theKey, Status: 201, Request: json.RawMessage(fmt.Sprintf(`{"policy_id":"p","rules":%s}`, rules)),
		Answer: fmt.Sprintf(`{"policy_id":"p","version":%d}`, version),
	})
}

// action is what a check asks for.
type action struct {
	to     string
	amount string
	key    string

	approval string // that it uses
}

func (a action) request() json.RawMessage {
	body := map[string]any{
		"agent_id": "agent", "policy_id": policyID, "action_type": "refund", "amount": json.Number(a.amount), "currency": "USD",
		"counterparty": a.to,
	}
	if a.key != "" {
		body["idempotency_key"] = a.key
	}
	if a.approval != "" {
		body["approval_id"] = a.approval
	}
	return json.RawMessage(text(body))
}

// ask adds a check without an answer.
func (s *builder) ask(a action) *judge.Op {
	return s.op(judge.Op{Kind: judge.Check, Key: theKey, Request: a.request()})
}

// decided adds a check that was recorded and answered under the latest version.
func (s *builder) decided(a action) (*judge.Op, *judge.Row) {
	row := s.record(a, s.now+5*ms)
	op := s.ask(a)
	s.answer(op, row, false)
	return op, row
}

// record adds the row of a check that passed, and its violation.
func (s *builder) record(a action, at time.Duration) *judge.Row {
	s.ids++
	version := len(s.Policies)
	claimed := s.Run.Began.Add(at).UnixMilli()
	row := judge.Row{
		CheckID: fmt.Sprintf("chk_%032x", s.ids), AtMS: claimed, ClaimedMS: &claimed, PolicyID: policyID, PolicyVersion: version,
		Decision: "allow", Confidence: "high", KeyID: theKey, ActionType: "refund", AgentID: "agent", Amount: a.amount, Currency: "USD",
		Counterparty: a.to,
	}
	if a.key != "" {
		row.IdempotencyKey = &a.key
	}
	if a.approval != "" {
		row.ApprovalID = &a.approval
	}
	if a.amount == tooMuch {
		s.decide(&row, "block", fmt.Sprintf("cap-%d", version), "max_amount_exceeded", "too much")
	}
	s.Rows = append(s.Rows, row)
	return &s.Rows[len(s.Rows)-1]
}

func (s *builder) decide(r *judge.Row, decision, rule, reason, message string) {
	why := "a rule"
	r.Decision, r.RuleID, r.ReasonCode, r.Message, r.RuleText = decision, &rule, &reason, &message, &why
	s.Violations = append(s.Violations, judge.Violation{
		CheckID: r.CheckID, PolicyID: r.PolicyID, PolicyVersion: r.PolicyVersion, ActionType: r.ActionType, Decision: decision,
		Confidence: r.Confidence, Amount: r.Amount, Currency: r.Currency, AgentID: r.AgentID, Counterparty: r.Counterparty,
		RuleID: rule, RuleText: why,
	})
}

// duplicate adds a check that was blocked as a duplicate of another.
func (s *builder) duplicate(a action, of *judge.Row) *judge.Op {
	id := of.CheckID
	s.block(s.record(a, s.now+5*ms), id)
	op := s.ask(a)
	s.answer(op, &s.Rows[len(s.Rows)-1], false)
	return op
}

func (s *builder) block(r *judge.Row, id string) {
	r.ClaimedMS = nil
	s.decide(r, "block", "guard", "duplicate_action_detected", "identical to "+id)
}

// answer answers a request with a recorded check.
func (s *builder) answer(o *judge.Op, r *judge.Row, replayed bool) {
	o.Status, o.Replayed = 200, replayed
	o.Answer = text(map[string]any{
		"check_id": r.CheckID, "decision": r.Decision, "confidence": r.Confidence, "reason_code": r.ReasonCode, "message": r.Message,
		"violated_rule_id": r.RuleID, "violated_rule_description": r.RuleText, "policy_version": r.PolicyVersion,
		"next_step": r.NextStep, "latency_ms": r.LatencyMS,
		"timestamp": time.UnixMilli(r.AtMS).UTC().Format("2006-01-02T15:04:05.000Z"),
	})
}

func fail(o *judge.Op) {
	o.Status, o.Retry, o.Answer = 500, true, `{"error":{"code":"internal_error"}}`
}

func refuse(o *judge.Op, status int, code string) {
	o.Status, o.Answer = status, fmt.Sprintf(`{"error":{"code":%q}}`, code)
}

// patch changes the key.
func (s *builder) patch(change string) *judge.Op {
	return s.op(judge.Op{Kind: judge.Patch, Subject: theKey, Request: json.RawMessage(change), Status: 200})
}

// fault adds a fault of no duration.
func (s *builder) fault(f judge.Fault) {
	f.From, f.To = s.now, s.now
	s.Faults = append(s.Faults, f)
}

// judged returns the findings, of the history as it is read from a file.
func (s *builder) judged(t *testing.T) []judge.Finding {
	t.Helper()
	var file bytes.Buffer
	must.Do(t, s.Write(&file))
	h := must.Get(judge.Read(&file))(t)
	findings := must.Get(judge.Judge(h))(t)
	return findings
}

// decidedBy adds a check decided by an older version of the policy.
func (s *builder) decidedBy(version int) {
	policies := s.Policies
	s.Policies = s.Policies[:version]
	s.decided(action{to: "a", amount: "10"})
	s.Policies = policies
}
