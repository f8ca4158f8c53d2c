package spend

// Validate adds a fault for each field of a decoded action that is missing or too long, named under
// prefix ("" or "actions[3]."), and clears blank optional fields, which count as absent (S4). The
// decoder has already checked types, amount, currency and metadata.
func (a *Action) Validate(prefix string, faults *Faults) {
	required(faults, prefix, "agent_id", a.AgentID, MaxIdentifier)
	visible(faults, prefix, "agent_id", a.AgentID)
	if Blank(a.PolicyID) {
		faults.Add(prefix+"policy_id", "is required")
	} else if !ValidPolicyID(a.PolicyID) {
		faults.Add(prefix+"policy_id", PolicyIDForm)
	}
	required(faults, prefix, "counterparty", a.Counterparty, MaxIdentifier)
	visible(faults, prefix, "counterparty", a.Counterparty)
	optional(faults, prefix, "payment_method", &a.PaymentMethod, MaxIdentifier)
	optional(faults, prefix, "merchant_or_vendor", &a.MerchantOrVendor, MaxIdentifier)
	visible(faults, prefix, "merchant_or_vendor", a.MerchantOrVendor)
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

// visible adds a fault if people could take s for another text (S4).
func visible(faults *Faults, prefix, name, s string) {
	if plainASCII(s) || Blank(s) {
		return
	}
	if fault := VisibleFault(s); fault != "" {
		faults.Add(prefix+name, fault)
	}
}

// plainASCII reports whether s is of visible ASCII characters, with spaces inside alone.
func plainASCII(s string) bool {
	if s == "" || s[0] == ' ' || s[len(s)-1] == ' ' {
		return false
	}
	for i := range len(s) {
		if s[i]-' ' >= 0x7f-' ' {
			return false
		}
	}
	return true
}
