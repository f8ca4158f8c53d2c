package main

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"spendgate/bench/chaos/judge"
	"spendgate/bench/fleet"
)

// granted is an allowed check of an agent.
type granted struct {
	id     string
	action fleet.Action
}

// insistOn sends a request until it is answered, each time through a random node.
func (a *agent) insistOn(rng *rand.Rand, l outgoing) fleet.Answer {
	for {
		l.via = rng.IntN(nodeCount + 1)
		answer := a.send(l)
		if answer.Status != 0 && answer.Status < 500 ||
			!pause(a.w.grace, 20*time.Millisecond+time.Duration(rng.Int64N(int64(150*time.Millisecond)))) {
			return answer
		}
	}
}

// atOnce insists on requests at the same time.
func (a *agent) atOnce(all []outgoing) []fleet.Answer {
	answers := make([]fleet.Answer, len(all))
	var sending sync.WaitGroup
	for i, l := range all {
		rng := rand.New(rand.NewPCG(a.rng.Uint64(), 0))
		sending.Go(func() { answers[i] = a.insistOn(rng, l) })
	}
	sending.Wait()
	return answers
}

// granted removes and returns some allowed check, which the agent mostly never uses again.
func (a *agent) granted() (c granted, found bool) {
	if len(a.open) == 0 {
		return c, false
	}
	n := a.rng.IntN(len(a.open))
	c = a.open[n]
	if a.rng.IntN(4) > 0 {
		a.open = append(a.open[:n:n], a.open[n+1:]...)
	}
	return c, true
}

// report reports what became of an allowed check, by one or more reporters, and asks for the same
// action again.
func (a *agent) report() {
	c, found := a.granted()
	if !found {
		return
	}
	said := a.outcome()
	reports := make([]outgoing, 1+a.rng.IntN(3))
	for i := range reports {
		key := a.w.executor
		if a.rng.IntN(3) == 0 {
			key = a.key
		}
		if a.rng.IntN(4) == 0 {
			said = a.outcome()
		}
		if key == a.w.executor && a.rng.IntN(4) == 0 {
			said = a.outcome()
			said["supersedes"] = 1 + a.rng.IntN(3)
		}
		reports[i] = outgoing{
			kind: judge.Report, key: key, method: http.MethodPost, path: "/v1/checks/" + c.id + "/outcome", subject: c.id, body: said,
		}
	}
	a.atOnce(reports)
	if c.action.IdempotencyKey == "" {
		a.insist(c.action)
	}
}

func (a *agent) outcome() map[string]any {
	switch a.rng.IntN(6) {
	case 0:
		return map[string]any{"status": "executed"}
	case 1:
		return map[string]any{"status": "executed", "amount": 1}
	case 2:
		return map[string]any{"status": "executed", "amount": 1001}
	case 3:
		return map[string]any{"status": "failed"}
	default:
		return map[string]any{"status": "voided"}
	}
}

// asking is the policy whose escalations ask people.
const asking = "asking"

// groupsAsked are the groups of approvers; each approver is in one.
var groupsAsked = [...]string{"support", "finance"}

// asks is the rule of a version that asks two people for nearly every action of askPeople; in half
// of all versions, one of each group.
func asks(rng *rand.Rand) fleet.Rule {
	approval := map[string]any{"required": 2}
	if rng.IntN(2) == 0 {
		var from []map[string]any
		for _, group := range groupsAsked {
			from = append(from, map[string]any{"group": group, "required": 1})
		}
		approval = map[string]any{"from": from}
	}
	return fleet.Rule{RuleID: "ask", RuleType: "escalate_if", Parameters: map[string]any{
		"amount_above": 100 + 50*(rng.IntN(4)/3), "approval": approval,
	}}
}

// askPeople sends an action that is escalated, has people decide about it concurrently, and uses
// their approval through several nodes.
func (a *agent) askPeople() {
	action := a.action()
	action.PolicyID, action.Amount = asking, spell(a.rng, 120+a.rng.IntN(200))
	id := a.insist(action).Result().ApprovalID
	if id == "" {
		return
	}
	var known struct {
		ActionHash string `json:"action_hash"`
	}
	answer := a.insistOn(a.rng, outgoing{
		kind: judge.Approval, key: a.w.approvers[0], method: http.MethodGet, path: "/v1/approvals/" + id, subject: id,
	})
	if json.Unmarshal(answer.Body, &known) != nil || known.ActionHash == "" {
		return
	}
	var decisions []outgoing
	for _, i := range a.rng.Perm(len(a.w.approvers))[:2+a.rng.IntN(2)] {
		l := outgoing{
			kind: judge.Approve, key: a.w.approvers[i], method: http.MethodPost, path: "/v1/approvals/" + id + "/approve", subject: id,
			body: map[string]any{"action_hash": known.ActionHash},
		}
		if a.rng.IntN(20) == 0 {
			l.kind, l.path = judge.Deny, "/v1/approvals/"+id+"/deny"
		}
		decisions = append(decisions, l)
	}
	action.ApprovalID, action.IdempotencyKey = id, ""
	if a.rng.IntN(2) == 0 {
		action.IdempotencyKey = a.idempotencyKey()
	}
	if a.rng.IntN(3) == 0 { // too early, perhaps
		decisions = append(decisions, outgoing{kind: judge.Check, key: a.key, method: http.MethodPost, path: "/v1/checks", body: action})
	}
	a.atOnce(decisions)
	a.fromSeveralSides(a.copies(action))
}
