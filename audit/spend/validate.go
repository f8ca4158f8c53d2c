package spend

// Validate adds a fault for each field of a decoded action that is missing or too long, named under
// prefix ("" or "actions[3]."), and clears blank optional fields, which count as absent (S4). The
// decoder has already checked types, amount, currency and metadata.
func (a *Action) Validate(prefix string, faults *Faults) {
	required(faults, prefix, "agent_id", a.AgentID, MaxIdentifier)
	if Blank(a.PolicyID) {
		faults.Add(prefix+"policy_id", "is required")
	} else if !ValidPolicyID(a.PolicyID) {
		faults.Add(prefix+"policy_id", PolicyIDForm)
	}
	required(faults, prefix, "counterparty", a.Counterparty, MaxIdentifier)
	optional(faults, prefix, "payment_method", &a.PaymentMethod, MaxIdentifier)
	optional(faults, prefix, "merchant_or_vendor", &a.MerchantOrVendor, MaxIdentifier)
	optional(faults, prefix, "reason_text", &a.ReasonText, MaxReasonText)
	optional(faults, prefix, "idempotency_key", &a.IdempotencyKey, MaxIdempotencyKey)
	if a.Type == Unspecified && a.ReasonText == "" {
		faults.Add(prefix+"action_type", "is required unless reason_text is given: refund, credit, discount or spend")
	}
}

func required(faults *Faults, prefix, name, s string, limit int) {
	if Blank(s) {
		faults.Add(prefix+name, "is required")
	} else if len(s) > limit { // in bytes, of which there may be more
		CheckLength(faults, prefix+name, s, limit)
	}
}

func optional(faults *Faults, prefix, name string, s *string, limit int) {
	if Blank(*s) {
		*s = ""
	} else if len(*s) > limit {
		CheckLength(faults, prefix+name, *s, limit)
	}
}
