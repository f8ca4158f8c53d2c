package httpapi

import (
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
	"spendgate/hotpath/wire"
)

// approvalOf returns an approval (S43). left is what its budgets have left; nil leaves it out, in
// listings.
func approvalOf(a *audit.Approval, left []hotpath.BudgetLeft, now time.Time) wire.Approval {
	c := a.Check
	shown := wire.Approval{
		Kind:       wire.KindApproval,
		ApprovalID: c.ID.Text(spend.PrefixApproval), Status: wire.ApprovalStatus(a.Status), CheckID: c.ID.Text(spend.PrefixCheck),
		Principal: c.PrincipalName(), Action: actionOf(c), ActionHash: hex.EncodeToString(c.Approval.ActionHash[:]),
		RuleIDs: ruleIDs(c.Approval.Rules), PolicyID: c.Action.PolicyID, PolicyVersion: c.Decision.PolicyVersion,
		Required: c.Approval.Required, ExcludeAuthor: c.Approval.ExcludeAuthor, CreatedAt: wire.Timestamp{Time: a.CreatedAt},
		ExpiresAt: wire.Timestamp{Time: a.ExpiresAt}, NextStep: nextStepOf(a, now),
	}
	if from := c.Approval.From; len(from) > 0 || !a.ReopenedAt.IsZero() {
		lacks := a.Missing()
		shown.Missing, shown.From = new(lacks.People()), groupsOf(from, lacks.Of)
	}
	for i := range a.Decisions {
		shown.Decisions = append(shown.Decisions, *decisionOf(&a.Decisions[i]))
	}
	if !a.ApprovedAt.IsZero() {
		shown.UseBy = wire.At(a.UseBy())
	}
	if !a.UsedBy.IsZero() {
		shown.UsedByCheckID = a.UsedBy.Text(spend.PrefixCheck)
	}
	if left != nil {
		shown.Remaining = make([]wire.BudgetRemaining, len(left))
	}
	for i := range left {
		shown.Remaining[i] = leftOf(&left[i])
	}
	return shown
}

func decisionOf(d *audit.ApprovalDecision) *wire.ApprovalDecision {
	shown := &wire.ApprovalDecision{
		Principal: d.Principal, Name: d.Name, Email: d.Email, KeyID: d.KeyID, Decision: "deny", Note: d.Note, At: wire.Timestamp{Time: d.At},
		Groups: given(d.Groups), Void: d.Void,
	}
	if d.Approves {
		shown.Decision = "approve"
	}
	return shown
}

// groupsOf returns which groups are asked (S79), and how many more of each would count.
func groupsOf(from []spend.GroupRequired, missing []int) []wire.ApprovalGroup {
	var groups []wire.ApprovalGroup
	for i, g := range from {
		groups = append(groups, wire.ApprovalGroup{Group: g.Group, AnyOf: g.AnyOf, Required: g.Required, Missing: missing[i]})
	}
	return groups
}

func leftOf(left *hotpath.BudgetLeft) wire.BudgetRemaining {
	sum := func(t spend.Total) *wire.Number { return known(left.Limited, wire.Number(t.Append(nil))) }
	count := func(n int64) *wire.Number { return known(left.Counted, wire.Number(strconv.FormatInt(n, 10))) }
	return wire.BudgetRemaining{
		RuleID: left.RuleID, Remaining: sum(left.Remaining), RemainingCount: count(left.RemainingCount),
		AfterApproved: sum(left.AfterApproved), AfterApprovedCount: count(left.AfterApprovedCount),
	}
}

func ruleIDs(rules []spend.EscalatedRule) []string {
	ids := make([]string, len(rules))
	for i, r := range rules {
		ids[i] = r.RuleID
	}
	return ids
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
			group := a.Check.Approval.From[i].Name()
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
	if each == nil { // one that completed it counts no more, and those that remain suffice
		return ": one more approval, of any of its groups, completes it"
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
	case audit.ApprovalWithdrawn:
		return "Do not proceed: its payment was denied, or asked for otherwise, meanwhile. Ask for the payment again, without approval_id."
	default:
		return "Do not proceed: it has expired. Check the action again without approval_id to ask anew."
	}
}
