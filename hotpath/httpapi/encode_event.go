package httpapi

import (
	"encoding/hex"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// AppendEvent writes an event (S51).
func AppendEvent(dst []byte, e *audit.Event) []byte { return appendEvent(dst, e, false) }

func appendEvent(dst []byte, e *audit.Event, textAmounts bool) []byte {
	o := newObject(dst)
	o.id("id", e.ID, spend.PrefixEvent)
	o.text("type", string(e.Type))
	o.time("timestamp", e.At)
	o.integer("sequence", e.Sequence)
	o.name("data")
	o = appendEventData(o, e, textAmounts)
	return o.end()
}

// appendEventData writes the member data of an event.
func appendEventData(dst []byte, e *audit.Event, textAmounts bool) []byte {
	if e.Violation != nil {
		return appendViolation(dst, e.Violation, textAmounts)
	}
	o := newObject(dst)
	switch {
	case e.Approval != nil:
		o.approvalEvent(e, textAmounts)
	case e.Type == audit.EventCheckRedeemed && e.Outcome != nil:
		o.redemption(e.Outcome)
		o.scope(e)
	case e.Type == audit.EventCheckInDoubt && e.Outcome != nil:
		o.doubt(e.Outcome)
		o.scope(e)
	case e.Outcome != nil:
		o.outcome(e.Outcome, textAmounts)
		o.scope(e)
	case e.Exhaustion != nil:
		o.exhaustion(e.Exhaustion)
	case e.Change != nil:
		o.change(e.Change)
	default:
		o.scope(e)
	}
	return o.end()
}

// scope writes which policy and agent an event is of.
func (o *objectWriter) scope(e *audit.Event) {
	o.optional("policy_id", e.PolicyID)
	o.optional("agent_id", e.AgentID)
}

// doubt writes that a check is in doubt, and who said so; null for the service.
func (o *objectWriter) doubt(said *spend.Outcome) {
	o.id("check_id", said.CheckID, spend.PrefixCheck)
	o.time("at", said.ID.Time())
	if said.KeyID == spend.SystemKey {
		o.null("principal")
		o.null("key_id")
	} else {
		o.text("principal", said.Reporter())
		o.text("key_id", said.KeyID)
	}
	o.optional("note", said.Note)
}

func (o *objectWriter) approvalEvent(e *audit.Event, textAmounts bool) {
	a := e.Approval
	o.id("approval_id", a.ID, spend.PrefixApproval)
	o.id("check_id", a.ID, spend.PrefixCheck)
	o.scope(e)
	if a.Check == nil {
		o.null("action")
		o.null("rule_ids")
	} else {
		o.name("action")
		*o = appendAction(*o, a.Check, textAmounts)
		o.ruleIDs(a.Check.Approval.Rules)
		o.asked(a.Check.Approval, nil)
	}
	o.text("action_hash", hex.EncodeToString(a.ActionHash[:]))
	o.integer("required", int64(a.Required))
	o.time("expires_at", a.ExpiresAt)
	if a.Decision != nil {
		o.name("decision")
		*o = appendDecision(*o, a.Decision)
	}
	if e.Type == audit.EventApprovalApproved {
		o.time("use_by", a.UseBy())
	}
	if !a.UsedBy.IsZero() {
		o.id("used_by_check_id", a.UsedBy, spend.PrefixCheck)
	}
}

func (o *objectWriter) exhaustion(e *audit.Exhaustion) {
	o.text("policy_id", e.PolicyID)
	o.text("rule_id", e.RuleID)
	if e.Veiled {
		o.null("per")
	} else {
		o.per(e.Per, e.Values)
	}
	o.optional("currency", e.Currency)
	sum(o, "limit", e.Limited, e.Limit)
	sum(o, "used", !e.Veiled, e.Usage.Used)
	o.count("count", !e.Veiled, e.Usage.Count)
	o.count("max_count", e.Counted, e.MaxCount)
	o.window(e.WindowName, e.TimeZone, e.RollingMinutes)
	o.time("window_start", e.WindowStart)
}

// change writes a change of a policy or a key, and who made it. The address of the request is only in
// the record.
func (o *objectWriter) change(c *audit.Change) {
	switch c.Kind {
	case audit.PolicyCreated, audit.PolicyForced:
		o.text("policy_id", c.Subject)
		o.integer("version", int64(c.Version))
	case audit.DraftApproved:
		o.text("policy_id", c.Subject)
		o.text("draft_hash", hex.EncodeToString(c.Hash[:]))
		o.integer("policy_version", int64(c.Version))
		a, _ := audit.DraftApprovalOf(c) // a record that cannot be read has no note
		o.optional("note", a.Note)
	default:
		o.text("key_id", c.Subject)
		o.boolean("created", c.Kind == audit.KeyCreated)
		o.raw("key", c.Details)
	}
	o.name("by")
	by := newObject(*o)
	by.text("kind", c.By.Kind())
	by.optional("key_id", c.By.KeyID)
	by.optional("principal", c.By.Principal)
	by.optional("credential", c.By.Credential)
	*o = by.end()
}
