package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"spendgate/bench/fleet"
)

// approvals is a fleet of two nodes whose agent asks for approvals.
type approvals struct {
	*fleet.Fleet
	agent, person string // raw keys
}

// testApprovals: G13 and S48 of the compiled service.
func testApprovals(t *testing.T, binary string) {
	a := &approvals{Fleet: startFleet(t, fleet.Options{Binary: binary, Nodes: 2})}
	admin := a.Nodes[0].Admin(a.AdminKey)
	key := func(body map[string]any) string {
		t.Helper()
		var made struct {
			Key string `json:"api_key"`
		}
		body["rate_limit_rpm"] = plenty
		answer := ok(t, must(admin.Do(t.Context(), http.MethodPost, "/v1/keys", body))(t), http.StatusCreated)
		act(t, json.Unmarshal(answer.Body, &made))
		return made.Key
	}
	a.agent = key(map[string]any{"name": "agent"})
	a.person = key(map[string]any{"name": "anna", "role": "approver", "principal": "anna"})
	ok(t, must(a.Nodes[0].Client(a.agent).PostPolicy(t.Context(), fleet.Policy{PolicyID: "asks", Name: "asks", Rules: []fleet.Rule{
		{RuleID: "ask", RuleType: "escalate_if", Parameters: map[string]any{"amount_above": 100, "approval": map[string]any{}}},
	}}))(t), http.StatusCreated)
	t.Run("waits over a restart of PostgreSQL", a.waits)
	t.Run("used once while a node is killed", a.usedOnce)
}

// ask returns an action and the approval that it asks for.
func (a *approvals) ask(t *testing.T, counterparty string) (action map[string]any, approvalID, hash string) {
	t.Helper()
	action = map[string]any{
		"agent_id": "agent", "policy_id": "asks", "action_type": "refund", "amount": 101, "currency": "USD", "counterparty": counterparty,
	}
	answer := ok(t, must(a.Nodes[0].Client(a.agent).Do(t.Context(), http.MethodPost, "/v1/checks", action))(t), http.StatusOK)
	var made struct {
		ApprovalID string `json:"approval_id"`
		ActionHash string `json:"action_hash"`
	}
	act(t, json.Unmarshal(answer.Body, &made))
	answer = ok(t, must(a.Nodes[1].Client(a.person).Do(t.Context(), http.MethodGet, "/v1/approvals/"+made.ApprovalID, nil))(t), http.StatusOK)
	act(t, json.Unmarshal(answer.Body, &made))
	return action, made.ApprovalID, made.ActionHash
}

func (a *approvals) approve(t *testing.T, node int, approvalID, hash string) {
	t.Helper()
	eventually(t, patience, "the approval is given", func() bool {
		answer, err := a.Nodes[node].Client(a.person).Do(t.Context(), http.MethodPost, "/v1/approvals/"+approvalID+"/approve", map[string]any{"action_hash": hash})
		return err == nil && answer.Status == http.StatusOK
	})
}

// waits: who waits on one node hears what is decided on the other after PostgreSQL
// was restarted.
func (a *approvals) waits(t *testing.T) {
	_, approvalID, hash := a.ask(t, "waits")
	answered := make(chan string, 1)
	go func() {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.Nodes[0].API+"/v1/approvals/"+approvalID, nil)
		if err != nil {
			answered <- err.Error()
			return
		}
		request.Header.Set("X-API-Key", a.agent)
		request.Header.Set("Prefer", "wait=30")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			answered <- err.Error()
			return
		}
		defer response.Body.Close() //nolint:errcheck // it is read
		var found struct {
			Status string `json:"status"`
		}
		err = json.NewDecoder(response.Body).Decode(&found)
		answered <- fmt.Sprint(response.StatusCode, " ", found.Status, " ", err)
	}()
	time.Sleep(500 * time.Millisecond) // so that it waits
	act(t, a.Postgres.Kill())
	time.Sleep(time.Second)
	act(t, a.Postgres.Start(t.Context()))
	a.approve(t, 1, approvalID, hash)
	select {
	case got := <-answered:
		if got != "200 approved <nil>" {
			t.Errorf("answered %s", got)
		}
	case <-time.After(10 * time.Second): // well before it would end by itself
		t.Error("who waits was not woken")
	}
}

// usedOnce: of many uses on both nodes exactly one is allowed, also when one of them
// is killed among them; and the record says so.
func (a *approvals) usedOnce(t *testing.T) {
	for round := range 5 {
		action, approvalID, hash := a.ask(t, fmt.Sprint("once-", round))
		a.approve(t, 0, approvalID, hash)
		action["approval_id"] = approvalID
		var wg sync.WaitGroup
		var mu sync.Mutex
		allowed := make(map[string]bool)
		for i := range 50 {
			wg.Go(func() {
				answer, err := a.Nodes[i%2].Client(a.agent).Do(t.Context(), http.MethodPost, "/v1/checks", action)
				var result fleet.Result
				if err != nil || answer.Status != http.StatusOK || json.Unmarshal(answer.Body, &result) != nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				allowed[result.CheckID+" "+result.Decision] = true
			})
		}
		time.Sleep(time.Duration(round) * 5 * time.Millisecond)
		act(t, a.Nodes[1].Kill())
		wg.Wait()
		act(t, a.Nodes[1].Start(limited(t, patience)))
		last := must(a.Nodes[0].Client(a.agent).Do(t.Context(), http.MethodPost, "/v1/checks", action))(t)
		if once := last.Status == http.StatusConflict && strings.Contains(string(last.Body), "approval_already_used") || last.Status == http.StatusOK; !once {
			t.Errorf("round %d: after all: %s", round, last)
		}
		var uses, checks int
		err := a.Postgres.Pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM approval_uses WHERE approval_id = $1::uuid),
			(SELECT count(*) FROM checks WHERE approval_id = $1::uuid AND decision = 'a')`, strings.TrimPrefix(approvalID, "apr_")).Scan(&uses, &checks)
		if err != nil || uses != 1 || checks != 1 || len(allowed) > 1 {
			t.Errorf("round %d: %d uses, %d checks, answered %v, %v", round, uses, checks, allowed, err)
		}
	}
}
