package checkreport

import (
	"fmt"
	"strings"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// ApprovalID returns the approval that a check asked for or was sent with, or zero.
func ApprovalID(c *spend.Check) spend.ID {
	if c.Approval != nil {
		return c.ID
	}
	return c.Action.ApprovalID
}

// writeApproval prints the approval that the check asked for or used, and who
// decided about it.
func (r *Report) writeApproval(p *printer) {
	a := r.Approval
	if a == nil {
		return
	}
	p.section("Approval")
	role := "sent with it"
	switch {
	case a.Check.ID == r.Check.ID:
		role = "asked for"
	case a.UsedBy == r.Check.ID:
		role = "used"
	}
	p.line(role, a.Check.ID.Text(spend.PrefixApproval))
	p.line("status", string(a.Status))
	for i := range a.Decisions {
		d := &a.Decisions[i]
		p.line(decisionOf(d), fmt.Sprintf("%s%s%s, with %s, at %s", printable(d.Principal), nameOf(d), groupsOf(d), printable(d.KeyID),
			spend.TimeText(d.At)))
		if d.Note != "" {
			p.text("note", d.Note)
		}
	}
	p.line("people asked", fmt.Sprint(a.Check.Approval.Required)+groupsAsked(a.Check.Approval))
	if a.Check.Approval.ExcludeAuthor {
		p.line("but not", "who wrote the version of the policy")
	}
	p.line("expires at", spend.TimeText(a.ExpiresAt))
	if !a.ApprovedAt.IsZero() {
		p.line("use by", spend.TimeText(a.UseBy()))
	}
	if !a.UsedBy.IsZero() {
		p.line("used by", a.UsedBy.Text(spend.PrefixCheck))
	}
}

// groupsAsked returns how many approvers must be of each group.
func groupsAsked(asked *spend.ApprovalRequest) string {
	var text strings.Builder
	for _, g := range asked.From {
		fmt.Fprintf(&text, ", %d of %s", g.Required, printable(g.Name()))
	}
	return text.String()
}

// nameOf returns the name and e-mail of a signed-in person, to be put behind the principal; "" for
// a key.
func nameOf(d *audit.ApprovalDecision) string {
	if d.Name == "" && d.Email == "" {
		return ""
	}
	return " (" + printable(strings.TrimSpace(d.Name+" "+d.Email)) + ")"
}

func groupsOf(d *audit.ApprovalDecision) string {
	if len(d.Groups) == 0 {
		return ""
	}
	return " (" + printable(strings.Join(d.Groups, ", ")) + ")"
}

func decisionOf(d *audit.ApprovalDecision) string {
	if d.Approves {
		return "approve"
	}
	return "deny"
}

type approvalJSON struct {
	ApprovalID string         `json:"approval_id"`
	Status     string         `json:"status"`
	Required   int            `json:"required"`
	Decisions  []decisionJSON `json:"decisions"`
	ExpiresAt  string         `json:"expires_at"`
	UseBy      *string        `json:"use_by"`
	UsedBy     *string        `json:"used_by_check_id"`

	From          []spend.GroupRequired `json:"from,omitempty"`
	ExcludeAuthor bool                  `json:"exclude_author,omitempty"`
}

type decisionJSON struct {
	Principal string  `json:"principal"`
	KeyID     string  `json:"key_id"`
	Decision  string  `json:"decision"`
	Note      *string `json:"note"`
	At        string  `json:"at"`

	Groups []string `json:"groups,omitempty"`
	Name   string   `json:"name,omitempty"`
	Email  string   `json:"email,omitempty"`
}

// approvalDocument returns nil without an approval.
func (r *Report) approvalDocument() *approvalJSON {
	a := r.Approval
	if a == nil {
		return nil
	}
	doc := &approvalJSON{
		ApprovalID: a.Check.ID.Text(spend.PrefixApproval), Status: string(a.Status), Required: a.Check.Approval.Required,
		Decisions: []decisionJSON{}, ExpiresAt: spend.TimeText(a.ExpiresAt), From: a.Check.Approval.From,
		ExcludeAuthor: a.Check.Approval.ExcludeAuthor,
	}
	if !a.ApprovedAt.IsZero() {
		doc.UseBy = new(spend.TimeText(a.UseBy()))
	}
	if !a.UsedBy.IsZero() {
		doc.UsedBy = new(a.UsedBy.Text(spend.PrefixCheck))
	}
	for i := range a.Decisions {
		d := &a.Decisions[i]
		doc.Decisions = append(doc.Decisions, decisionJSON{
			d.Principal, d.KeyID, decisionOf(d), optional(d.Note), spend.TimeText(d.At), d.Groups, d.Name, d.Email,
		})
	}
	return doc
}
