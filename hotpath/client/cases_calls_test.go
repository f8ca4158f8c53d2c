package client

import (
	"context"
	"encoding/json"
	"testing"

	"spendgate/bench/must"
)

// query has the members of lists' queries that occur in cases.
type query struct {
	AgentID    string     `json:"agent_id"`
	PolicyID   string     `json:"policy_id"`
	ActionType ActionType `json:"action_type"`
	Decision   *Decision  `json:"decision"`
	Type       string     `json:"type"`
	From       string     `json:"from"`
	To         string     `json:"to"`
	Limit      int        `json:"limit"`
	After      int64      `json:"after"`
}

// named are the arguments that name something.
type named struct {
	CheckID    string `json:"check_id"`
	ApprovalID string `json:"approval_id"`
	KeyID      string `json:"key_id"`
	PolicyID   string `json:"policy_id"`
	FreezeID   string `json:"freeze_id"`
	ActionHash string `json:"action_hash"`
	Note       string `json:"note"`
	Actions    []Action
}

// callByName makes a case's call with its arguments and returns the result with the names of the
// API.
func callByName(ctx context.Context, t *testing.T, c *Client, call string, arguments []byte) (any, error) {
	var id named
	var q query
	for _, into := range []any{&id, &q} {
		must.Do(t, json.Unmarshal(arguments, into))
	}
	switch call {
	case "check":
		var a Action
		numbers(t, arguments, &a)
		r, err := c.Check(ctx, a)
		return ofResult(t, r), err
	case "get_check":
		r, err := c.GetCheck(ctx, id.CheckID)
		return ofResult(t, r), err
	case "report_outcome":
		var report OutcomeReport
		numbers(t, arguments, &report)
		o, err := c.ReportOutcome(ctx, id.CheckID, report)
		if err != nil {
			return nil, err
		}
		wire := asWire(t, o).(map[string]any)
		wire["replayed"] = o.Replayed
		return wire, nil
	case "redeem":
		var r RedeemRequest
		numbers(t, arguments, &r)
		redemption, err := c.Redeem(ctx, id.CheckID, r)
		if err != nil {
			return nil, err
		}
		wire := asWire(t, redemption).(map[string]any)
		wire["replayed"] = redemption.Replayed
		return wire, nil
	case "get_outcome":
		return wired(t)(c.GetOutcome(ctx, id.CheckID))
	case "approval":
		return wired(t)(c.Approval(ctx, id.ApprovalID, 0))
	case "wait_for_approval":
		return wired(t)(c.WaitForApproval(ctx, id.ApprovalID))
	case "approve":
		return wired(t)(c.Approve(ctx, id.ApprovalID, id.ActionHash, id.Note))
	case "simulate":
		s, err := c.Simulate(ctx, id.PolicyID, id.Actions)
		if err != nil {
			return nil, err
		}
		wire := asWire(t, s).(map[string]any)
		for i, r := range s.Results {
			wire["results"].([]any)[i] = ofResult(t, &r)
		}
		return wire, nil
	}
	return callOfOthers(ctx, t, c, call, id, q, arguments)
}

// callOfOthers makes the calls that agents do not make.
func callOfOthers(ctx context.Context, t *testing.T, c *Client, call string, id named, q query, arguments []byte) (any, error) {
	switch call {
	case "create_policy":
		return wired(t)(c.CreatePolicyJSON(ctx, arguments))
	case "create_key":
		var r KeyRequest
		numbers(t, arguments, &r)
		return wired(t)(c.CreateKey(ctx, r))
	case "update_key":
		var change KeyChange
		numbers(t, arguments, &change)
		return wired(t)(c.UpdateKey(ctx, id.KeyID, change))
	case "create_freeze":
		var f NewFreeze
		numbers(t, arguments, &f)
		return wired(t)(c.CreateFreeze(ctx, f))
	case "release_freeze":
		return wired(t)(c.ReleaseFreeze(ctx, id.FreezeID, id.Note))
	case "freezes":
		return wired(t)(collect(c.AllFreezes(ctx, FreezeQuery{})))
	case "self":
		return wired(t)(c.Self(ctx))
	case "violations":
		v := ViolationQuery{AgentID: q.AgentID, ActionType: q.ActionType, From: q.From, To: q.To, Limit: q.Limit}
		if q.Decision != nil {
			v.Decision = *q.Decision
		}
		return wired(t)(collect(c.AllViolations(ctx, v)))
	case "checks":
		return wired(t)(collect(c.AllChecks(ctx, CheckQuery{AgentID: q.AgentID, PolicyID: q.PolicyID})))
	case "budgets":
		return wired(t)(collect(c.AllBudgets(ctx, BudgetQuery{PolicyID: q.PolicyID})))
	case "events":
		return wired(t)(c.Events(ctx, EventQuery{After: q.After, Type: q.Type, From: q.From, Limit: q.Limit}))
	}
	t.Fatalf("no call %q", call)
	return nil, nil
}

// wired returns a function that turns a call's result into one with the names of the API.
func wired(t *testing.T) func(result any, err error) (any, error) {
	return func(result any, err error) (any, error) {
		if err != nil {
			return nil, err
		}
		return asWire(t, result), nil
	}
}

func asWire(t *testing.T, v any) any {
	t.Helper()
	text := must.Get(json.Marshal(v))(t)
	var wire any
	numbers(t, text, &wire)
	return wire
}

// ofResult adds the fields that are not in the body of a check.
func ofResult(t *testing.T, r *Result) any {
	if r == nil {
		return nil
	}
	wire := asWire(t, r).(map[string]any)
	wire["allowed"], wire["replayed"], wire["outcome"] = r.Allowed(), r.Replayed, nil
	if r.Outcome.Reported() {
		wire["outcome"] = map[string]any{"status": r.Outcome.Status, "release_pending": r.Outcome.ReleasePending}
	}
	return wire
}
