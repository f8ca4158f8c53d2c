package verify_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit/verify"
	"spendgate/hotpath/spend"
)

// TestClean finds nothing where nothing was changed, in slices of any size, and
// has looked at everything.
func TestClean(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	for _, size := range []int64{0, 1, 7} {
		found, s, err := tr.verify(func(o *verify.Options) { o.SliceSize = size; tr.held(o) })
		if err != nil || len(found) > 0 || !s.Clean() {
			t.Errorf("slices of %d: %v, %v", size, found, err)
		}
		if s.Checks != int64(tr.count("checks")) || s.Violations != int64(tr.count("violations")) || s.Policies != 3 ||
			s.Batches != int64(tr.count("batches")) || s.Chains != 2 || s.Checkpoints != 1 || s.Checks < 2*perChain*perRecord {
			t.Errorf("slices of %d: verified %+v", size, s)
		}
	}
	now := time.Now()
	for name, bounds := range map[string][2]time.Time{
		"from": {tr.records[3][2].Timestamp(), {}}, "to": {{}, tr.records[3][2].Timestamp()},
		"between": {tr.records[1][0].Timestamp(), tr.records[5][0].Timestamp()}, "later": {now.Add(time.Hour), {}}, "earlier": {{}, now.AddDate(-1, 0, 0)},
	} {
		found, s, err := tr.verify(func(o *verify.Options) { o.From, o.To = bounds[0], bounds[1] })
		if err != nil || len(found) > 0 || s.Checks == int64(tr.count("checks")) {
			t.Errorf("%s: %v, %v, %d checks", name, found, err, s.Checks)
		}
	}
}

// TestEveryColumnOfAChecks alters each column of the table in turn, also from
// null to empty and to null. A column that no hash covers is found here.
func TestEveryColumnOfAChecks(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	full, sparse := tr.records[0][0], tr.records[0][1]
	copied := map[string]bool{
		"policy_version": true, "latency_ms": true, "action_type": true, "decision": true, "confidence": true, "amount": true, "currency": true,
		"agent_id": true, "policy_id": true, "counterparty": true, "rule_id": true, "rule_description": true,
		"key_id": true, "principal": true, "owner": true,
	}
	columns := tr.columns("checks")
	if len(columns) != 36 {
		t.Errorf("%d columns", len(columns))
	}
	for _, column := range columns {
		name, kind := column[0], column[1]
		if name == "check_id" {
			continue // see "another identifier" below
		}
		other := map[string]string{
			"uuid": "gen_random_uuid()", "bigint": "%s + 1", "integer": "%s - 1", "smallint": "%s + 1", "char": `CASE %s WHEN 'r' THEN 's' ELSE 'r' END`,
			"numeric": "%s - 0.000000001", "bytea": "set_byte(%s, 5, 255 - get_byte(%[1]s, 5))", "text": "coalesce(%s, '') || ' '",
		}[kind]
		if other == "" {
			t.Fatalf("column %s has the type %s: say how it is altered", name, kind)
		}
		alter := func(c *spend.Check, to string) {
			t.Helper()
			id := c.ID.Text("")
			tr.exec("CREATE TEMPORARY TABLE kept AS SELECT %s AS old FROM checks WHERE check_id = '%s'", name, id)
			tr.exec("ALTER TABLE checks ALTER COLUMN %s DROP NOT NULL", name)
			tr.exec("UPDATE checks SET %s = %s WHERE check_id = '%s'", name, to, id)
			want := []string{check("altered", c)}
			if copied[name] && c.Violation() {
				want = append(want, violation("unchecked", c))
			}
			tr.finds(nil, want...)
			tr.exec("UPDATE checks SET %s = (SELECT old FROM kept) WHERE check_id = '%s'; DROP TABLE kept", name, id)
		}
		if strings.Contains(other, "%") {
			other = fmt.Sprintf(other, name)
		}
		alter(full, other)
		if kind == "text" && tr.isNull(name, sparse) {
			alter(sparse, "''")
		}
		if !tr.isNull(name, full) && name != "decision" && name != "rule_id" {
			alter(full, "NULL")
		}
	}
	alter := func(to string) {
		t.Helper()
		tr.exec("UPDATE checks SET amount = %s WHERE check_id = '%s'", to, full.ID.Text(""))
		tr.finds(nil, check("altered", full), violation("unchecked", full))
	}
	alter("amount * 1.0") // the same number, stored otherwise
	tr.exec("UPDATE checks SET amount = 999999999.999999999 WHERE check_id = '%s'", full.ID.Text(""))
	tr.finds(nil)
	tr.exec("ALTER TABLE archived_days RENAME TO elsewhere") // as in a schema of before
	if _, _, err := tr.verify(nil); err == nil || !strings.Contains(err.Error(), "no table archived_days") {
		t.Errorf("a table that is not there: %v", err)
	}
	tr.exec("ALTER TABLE elsewhere RENAME TO archived_days")
	tr.exec("ALTER TABLE checks ADD COLUMN smuggled text")
	if _, _, err := tr.verify(nil); err == nil || !strings.Contains(err.Error(), "smuggled") {
		t.Errorf("a column that nobody verifies: %v", err)
	}
}

// A catalogue in which rows can hide from the verifier, or from everybody else,
// is refused (G8).
func TestTamperedCatalogue(t *testing.T) {
	tr := newTrail(t)
	for _, of := range tr.records[0] { // its node is gone
		tr.exec("DELETE FROM checks WHERE check_id = '%s'; DELETE FROM violations WHERE id = '%[1]s'", of.ID.Text(""))
	}
	refused := func(wants, change, back string) {
		t.Helper()
		tr.exec("%s", change)
		if found, _, err := tr.verify(nil); err == nil || !strings.Contains(err.Error(), wants) {
			t.Errorf("%s: %v, %v", change, found, err)
		}
		tr.exec("%s", back)
	}
	batches := fmt.Sprintf("UPDATE batches SET last_id = NULL WHERE chain_id = '%s'", tr.chains[0].Text(""))
	tr.exec("CREATE TABLE kept AS TABLE batches")
	refused("last_id of table batches", "ALTER TABLE batches ALTER COLUMN last_id DROP NOT NULL; "+batches,
		"UPDATE batches AS b SET last_id = k.last_id FROM kept AS k WHERE k.chain_id = b.chain_id AND k.seq = b.seq; ALTER TABLE batches ALTER COLUMN last_id SET NOT NULL")
	refused("violations has row-level security", "ALTER TABLE violations ENABLE ROW LEVEL SECURITY", "ALTER TABLE violations DISABLE ROW LEVEL SECURITY")
	refused("policies is no table", "ALTER TABLE policies RENAME TO real; CREATE VIEW policies AS TABLE real", "DROP VIEW policies; ALTER TABLE real RENAME TO policies")
	if found, _, err := tr.verify(nil); err != nil || len(found) == 0 {
		t.Errorf("what was removed: %v, %v", found, err)
	}
}

func pick(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

// columns are a table's, with their types.
func (tr *trail) columns(table string) [][2]string {
	rows, err := tr.conn.Query(tr.t.Context(), `SELECT column_name, CASE data_type WHEN '"char"' THEN 'char' ELSE data_type END
		FROM information_schema.columns WHERE table_name = $1 AND table_schema = current_schema() ORDER BY ordinal_position`, table)
	if err != nil {
		tr.t.Fatal(err)
	}
	columns, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c [2]string, err error) {
		err = row.Scan(&c[0], &c[1])
		return c, err
	})
	if err != nil {
		tr.t.Fatal(err)
	}
	return columns
}

func (tr *trail) isNull(column string, c *spend.Check) (is bool) {
	if err := tr.conn.QueryRow(tr.t.Context(), "SELECT "+column+" IS NULL FROM checks WHERE check_id = $1", [16]byte(c.ID)).Scan(&is); err != nil {
		tr.t.Fatal(err)
	}
	return is
}

// find returns a recorded check.
func (tr *trail) find(is func(*spend.Check) bool) *spend.Check {
	for _, batch := range tr.records {
		for _, c := range batch {
			if is(c) {
				return c
			}
		}
	}
	tr.t.Fatal("no such check")
	return nil
}

func isAllowed(c *spend.Check) bool { return !c.Violation() }

// TestTamperedChecks does to rows what a superuser can, and has each named.
func TestTamperedChecks(t *testing.T) {
	for name, tamper := range map[string]func(*trail) []string{
		"deleted": func(tr *trail) []string {
			a, b := tr.find(isAllowed), tr.find((*spend.Check).Violation)
			tr.exec("DELETE FROM checks WHERE check_id IN ('%s', '%s')", a.ID.Text(""), b.ID.Text(""))
			return []string{check("removed", a), check("removed", b), violation("unchecked", b)}
		},
		"another identifier": func(tr *trail) []string {
			c, other := tr.find(isAllowed), &spend.Check{ID: spend.NewID(time.Now())}
			tr.exec("UPDATE checks SET check_id = '%s' WHERE check_id = '%s'", other.ID.Text(""), c.ID.Text(""))
			return []string{check("removed", c), check("inserted", other)}
		},
		"inserted": func(tr *trail) []string {
			var want []string
			for range 2 {
				id := spend.NewID(time.Now())
				tr.exec(`CREATE TEMPORARY TABLE copy AS SELECT * FROM checks WHERE check_id = '%s'; UPDATE copy SET check_id = '%s';
					INSERT INTO checks SELECT * FROM copy; DROP TABLE copy`, tr.find(isAllowed).ID.Text(""), id.Text(""))
				want = append(want, check("inserted", &spend.Check{ID: id}))
			}
			return want
		},
		"swapped": func(tr *trail) []string {
			a := tr.find(isAllowed)
			b := tr.find(func(c *spend.Check) bool { return isAllowed(c) && c != a })
			for _, step := range [][2]spend.ID{{a.ID, {}}, {b.ID, a.ID}, {{}, b.ID}} {
				tr.exec("UPDATE checks SET check_id = '%s' WHERE check_id = '%s'", step[1].Text(""), step[0].Text(""))
			}
			return []string{check("altered", a), check("altered", b)}
		},
		"partition truncated": func(tr *trail) []string {
			tr.exec("TRUNCATE " + today())
			return tr.allRemoved()
		},
		"partition detached": func(tr *trail) []string {
			tr.exec("ALTER TABLE checks DETACH PARTITION " + today())
			want := []string{"removed day " + time.Now().UTC().Format(time.DateOnly)}
			for _, b := range tr.records {
				for _, c := range b {
					if c.Violation() {
						want = append(want, violation("unchecked", c))
					}
				}
			}
			return want
		},
		"violation altered": func(tr *trail) []string {
			c := tr.find((*spend.Check).Violation)
			tr.exec("UPDATE violations SET agent_id = 'x' WHERE id = '%s'", c.ID.Text(""))
			return []string{violation("altered", c)}
		},
		"violation deleted": func(tr *trail) []string {
			c := tr.find((*spend.Check).Violation)
			tr.exec("DELETE FROM violations WHERE id = '%s'", c.ID.Text(""))
			return []string{violation("removed", c)}
		},
		"violations inserted": func(tr *trail) []string {
			a, b := tr.find(isAllowed), &spend.Check{ID: spend.NewID(time.Now())}
			for _, c := range []*spend.Check{a, b} {
				tr.exec(`CREATE TEMPORARY TABLE copy AS SELECT * FROM violations LIMIT 1; UPDATE copy SET id = '%s';
					INSERT INTO violations SELECT * FROM copy; DROP TABLE copy`, c.ID.Text(""))
			}
			return []string{violation("inserted", a), violation("inserted", b)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTrail(t)
			tr.finds(nil)
			want := tamper(tr)
			tr.finds(nil, want...)
			tr.finds(func(o *verify.Options) { o.SliceSize = 3 }, want...)
		})
	}
}

// TestEveryColumnOfAViolation alters each in turn.
func TestEveryColumnOfAViolation(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	c := tr.find((*spend.Check).Violation)
	for _, column := range tr.columns("violations")[1:] {
		if column[0] == "xid" { // bookkeeping
			continue
		}
		to := map[string]string{"integer": "%s - 1", "char": "'r'", "numeric": "%s - 0.01", "text": "%s || 'x'"}[column[1]]
		if strings.Contains(to, "%") {
			to = fmt.Sprintf(to, column[0])
		}
		tr.exec("CREATE TEMPORARY TABLE kept AS SELECT * FROM violations WHERE id = '%s'", c.ID.Text(""))
		tr.exec("UPDATE violations SET %s = %s WHERE id = '%s'", column[0], pick(column[0] == "action_type", "'s'", to), c.ID.Text(""))
		tr.finds(nil, violation("altered", c))
		tr.exec("DELETE FROM violations WHERE id = '%s'; INSERT INTO violations SELECT * FROM kept; DROP TABLE kept", c.ID.Text(""))
	}
	tr.finds(nil)
}

func today() string { return "checks_" + time.Now().UTC().Format("20060102") }

// allRemoved are the findings when every check is gone.
func (tr *trail) allRemoved() (want []string) {
	for _, b := range tr.records {
		for _, c := range b {
			want = append(want, check("removed", c))
			if c.Violation() {
				want = append(want, violation("unchecked", c))
			}
		}
	}
	return want
}
