package httpapi

import (
	"strconv"

	"spendgate/audit"
	"spendgate/hotpath/spend"
)

// appendPolicy writes a policy. Its rules and its
// metadata are the text that was sent.
func appendPolicy(dst []byte, p *audit.Policy) []byte {
	dst = append(dst, `{"policy_id":`...)
	dst = appendString(dst, p.PolicyID)
	dst = append(dst, `,"name":`...)
	dst = appendString(dst, p.Name)
	if p.Description != "" {
		dst = append(dst, `,"description":`...)
		dst = appendString(dst, p.Description)
	}
	dst = append(dst, `,"version":`...)
	dst = strconv.AppendInt(dst, int64(p.Version), 10)
	dst = append(dst, `,"rules":`...)
	dst = append(dst, p.Rules...)
	dst = append(dst, `,"created_at":`...)
	dst = appendTime(dst, p.CreatedAt)
	dst = append(dst, `,"updated_at":`...)
	dst = appendTime(dst, p.UpdatedAt)
	dst = append(dst, `,"metadata":`...)
	if p.Metadata == "" {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, p.Metadata...)
	}
	return append(dst, '}')
}

// appendViolation writes a violation.
func appendViolation(dst []byte, v *audit.Violation) []byte {
	dst = append(dst, `{"violation_id":"`...)
	dst = v.ID.Append(dst, spend.PrefixViolation)
	dst = append(dst, `","check_id":"`...)
	dst = v.ID.Append(dst, spend.PrefixCheck)
	dst = append(dst, `","agent_id":`...)
	dst = appendString(dst, v.AgentID)
	dst = append(dst, `,"policy_id":`...)
	dst = appendString(dst, v.PolicyID)
	dst = append(dst, `,"policy_version":`...)
	dst = strconv.AppendInt(dst, int64(v.PolicyVersion), 10)
	dst = append(dst, `,"action_type":"`...)
	dst = append(dst, v.ActionType.String()...)
	dst = append(dst, `","amount":`...)
	dst = v.Amount.Append(dst)
	dst = append(dst, `,"currency":`...)
	dst = appendString(dst, v.Currency)
	dst = append(dst, `,"counterparty":`...)
	dst = appendString(dst, v.Counterparty)
	dst = append(dst, `,"decision":"`...)
	dst = append(dst, v.Effect.String()...)
	dst = append(dst, `","violated_rule_id":`...)
	dst = appendString(dst, v.RuleID)
	dst = append(dst, `,"violated_rule_description":`...)
	dst = appendString(dst, v.RuleDescription)
	dst = append(dst, `,"confidence":"`...)
	dst = append(dst, v.Confidence.String()...)
	dst = append(dst, `","latency_ms":`...)
	dst = strconv.AppendInt(dst, v.LatencyMS, 10)
	dst = append(dst, `,"timestamp":`...)
	dst = appendTime(dst, v.ID.Time())
	return append(dst, '}')
}

// appendNewKey writes the one answer that shows a raw key (interface, 2.6).
func appendNewKey(dst []byte, k *audit.Key, raw string) []byte {
	dst = appendKeyStart(dst, k)
	dst = append(dst, `,"api_key":`...)
	dst = appendString(dst, raw)
	dst = append(dst, `,"rate_limit_rpm":`...)
	dst = strconv.AppendInt(dst, int64(k.RateLimitRPM), 10)
	dst = append(dst, `,"created_at":`...)
	dst = appendTime(dst, k.CreatedAt)
	dst = appendGrants(dst, &k.Grants)
	return append(dst, '}')
}

// appendKey writes a key's record (S25).
func appendKey(dst []byte, k *audit.Key) []byte {
	dst = appendKeyStart(dst, k)
	dst = append(dst, `,"rate_limit_rpm":`...)
	dst = strconv.AppendInt(dst, int64(k.RateLimitRPM), 10)
	dst = append(dst, `,"active":`...)
	dst = strconv.AppendBool(dst, k.Active)
	dst = append(dst, `,"created_at":`...)
	dst = appendTime(dst, k.CreatedAt)
	dst = append(dst, `,"last_used_at":`...)
	if k.LastUsedAt.IsZero() {
		dst = append(dst, "null"...)
	} else {
		dst = appendTime(dst, k.LastUsedAt)
	}
	dst = appendGrants(dst, &k.Grants)
	return append(dst, '}')
}

// appendGrants writes the members that were given (S29).
func appendGrants(dst []byte, g *spend.Grants) []byte {
	dst = appendGiven(dst, spend.MemberRole, string(g.Role))
	dst = appendGivenList(dst, spend.MemberScopes, g.Scopes.Names())
	dst = appendGivenList(dst, spend.MemberPolicyIDs, g.PolicyIDs)
	dst = appendGivenList(dst, spend.MemberAgentIDs, g.AgentIDs)
	dst = appendGiven(dst, spend.MemberPrincipal, g.Principal)
	dst = appendGiven(dst, spend.MemberOwner, g.Owner)
	if !g.ExpiresAt.IsZero() {
		dst = append(dst, `,"expires_at":`...)
		dst = appendTime(dst, g.ExpiresAt)
	}
	return dst
}

func appendGiven(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	dst = append(append(append(dst, `,"`...), name...), `":`...)
	return appendString(dst, value)
}

func appendGivenList(dst []byte, name string, values []string) []byte {
	if len(values) == 0 {
		return dst
	}
	dst = append(append(append(dst, `,"`...), name...), `":[`...)
	for i, value := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, value)
	}
	return append(dst, ']')
}

func appendKeyStart(dst []byte, k *audit.Key) []byte {
	dst = append(dst, `{"key_id":"`...)
	dst = k.ID.Append(dst, spend.PrefixKey)
	dst = append(dst, `","name":`...)
	return appendString(dst, k.Name)
}

// appendPage closes a listing that began with {"data":[. The last page has no
// cursor. A total below zero is left out.
func appendPage(dst []byte, more bool, last string, filters filterSum, total int64) []byte {
	dst = append(dst, `],"pagination":{"next_cursor":`...)
	if more {
		dst = append(dst, '"')
		dst = appendCursor(dst, last, filters)
		dst = append(dst, '"')
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"has_more":`...)
	dst = strconv.AppendBool(dst, more)
	if total >= 0 {
		dst = append(dst, `,"total_count":`...)
		dst = strconv.AppendInt(dst, total, 10)
	}
	return append(dst, `}}`...)
}
