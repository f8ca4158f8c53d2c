package main

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"spendgate/audit/spend"
	"spendgate/bench/load"
)

// action is the body of a check.
type action struct {
	AgentID        string        `json:"agent_id"`
	PolicyID       string        `json:"policy_id"`
	ActionType     string        `json:"action_type"`
	Amount         *spend.Amount `json:"amount"`
	Currency       string        `json:"currency"`
	Counterparty   string        `json:"counterparty"`
	PaymentMethod  string        `json:"payment_method"`
	IdempotencyKey *string       `json:"idempotency_key"`
	Metadata       struct {
		Category          string        `json:"category"`
		Country           string        `json:"country"`
		DaysSincePurchase *int          `json:"days_since_purchase"`
		DiscountPercent   *spend.Amount `json:"discount_percent"`
	} `json:"metadata"`
}

// complete reports whether all is there that every action needs.
func (a *action) complete() bool {
	return a.AgentID != "" && a.ActionType != "" && a.Amount != nil && a.Currency != "" && a.Counterparty != "" &&
		(a.IdempotencyKey == nil || *a.IdempotencyKey != "")
}

// policy is what differs between the policies of the workload.
type policy struct {
	limit, threshold, maxDiscount spend.Amount
	vendors                       map[string]bool
}

// policies returns the policies of load.PolicyBody, by their ids.
func policies(n int) (map[string]*policy, error) {
	vendors := make(map[string]bool)
	for i := range load.Vendors {
		vendors[load.Vendor(i)] = true
	}
	maxDiscount, err := spend.ParseAmount(strconv.Itoa(load.MaxDiscountPercent))
	if err != nil {
		return nil, err
	}
	all := make(map[string]*policy, n)
	for i := range n {
		limit, err := spend.ParseAmount(strconv.Itoa(load.Cap(i)))
		if err != nil {
			return nil, err
		}
		threshold, err := spend.ParseAmount(strconv.Itoa(load.Threshold(i)))
		if err != nil {
			return nil, err
		}
		all[load.PolicyID(i)] = &policy{limit, threshold, maxDiscount, vendors}
	}
	return all, nil
}

// judge returns the decision and the rule that led to it. The duplicate guard
// is the database's.
func (p *policy) judge(a *action, now time.Time) (load.Effect, string) {
	m := &a.Metadata
	switch {
	case a.Currency != "USD" || a.Amount.Cmp(p.limit) > 0:
		return load.Block, "cap"
	case a.ActionType == "refund" && m.DaysSincePurchase != nil && *m.DaysSincePurchase > load.MaxDaysSince:
		return load.Block, "refund-age"
	case listed(load.BlockedCategories[:], m.Category):
		return load.Block, "categories"
	case a.ActionType == "spend" && !p.vendors[a.Counterparty]:
		return load.Block, "vendors"
	case listed(load.BlockedRails[:], a.PaymentMethod):
		return load.Block, "rails"
	case a.ActionType == "discount" && m.DiscountPercent != nil && m.DiscountPercent.Cmp(p.maxDiscount) > 0:
		return load.Block, "discount-cap"
	case listed(load.BlockedCountries[:], m.Country):
		return load.Block, "countries"
	case !open(now):
		return load.Block, "hours"
	case a.Amount.Cmp(p.threshold) > 0 && slices.Contains(load.EscalatedTypes[:], a.ActionType):
		return load.Escalate, "needs-a-human"
	default:
		return load.Allow, ""
	}
}

func listed(words []string, word string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, word) })
}

// open reports whether the allowed days and hours include the time.
func open(now time.Time) bool {
	day := strings.ToLower(now.Weekday().String()[:3])
	const from, to = 0, 24 * 60 // load.AllowedHours
	minute := now.Hour()*60 + now.Minute()
	return slices.Contains(load.AllowedDays[:], day) && minute >= from && minute < to
}
