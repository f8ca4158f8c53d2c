package load

import "strconv"

// AppendMembers writes the members of the action's JSON object with spendgate's names, without
// braces and without the idempotency key: the part that every server receives.
func AppendMembers(dst []byte, a *Action) []byte {
	dst = append(dst, `"agent_id":"`...)
	dst = AppendAgent(dst, a)
	dst = append(dst, `","policy_id":"`...)
	dst = AppendPolicyID(dst, a)
	dst = append(dst, `","action_type":"`...)
	dst = append(dst, a.Type...)
	dst = append(dst, `","amount":`...)
	dst = appendCents(dst, a.Cents)
	dst = append(dst, `,"currency":"USD","counterparty":"`...)
	if a.Vendor == "" {
		dst = append(dst, `customer-`...)
		dst = strconv.AppendUint(dst, a.Serial, 10)
	} else {
		dst = append(dst, a.Vendor...)
	}
	dst = append(dst, `","payment_method":"`...)
	dst = append(dst, a.PaymentMethod...)
	dst = append(dst, `","metadata":{"category":"`...)
	dst = append(dst, a.Category...)
	dst = append(dst, `","country":"`...)
	dst = append(dst, a.Country...)
	dst = append(dst, '"')
	if a.DaysSince >= 0 {
		dst = append(dst, `,"days_since_purchase":`...)
		dst = strconv.AppendInt(dst, int64(a.DaysSince), 10)
	}
	if a.DiscountPercent >= 0 {
		dst = append(dst, `,"discount_percent":`...)
		dst = strconv.AppendInt(dst, int64(a.DiscountPercent), 10)
	}
	return append(dst, '}')
}

// AppendAgent writes the agent's name. Runs with another seed have other
// agents, so that they are no duplicates of an earlier run's actions.
func AppendAgent(dst []byte, a *Action) []byte {
	dst = append(dst, `agent-`...)
	dst = strconv.AppendUint(dst, a.Seed, 36)
	dst = append(dst, '-')
	return strconv.AppendInt(dst, int64(a.Agent), 10)
}

// AppendPolicyID writes the name of the action's policy.
func AppendPolicyID(dst []byte, a *Action) []byte {
	dst = append(dst, `bench_`...)
	return strconv.AppendInt(dst, int64(a.Policy), 10)
}

// AppendPost writes an HTTP request. headers are whole lines.
func AppendPost(dst []byte, path, headers string, body []byte) []byte {
	dst = append(dst, "POST "...)
	dst = append(dst, path...)
	dst = append(dst, " HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"...)
	dst = append(dst, headers...)
	dst = append(dst, "Content-Length: "...)
	dst = strconv.AppendInt(dst, int64(len(body)), 10)
	dst = append(dst, "\r\n\r\n"...)
	return append(dst, body...)
}

// AppendBody writes the whole body of a check. One that pays is of a payment, and redeemed in the same request; others have an
// idempotency key if the action is keyed.
func AppendBody(dst []byte, a *Action, pays bool) []byte {
	dst = AppendMembers(append(dst, '{'), a)
	switch {
	case pays:
		dst = appendPayment(dst, a)
	case a.Keyed:
		dst = appendIdempotencyKey(dst, a)
	}
	return append(dst, '}')
}

func appendIdempotencyKey(dst []byte, a *Action) []byte {
	return append(appendName(append(dst, `,"idempotency_key":"idem-`...), a), '"')
}

func appendPayment(dst []byte, a *Action) []byte {
	dst = appendName(append(dst, `,"payment_key":"pay-`...), a)
	dst = appendName(append(dst, `","redeem":"nonce-of-a-call-`...), a)
	return append(dst, '"')
}

// appendName writes what no other action of the workload has.
func appendName(dst []byte, a *Action) []byte {
	dst = strconv.AppendUint(dst, a.Seed, 36)
	dst = append(dst, '-')
	return strconv.AppendUint(dst, a.Serial, 10)
}

func appendCents(dst []byte, cents uint64) []byte {
	dst = strconv.AppendUint(dst, cents/100, 10)
	return append(dst, '.', byte('0'+cents/10%10), byte('0'+cents%10))
}
