package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"spendgate/bench/chaos/judge"
)

// steward raises the limits of budgets for a moment, revokes some of these grants, and changes the keys that gave them.
type steward struct {
	*agent
	granters []*granter
	given    []string // grants
}

// granter is a key that may grant.
type granter struct {
	apiKey
	role   string
	active bool
}

// newSteward returns a steward with keys.
func (w *workload) newSteward(a *agent) (*steward, error) {
	s := &steward{agent: a}
	for range 3 {
		k, err := w.newKey(plenty, "approver")
		if err != nil {
			return nil, err
		}
		s.granters = append(s.granters, &granter{k, "approver", true})
	}
	return s, nil
}

func (s *steward) run() {
	for s.w.going.Err() == nil {
		switch n := s.rng.IntN(20); {
		case n < 11:
			s.give()
		case n < 17:
			s.revoke()
		default:
			s.change(s.granters[s.rng.IntN(len(s.granters))])
		}
		pause(s.w.going, 30*time.Millisecond+time.Duration(s.rng.Int64N(int64(250*time.Millisecond))))
	}
}

func (s *steward) granter() apiKey { return s.granters[s.rng.IntN(len(s.granters))].apiKey }

func (s *steward) give() {
	body := map[string]any{
		"policy_id": budgeted, "rule_id": "each", "add_amount": 20 + s.rng.IntN(80), "note": "a busy minute",
		"until": time.Now().Add(200*time.Millisecond + time.Duration(s.rng.Int64N(int64(5*time.Second)))).UTC().Format(time.RFC3339Nano),
	}
	switch s.rng.IntN(5) {
	case 0:
		body["rule_id"] = "shared"
	case 1:
		body["rule_id"], body["add_count"] = "rolling", 1+s.rng.IntN(20)
		delete(body, "add_amount")
	default:
		body["per"] = map[string]any{"agent_id": "team"}
		if n := s.rng.IntN(2 * len(s.w.agents)); n < len(s.w.agents) {
			body["per"] = map[string]any{"agent_id": fmt.Sprintf("agent-%d", n)}
		}
	}
	answer := s.send(outgoing{kind: judge.Grant, via: s.via(), key: s.granter(), method: http.MethodPost, path: "/v1/grants", body: body})
	var made struct {
		ID string `json:"grant_id"`
	}
	if answer.Status == http.StatusCreated && json.Unmarshal(answer.Body, &made) == nil {
		s.given = append(s.given, made.ID)
		s.given = s.given[max(0, len(s.given)-8):]
	}
}

func (s *steward) revoke() {
	if len(s.given) == 0 {
		return
	}
	id := s.given[s.rng.IntN(len(s.given))]
	s.send(outgoing{
		kind: judge.Revoke, via: s.via(), key: s.granter(), method: http.MethodPost, path: "/v1/grants/" + id + "/revoke", subject: id,
		body: map[string]any{"note": "enough"},
	})
}

// change takes the right from a key, or gives it back. Until a change is answered the key's state is unknown, and the same change is sent
// again.
func (s *steward) change(g *granter) {
	var body map[string]any
	role, active := g.role, g.active
	switch {
	case !g.active:
		active = true
		body = map[string]any{"active": true}
	case g.role != "approver" || s.rng.IntN(2) == 0:
		if role = "auditor"; g.role == role {
			role = "approver"
		}
		body = map[string]any{"role": role}
	default:
		active = false
		body = map[string]any{"active": false}
	}
	answer := s.send(outgoing{kind: judge.Patch, via: s.via(), method: http.MethodPatch, path: "/v1/keys/" + g.id, subject: g.id, body: body})
	if answer.Status == http.StatusOK {
		g.role, g.active = role, active
	}
}

// grantsSQL reads the changes of grants, and of the keys that gave them.
const grantsSQL = `SELECT subject, kind, coalesce(key_id, ''), details::jsonb, ` + committed + ` FROM changes
	WHERE kind LIKE 'grant.%' OR kind = 'key.changed' AND subject IN (SELECT key_id FROM changes WHERE kind = 'grant.created') ORDER BY seq`
