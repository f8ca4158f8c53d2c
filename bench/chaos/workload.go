package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"spendgate/bench/chaos/judge"
	"spendgate/bench/fleet"
)

const (
	// plenty is the highest limit that a key can have.
	plenty = 10000
	// finishIn is how long agents retry what failed after the last fault.
	finishIn = 8 * time.Second
)

// workload is the clients of a round.
type workload struct {
	deployment *deployment
	rec        *recorder
	policies   []string
	agents     []*agent
	editor     *editor
	admin      *admin
	warden     *warden
	steward    *steward
	limited    []apiKey
	executor   apiKey
	approvers  []apiKey
	gateways   []apiKey
	payers     []apiKey
	thinkTime  time.Duration // of an agent, on average
	going      context.Context
	grace      context.Context // ends finishIn after going
}

// newWorkload makes keys and policies.
func newWorkload(s *deployment, rec *recorder, seed uint64, agents int) (*workload, error) {
	w := &workload{deployment: s, rec: rec, policies: []string{"bounded", "brief", "edited"}, thinkTime: 25 * time.Millisecond}
	stream := uint64(0)
	member := func(name string) *agent {
		stream++
		return &agent{sender: newSender(s, rec, name), w: w, rng: rand.New(rand.NewPCG(seed, stream))}
	}
	for i := range agents {
		a := member(fmt.Sprintf("agent-%d", i))
		w.agents = append(w.agents, a)
	}
	w.editor, w.admin, w.warden = &editor{agent: member("editor")}, &admin{agent: member("administrator")}, &warden{member("warden")}
	for _, a := range append(w.agents, w.editor.agent, w.admin.agent, w.warden.agent) {
		var err error
		if a.key, err = w.newKey(plenty, ""); err != nil {
			return nil, err
		}
	}
	for _, limit := range []int{40, 75} {
		k, err := w.newKey(limit, "")
		if err != nil {
			return nil, err
		}
		w.limited = append(w.limited, k)
	}
	var err error
	if w.executor, err = w.newKey(plenty, "executor"); err != nil {
		return nil, err
	}
	for i := range 4 {
		k, err := w.newKey(plenty, "approver", groupsAsked[i%len(groupsAsked)])
		if err != nil {
			return nil, err
		}
		w.approvers = append(w.approvers, k)
	}
	for range 2 {
		k, err := w.newKey(plenty, "gateway")
		if err != nil {
			return nil, err
		}
		w.gateways = append(w.gateways, k)
	}
	if err := w.newPayers(); err != nil {
		return nil, err
	}
	if w.steward, err = w.newSteward(member("steward")); err != nil {
		return nil, err
	}
	for range volatileKeys {
		if err := w.admin.issue(); err != nil {
			return nil, err
		}
	}
	for _, id := range append([]string{budgeted, asking, paid}, w.policies...) {
		if a := w.editor.post(id); a.Status != http.StatusCreated {
			return nil, fmt.Errorf("cannot store a policy: %s", a)
		}
	}
	return w, nil
}

// newKey makes a key of a role, empty is full, and for approvers of a group.
func (w *workload) newKey(limit int, role string, groups ...string) (apiKey, error) {
	id, raw, err := w.deployment.Nodes[0].Admin(w.deployment.AdminKey).CreateKeyOf(context.Background(), "chaos", limit, role, groups...)
	if err != nil {
		return apiKey{}, err
	}
	w.rec.addKey(judge.Key{ID: id, Limit: limit, Role: role, Group: strings.Join(groups, "")})
	return apiKey{id, raw}, nil
}

func (w *workload) policy(rng *rand.Rand) string { return w.policies[rng.IntN(len(w.policies))] }

// run sends requests until going ends, and then retries what was not answered.
func (w *workload) run(going context.Context) {
	grace, end := context.WithCancel(context.Background())
	defer end()
	w.going, w.grace = going, grace
	var working sync.WaitGroup
	for _, a := range w.agents {
		working.Go(a.run)
	}
	working.Go(w.editor.run)
	working.Go(w.admin.run)
	working.Go(w.warden.run)
	working.Go(w.steward.run)
	<-going.Done()
	late := time.AfterFunc(finishIn, end)
	defer late.Stop()
	working.Wait()
}

func (w *workload) close() {
	for _, a := range append(w.agents, w.editor.agent, w.admin.agent, w.warden.agent, w.steward.agent) {
		a.close()
	}
}

// editor posts versions of policies. Rules are named by version, so that a
// decision names the version that made it.
type editor struct {
	*agent
	edits int
}

func (e *editor) run() {
	for e.w.going.Err() == nil {
		id := e.w.policy(e.rng)
		switch e.rng.IntN(8) {
		case 0, 1:
			id = budgeted
		case 2:
			id = asking
		}
		if e.post(id).Status == http.StatusCreated {
			e.everywhere(e.key, id)
		}
		pause(e.w.going, 50*time.Millisecond+time.Duration(e.rng.Int64N(int64(400*time.Millisecond))))
	}
}

func (e *editor) post(id string) fleet.Answer {
	e.edits++
	limit := 200 + e.rng.IntN(700)
	p := fleet.Policy{PolicyID: id, Name: id, Rules: []fleet.Rule{
		{RuleID: fmt.Sprintf("cap-%d", e.edits), RuleType: "max_amount", Parameters: map[string]any{"limit": limit, "currency": "USD"}},
		{RuleID: fmt.Sprintf("review-%d", e.edits), RuleType: "escalate_if", Parameters: map[string]any{"amount_above": limit / 2}},
	}}
	p.Rules = append(p.Rules, conditional(e.rng, e.edits, limit)...)
	if id == "brief" {
		p.Rules = append(p.Rules, fleet.Rule{RuleID: "guard", RuleType: "duplicate_guard", Parameters: map[string]any{"window_minutes": 1}})
	}
	if id == asking {
		p.Rules[0].Parameters["limit"] = 1000
		p.Rules = []fleet.Rule{p.Rules[0], asks(e.rng)}
	}
	if id == budgeted {
		p.Rules = append(p.Rules, budgets()...)
	}
	return e.send(outgoing{kind: judge.Post, via: e.via(), key: e.key, method: http.MethodPost, path: "/v1/policies", body: p})
}

// budgeted is the policy with budgets.
const budgeted = "budgeted"

// budgets are the same in every version, and small enough to be reached.
func budgets() []fleet.Rule {
	rule := func(id string, parameters map[string]any) fleet.Rule {
		return fleet.Rule{RuleID: id, RuleType: "budget", Parameters: parameters}
	}
	return []fleet.Rule{
		rule("each", map[string]any{"limit": 400, "currency": "USD", "per": []string{"agent_id"}, "window": "lifetime"}),
		rule("shared", map[string]any{"limit": 4000, "currency": "USD", "window": "hour"}),
		rule("tiers", map[string]any{
			"limit": 900, "currency": "USD", "per": []string{"metadata.tier"}, "window": "hour", "on_missing": "skip", "notify_at": []int{50, 80},
		}),
		rule("rolling", map[string]any{"max_count": 150, "rolling_minutes": 1, "on_exceed": "escalate"}),
	}
}

// everywhere sends a new action through every node at once, right now.
func (a *agent) everywhere(key apiKey, policyID string) {
	actions := make([]fleet.Action, nodeCount)
	for i := range actions {
		actions[i] = a.action()
		actions[i].PolicyID = policyID
	}
	var sending sync.WaitGroup
	answers := make([]fleet.Answer, len(actions))
	for i, action := range actions {
		sending.Go(func() { answers[i] = a.check(i, key, action, false) })
	}
	sending.Wait()
	for i, action := range actions {
		a.remember(action, answers[i])
	}
}

const volatileKeys = 4

// admin deactivates keys, activates them and changes their limits.
type admin struct {
	*agent
	mu   sync.Mutex
	keys []*volatileKey
}

type volatileKey struct {
	apiKey
	active bool
}

// issue makes one more key.
func (a *admin) issue() error {
	k, err := a.w.newKey(plenty, "")
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keys = append(a.keys, &volatileKey{k, true})
	return nil
}

// pick returns some key, active or not.
func (a *admin) pick(rng *rand.Rand) (apiKey, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.keys) == 0 {
		return apiKey{}, false
	}
	return a.keys[rng.IntN(len(a.keys))].apiKey, true
}

func (a *admin) run() {
	for a.w.going.Err() == nil {
		a.mu.Lock()
		few := len(a.keys) < volatileKeys
		a.mu.Unlock()
		if few {
			_ = a.issue() // is retried
		} else {
			a.change(a.keys[a.rng.IntN(volatileKeys)])
		}
		pause(a.w.going, 100*time.Millisecond+time.Duration(a.rng.Int64N(int64(400*time.Millisecond))))
	}
}

// change changes a key and uses it at once. A key of unknown state is dropped.
func (a *admin) change(k *volatileKey) {
	body := map[string]any{"active": !k.active}
	if a.rng.IntN(3) == 0 {
		body = map[string]any{"rate_limit_rpm": 50 + a.rng.IntN(100)}
	}
	answer := a.send(outgoing{
		kind: judge.Patch, via: a.via(), method: http.MethodPatch, path: "/v1/keys/" + k.id, subject: k.id, body: body,
	})
	if answer.Status != http.StatusOK {
		a.mu.Lock()
		defer a.mu.Unlock()
		for i := range a.keys {
			if a.keys[i] == k {
				a.keys = append(a.keys[:i:i], a.keys[i+1:]...)
				return
			}
		}
		return
	}
	if _, toggled := body["active"]; toggled {
		k.active = !k.active
		a.redeem() // what some of the keys was allowed, maybe this one
	}
	a.everywhere(k.apiKey, a.w.policy(a.rng))
}
