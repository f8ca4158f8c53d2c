package httpapi

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/hotpath/spend"
)

// AppendCheckResult writes the answer to a check. It
// depends on nothing but the check, so that a replay and a later GET are the
// same bytes.
func AppendCheckResult(dst []byte, c *spend.Check) []byte {
	d := &c.Decision
	dst = append(dst, `{"check_id":"`...)
	dst = c.ID.Append(dst, spend.PrefixCheck)
	dst = append(dst, `","decision":"`...)
	dst = append(dst, d.Effect.String()...)
	dst = append(dst, `","confidence":"`...)
	dst = append(dst, d.Confidence.String()...)
	dst = append(dst, `","reason_code":`...)
	dst = appendOptional(dst, string(d.Reason))
	dst = append(dst, `,"message":`...)
	dst = appendOptional(dst, d.Message)
	dst = append(dst, `,"violated_rule_id":`...)
	dst = appendOptional(dst, d.RuleID)
	dst = append(dst, `,"violated_rule_description":`...)
	dst = appendOptional(dst, d.RuleDescription)
	dst = append(dst, `,"policy_version":`...)
	dst = strconv.AppendInt(dst, int64(d.PolicyVersion), 10)
	dst = append(dst, `,"next_step":`...)
	dst = appendOptional(dst, d.NextStep)
	dst = append(dst, `,"latency_ms":`...)
	dst = strconv.AppendInt(dst, c.LatencyMS, 10)
	dst = append(dst, `,"timestamp":`...)
	dst = appendTime(dst, c.Timestamp())
	if c.Approval != nil {
		dst = append(dst, `,"approval_id":"`...)
		dst = append(c.ID.Append(dst, spend.PrefixApproval), '"')
	}
	return append(dst, '}')
}

// appendSimulation writes the answer to a simulation.
func appendSimulation(dst []byte, mode, policyID string, version int, checks []*spend.Check) []byte {
	dst = append(dst, `{"mode":`...)
	dst = appendString(dst, mode)
	dst = append(dst, `,"policy_id":`...)
	dst = appendString(dst, policyID)
	dst = append(dst, `,"policy_version":`...)
	dst = strconv.AppendInt(dst, int64(version), 10)
	dst = append(dst, `,"results":[`...)
	var count [3]int // by effect
	for i, c := range checks {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendCheckResult(dst, c)
		count[c.Decision.Effect]++
	}
	dst = append(dst, `],"summary":{"total":`...)
	dst = strconv.AppendInt(dst, int64(len(checks)), 10)
	dst = append(dst, `,"allowed":`...)
	dst = strconv.AppendInt(dst, int64(count[spend.Allow]), 10)
	dst = append(dst, `,"blocked":`...)
	dst = strconv.AppendInt(dst, int64(count[spend.Block]), 10)
	dst = append(dst, `,"escalated":`...)
	dst = strconv.AppendInt(dst, int64(count[spend.Escalate]), 10)
	return append(dst, `}}`...)
}

// appendError writes the body of every error.
func appendError(dst []byte, r refusal, requestID string, now time.Time) []byte {
	dst = append(dst, `{"error":{"code":"`...)
	dst = append(dst, r.code...)
	dst = append(dst, `","message":`...)
	dst = appendString(dst, r.message)
	dst = append(dst, `,"request_id":"`...)
	dst = append(dst, requestID...)
	dst = append(dst, `","timestamp":`...)
	dst = appendTime(dst, now)
	return append(dst, `}}`...)
}

// appendHealth writes the answer of GET /health.
func appendHealth(dst []byte, version string, now time.Time) []byte {
	dst = append(dst, `{"status":"ok","version":`...)
	dst = appendString(dst, version)
	dst = append(dst, `,"timestamp":`...)
	dst = appendTime(dst, now)
	return append(dst, '}')
}

// appendString writes a JSON string. What is not UTF-8 becomes U+FFFD.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			dst, _ = jsontext.AppendQuote(dst, s) // the error only says that it mended s
			return dst
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// appendOptional writes null for an absent string.
func appendOptional(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return appendString(dst, s)
}

// appendTime writes S5: RFC 3339, UTC, milliseconds, Z. The standard form is
// the one that package time writes fast; the milliseconds go before its Z.
func appendTime(dst []byte, t time.Time) []byte {
	dst = append(dst, '"')
	dst = t.UTC().AppendFormat(dst, time.RFC3339)
	ms := t.Nanosecond() / 1e6
	return append(dst[:len(dst)-1], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z', '"')
}
