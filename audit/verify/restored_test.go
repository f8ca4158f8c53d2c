package verify_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/postgres"
	"spendgate/audit/spend"
	"spendgate/bench/fleet"
)

// TestRestoredApprovals: an approval that is open in a backup may have been used after it, so that
// a restore ends it: on record, and before its time (G13).
func TestRestoredApprovals(t *testing.T) {
	tr := newApprovalTrailIn(t, newTrailIn(t, fleet.OwnTestDatabase(t)+"&search_path=public"))
	tr.store.Close()
	for _, want := range []int{2, 0} {
		r, err := postgres.BeginRestored(t.Context(), tr.url)
		for until := time.Now().Add(10 * time.Second); errors.Is(err, postgres.ErrNodesConnected) && time.Now().Before(until); {
			time.Sleep(10 * time.Millisecond) // the server ends sessions of a closed store in its own time
			r, err = postgres.BeginRestored(t.Context(), tr.url)
		}
		if err != nil || r.Approvals != want {
			t.Fatalf("%d approvals expired, %v, want %d", r.Approvals, err, want)
		}
	}
	var err error
	tr.store, err = postgres.Open(t.Context(), postgres.Options{URL: tr.url, Logger: slog.New(slog.DiscardHandler)})
	act(t, err)
	t.Cleanup(tr.store.Close)
	for _, c := range []*spend.Check{tr.pending, tr.approved} {
		found, err := tr.store.Approvals(t.Context(), []spend.ID{c.ID})
		if err != nil || len(found) != 1 || found[0].Status != audit.ApprovalExpired {
			t.Errorf("%+v, %v, want an approval that has expired", found, err)
		}
	}
	use := tr.using(tr.approved)
	use.Fence.Epoch, err = tr.store.Epoch(t.Context())
	act(t, err)
	if err := audittest.Record(t.Context(), tr.store, use); err == nil {
		t.Error("the approval was used")
	}
	if n := tr.count("changes WHERE kind = 'approval.expired' AND principal = 'audit restored'"); n != 2 {
		t.Errorf("%d expiries are on record", n)
	}
	tr.bothSay("restored")
	tr.both(tr.forged("UPDATE changes SET details = replace(details, 'restored', 'x') WHERE principal = 'audit restored' AND subject = '"+
		tr.approved.ID.Text(spend.PrefixApproval)+"'"), changed("inserted", tr.count("changes")))
}
