package httpapi

import (
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
)

// appendApproval writes an approval (S43). left is what its budgets have left; nil leaves it out, in
// listings.
func appendApproval(dst []byte, a *audit.Approval, left []hotpath.BudgetLeft, now time.Time, textAmounts bool) []byte {
	c, o := a.Check, newObject(dst)
	o.id("approval_id", c.ID, spend.PrefixApproval)
	o.text("status", string(a.Status))
	o.id("check_id", c.ID, spend.PrefixCheck)
	o.text("principal", c.PrincipalName())
	o.name("action")
	o = appendAction(o, c, textAmounts)
	o.text("action_hash", hex.EncodeToString(c.Approval.ActionHash[:]))
	o.ruleIDs(c.Approval.Rules)
	o.text("policy_id", c.Action.PolicyID)
	o.integer("policy_version", int64(c.Decision.PolicyVersion))
	o.integer("required", int64(c.Approval.Required))
	o.asked(c.Approval, a)
	o.name("decisions")
	o = appendArray(o, len(a.Decisions), func(dst []byte, i int) []byte { return appendDecision(dst, &a.Decisions[i]) })
	o.time("created_at", a.CreatedAt)
	o.time("expires_at", a.ExpiresAt)
	if a.ApprovedAt.IsZero() {
		o.null("use_by")
	} else {
		o.time("use_by", a.UseBy())
	}
	if a.UsedBy.IsZero() {
		o.null("used_by_check_id")
	} else {
		o.id("used_by_check_id", a.UsedBy, spend.PrefixCheck)
	}
	if left != nil {
		o.name("remaining")
		o = appendArray(o, len(left), func(dst []byte, i int) []byte { return appendLeft(dst, &left[i]) })
	}
	o.text("next_step", nextStepOf(a, now))
	return o.end()
}

func appendDecision(dst []byte, d *audit.ApprovalDecision) []byte {
	decision := "deny"
	if d.Approves {
		decision = "approve"
	}
	o := newObject(dst)
	o.text("principal", d.Principal)
	o.given("name", d.Name)
	o.given("email", d.Email)
	o.text("key_id", d.KeyID)
	o.text("decision", decision)
	o.optional("note", d.Note)
	o.time("at", d.At)
	if len(d.Groups) > 0 {
		o.texts("groups", d.Groups)
	}
	return o.end()
}

// asked writes which groups are asked, how many approvals are missing, and whether the author is
// excluded (S79). Without an approval it leaves out what is missing.
func (o *objectWriter) asked(asked *spend.ApprovalRequest, a *audit.Approval) {
	if len(asked.From) > 0 {
		var lacks audit.Missing
		if a != nil {
			lacks = a.Missing()
			o.integer("missing", int64(lacks.People()))
		}
		o.askedOf(asked.From, lacks.Of)
	}
	if asked.ExcludeAuthor {
		o.boolean("exclude_author", true)
	}
}

// askedOf writes which groups are asked, and how many more of each would count; missing is
// nil where that is left out.
func (o *objectWriter) askedOf(from []spend.GroupRequired, missing []int) {
	o.name("from")
	*o = appendArray(*o, len(from), func(dst []byte, i int) []byte {
		entry := newObject(dst)
		entry.text("group", from[i].Group)
		entry.integer("required", int64(from[i].Required))
		if missing != nil {
			entry.integer("missing", int64(missing[i]))
		}
		return entry.end()
	})
}

func appendLeft(dst []byte, left *hotpath.BudgetLeft) []byte {
	o := newObject(dst)
	o.text("rule_id", left.RuleID)
	sum(&o, "remaining", left.Limited, left.Remaining)
	o.count("remaining_count", left.Counted, left.RemainingCount)
	sum(&o, "remaining_after_approved", left.Limited, left.AfterApproved)
	o.count("remaining_count_after_approved", left.Counted, left.AfterApprovedCount)
	return o.end()
}

func (o *objectWriter) ruleIDs(rules []spend.EscalatedRule) {
	o.name("rule_ids")
	*o = appendArray(*o, len(rules), func(dst []byte, i int) []byte { return appendString(dst, rules[i].RuleID) })
}

// missingFrom says what an approval that asks groups lacks; somebody who counts for either of two
// groups is counted for both.
func missingFrom(a *audit.Approval) string {
	if len(a.Check.Approval.From) == 0 {
		return ""
	}
	lacks := a.Missing()
	var groups, each []string
	sum := 0
	for i, n := range lacks.Of {
		if n > 0 {
			group := a.Check.Approval.From[i].Group
			groups, each = append(groups, group), append(each, strconv.Itoa(n)+" of "+group)
		}
		sum += n
	}
	if sum > lacks.OfGroups {
		each = []string{strconv.Itoa(lacks.OfGroups) + " of " + strings.Join(groups, " or ")}
	}
	if lacks.Anybody > 0 {
		each = append(each, strconv.Itoa(lacks.Anybody)+" of anybody")
	}
	return ": missing are " + strings.Join(each, " and ")
}

// nextStepOf returns what an agent has to do now.
func nextStepOf(a *audit.Approval, now time.Time) string {
	switch a.Status {
	case audit.ApprovalPending:
		return "Pending is not approved" + missingFrom(a) + ". Ask again in " + strconv.Itoa(askAgainIn(a, now)) + " s."
	case audit.ApprovalApproved:
		return "Check the same action again with approval_id " + a.Check.ID.Text(spend.PrefixApproval) + " by " +
			a.UseBy().UTC().Format(time.RFC3339) + ", and proceed only if that is allowed."
	case audit.ApprovalDenied:
		return "Do not proceed: a person denied it."
	case audit.ApprovalUsed:
		return "It was used by check " + a.UsedBy.Text(spend.PrefixCheck) + ": do not carry the action out again."
	default:
		return "Do not proceed: it has expired. Check the action again without approval_id to ask anew."
	}
}
