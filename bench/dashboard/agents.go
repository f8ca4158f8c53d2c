package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"spendgate/bench/fleet"
)

const (
	workers = 24
	// pause is between a worker's checks: a steady load that any machine bears.
	pause = 40 * time.Millisecond
)

// agents send what agents send: actions within the policy and beyond it, some
// of them twice, and retries.
type agents struct {
	clients []*fleet.Client
	policy  string
}

func newAgents(ctx context.Context, f *fleet.Fleet, front *fleet.Balancer) (*agents, error) {
	a := &agents{policy: "agents"}
	for range workers {
		_, key, err := f.Nodes[0].Admin(f.AdminKey).CreateKey(ctx, "agent", 10_000)
		if err != nil {
			return nil, err
		}
		a.clients = append(a.clients, front.Client(key))
	}
	answer, err := a.clients[0].PostPolicy(ctx, fleet.Policy{PolicyID: a.policy, Name: "Agents", Rules: []fleet.Rule{
		{RuleID: "cap", RuleType: "max_amount", Parameters: map[string]any{"limit": 500, "currency": "USD"}},
		{RuleID: "review", RuleType: "escalate_if", Parameters: map[string]any{"amount_above": 300}},
		{RuleID: "categories", RuleType: "blocked_categories", Parameters: map[string]any{"categories": []string{"gambling"}}},
	}})
	if err == nil && answer.Status != http.StatusCreated {
		err = fmt.Errorf("the policy is answered %s", answer)
	}
	return a, err
}

func (a *agents) work(ctx context.Context) {
	var working sync.WaitGroup
	for w, c := range a.clients {
		working.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				action := a.next(w, n)
				times := 1
				if n%12 == 0 {
					times = 2 // a loop, or a retry
				}
				for range times {
					_, _ = c.Check(ctx, action) // failures are part of the picture
				}
				time.Sleep(pause/2 + rand.N(pause))
			}
		})
	}
	working.Wait()
}

func (a *agents) next(worker, n int) fleet.Action {
	action := fleet.Action{
		AgentID: fmt.Sprintf("agent-%d", worker), PolicyID: a.policy, ActionType: "refund", Currency: "USD",
		Amount: json.Number(fmt.Sprint(5 + rand.IntN(540))), Counterparty: fmt.Sprintf("customer-%d", n),
	}
	if n%24 == 0 {
		action.IdempotencyKey = fmt.Sprintf("order-%d-%d", worker, n)
	}
	if rand.IntN(20) == 0 {
		action.Metadata = map[string]any{"category": "gambling"}
	}
	return action
}
