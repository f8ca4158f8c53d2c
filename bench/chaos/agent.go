package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"spendgate/bench/chaos/judge"
	"spendgate/bench/fleet"
)

// agent is a client that sends one request after another.
type agent struct {
	*sender
	w    *workload
	rng  *rand.Rand
	key  apiKey // with plenty
	n    int
	past []fleet.Action // passed, without key
	ids  []string       // of checks that were answered
	open []granted      // checks without an outcome
}

// habit is something that agents do, and how often, in percent.
type habit struct {
	share int
	act   func(*agent)
}

func habits() []habit {
	return []habit{
		{6, (*agent).actOnce},
		{11, (*agent).spend},
		{12, (*agent).actWithKey},
		{5, (*agent).report},
		{4, (*agent).redeem},
		{4, (*agent).pay},
		{3, (*agent).askPeople},
		{10, (*agent).actFromSeveralSides},
		{10, (*agent).keyFromSeveralSides},
		{7, (*agent).reuseKey},
		{8, (*agent).repeat},
		{5, (*agent).contest},
		{4, (*agent).simulate},
		{3, (*agent).read},
		{4, (*agent).useVolatileKey},
		{4, (*agent).useLimitedKey},
	}
}

func (a *agent) run() {
	all := habits()
	for a.w.going.Err() == nil {
		pick := a.rng.IntN(100)
		for _, h := range all {
			if pick -= h.share; pick < 0 {
				h.act(a)
				break
			}
		}
		pause(a.w.going, time.Duration(a.rng.Int64N(int64(2*a.w.thinkTime))))
	}
}

// action returns a new action, with any decision.
func (a *agent) action() fleet.Action {
	a.n++
	whole := 1 + a.rng.IntN(1000)
	action := fleet.Action{
		AgentID: a.agent, PolicyID: a.w.policy(a.rng), ActionType: "refund", Amount: spell(a.rng, whole), Currency: "USD",
		Counterparty: fmt.Sprintf("customer-%d", a.n),
	}
	if a.rng.IntN(2) == 0 {
		action.Metadata = map[string]any{"tier": tiers[a.rng.IntN(len(tiers))], "n": a.rng.IntN(10)}
	}
	if a.rng.IntN(4) == 0 {
		action.ActionType, action.PaymentMethod, action.Vendor = "spend", "card", "shop"
		action.Metadata = map[string]any{
			"country": "DE", "order": map[string]any{"lines": []int{1, 2}, "note": "é"}, "tier": tiers[a.rng.IntN(len(tiers))],
		}
	}
	return action
}

// spell writes an amount in one of several ways that mean the same.
func spell(rng *rand.Rand, whole int) json.Number {
	switch rng.IntN(4) {
	case 0:
		return json.Number(fmt.Sprintf("%d.00", whole))
	case 1:
		return json.Number(fmt.Sprintf("%de0", whole))
	default:
		return json.Number(fmt.Sprint(whole))
	}
}

func (a *agent) idempotencyKey() string { return fmt.Sprintf("%s-%d", a.agent, a.n) }

func (a *agent) via() int { return a.rng.IntN(nodeCount + 1) }

func (a *agent) check(via int, key apiKey, action fleet.Action, fresh bool) fleet.Answer {
	return a.send(outgoing{
		kind: judge.Check, via: via, key: key, method: http.MethodPost, path: "/v1/checks", body: action, fresh: fresh,
	})
}

// insist sends an action until it is answered, each time through a random node.
func (a *agent) insist(action fleet.Action) fleet.Answer {
	via := a.via()
	answer := a.check(via, a.key, action, false)
	for answer.Status == 0 || answer.Status >= 500 {
		if !pause(a.w.grace, 20*time.Millisecond+time.Duration(a.rng.Int64N(int64(150*time.Millisecond)))) {
			break
		}
		if a.rng.IntN(2) == 0 {
			via = a.via()
		}
		answer = a.check(via, a.key, action, a.rng.IntN(2) == 0)
	}
	a.remember(action, answer)
	return answer
}

const memory = 64

func (a *agent) remember(action fleet.Action, answer fleet.Answer) {
	r := answer.Result()
	if r.CheckID == "" {
		return
	}
	a.ids = append(a.ids, r.CheckID)
	a.ids = a.ids[max(0, len(a.ids)-memory):]
	if r.Decision == "allow" {
		a.open = append(a.open, granted{r.CheckID, action})
		a.open = a.open[max(0, len(a.open)-memory):]
	}
	if action.ApprovalID != "" {
		return
	}
	if action.IdempotencyKey == "" && !r.Duplicate() {
		a.past = append(a.past, action)
		a.past = a.past[max(0, len(a.past)-memory):]
	}
}

func (a *agent) actOnce() { a.insist(a.action()) }

// spend takes from budgets, now and then by several requests at once.
func (a *agent) spend() {
	action := a.action()
	action.PolicyID, action.Amount = budgeted, spell(a.rng, 1+a.rng.IntN(100))
	if a.rng.IntN(3) == 0 {
		action.AgentID = "team"
	}
	if a.rng.IntN(3) == 0 {
		action.IdempotencyKey = a.idempotencyKey()
	}
	if a.rng.IntN(4) == 0 {
		a.fromSeveralSides(a.copies(action))
		return
	}
	a.insist(action)
}

func (a *agent) actWithKey() {
	action := a.action()
	action.IdempotencyKey = a.idempotencyKey()
	a.insist(action)
	for range a.rng.IntN(3) {
		a.insist(action)
	}
}

// fromSeveralSides sends actions at the same time, each through another node.
func (a *agent) fromSeveralSides(actions []fleet.Action) {
	first := a.via()
	answers := make([]fleet.Answer, len(actions))
	var sending sync.WaitGroup
	for i, action := range actions {
		sending.Go(func() { answers[i] = a.check((first+i)%(nodeCount+1), a.key, action, false) })
	}
	sending.Wait()
	for i, answer := range answers {
		if answer.Status == 0 || answer.Status >= 500 {
			a.insist(actions[i])
		} else {
			a.remember(actions[i], answer)
		}
	}
}

func (a *agent) copies(action fleet.Action) []fleet.Action {
	all := make([]fleet.Action, 2+a.rng.IntN(3))
	for i := range all {
		all[i] = action
	}
	return all
}

func (a *agent) actFromSeveralSides() { a.fromSeveralSides(a.copies(a.action())) }

func (a *agent) keyFromSeveralSides() {
	action := a.action()
	action.IdempotencyKey = a.idempotencyKey()
	a.fromSeveralSides(a.copies(action))
}

// reuseKey sends another request under a key, at the same time or later.
func (a *agent) reuseKey() {
	action := a.action()
	action.IdempotencyKey = a.idempotencyKey()
	other := action
	if a.rng.IntN(2) == 0 {
		other.Amount = json.Number(fmt.Sprint(1001 + a.rng.IntN(1000)))
	} else {
		other.Counterparty += "-other"
	}
	if a.rng.IntN(2) == 0 {
		a.fromSeveralSides([]fleet.Action{action, other, action})
		return
	}
	a.insist(action)
	a.insist(other)
}

// repeat sends an action twice, as an agent in a loop does.
func (a *agent) repeat() {
	if len(a.past) > 0 {
		a.insist(a.past[a.rng.IntN(len(a.past))])
	}
}

// contest sends the action that other agents send at the same time.
func (a *agent) contest() {
	slot := int(a.rec.now() / contestTime)
	a.insist(fleet.Action{
		AgentID: "contest", PolicyID: a.w.policies[slot%len(a.w.policies)], ActionType: "credit", Amount: "50", Currency: "USD",
		Counterparty: contested(a.rec, 0),
	})
}

const contestTime = 300 * time.Millisecond

// contested is whom agents contest for, as many contests from now.
func contested(rec *recorder, later int) string {
	return fmt.Sprint("contested-", int(rec.now()/contestTime)+later)
}

// simulate simulates a known and a new action; the new one is sent afterwards and
// must not be blocked by that.
func (a *agent) simulate() {
	action := a.action()
	actions := []fleet.Action{action}
	if len(a.past) > 0 {
		known := a.past[a.rng.IntN(len(a.past))]
		known.PolicyID = action.PolicyID
		actions = append(actions, known)
	}
	a.send(outgoing{
		kind: judge.Simulate, via: a.via(), key: a.key, method: http.MethodPost, path: "/v1/simulate",
		body: map[string]any{"policy_id": action.PolicyID, "actions": actions},
	})
	if a.rng.IntN(2) == 0 {
		a.insist(action)
	}
}

func (a *agent) read() {
	if len(a.ids) > 0 {
		a.get(a.via(), a.ids[a.rng.IntN(len(a.ids))])
	}
}

func (a *agent) get(via int, id string) {
	a.send(outgoing{kind: judge.Get, via: via, key: a.key, method: http.MethodGet, path: "/v1/checks/" + id, subject: id})
}

func (a *agent) useVolatileKey() {
	if k, ok := a.w.admin.pick(a.rng); ok {
		a.check(a.via(), k, a.action(), false)
	}
}

func (a *agent) useLimitedKey() {
	k := a.w.limited[a.rng.IntN(len(a.w.limited))]
	for range 4 {
		a.check(a.via(), k, a.action(), false)
	}
}

// pause waits. It reports whether the context is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
