package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"spendgate/audit"
	"spendgate/hotpath"
	"spendgate/hotpath/spend"
)

// sumOf is the filterSum of filters that are texts.
func sumOf(filters ...string) filterSum { return sha256.Sum256([]byte(strings.Join(filters, "\x00"))) }

// appendApproval writes an approval (S43). left is what its budgets have left; nil
// leaves that out, in listings.
func appendApproval(dst []byte, a *audit.Approval, left []hotpath.BudgetLeft, now time.Time) []byte {
	c := a.Check
	dst = append(dst, `{"approval_id":"`...)
	dst = c.ID.Append(dst, spend.PrefixApproval)
	dst = append(dst, `","status":"`...)
	dst = append(dst, a.Status...)
	dst = append(dst, `","check_id":"`...)
	dst = c.ID.Append(dst, spend.PrefixCheck)
	dst = append(dst, `","principal":`...)
	dst = appendString(dst, c.PrincipalName())
	dst = append(dst, `,"action":`...)
	dst = appendAction(dst, c)
	dst = append(dst, `,"action_hash":"`...)
	dst = hex.AppendEncode(dst, c.Approval.ActionHash[:])
	dst = appendRuleIDs(append(dst, `","rule_ids":`...), c.Approval.Rules)
	dst = append(dst, `,"policy_id":`...)
	dst = appendString(dst, c.Action.PolicyID)
	dst = append(dst, `,"policy_version":`...)
	dst = strconv.AppendInt(dst, int64(c.Decision.PolicyVersion), 10)
	dst = append(dst, `,"required":`...)
	dst = strconv.AppendInt(dst, int64(c.Approval.Required), 10)
	dst = append(dst, `,"decisions":[`...)
	for i := range a.Decisions {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendDecision(dst, &a.Decisions[i])
	}
	dst = append(dst, `],"created_at":`...)
	dst = appendTime(dst, a.CreatedAt)
	dst = append(dst, `,"expires_at":`...)
	dst = appendTime(dst, a.ExpiresAt)
	dst = append(dst, `,"use_by":`...)
	if a.ApprovedAt.IsZero() {
		dst = append(dst, "null"...)
	} else {
		dst = appendTime(dst, a.UseBy())
	}
	dst = append(dst, `,"used_by_check_id":`...)
	if a.UsedBy.IsZero() {
		dst = append(dst, "null"...)
	} else {
		dst = appendString(dst, a.UsedBy.Text(spend.PrefixCheck))
	}
	if left != nil {
		dst = appendLeft(append(dst, `,"remaining":`...), left)
	}
	dst = append(dst, `,"next_step":`...)
	return append(appendString(dst, nextStepOf(a, now)), '}')
}

func appendDecision(dst []byte, d *audit.Decision) []byte {
	decision := "deny"
	if d.Approves {
		decision = "approve"
	}
	dst = append(dst, `{"principal":`...)
	dst = appendString(dst, d.Principal)
	dst = append(dst, `,"key_id":`...)
	dst = appendString(dst, d.KeyID)
	dst = append(dst, `,"decision":"`...)
	dst = append(dst, decision...)
	dst = append(dst, `","note":`...)
	dst = appendOptional(dst, d.Note)
	dst = append(dst, `,"at":`...)
	return append(appendTime(dst, d.At), '}')
}

func appendLeft(dst []byte, left []hotpath.BudgetLeft) []byte {
	dst = append(dst, '[')
	for i := range left {
		l := &left[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"rule_id":`...)
		dst = appendString(dst, l.RuleID)
		dst = append(dst, `,"remaining":`...)
		if l.Limited {
			dst = l.Remaining.Append(dst)
		} else {
			dst = append(dst, "null"...)
		}
		dst = append(dst, `,"remaining_count":`...)
		dst = append(appendCount(dst, l.Counted, l.RemainingCount), '}')
	}
	return append(dst, ']')
}

// nextStepOf says what an agent is to do now.
func nextStepOf(a *audit.Approval, now time.Time) string {
	switch a.Status {
	case audit.ApprovalPending:
		return "Pending is not approved. Ask again in " + strconv.Itoa(askAgainIn(a, now)) + " s."
	case audit.ApprovalApproved:
		return "Check exactly this action again with approval_id " + a.Check.ID.Text(spend.PrefixApproval) + " by " +
			a.UseBy().UTC().Format(time.RFC3339) + ", and proceed only if that is allowed."
	case audit.ApprovalDenied:
		return "Do not proceed: a person denied it."
	case audit.ApprovalUsed:
		return "It was used by check " + a.UsedBy.Text(spend.PrefixCheck) + ": do not carry the action out again."
	default:
		return "Do not proceed: it has expired. Check the action again without approval_id to ask anew."
	}
}
