package verify_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/checkpoint"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// backdate adds a check of an earlier time, with a batch that lists it in a
// chain of its own: everything that a node would have written.
func (tr *trail) backdate(ago time.Duration) spend.ID {
	tr.t.Helper()
	at := time.Now().Add(-ago)
	id, chainID := spend.NewID(at), spend.NewID(at)
	tr.exec(`CREATE TEMPORARY TABLE copy AS SELECT * FROM checks WHERE check_id = '%s'; UPDATE copy SET check_id = '%s', node = '%s';
		INSERT INTO checks SELECT * FROM copy; DROP TABLE copy`, tr.find(isAllowed).ID.Text(""), id.Text(""), chainID.Text(""))
	row := chain.HashRow(tr.row(id))
	entries := append(id[:], row[:]...)
	head := chain.HashBatch(chainID, 1, spend.Hash{}, entries)
	tr.exec(`INSERT INTO batches (chain_id, seq, first_id, last_id, version, head, entries)
		VALUES ('%s', 1, '%s', '%[2]s', %d, '\x%[4]x', '\x%[5]x')`,
		chainID.Text(""), id.Text(""), chain.Version, head[:], entries)
	return id
}

// TestBackdated reports a check that is older than a checkpoint which lacks it. A check within the
// time that a commit may take is not reported.
func TestBackdated(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	forged, slow := tr.backdate(time.Hour), tr.backdate(20*time.Second)
	tr.finds(nil) // nothing but a checkpoint can tell
	want := check("inserted", &spend.Check{ID: forged})
	tr.bothHeld(want)
	tr.sign() // a node signs the present heads, which the line before lacks
	tr.recordMore()
	tr.bothHeld(want)
	tr.file = t.TempDir() + "/later.jsonl" // of a time when it was there
	tr.checkpoints = tr.newCheckpoints()
	tr.sign()
	tr.finds(tr.held)
	if slow == forged {
		t.Error("one check")
	}
}

// TestBackdatedPolicy is TestBackdated for policies.
func TestBackdatedPolicy(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	p := &audit.Policy{PolicyID: "refunds", Name: "of an hour ago", Rules: `[]`, Metadata: `{}`}
	must.Do(t, tr.store.CreatePolicy(t.Context(), audit.Actor{}, p, audit.NewBudgets{}, time.Now().Add(-time.Hour)))
	tr.finds(nil)
	tr.bothHeld(`inserted policy "refunds" version 4`)
}

// TestAcknowledgedLoss reports an acknowledged loss without making the result unclean; a later loss
// is a finding.
func TestAcknowledgedLoss(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	tr.forget(tr.chains[0], tr.last(tr.chains[0]))
	tr.exec("DELETE FROM policies WHERE version = 3; DELETE FROM changes WHERE seq = 3")
	if err := tr.checkpoints.Write(t.Context()); !errors.Is(err, checkpoint.ErrContradiction) {
		t.Fatalf("got %v", err)
	}
	must.Do(t, tr.newCheckpoints().Acknowledge(t.Context(), "restored"))
	policies := "acknowledged change 3 of the configuration"
	tr.bothHeld(chainFinding("acknowledged", tr.chains[0]), policies)
	if _, s, err := tr.verify(tr.held); err != nil || !s.Clean() {
		t.Errorf("not clean: %+v, %v", s, err)
	}
	tr.forget(tr.chains[0], tr.last(tr.chains[0]))
	tr.bothHeld(chainFinding("removed", tr.chains[0]), policies)
}

// TestAcknowledgedLossOfAnEnd: acknowledging that a chain's end is gone does not acknowledge that
// the rest of the chain has changed.
func TestAcknowledgedLossOfAnEnd(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	chainID, signed := tr.chains[0], tr.last(tr.chains[0])
	tr.record(tr.writer, chainID)
	tr.sign()
	tr.forget(chainID, signed+1)
	tr.exec("UPDATE checks SET request_id = 'someone' WHERE check_id = '%s'", tr.entries(chainID, 1)[0].ID.Text(""))
	tr.rewrite(chainID)
	must.Do(t, tr.newCheckpoints().Acknowledge(t.Context(), "restored"))
	tr.bothHeld(batch("altered", int(signed), chainID))
}

// TestAcknowledgedInAnotherFile: what one file of checkpoints shows is not acknowledged with what
// another one does, in whatever order they are read.
func TestAcknowledgedInAnotherFile(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	before, chainID, signed := tr.file, tr.chains[0], tr.last(tr.chains[0])
	tr.record(tr.writer, chainID)
	tr.file = filepath.Join(t.TempDir(), "later.jsonl")
	tr.checkpoints = tr.newCheckpoints()
	tr.sign()
	tr.forget(chainID, signed+1)
	tr.exec("UPDATE checks SET request_id = 'someone' WHERE check_id = '%s'", tr.entries(chainID, 1)[0].ID.Text(""))
	tr.rewrite(chainID)
	must.Do(t, tr.newCheckpoints().Acknowledge(t.Context(), "restored"))
	tr.finds(tr.heldTo(tr.file), chainFinding("acknowledged", chainID))
	tr.finds(tr.heldTo(before, tr.file), batch("altered", int(signed), chainID))
	tr.finds(tr.heldTo(tr.file, before), batch("altered", int(signed), chainID))
}
