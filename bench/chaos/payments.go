package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"time"

	"spendgate/bench/chaos/judge"
	"spendgate/bench/fleet"
)

// paid is the policy of payments.
const paid = "paid"

// shop is the principal of payers.
const shop = "shop"

// ordered is what payers pay, as many orders from now.
func ordered(rec *recorder, later int) string {
	return fmt.Sprint("order-", int(rec.now()/(700*time.Millisecond))+later)
}

// newPayers makes keys of one principal that redeem.
func (w *workload) newPayers() error {
	for range 2 {
		k, err := w.newKey(plenty, "gateway")
		if err != nil {
			return err
		}
		admin := w.deployment.Nodes[0].Admin(w.deployment.AdminKey)
		answer, err := admin.PatchKey(context.Background(), k.id, map[string]any{"principal": shop})
		if err != nil || answer.Status != http.StatusOK {
			return fmt.Errorf("cannot name the principal of a key: %s, %w", answer, err)
		}
		w.rec.addPrincipal(k.id, shop)
		w.payers = append(w.payers, k)
	}
	return nil
}

// pay asks for the payment that other agents ask for at the same time, from several sides: each call with a nonce of its own, some
// to take over. Whoever proceeds reports, or has died.
func (a *agent) pay() {
	order := ordered(a.rec, 0)
	body := map[string]any{
		"agent_id": "payer", "policy_id": paid, "action_type": "refund", "amount": 10, "currency": "USD", "counterparty": order,
		"payment_key": order,
	}
	var all []outgoing
	for range 1 + a.rng.IntN(3) {
		own := maps.Clone(body)
		own["redeem"] = fmt.Sprintf("%s-%016d", a.agent, a.rng.Uint64N(1e15))
		if a.rng.IntN(3) == 0 {
			own["take_over"] = true
		}
		all = append(all, outgoing{
			kind: judge.Pay, key: a.w.payers[a.rng.IntN(2)], method: http.MethodPost, path: "/v1/checks", subject: order, body: own,
			fresh: a.rng.IntN(4) == 0,
		})
	}
	if a.rng.IntN(2) == 0 {
		all = append(all, all[0]) // a proxy sends it twice
	}
	for i, answer := range a.atOnce(all) {
		a.endPayment(all[i].key, answer)
	}
	if a.rng.IntN(3) == 0 { // or delivers it late
		a.endPayment(all[0].key, a.insistOn(a.rng, all[0]))
	}
}

// endPayment reports what became of a call that proceeds.
func (a *agent) endPayment(key apiKey, answer fleet.Answer) {
	var said struct {
		CheckID string `json:"check_id"`
		Payment struct {
			Proceed      bool   `json:"proceed"`
			RedemptionID string `json:"redemption_id"`
		} `json:"payment"`
	}
	if answer.Status != http.StatusOK || json.Unmarshal(answer.Body, &said) != nil || !said.Payment.Proceed {
		return
	}
	status := []string{"failed", "voided", "executed", ""}[a.rng.IntN(4)]
	if status == "" {
		return
	}
	pause(a.w.going, time.Duration(a.rng.Int64N(int64(50*time.Millisecond))))
	a.insistOn(a.rng, outgoing{
		kind: judge.PayReport, key: key, method: http.MethodPost, path: "/v1/checks/" + said.CheckID + "/outcome", subject: said.CheckID,
		body: map[string]any{"status": status, "redemption_id": said.Payment.RedemptionID},
	})
}
