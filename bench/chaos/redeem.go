package main

import (
	"fmt"
	"net/http"

	"spendgate/bench/chaos/judge"
)

// redeem has gateways redeem an allowed check concurrently, while others report it or say that it
// is in doubt; the gateway that redeemed it reports its outcome and tries to redeem it once more.
func (a *agent) redeem() {
	c, found := a.granted()
	if !found {
		return
	}
	post := func(kind judge.Kind, key apiKey, to string, body map[string]any) outgoing {
		return outgoing{kind: kind, key: key, method: http.MethodPost, path: "/v1/checks/" + c.id + "/" + to, subject: c.id, body: body}
	}
	redeem := func(key apiKey) outgoing {
		body := map[string]any{"amount": c.action.Amount, "currency": c.action.Currency, "counterparty": c.action.Counterparty}
		if c.action.ActionType == "spend" {
			body["payment_method"], body["merchant_or_vendor"] = c.action.PaymentMethod, c.action.Vendor
		}
		if c.action.Metadata != nil {
			body["metadata"] = c.action.Metadata
		}
		if a.rng.IntN(4) > 0 {
			body["idempotency_key"] = fmt.Sprint("try-", a.rng.IntN(6)/5)
		}
		return post(judge.Redeem, key, "redeem", body)
	}
	first, other := a.w.gateways[0], a.w.gateways[1]
	if a.rng.IntN(2) == 0 {
		first, other = other, first
	}
	all := []outgoing{redeem(first)}
	for range a.rng.IntN(3) {
		all = append(all, redeem(first))
	}
	switch a.rng.IntN(6) {
	case 0, 1:
		all = append(all, redeem(other))
	case 2:
		all = append(all, post(judge.Report, a.w.executor, "outcome", a.outcome()))
	case 3:
		all = append(all, post(judge.Report, a.key, "outcome", a.outcome()))
	case 4:
		all = append(all, post(judge.Doubt, first, "in-doubt", map[string]any{}))
	}
	a.atOnce(all)
	last := []outgoing{all[0], redeem(other)}
	if a.rng.IntN(3) > 0 {
		last = append(last, post(judge.Report, first, "outcome", a.outcome()))
	}
	if a.rng.IntN(4) == 0 {
		last = append(last, post(judge.Report, a.w.executor, "outcome", a.outcome()))
	}
	for _, l := range last {
		a.insistOn(a.rng, l)
	}
}
