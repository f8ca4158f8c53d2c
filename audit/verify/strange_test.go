package verify_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
	"spendgate/bench/must"
)

// TestStrangeJSON puts JSON of another type, or no JSON at all, into every JSON column: the
// verifiers name the altered rows and read all others.
func TestStrangeJSON(t *testing.T) {
	t.Parallel()
	tr := newApprovalTrail(t)
	tr.member("ben", "support", "finance")
	tr.drafted("key_1", "ann", "key_2", "bob")
	members := func(value string) string {
		return `CASE WHEN %[1]s LIKE '{%%'
			THEN (SELECT coalesce(jsonb_object_agg(key, '` + value + `'::jsonb), '{}') FROM jsonb_each(%[1]s::jsonb))::text
			ELSE '[` + value + `]' END`
	}
	var want []string
	for seq := range tr.count("changes") {
		want = append(want, changed("altered", seq+1))
	}
	for _, of := range []*spend.Check{tr.pending, tr.used, tr.use} {
		want = append(want, check("altered", of))
	}
	for _, value := range []string{
		"'5'", "'null'", `'"x"'`, "'[5]'", "'[{}]'", "'{}'", "'{'", "''", "repeat('[', 100000)",
		members("5"), members(`"x"`), members("[5]"), members("{}"), members("null"),
	} {
		if strings.Contains(value, "%") {
			value = strings.ReplaceAll(value, "%[1]s", "COLUMN")
			value = strings.ReplaceAll(value, "%%", "%")
		}
		var tamper strings.Builder
		for _, c := range []struct{ table, column string }{
			{"changes", "details"},
			{"checks", "charges"},
			{"checks", "approval"},
			{"checks", "metadata"},
			{"policies", "rules"},
			{"policies", "metadata"},
			{"policies", "redeem"},
			{"policies", "changes"},
			{"drafts", "rules"},
		} {
			to := strings.ReplaceAll(value, "COLUMN", "coalesce("+c.column+", '')")
			fmt.Fprintf(&tamper, "CREATE TEMPORARY TABLE IF NOT EXISTS kept_%[1]s AS TABLE %[1]s; UPDATE %[1]s SET %[2]s = %[3]s || ' ';",
				c.table, c.column, to)
		}
		tr.exec("%s", tamper.String())
		found, _, err := tr.verify(nil)
		must.Do(t, err)
		for who, all := range map[string][]string{"spendgate": found, "verify.py": tr.stranger(false)} {
			for _, w := range want {
				if !slices.Contains(all, w) {
					t.Errorf("%s: %.80s: lacks %s", who, value, w)
				}
			}
			if i := slices.IndexFunc(all, func(f string) bool { return strings.Contains(f, "the rest of") }); i >= 0 {
				t.Errorf("%s: %.80s: %s", who, value, all[i])
			}
		}
		for _, table := range []string{"changes", "checks", "policies", "drafts"} {
			tr.exec("DELETE FROM %s; INSERT INTO %[1]s SELECT * FROM kept_%[1]s; DROP TABLE kept_%[1]s", table)
		}
	}
	// Even with a new chain, it is not a record of this service.
	for _, details := range []string{"'5'", `'{"x":NaN}'`, `'{"x":-Infinity}'`, `E'\uFEFF{}'`} {
		tr.both(tr.forged("UPDATE changes SET details = "+details+" WHERE seq = 1"), changed("altered", 1))
	}
	tr.both(tr.forged(`UPDATE changes SET details = '{"x":' || repeat('9', 5000) || '}' WHERE seq = 1`))
	tr.finds(nil)
}

// TestStrangeNames: neither verifier reads a member of a change whose name differs in letter case.
func TestStrangeNames(t *testing.T) {
	t.Parallel()
	tr := newApprovalTrail(t)
	tr.member("ben", "support", "finance")
	d := &audit.Draft{PolicyID: "asks", Name: "next", Rules: `[]`}
	asks := &audit.Policy{PolicyID: "asks", Name: "n", Rules: `[]`, Changes: `{"required":1}`}
	must.Do(t, tr.store.CreatePolicy(t.Context(), audit.Actor{}, asks, audit.NewBudgets{}, time.Now()))
	must.Do(t, tr.store.PutDraft(t.Context(), audit.Actor{KeyID: "key_1"}, d, time.Now()))
	must.Get(tr.store.DecideDraft(t.Context(),
		audit.DraftDecisionRequest{PolicyID: "asks", Hash: d.Hash, By: audit.Actor{KeyID: "key_2"}}))(t)
	named := func(key string) string {
		return tr.forged(`UPDATE changes SET details = (SELECT coalesce(jsonb_object_agg(` + key + `, value), '{}')
			FROM jsonb_each(details::jsonb))::text`)
	}
	tr.exec("CREATE TEMPORARY TABLE was AS TABLE changes")
	tr.exec("%s", named("'no ' || key"))
	found, _, err := tr.verify(nil)
	tr.exec("DELETE FROM changes; INSERT INTO changes TABLE was")
	if err != nil || !slices.ContainsFunc(found, func(f string) bool { return strings.HasPrefix(f, "altered decision about a draft") }) {
		t.Fatalf("%q, %v", found, err)
	}
	for _, key := range []string{"'no ' || key", "initcap(key)", "upper(key)"} {
		tr.both(named(key), found...)
	}
}

// TestStrangeTexts: who alters rows can write whatever the findings show, and no terminal obeys it or hides it.
func TestStrangeTexts(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	taken := tr.recordCharged(1)
	tr.exec(`INSERT INTO budget_principals VALUES ('%s', E'ann\u200b \u0301\ufe0f\u2800\nclean: 1 checks in 1 chains')`,
		taken.Charges[0].Counter.ID.Text(""))
	var own []string
	_, _, err := tr.verify(func(o *verify.Options) {
		o.Found = func(f verify.Finding) {
			line, _, _ := strings.Cut(f.String(), ": none of its")
			own = append(own, line)
		}
	})
	want := []string{
		`inserted principal ann\u200b \u0301\ufe0f\u2800\nclean: 1 checks in 1 chains of counter ` + taken.Charges[0].Counter.ID.Text(""),
	}
	if theirs := tr.stranger(false); err != nil || !slices.Equal(own, want) || !slices.Equal(theirs, want) {
		t.Errorf("%v\n%q\n%q\nwant %q", err, own, theirs, want)
	}
}

// TestInfiniteTimes puts infinite times into all compared tables: each altered row is named, and
// the rows beside it are read.
func TestInfiniteTimes(t *testing.T) {
	t.Parallel()
	tr, _ := newFeed(t)
	redeemed := newRedemptionTrailIn(t, tr.trail)
	paid := redeemed.check(spend.Allow, 0)
	redeemed.steps(paid, 0, "redeemed by psp")
	tr.exec("SELECT sequence_events(1000)")
	const tables = "approvals approval_deadlines idempotency_keys redemptions_open budget_exhaustions changes policies"
	for _, sign := range []string{"", "-"} {
		tamper := strings.ReplaceAll(fmt.Sprintf(`UPDATE approvals SET created_at = FAR WHERE id = '%s';
			UPDATE approval_deadlines SET at = FAR WHERE approval_id = '%s'; UPDATE idempotency_keys SET expires_at = FAR WHERE check_id = '%s';
			UPDATE redemptions_open SET redeemed_at = FAR, doubted_at = FAR; UPDATE budget_exhaustions SET at = FAR;
			UPDATE changes SET at = FAR WHERE seq = 2; UPDATE policies SET updated_at = FAR WHERE policy_id = 'refunds' AND version = 3`,
			tr.pending.ID.Text(""), tr.approved.ID.Text(""), tr.records[0][0].ID.Text("")), "FAR", "'"+sign+"infinity'")
		for table := range strings.FieldsSeq(tables) {
			tr.exec("CREATE TEMPORARY TABLE was_%s AS TABLE %[1]s", table)
		}
		tr.exec("%s", tamper)
		found, _, err := tr.verify(nil)
		for table := range strings.FieldsSeq(tables) {
			tr.exec("DELETE FROM %s; INSERT INTO %[1]s TABLE was_%[1]s; DROP TABLE was_%[1]s", table)
		}
		for _, want := range []string{
			"altered approval " + tr.pending.ID.Text(spend.PrefixApproval),
			"altered deadline of approval " + tr.approved.ID.Text(spend.PrefixApproval),
			"altered idempotency key of " + check("", tr.records[0][0])[1:], opened("altered", paid), changed("altered", 2),
			`altered policy "refunds" version 3`,
		} {
			if err != nil || !slices.Contains(found, want) {
				t.Errorf("%sinfinity: %v, lacks %s: %s", sign, err, want, strings.Join(found, "\n"))
			}
		}
		tr.bothFind(tables, tamper, found...)
	}
}
