package verify_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"spendgate/audit/spend"
)

// TestStrangeJSON puts something of another type, or no JSON at all, into all that is kept as
// JSON: the verifiers name what was altered, and read all the rest.
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
		if err != nil {
			t.Fatal(err)
		}
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
	// Chained anew, it is no record of this service still.
	tr.both(tr.forged(`UPDATE changes SET details = '5' WHERE seq = 1`), changed("altered", 1))
	tr.finds(nil)
}
