package httpapi

import (
	"encoding/hex"
	"strconv"

	"spendgate/audit"
	"spendgate/hotpath/spend"
)

// AppendEvent writes an event (S51).
func AppendEvent(dst []byte, e *audit.Event) []byte {
	dst = append(dst, `{"id":"`...)
	dst = e.ID.Append(dst, spend.PrefixEvent)
	dst = append(dst, `","type":"`...)
	dst = append(dst, e.Type...)
	dst = append(dst, `","timestamp":`...)
	dst = appendTime(dst, e.At)
	dst = append(dst, `,"sequence":`...)
	dst = strconv.AppendInt(dst, e.Sequence, 10)
	dst = append(dst, `,"data":`...)
	return append(AppendEventData(dst, e), '}')
}

// AppendEventData writes what an event is about.
func AppendEventData(dst []byte, e *audit.Event) []byte {
	switch {
	case e.Violation != nil:
		return appendViolation(dst, e.Violation)
	case e.Approval != nil:
		return appendApprovalEvent(dst, e)
	case e.Outcome != nil:
		dst = AppendOutcome(dst, e.Outcome)
		return append(appendScope(append(dst[:len(dst)-1], ','), e), '}')
	case e.Exhaustion != nil:
		return appendExhaustion(dst, e.Exhaustion)
	case e.Change != nil:
		return appendChange(dst, e.Change)
	}
	return append(appendScope(append(dst, '{'), e), '}')
}

// appendScope writes which policy and agent an event is of, as members.
func appendScope(dst []byte, e *audit.Event) []byte {
	dst = append(dst, `"policy_id":`...)
	dst = appendOptional(dst, e.PolicyID)
	dst = append(dst, `,"agent_id":`...)
	return appendOptional(dst, e.AgentID)
}

func appendApprovalEvent(dst []byte, e *audit.Event) []byte {
	a := e.Approval
	dst = append(dst, `{"approval_id":"`...)
	dst = a.ID.Append(dst, spend.PrefixApproval)
	dst = append(dst, `","check_id":"`...)
	dst = a.ID.Append(dst, spend.PrefixCheck)
	dst = appendScope(append(dst, `",`...), e)
	dst = append(dst, `,"action":`...)
	if a.Check == nil {
		dst = append(dst, `null,"rule_ids":null`...)
	} else {
		dst = appendAction(dst, a.Check)
		dst = appendRuleIDs(append(dst, `,"rule_ids":`...), a.Check.Approval.Rules)
	}
	dst = append(dst, `,"action_hash":"`...)
	dst = hex.AppendEncode(dst, a.ActionHash[:])
	dst = append(dst, `","required":`...)
	dst = strconv.AppendInt(dst, int64(a.Required), 10)
	dst = append(dst, `,"expires_at":`...)
	dst = appendTime(dst, a.ExpiresAt)
	if a.Decision != nil {
		dst = appendDecision(append(dst, `,"decision":`...), a.Decision)
	}
	if e.Type == audit.EventApprovalApproved {
		dst = appendTime(append(dst, `,"use_by":`...), a.UseBy())
	}
	if !a.UsedBy.IsZero() {
		dst = append(a.UsedBy.Append(append(dst, `,"used_by_check_id":"`...), spend.PrefixCheck), '"')
	}
	return append(dst, '}')
}

func appendRuleIDs(dst []byte, rules []spend.EscalatedRule) []byte {
	dst = append(dst, '[')
	for i, rule := range rules {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, rule.RuleID)
	}
	return append(dst, ']')
}

func appendExhaustion(dst []byte, e *audit.Exhaustion) []byte {
	dst = append(dst, `{"policy_id":`...)
	dst = appendString(dst, e.PolicyID)
	dst = append(dst, `,"rule_id":`...)
	dst = appendString(dst, e.RuleID)
	dst = append(dst, `,"per":`...)
	dst = appendPer(dst, e.Per, e.Values)
	dst = append(dst, `,"currency":`...)
	dst = appendOptional(dst, e.Currency)
	dst = append(dst, `,"limit":`...)
	if e.Limited {
		dst = e.Limit.Append(dst)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"used":`...)
	dst = e.Usage.Used.Append(dst)
	dst = append(dst, `,"count":`...)
	dst = strconv.AppendInt(dst, e.Usage.Count, 10)
	dst = append(dst, `,"max_count":`...)
	dst = appendCount(dst, e.Counted, e.MaxCount)
	dst = appendWindow(dst, e.WindowName, e.TimeZone, e.RollingMinutes)
	dst = append(dst, `,"window_start":`...)
	return append(appendTime(dst, e.WindowStart), '}')
}

// appendWindow writes the members that name a budget's window.
func appendWindow(dst []byte, name, zone string, rollingMinutes int64) []byte {
	dst = append(dst, `,"window":`...)
	if rollingMinutes > 0 {
		dst = append(dst, `null,"rolling_minutes":`...)
		return strconv.AppendInt(dst, rollingMinutes, 10)
	}
	dst = appendString(dst, name)
	dst = append(dst, `,"time_zone":`...)
	return appendString(dst, zone)
}

// appendChange writes what became of a policy or a key, and who made it so. Where
// they did from is for the record alone.
func appendChange(dst []byte, c *audit.Change) []byte {
	if c.Kind == audit.PolicyCreated {
		dst = append(dst, `{"policy_id":`...)
		dst = appendString(dst, c.Subject)
		dst = append(dst, `,"version":`...)
		dst = strconv.AppendInt(dst, int64(c.Version), 10)
	} else {
		dst = append(dst, `{"key_id":`...)
		dst = appendString(dst, c.Subject)
		dst = append(dst, `,"created":`...)
		dst = strconv.AppendBool(dst, c.Kind == audit.KeyCreated)
		dst = append(dst, `,"key":`...)
		dst = append(dst, c.Details...)
	}
	dst = append(dst, `,"by":{"kind":"`...)
	dst = append(dst, c.By.Kind()...)
	dst = append(dst, `","key_id":`...)
	dst = appendOptional(dst, c.By.KeyID)
	dst = append(dst, `,"principal":`...)
	dst = appendOptional(dst, c.By.Principal)
	dst = append(dst, `,"credential":`...)
	dst = appendOptional(dst, c.By.Credential)
	return append(dst, `}}`...)
}
