package hotpath_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

const waitsRules = `[{"rule_id":"ask","rule_type":"escalate_if","parameters":{"amount_above":%d,"approval":{}}}]`

// expireIn has the approvals that the node's checks ask for expire so soon.
func (n *node) expireIn(d time.Duration) {
	n.faults.onCommit(func(ctx context.Context, checks []*spend.Check, commit realCommit) error {
		for _, c := range checks {
			if c.Approval != nil {
				c.Approval.Expires = d
			}
		}
		return commit(ctx, checks)
	})
}

// S60: an escalation whose approval expired leaves no fingerprint, from the moment at
// which it shows as expired, on every node, also in windows read from the record. Of many
// at once one passes (F91).
func TestExpiredApprovalLeavesNoFingerprint(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		const soon = 2 * time.Second // the check that meets it comes before
		for i, lost := range []bool{false, true} {
			f.post(0, "p", fmt.Sprintf(waitsRules, 100))
			action := refundOf(t, "101", fmt.Sprint("c-", i))
			f.nodes[0].expireIn(soon)
			approval := f.asked(action)
			f.nodes[0].faults.onCommit(nil)
			chk := approval.Check.ID.Text(spend.PrefixCheck)
			waits := f.check(1, action)
			if !waits.names(chk) || !strings.Contains(waits.answer.Check.Decision.Message, approval.Check.ID.Text(spend.PrefixApproval)+
				": it is pending") {
				t.Errorf("while it waits: %s", waits)
			}
			f.eventually("the approval has expired", func() bool {
				found, err := f.store.Approvals(t.Context(), []spend.ID{approval.Check.ID})
				return err == nil && len(found) == 1 && found[0].Status == audit.ApprovalExpired
			})
			if lost {
				f.flush()
			}
			f.post(1, "p", fmt.Sprintf(waitsRules, 1000))
			if pass := onePass(t, f, f.checkAll(repeat(action, 8)...)); pass == nil || pass.Decision.Effect != spend.Allow {
				t.Errorf("lost %t: %+v", lost, pass)
			}
		}
	})
}

// S60: a denial frees nothing, and the duplicate says what became of the approval.
func TestDuplicateOfAnEscalation(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		f.post(0, "p", fmt.Sprintf(waitsRules, 100))
		said := func(action spend.Action, approval *audit.Approval, status, next string) {
			t.Helper()
			o := f.check(1, action)
			if !o.names(approval.Check.ID.Text(spend.PrefixCheck)) ||
				!strings.Contains(o.answer.Check.Decision.Message,
					approval.Check.ID.Text(spend.PrefixApproval)+": it is "+status+"; the next call is ") ||
				!strings.Contains(o.answer.Check.Decision.NextStep, next) {
				t.Errorf("%s: %s: %s %s", status, o, o.answer.Check.Decision.Message, o.answer.Check.Decision.NextStep)
			}
		}
		first, second := refundOf(t, "101", "a"), refundOf(t, "101", "b")
		approved, denied := f.asked(first), f.asked(second)
		said(first, approved, "pending", "GET /v1/approvals/"+approved.Check.ID.Text(spend.PrefixApproval))
		f.approve(approved, "bob")
		said(first, approved, "approved", "check exactly the action of that check again with this approval_id")
		must.Do(t, f.decide(denied, "bob", false))
		said(second, denied, "denied", "people denied it")
	})
}

// S53, S60: a backtest follows approvals that expired, pending or approved and unused, as the
// store has them: nothing is skipped, and nothing flips.
func TestBacktestOfExpiredApprovals(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		from := time.Now().Add(-time.Minute)
		version := f.post(0, "p", fmt.Sprintf(waitsRules, 100))
		pending, approved := refundOf(t, "101", "pending"), refundOf(t, "101", "approved")
		f.nodes[0].expireIn(400 * time.Millisecond)
		ids := []spend.ID{f.asked(pending).Check.ID}
		f.nodes[0].faults.onCommit(func(ctx context.Context, checks []*spend.Check, commit realCommit) error {
			for _, c := range checks {
				c.Approval.UseWithin = 400 * time.Millisecond
			}
			return commit(ctx, checks)
		})
		a := f.asked(approved)
		f.approve(a, "bob")
		ids = append(ids, a.Check.ID)
		f.nodes[0].faults.onCommit(nil)
		f.eventually("both approvals have expired", func() bool {
			found, err := f.store.Approvals(t.Context(), ids)
			return err == nil && len(found) == 2 && found[0].Status == audit.ApprovalExpired && found[1].Status == audit.ApprovalExpired
		})
		f.asked(pending)
		f.asked(approved)
		f.check(0, pending) // a duplicate, of one that is pending

		b := f.backtest(&audit.Backtest{PolicyID: "p", Version: version, From: from, To: time.Now().Add(time.Minute), Recorded: true})
		if !strings.Contains(b.Report, `"checks":5,"compared":5,"skipped":[]`) || !strings.Contains(b.Report, `"flips":{"total":0,`) {
			t.Errorf("%s: %s%s", b.Status, b.Report, b.Error)
		}
	})
}
