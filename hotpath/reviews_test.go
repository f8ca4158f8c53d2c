package hotpath_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath"
)

// Only a version that was forced is counted and logged as forced: the admin promotes an approved
// draft as anybody does, and where nobody needs to be asked any more nothing is forced (S80).
func TestForcedIsWhatWasForced(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		ctx, log := t.Context(), new(lockedBuffer)
		f.log = log
		n, admin := f.start(f.server, f.inProcess), audit.Actor{Credential: "0123abcd"}
		forced := func(want, onRecord int) {
			t.Helper()
			const name = "spendgate_policies_forced_total"
			text := fmt.Sprintf("# HELP %s Versions of policies made with the admin key where the version before asks people.\n# TYPE %s "+
				"counter\n%s %d\n", name, name, name, want)
			must.Check(t, testutil.GatherAndCompare(n.metrics, strings.NewReader(text), name))
			changes, err := f.store.Changes(ctx, audit.ChangeQuery{PolicyID: "asks", Limit: 100})
			recorded := 0
			for i := range changes {
				if changes[i].Kind == audit.PolicyForced {
					recorded++
				}
			}
			if told := strings.Count(log.String(), `msg="policy forced"`); err != nil || recorded != onRecord || told != want {
				t.Errorf("%d are recorded, %d told, want %d and %d: %v", recorded, told, onRecord, want, err)
			}
		}
		post := func(by hotpath.Access, actor audit.Actor, changes string) {
			t.Helper()
			p := &audit.Policy{PolicyID: "asks", Name: "n", Rules: plainRules, Changes: changes}
			must.Do(t, n.CreatePolicy(ctx, by, actor, hotpath.NewVersion{Policy: p}))
		}
		const one = `{"required":1}`
		author, other := f.keyOf("ann", spend.PoliciesWrite), f.keyOf("bob", spend.ApprovalsDecide)
		post(author, audit.Actor{}, one)
		d := &audit.Draft{PolicyID: "asks", Name: "next", Rules: plainRules, Changes: one}
		must.Do(t, n.PutDraft(ctx, author, audit.Actor{}, d, nil, nil))
		if _, _, err := n.DecideDraft(ctx, other, audit.DraftDecisionRequest{PolicyID: "asks", Hash: d.Hash}); err != nil {
			t.Fatal(err)
		}
		must.Get(n.PromoteDraft(ctx, hotpath.Access{}, admin, hotpath.Promotion{PolicyID: "asks", Version: 1}))(t)
		forced(0, 0)
		post(hotpath.Access{}, admin, one)
		forced(1, 1)
		// Another admin removes the changes that ask people while this one writes.
		n.faults.write = func() {
			p := &audit.Policy{PolicyID: "asks", Name: "n", Rules: plainRules}
			must.Check(t, f.store.CreatePolicy(ctx, admin, p, audit.NewBudgets{}, time.Now()))
		}
		post(hotpath.Access{}, admin, one)
		if p, err := f.store.Policy(ctx, "asks", 0); err != nil || p.Version != 5 {
			t.Fatalf("%+v, %v", p, err)
		}
		forced(1, 2) // the other admin's
	})
}
