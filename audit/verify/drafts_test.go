package verify_test

import (
	"fmt"
	"testing"
	"time"

	"spendgate/audit"
)

// TestTamperedDrafts: both verifiers find a draft that was altered, inserted or removed,
// and the end of one likewise.
func TestTamperedDrafts(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	put := func() int64 {
		d := &audit.Draft{PolicyID: "refunds", Name: "next – ü", Rules: `[{"rule_id":"cap"}]`, Note: "tighter"}
		act(t, tr.store.PutDraft(t.Context(), audit.Actor{KeyID: "key_1"}, d, time.Now()))
		return d.Generation
	}
	first, second := put(), put()
	act(t, tr.store.DeleteDraft(t.Context(), audit.Actor{}, "refunds", time.Now()))
	tr.finds(tr.held)
	name := func(seq int64) string { return fmt.Sprintf(`draft of policy "refunds" by change %d`, seq) }
	for _, c := range []struct{ tamper, want string }{
		{fmt.Sprintf("UPDATE drafts SET rules = '[]' WHERE generation = %d", first), "altered " + name(first)},
		{fmt.Sprintf("UPDATE drafts SET made_at = made_at - interval '1 day' WHERE generation = %d", second), "altered " + name(second)},
		{fmt.Sprintf("DELETE FROM drafts WHERE generation = %d", second+1), "removed " + name(second+1)},
		{fmt.Sprintf("INSERT INTO drafts SELECT policy_id, %d, base_version, name, description, rules, metadata, made_at FROM drafts WHERE generation = %d", second+9, first), "inserted " + name(second+9)},
	} {
		tr.bothFind("drafts", c.tamper, c.want)
	}
	tr.exec("SET session_replication_role = origin")
	if _, err := tr.conn.Exec(t.Context(), "INSERT INTO drafts SELECT policy_id, 99, base_version, name, description, rules, metadata, made_at FROM drafts LIMIT 1"); err == nil {
		t.Error("a draft was inserted without its place in the chain")
	}
}
