package judge

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// ApprovalDecision is a recorded decision about an approval.
type ApprovalDecision struct {
	ApprovalID string    `json:"approval_id"`
	Kind       string    `json:"kind"` // approval.approved or approval.denied
	Principal  string    `json:"principal"`
	At         time.Time `json:"at"`
}

// Use is a recorded use of an approval.
type Use struct {
	ApprovalID string `json:"approval_id"`
	CheckID    string `json:"check_id"`
}

const approvedKind = "approval.approved"

// approval returns the ID of the approval that the check asks for.
func (r *Row) approval() string { return "apr_" + strings.TrimPrefix(r.CheckID, "chk_") }

// asking returns the check that asked for an approval, or nil.
func (e *evidence) asking(approvalID string) *Row {
	if r := e.rows["chk_"+strings.TrimPrefix(approvalID, "apr_")]; r != nil && r.Asks > 0 {
		return r
	}
	return nil
}

// approvedBy returns the rules that escalated a check which people then approved; nil if there are
// none.
func (e *evidence) approvedBy(r *Row) *program {
	asked := e.asking(deref(r.ApprovalID))
	if asked == nil || r.Decision != "allow" {
		return nil
	}
	return e.policies[policyVersion{asked.PolicyID, asked.PolicyVersion}]
}

// action returns a text that is equal for equal actions to be carried out (S46).
func (r *Row) action() string {
	q := r.asked()
	q.Amount, q.ReasonText, q.IdempotencyKey, q.ApprovalID = "", "", "", ""
	return r.KeyID + " " + decimal(r.Amount) + " " + q.canonical()
}

// approvalsAreUsedOnce: an approval lets one check pass, with the action of the check that asked,
// after as many people as required have approved, none of whom asked, and nobody has denied it
// (G13).
func (e *evidence) approvalsAreUsedOnce() {
	uses, by := make(map[string]string), make(map[string]*Row)
	for _, u := range e.Uses {
		uses[u.ApprovalID] = u.CheckID
	}
	for i := range e.Rows {
		r := &e.Rows[i]
		id := deref(r.ApprovalID)
		if id == "" || r.Decision != "allow" {
			continue
		}
		asked := e.asking(id)
		switch {
		case asked == nil:
			e.findRow("G13", fmt.Sprintf("%s uses %s, which nobody asked for", r.CheckID, id), r)
			continue
		case by[id] != nil:
			e.findRow("G13", fmt.Sprintf("%s and %s use %s", by[id].CheckID, r.CheckID, id), by[id], r)
			continue
		case uses[id] != r.CheckID:
			e.findRow("G13", fmt.Sprintf("%s uses %s, which is recorded as used by %q", r.CheckID, id, uses[id]), r)
		case r.action() != asked.action():
			e.findRow("G13", fmt.Sprintf("%s uses %s and is another action", r.CheckID, id), asked, r)
		}
		by[id] = r
		people, denied := e.decided(id, e.recordedBy(r))
		if !e.enough(asked, people) || people[asked.KeyID] || denied {
			e.findRow("G13", fmt.Sprintf("%s uses %s, which %d of %d approved, denied %t", r.CheckID, id, len(people), asked.Asks, denied), r)
		}
	}
	for id, checkID := range uses {
		if r := by[id]; r == nil || r.CheckID != checkID {
			e.findings = append(e.findings, Finding{Rule: "G13", Text: fmt.Sprintf("%s is recorded as used by %s, which does not", id, checkID)})
		}
	}
}

// enough reports whether there are as many people as required, one of each group. Nobody is in two
// groups.
func (e *evidence) enough(asked *Row, people map[string]bool) bool {
	for _, group := range asked.From {
		if !slices.ContainsFunc(e.Keys, func(k Key) bool { return k.Group == group && people[k.ID] }) {
			return false
		}
	}
	return len(people) >= asked.Asks
}

// decided returns who had approved by a time, and whether anybody ever denied.
func (e *evidence) decided(approvalID string, until time.Duration) (people map[string]bool, denied bool) {
	people = make(map[string]bool)
	for _, d := range e.Decisions {
		switch {
		case d.ApprovalID != approvalID:
		case d.Kind != approvedKind:
			denied = true
		case d.At.Sub(e.Run.Began) <= until+clockMargin:
			people[d.Principal] = true
		}
	}
	return people, denied
}

// approvalsAreTold: an answered decision is recorded, and the reason for which a use is refused is
// true (G13).
func (e *evidence) approvalsAreTold() {
	for i := range e.Ops {
		o := &e.Ops[i]
		if o.Kind != Approve && o.Kind != Deny || o.Status != 200 && o.Status != 201 {
			continue
		}
		people, denied := e.decided(o.Subject, o.Done)
		if o.Kind == Approve && !people[o.Key] || o.Kind == Deny && !denied {
			e.findOp("G13", "a decision about "+o.Subject+" was answered and is not recorded", o)
		}
	}
	for _, c := range e.checks {
		id := c.request.ApprovalID
		if c.Status != 409 || c.code() == stoppedCode || c.code() == frozenCode {
			continue
		}
		asked := e.asking(id)
		people, denied := e.decided(id, c.Sent-clockMargin-clockMargin)
		switch used := regexp.MustCompile(`chk_[0-9a-f]{32}`).FindString(c.Answer); {
		case asked == nil:
			e.find("G13", "a use of an approval that nobody asked for was refused as such: "+c.Answer, c)
		case c.code() == "approval_already_used" &&
			(e.rows[used] == nil || deref(e.rows[used].ApprovalID) != id || e.rows[used].Decision != "allow"):
			e.find("G13", id+" was not used as told: "+c.Answer, c)
		case c.code() == "approval_not_approved" && !denied && e.enough(asked, people):
			e.find("G13", id+" was approved, and its use refused: "+c.Answer, c)
		case c.code() == "approval_mismatch":
			e.find("G13", "the same action was refused as another: "+c.Answer, c)
		}
	}
}
