package httpapi

import "spendgate/audit/spend"

// decodeCheck reads the body of a check into an action that owns its bytes.
func decodeCheck(r *reader, a *spend.Action) {
	r.action(a, false, new(payment))
}

// action reads the members of an action, and of its payment, and judges them. In a simulation the
// idempotency_key is ignored, whatever it is (S2).
func (r *reader) action(a *spend.Action, simulated bool, p *payment) {
	mark := len(r.faults)
	hasAmount := false
	for r.next() {
		switch {
		case r.name == "amount":
			a.Amount, hasAmount = r.amount()
		case r.name == "idempotency_key":
			if !simulated {
				a.IdempotencyKey = r.text()
			}
		case r.actionMember(a, simulated):
		case simulated && r.name != "payment_key", !r.paymentMember(p):
			r.unknown()
		}
	}
	if !hasAmount {
		r.missing("amount", mark)
	}
	if a.Currency == "" {
		r.missing("currency", mark)
	}
	r.validate(a, mark)
}

// actionMember reads a member of an action, except amount and idempotency_key, and reports whether
// the name is one of them.
func (r *reader) actionMember(a *spend.Action, simulated bool) bool {
	switch r.name {
	case "agent_id":
		a.AgentID = r.text()
	case "policy_id":
		a.PolicyID = r.text()
	case "action_type":
		a.Type = r.actionType()
	case "currency":
		a.Currency = r.currency()
	case "counterparty":
		a.Counterparty = r.text()
	case "payment_method":
		a.PaymentMethod = r.text()
	case "merchant_or_vendor":
		a.MerchantOrVendor = r.text()
	case "reason_text":
		a.ReasonText = r.text()
	case "approval_id":
		if id := r.optionalID(spend.PrefixApproval); !simulated {
			a.ApprovalID = id
		}
	case "metadata":
		a.Metadata = spend.ReadMetadata(r.own(r.value(), 0), r.prefix+r.name, &r.faults)
	default:
		return false
	}
	return true
}

// validate adds the faults that the action's own rules find, except for fields that have a fault
// since mark: a mistyped field is not also missing.
func (r *reader) validate(a *spend.Action, mark int) {
	found := len(r.faults)
	a.Validate(r.prefix, &r.faults)
	kept := r.faults[:found]
	for _, f := range r.faults[found:] {
		if !faulted(kept[mark:found], f.Path) {
			kept = append(kept, f)
		}
	}
	r.faults = kept
}

func (r *reader) actionType() spend.ActionType {
	s := r.text()
	if spend.Blank(s) {
		return spend.Unspecified
	}
	t, ok := spend.ParseActionType(s)
	if !ok {
		r.fault(r.name, actionTypeForm)
	}
	return t
}

// optionalID reads an identifier; blank is absent, and a text that is none becomes one that nothing has.
func (r *reader) optionalID(prefix string) (id spend.ID) {
	s := r.text()
	if spend.Blank(s) {
		return id
	}
	id, err := spend.ParseID(s, prefix)
	if err != nil || id.IsZero() {
		return spend.ID{len(id) - 1: 1} // zero means none
	}
	return id
}

const actionTypeForm = "must be refund, credit, discount or spend"

func (r *reader) currency() string {
	s := r.text()
	if spend.Blank(s) {
		return ""
	}
	code, ok := spend.ParseCurrency(s)
	if !ok {
		r.fault(r.name, "must be a currency code of three letters")
	}
	return code
}
