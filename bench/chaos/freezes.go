package main

import (
	"encoding/json"
	"net/http"
	"time"

	"spendgate/bench/chaos/judge"
	"spendgate/bench/fleet"
)

// warden freezes a part of what others do, now and then and for a moment.
type warden struct{ *agent }

func (w *warden) run() {
	for pause(w.w.going, 400*time.Millisecond+time.Duration(w.rng.Int64N(int64(1600*time.Millisecond)))) {
		w.freeze()
	}
}

// freeze freezes a scope while others are at work, uses what was allowed, and releases the freeze or leaves it to its end.
func (w *warden) freeze() {
	allowed := w.action()
	allowed.Amount, allowed.IdempotencyKey = spell(w.rng, 1+w.rng.IntN(90)), w.idempotencyKey()
	w.insist(allowed)
	w.n++
	lasts := 200*time.Millisecond + time.Duration(w.rng.Int64N(int64(time.Second)))
	body := map[string]any{"scope": w.scope(allowed), "reason": "chaos", "idempotency_key": w.idempotencyKey()}
	ends := w.rng.IntN(2) == 0
	if ends {
		body["until"] = time.Now().Add(lasts).UTC().Format("2006-01-02T15:04:05.000Z")
	}
	answer := w.insistOn(w.rng, outgoing{kind: judge.Freeze, method: http.MethodPost, path: "/v1/freezes", body: body})
	var frozen struct {
		ID string `json:"freeze_id"`
	}
	if answer.Status >= 300 || json.Unmarshal(answer.Body, &frozen) != nil {
		return // its end came before it was recorded
	}
	released := time.Now().Add(lasts)
	w.everywhere(w.key, w.w.policy(w.rng))
	w.insist(allowed)
	w.redeem()
	w.pay()
	pause(w.w.grace, time.Until(released))
	if !ends {
		w.insistOn(w.rng, outgoing{
			kind: judge.Thaw, method: http.MethodPost, path: "/v1/freezes/" + frozen.ID + "/release", subject: frozen.ID,
			body: map[string]any{"note": "chaos"},
		})
	}
	w.insist(allowed)
}

// scope draws what is frozen: often what many requests are of, or what the warden was allowed.
func (w *warden) scope(allowed fleet.Action) map[string]any {
	one := func(names ...string) string { return names[w.rng.IntN(len(names))] }
	switch w.rng.IntN(8) {
	case 0:
		return map[string]any{"all": true}
	case 1, 2:
		return map[string]any{"policy_id": one(append([]string{allowed.PolicyID, budgeted, asking, paid}, w.w.policies...)...)}
	case 3, 4:
		return map[string]any{"agent_id": one("team", "contest", "payer", w.agent.agent, w.some().agent, w.some().agent)}
	case 5:
		return map[string]any{"counterparty": one(contested(w.rec, 1), ordered(w.rec, w.rng.IntN(2)), allowed.Counterparty)}
	default:
		return map[string]any{"principal": one(shop, w.key.id, w.some().key.id, w.w.gateways[0].id)}
	}
}

func (w *warden) some() *agent { return w.w.agents[w.rng.IntN(len(w.w.agents))] }
