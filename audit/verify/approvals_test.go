package verify_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/postgres/snapshot"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// approvalTrail is a trail with approvals in every state.
type approvalTrail struct {
	*trail
	used, use                           *spend.Check // the check that asked, and the one that was allowed
	pending, approved, denied, expired  *spend.Check
	first, second, denial, over, expiry int // changes: of used, of denied, of approved, of expired
	fence                               spend.Fence
}

func newApprovalTrail(t *testing.T) *approvalTrail {
	t.Helper()
	return newApprovalTrailIn(t, newTrail(t))
}

func newApprovalTrailIn(t *testing.T, in *trail) *approvalTrail {
	t.Helper()
	tr := &approvalTrail{trail: in}
	epoch := must.Get(tr.store.Epoch(t.Context()))(t)
	tr.fence = spend.Fence{Node: spend.NewID(time.Now()), Epoch: epoch, Stops: tr.lastStop()}
	for _, c := range []**spend.Check{&tr.used, &tr.pending, &tr.approved, &tr.denied, &tr.expired} {
		*c = tr.asking(2)
	}
	tr.expired.Approval.Expires = time.Millisecond
	for _, c := range []*spend.Check{tr.used, tr.pending, tr.approved, tr.denied, tr.expired} {
		tr.append(c)
	}
	tr.first = tr.decide(tr.used, "bob", true)
	tr.second = tr.decide(tr.used, "cleo", true)
	tr.decide(tr.approved, "bob", true)
	tr.over = tr.decide(tr.approved, "cleo", true)
	tr.decide(tr.denied, "bob", true)
	tr.denial = tr.decide(tr.denied, "dora", false)
	tr.use = tr.using(tr.used)
	tr.append(tr.use)
	time.Sleep(10 * time.Millisecond)
	must.Get(tr.store.ExpireApprovals(t.Context()))(t)
	tr.expiry = tr.count("changes")
	return tr
}

func (tr *approvalTrail) append(c *spend.Check) {
	tr.t.Helper()
	must.Do(tr.t, tr.writer.Append(c).Final())
}

func (tr *approvalTrail) asking(required int) *spend.Check {
	c := checksOfAllSorts(tr.fence)[4]
	c.Principal, c.Owner, c.Action.Counterparty = "shop", "ann", "customer – ü "+c.ID.Text("")
	c.Action.IdempotencyKey = "ask " + c.ID.Text("") // the key of its use, too, in another slot
	c.Approval = &spend.ApprovalRequest{
		Required: required, Expires: time.Hour, UseWithin: time.Hour, ActionHash: spend.ActionHash(c),
		Rules: []spend.EscalatedRule{{RuleID: "r", Identity: spend.Hash{1}}},
	}
	return c
}

func (tr *approvalTrail) using(asked *spend.Check) *spend.Check {
	c := checksOfAllSorts(tr.fence)[2]
	c.Action, c.Principal, c.Owner = asked.Action, asked.Principal, asked.Owner
	c.Action.ApprovalID = asked.ID
	return c
}

// decide returns the number of the recorded change.
func (tr *approvalTrail) decide(c *spend.Check, principal string, approves bool) int {
	tr.t.Helper()
	outcome, err := tr.store.Decide(tr.t.Context(), audit.ApprovalDecisionRequest{
		ApprovalID: c.ID, Approves: approves, ActionHash: c.Approval.ActionHash, Note: "seen",
		By: audit.Actor{KeyID: "key_of_" + principal, Principal: principal}, Owner: principal + "'s team", Name: principal, Email: principal +
			"@example.com",
	})
	if err != nil || outcome != audit.DecisionRecorded {
		tr.t.Fatal(outcome, err)
	}
	return tr.count("changes")
}

func (tr *approvalTrail) both(tamper string, want ...string) {
	tr.t.Helper()
	tr.bothFind("approvals approval_uses approval_deadlines changes checks batches violations", tamper, want...)
}

// forged rechains the changes from a number on, as the owner of the database could.
func (tr *trail) forged(change string) string {
	return change + `; DO $$
		DECLARE c changes; previous bytea := decode(repeat('00', 32), 'hex');
		BEGIN FOR c IN SELECT * FROM changes ORDER BY seq LOOP
			previous := sha256(convert_to(E'spendgate change 1\n', 'UTF8') || previous || int2send(13::smallint)
				|| encode_field(int8send(c.seq)) || encode_field(c.kind) || encode_field(c.subject) || encode_field(int4send(c.version))
				|| encode_field(c.actor) || encode_field(c.key_id) || encode_field(c.principal) || encode_field(c.credential)
				|| encode_field(c.request_id) || encode_field(c.address) || encode_field(timestamptz_send(c.at))
				|| encode_field(c.details) || encode_field(c.hash));
			UPDATE changes SET head = previous WHERE seq = c.seq;
		END LOOP; END $$`
}

func approvalOf(c *spend.Check) string { return "approval " + c.ID.Text(spend.PrefixApproval) }
func changed(kind string, n int) string {
	return fmt.Sprintf("%s change %d of the configuration", kind, n)
}

// TestTamperedApprovals alters approvals, their uses and people's decisions, but not the checks
// that asked for them and used them (G13).
func TestTamperedApprovals(t *testing.T) {
	t.Parallel()
	tr := newApprovalTrail(t)
	if found, s, err := tr.verify(tr.held); err != nil || len(found) > 0 || s.Approvals != 5 {
		t.Fatalf("untouched: %v, %v, %d approvals", found, err, s.Approvals)
	}
	id := func(c *spend.Check) string { return c.ID.Text("") }
	use := func(kind string, c *spend.Check) string { return kind + " use of " + approvalOf(c) }
	column := func(set string, c *spend.Check) string {
		return fmt.Sprintf("UPDATE approvals SET %s WHERE id = '%s'; ", set, id(c))
	}
	for tamper, want := range map[string][]string{
		"SELECT": nil,
		fmt.Sprintf("DELETE FROM approval_uses WHERE approval_id = '%s'",
			id(tr.used)): {use("removed", tr.used)},
		fmt.Sprintf("INSERT INTO approval_uses (approval_id, check_id) VALUES ('%s', '%s')", id(tr.approved),
			id(tr.use)): {use("inserted", tr.approved)},
		fmt.Sprintf("INSERT INTO approval_uses (approval_id, check_id) VALUES ('%s', '%s')", id(tr.use), id(tr.use)): {use("inserted", tr.use)},
		fmt.Sprintf("UPDATE approval_uses SET check_id = '%s'", id(tr.pending)): {
			use("inserted", tr.used), check("inserted", tr.use),
		},
		fmt.Sprintf("DELETE FROM approvals WHERE id = '%s'", id(tr.pending)): {"removed " + approvalOf(tr.pending)},
		fmt.Sprintf("DELETE FROM approvals WHERE id = '%s'", id(tr.denied)): {
			"removed " + approvalOf(tr.denied), changed("inserted", tr.denial-1), changed("inserted", tr.denial),
		},
		fmt.Sprintf("DELETE FROM approvals WHERE id = '%s'; DELETE FROM approval_uses", id(tr.used)): {
			"removed " + approvalOf(tr.used), changed("inserted", tr.first), changed("inserted", tr.second), use("inserted", tr.used),
		},
		fmt.Sprintf("UPDATE approvals SET id = '%s' WHERE id = '%s'", id(tr.use), id(tr.pending)): {"inserted " + approvalOf(tr.use), "removed " +
			approvalOf(tr.pending)},
		column("payment = decode(repeat('00', 32), 'hex')", tr.pending): {"altered " + approvalOf(tr.pending)},
		column("payment = decode(repeat('01', 31), 'hex')", tr.pending): {"altered " + approvalOf(tr.pending)},
		column("required = 1", tr.pending) + column("use_within_ms = 7", tr.approved) + column("policy_id = 'x'",
			tr.denied) + column("agent_id = 'x'", tr.expired): {
			"altered " + approvalOf(tr.pending), "altered " + approvalOf(tr.approved), "altered " + approvalOf(tr.denied), "altered " +
				approvalOf(tr.expired),
		},
		column("expires_at = expires_at + interval '1 ms'", tr.pending) + column("principal = 'x'", tr.denied) + column("owner = NULL",
			tr.expired) +
			column("created_at = created_at + interval '2 hours', expires_at = expires_at + interval '2 hours'", tr.approved): {
			"altered " + approvalOf(tr.pending), "altered " + approvalOf(tr.approved), "altered " + approvalOf(tr.denied), "altered " +
				approvalOf(tr.expired),
		},
		column(`action_hash = '\x00'`, tr.pending): {"altered " +
			approvalOf(tr.pending)},
		tr.forged(fmt.Sprintf("UPDATE changes SET principal = 'bob' WHERE seq = %d", tr.second)): {changed("inserted",
			tr.second), use("inserted", tr.used)},
		tr.forged(fmt.Sprintf("UPDATE changes SET principal = 'shop' WHERE seq = %d", tr.second)): {changed("inserted",
			tr.second), use("inserted", tr.used)},
		tr.forged(fmt.Sprintf("UPDATE changes SET principal = 'ann' WHERE seq = %d", tr.second)): {changed("inserted",
			tr.second), use("inserted", tr.used)},
		tr.forged(fmt.Sprintf(`UPDATE changes SET details = '{"owner":"ann"}' WHERE seq = %d`, tr.second)): {changed("inserted",
			tr.second), use("inserted", tr.used)},
		tr.forged(fmt.Sprintf("UPDATE changes SET principal = 'BoB' WHERE seq = %d", tr.second)): {changed("inserted",
			tr.second), use("inserted", tr.used)},
		tr.forged(fmt.Sprintf("UPDATE changes SET principal = 'Shop' WHERE seq = %d", tr.second)): {changed("inserted",
			tr.second), use("inserted", tr.used)},
		tr.forged(fmt.Sprintf("UPDATE changes SET key_id = '%s' WHERE seq = %d", tr.used.KeyID, tr.second)): {changed("inserted",
			tr.second), use("inserted", tr.used)},
		tr.forged(fmt.Sprintf(`UPDATE changes SET details = '{"owner":"BOB''s team"}' WHERE seq = %d`, tr.second)): {changed("inserted",
			tr.second), use("inserted", tr.used)},
		tr.forged(fmt.Sprintf("UPDATE changes SET hash = sha256('x') WHERE seq = %d", tr.second)): {changed("inserted",
			tr.second), use("inserted", tr.used)},
		tr.forged(fmt.Sprintf("UPDATE changes SET at = at + interval '62 minutes' WHERE seq = %d", tr.second)): {changed("inserted",
			tr.second), use("inserted", tr.used)},
		tr.forged(fmt.Sprintf("UPDATE changes SET at = at + interval '30 minutes' WHERE seq = %d", tr.second)): {use("inserted", tr.used)},
		tr.forged(fmt.Sprintf("UPDATE changes SET at = at - interval '62 minutes' WHERE seq = %d", tr.second)): {use("inserted", tr.used)},
		tr.forged(fmt.Sprintf("UPDATE changes SET kind = 'approval.denied' WHERE seq = %d", tr.second)):        {use("inserted", tr.used)},
		tr.forged(fmt.Sprintf("UPDATE changes SET kind = 'approval.expired' WHERE seq = %d", tr.over)):         {changed("inserted", tr.over)},
		tr.forged(fmt.Sprintf("UPDATE changes SET subject = 'apr_%s' WHERE seq = %d", id(tr.denied), tr.expiry)): {changed("inserted",
			tr.expiry), "removed deadline of " + approvalOf(tr.expired)},
		tr.forged(fmt.Sprintf("UPDATE changes SET subject = 'apr_%s' WHERE seq = %d", id(tr.approved), tr.first)): {
			changed("inserted", tr.first), changed("inserted", tr.second), use("inserted", tr.used), // which completes nothing alone
		},
		tr.forged(fmt.Sprintf("UPDATE changes SET subject = 'apr_%s' WHERE seq = %d", id(tr.use), tr.first)): {
			changed("inserted", tr.first), changed("inserted", tr.second), use("inserted", tr.used), // which completes nothing alone
		},
		tr.forged(fmt.Sprintf("UPDATE changes SET principal = CASE seq WHEN %d THEN 'Straße' ELSE 'STRASSE' END WHERE seq IN (%[1]d, %d)",
			tr.first, tr.second)): {changed("inserted", tr.second), use("inserted", tr.used)},
	} {
		tr.both(tamper, want...)
	}
	deadline := func(kind string, c *spend.Check) string { return kind + " deadline of " + approvalOf(c) }
	tr.both(fmt.Sprintf("DELETE FROM approval_deadlines WHERE approval_id = '%s'; UPDATE approval_deadlines SET at = at + interval '1 day' "+
		"WHERE approval_id = '%s'; "+
		"INSERT INTO approval_deadlines VALUES ('%s', now())", id(tr.pending), id(tr.approved), id(tr.denied)),
		deadline("removed", tr.pending), deadline("altered", tr.approved), deadline("inserted", tr.denied))
	// If a check that asks is altered, its approval is not proved.
	tr.both(fmt.Sprintf("UPDATE checks SET latency_ms = 7777 WHERE check_id = '%s'", id(tr.pending)),
		check("altered", tr.pending), violation("unchecked", tr.pending), "unchecked "+approvalOf(tr.pending))
}

// TestForgedUses forges, with the rights of a node, a second use and a use of another action. The
// forged rows are chained like genuine ones, and contradict each other.
func TestForgedUses(t *testing.T) {
	t.Parallel()
	tr := newApprovalTrail(t)
	again, larger := tr.using(tr.used), tr.using(tr.approved)
	again.Action.IdempotencyKey = "" // a second use under one would be a replay
	larger.Action.Amount, _ = spend.ParseAmount("9999")
	tr.exec(`CREATE OR REPLACE FUNCTION use_approvals(check_ids uuid[], approval_ids uuid[], hashes bytea[], refused text)
		RETURNS void LANGUAGE sql AS $$
		INSERT INTO approval_uses (approval_id, check_id) SELECT * FROM unnest(approval_ids, check_ids) ON CONFLICT DO NOTHING $$`)
	tr.append(again)
	tr.append(larger)
	tr.both("SELECT", check("inserted", again), "inserted use of "+approvalOf(tr.approved),
		"altered function use_approvals(uuid[], uuid[], bytea[], text)")
}

// TestApprovalShown: an approval is shown as the store has it.
func TestApprovalShown(t *testing.T) {
	t.Parallel()
	tr := newApprovalTrail(t)
	snapshot := must.Get(snapshot.Open(t.Context(), tr.url, 1))(t)
	defer snapshot.Close()
	for _, c := range []*spend.Check{tr.used, tr.pending, tr.approved, tr.denied, tr.expired} {
		want := must.Get(tr.store.Approvals(t.Context(), []spend.ID{c.ID}))(t)
		got := must.Get(snapshot.Approval(t.Context(), c.ID))(t)
		want[0].Expired, want[0].Check = got.Expired, got.Check
		if !reflect.DeepEqual(got, want[0]) || got.Expired != (c == tr.expired) || got.Check.Approval.Required != 2 ||
			got.Check.Approval.UseWithin != time.Hour {
			t.Errorf("got %+v\nwant %+v", got, want[0])
		}
	}
	if _, err := snapshot.Approval(t.Context(), tr.use.ID); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("of none: %v", err)
	}
}
