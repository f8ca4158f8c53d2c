package verify_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/bench/must"
)

// TestTamperedDrafts: both verifiers find a draft that was altered, inserted or removed,
// or whose end was.
func TestTamperedDrafts(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	put := func(replaces int64) int64 {
		d := &audit.Draft{PolicyID: "refunds", Name: "next – ü", Rules: `[{"rule_id":"cap"}]`, Note: "tighter", Replaces: replaces}
		must.Do(t, tr.store.PutDraft(t.Context(), audit.Actor{KeyID: "key_1"}, d, time.Now()))
		return d.Generation
	}
	first := put(0)
	second := put(first)
	must.Do(t, tr.store.DeleteDraft(t.Context(), audit.Actor{}, "refunds", second, time.Now()))
	tr.finds(tr.held)
	name := func(seq int64) string { return fmt.Sprintf(`draft of policy "refunds" by change %d`, seq) }
	for _, c := range []struct{ tamper, want string }{
		{fmt.Sprintf("UPDATE drafts SET rules = '[]' WHERE generation = %d", first), "altered " + name(first)},
		{fmt.Sprintf("UPDATE drafts SET made_at = made_at - interval '1 day' WHERE generation = %d", second), "altered " + name(second)},
		{fmt.Sprintf("DELETE FROM drafts WHERE generation = %d", second+1), "removed " + name(second+1)},
		{fmt.Sprintf("INSERT INTO drafts SELECT policy_id, %d, base_version, name, description, rules, metadata, made_at FROM drafts "+
			"WHERE generation = %d", second+9, first), "inserted " + name(second+9)},
	} {
		tr.bothFind("drafts", c.tamper, c.want)
	}
	tr.exec("SET session_replication_role = origin")
	if _, err := tr.conn.Exec(t.Context(),
		"INSERT INTO drafts SELECT policy_id, 99, base_version, name, description, rules, metadata, made_at FROM drafts LIMIT 1"); err == nil {
		t.Error("a draft was inserted without its place in the chain")
	}
}

// TestTamperedReviews: both verifiers find an approval of no draft that there was, a forced
// version that does not exist, and a version that fewer keys approved than the one before asks (S80).
func TestTamperedReviews(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	by := func(keyID string) audit.Actor { return audit.Actor{KeyID: keyID, Principal: keyID} }
	asks := &audit.Policy{PolicyID: "asks", Name: "n", Rules: `[]`, Changes: `{"required":1}`}
	must.Do(t, tr.store.CreatePolicy(t.Context(), by("key_ann"), asks, audit.NewBudgets{}, time.Now()))
	d := &audit.Draft{PolicyID: "asks", Name: "next", Rules: `[]`, Changes: `{"from":[{"group":"a","required":1}]}`}
	ann := by("key_ann")
	ann.Owner, ann.Email = "Ann@example.com", "ann@example.com"
	must.Do(t, tr.store.PutDraft(t.Context(), ann, d, time.Now()))
	outcome, err := tr.store.DecideDraft(t.Context(), audit.DraftDecisionRequest{PolicyID: "asks", Hash: d.Hash, By: by("key_bob")})
	if must.Do(t, err); outcome != audit.DecisionRecorded {
		t.Fatal(outcome)
	}
	_, err = tr.store.PromoteDraft(t.Context(), by("key_ann"), audit.Promotion{PolicyID: "asks", Generation: d.Generation, Version: 1},
		time.Now())
	must.Do(t, err)
	must.Do(t, tr.store.CreatePolicy(t.Context(), audit.Actor{Credential: "01234567"}, asks, audit.NewBudgets{}, time.Now()))
	other := &audit.Policy{PolicyID: "rejects", Name: "n", Rules: `[]`, Changes: `{"required":1}`}
	must.Do(t, tr.store.CreatePolicy(t.Context(), by("key_ann"), other, audit.NewBudgets{}, time.Now()))
	next := &audit.Draft{PolicyID: "rejects", Name: "next", Rules: `[]`}
	must.Do(t, tr.store.PutDraft(t.Context(), by("key_ann"), next, time.Now()))
	for _, name := range []string{"key_bob", "key_cleo"} {
		_, err = tr.store.DecideDraft(t.Context(), audit.DraftDecisionRequest{PolicyID: "rejects", Hash: next.Hash, By: by(name)})
		must.Do(t, err)
	}
	_, err = tr.store.PromoteDraft(t.Context(), by("key_ann"), audit.Promotion{PolicyID: "rejects", Generation: next.Generation, Version: 1},
		time.Now())
	must.Do(t, err)
	tr.finds(tr.held)
	change := func(seq int64) string { return fmt.Sprintf("altered change %d of the configuration", seq) }
	approval, forced := d.Generation+1, d.Generation+5
	const second, third = `altered policy "asks" version 2`, `altered policy "asks" version 3`
	for _, c := range []struct {
		tamper string
		want   []string
	}{
		{fmt.Sprintf("UPDATE changes SET key_id = 'key_ann' WHERE seq = %d", approval), []string{change(approval), second}},
		{fmt.Sprintf("UPDATE changes SET version = 7 WHERE seq = %d", approval), []string{change(approval), second}},
		{
			fmt.Sprintf("UPDATE changes SET hash = sha256('x') WHERE seq = %d", approval),
			[]string{change(approval), fmt.Sprintf(`altered decision about a draft of policy "asks" by change %d`, approval)},
		},
		{
			fmt.Sprintf("UPDATE changes SET version = 9 WHERE seq = %d", forced),
			[]string{change(forced), `altered force on policy "asks" version 9`, third},
		},
	} {
		tr.bothFind("changes", c.tamper, c.want...)
	}
	// One of two approvals becomes a rejection, in a chain that is whole.
	tr.bothFind("changes checks",
		tr.forged(fmt.Sprintf(`UPDATE changes SET kind = 'policy.draft_rejected' WHERE seq = %d; `, next.Generation+2)),
		`altered policy "rejects" version 2`)
	// An approval of who owns the author's keys is the author's, in a chain that is whole.
	tr.bothFind("changes checks",
		tr.forged(fmt.Sprintf(`UPDATE changes SET details = (details::jsonb || '{"owner":"ann@EXAMPLE.com"}')::text WHERE seq = %d; `, approval)),
		second)
}

// TestOtherDraftPromoted: a version that is another than its draft, which was exchanged while it was
// promoted and then put back, is named by both verifiers.
func TestOtherDraftPromoted(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	first := &audit.Policy{PolicyID: "p", Name: "n", Rules: `[]`}
	must.Do(t, tr.store.CreatePolicy(t.Context(), audit.Actor{}, first, audit.NewBudgets{}, time.Now()))
	var want []string
	for i, exchanged := range []string{
		"name = name", "name = 'x'", "description = 'x'", `rules = '[ ]'`, `metadata = '{"a":2}'`, `redeem = '{"within_minutes":1440}'`,
		`changes = '{"required":1}'`,
	} {
		d := &audit.Draft{PolicyID: "p", Name: "next", Description: "d", Rules: `[]`, Metadata: `{"a":1}`}
		d.Redeem.Required = true
		must.Do(t, tr.store.PutDraft(t.Context(), audit.Actor{KeyID: "key_1"}, d, time.Now()))
		tr.exec("CREATE TEMPORARY TABLE was AS TABLE drafts; UPDATE drafts SET %s WHERE generation = %d", exchanged, d.Generation)
		made := must.Get(tr.store.PromoteDraft(t.Context(), audit.Actor{KeyID: "key_1"},
			audit.Promotion{PolicyID: "p", Generation: d.Generation, Version: i + 1}, time.Now()))(t)
		tr.exec("DELETE FROM drafts WHERE generation <= %d; INSERT INTO drafts TABLE was; DROP TABLE was", d.Generation)
		if i > 0 {
			want = append(want, fmt.Sprintf(`altered policy "p" version %d`, made.Version))
		}
	}
	tr.finds(nil, want...)
	if found := tr.stranger(false); !slices.Equal(found, want) {
		t.Errorf("verify.py: %q", found)
	}
}
