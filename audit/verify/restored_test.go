package verify_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/checkpoint"
	"spendgate/audit/postgres"
	"spendgate/audit/spend"
	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// TestRestoredOverALoss: a restore that lost fewer changes than it records can be acknowledged,
// before it is recorded and behind it (G8).
func TestRestoredOverALoss(t *testing.T) {
	t.Parallel()
	for _, acknowledgedFirst := range []bool{false, true} {
		url := fleet.OwnTestDatabase(t)
		tr := newTrailIn(t, url+"&search_path=public&application_name=trail") // which is no node
		for range 3 {
			tr.addWebhook()
		}
		kept := tr.count("changes")
		p := &audit.Policy{PolicyID: "refunds", Name: "after the backup", Rules: `[]`}
		must.Do(t, tr.store.CreatePolicy(t.Context(), audit.Actor{}, p, audit.NewBudgets{}, time.Now()))
		tr.sign()
		tr.exec("DELETE FROM policies WHERE version = 4; DELETE FROM changes WHERE seq > %d; UPDATE config SET generation = %[1]d", kept)
		acknowledge := func() {
			if err := tr.checkpoints.Write(t.Context()); !errors.Is(err, checkpoint.ErrContradiction) {
				t.Errorf("got %v", err)
			}
			must.Do(t, tr.newCheckpoints().Acknowledge(t.Context(), "restored"))
		}
		if acknowledgedFirst {
			acknowledge()
		}
		r, err := postgres.BeginRestored(t.Context(), url+"&search_path=public")
		if err != nil || r.Webhooks < 2 {
			t.Fatalf("%+v, %v", r, err)
		}
		if !acknowledgedFirst {
			tr.bothHeld(changed("altered", kept+1))
			acknowledge()
		}
		tr.thaw(r.Freeze)
		tr.recordMore()
		tr.sign()
		tr.bothHeld(changed("acknowledged", kept+1))
	}
}

// thaw releases a freeze.
func (tr *trail) thaw(id spend.ID) {
	tr.t.Helper()
	f := must.Get(tr.store.Freeze(tr.t.Context(), id))(tr.t)
	released := audit.FreezeRelease{Freeze: f, Keys: f.Last, Note: "compared"}
	must.Do(tr.t, tr.store.ReleaseFreeze(tr.t.Context(), audit.Actor{Credential: "0a1b2c3d"}, released))
}

// TestRestoredApprovals: an approval that is open in a backup may have been used after it, so that
// a restore ends it: on record, and before its time (G13).
func TestRestoredApprovals(t *testing.T) {
	tr := newApprovalTrailIn(t, newTrailIn(t, fleet.OwnTestDatabase(t)+"&search_path=public"))
	tr.store.Close()
	for _, want := range []int{2, 0} {
		r, err := postgres.BeginRestored(t.Context(), tr.url)
		for until := time.Now().Add(time.Minute); errors.Is(err, postgres.ErrNodesConnected) && time.Now().Before(until); {
			time.Sleep(10 * time.Millisecond) // the server ends sessions of a closed store in its own time
			r, err = postgres.BeginRestored(t.Context(), tr.url)
		}
		if err != nil || r.Approvals != want {
			t.Fatalf("%d approvals expired, %v, want %d", r.Approvals, err, want)
		}
	}
	var err error
	tr.store, err = postgres.Open(t.Context(), postgres.Options{URL: tr.url, Logger: slog.New(slog.DiscardHandler)})
	must.Do(t, err)
	t.Cleanup(tr.store.Close)
	for _, c := range []*spend.Check{tr.pending, tr.approved} {
		found, err := tr.store.Approvals(t.Context(), []spend.ID{c.ID})
		if err != nil || len(found) != 1 || found[0].Status != audit.ApprovalExpired {
			t.Errorf("%+v, %v, want an approval that has expired", found, err)
		}
	}
	use := tr.using(tr.approved)
	use.Fence.Epoch, err = tr.store.Epoch(t.Context())
	must.Do(t, err)
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
