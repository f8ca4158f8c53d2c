package verify_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit/chain"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
	"spendgate/bench/must"
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
		"between": {tr.records[1][0].Timestamp(), tr.records[5][0].Timestamp()}, "later": {now.Add(time.Hour), {}},
		"earlier": {{}, now.AddDate(-1, 0, 0)},
	} {
		found, s, err := tr.verify(func(o *verify.Options) { o.From, o.To = bounds[0], bounds[1] })
		if err != nil || len(found) > 0 || s.Checks == int64(tr.count("checks")) {
			t.Errorf("%s: %v, %v, %d checks", name, found, err, s.Checks)
		}
	}
}

// TestEveryColumnOfAChecks alters each column of the table, also from null to empty and to null. It
// finds a column that no hash covers (G8).
func TestEveryColumnOfAChecks(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	const ofFull, ofSparse = 0, 1 // in each record
	full, sparse := tr.records[0][ofFull], tr.records[0][ofSparse]
	type change struct {
		column, to string
		of         int
	}
	var changes []change
	copied := chain.Violations().Columns()
	for _, column := range tr.columns("checks") {
		name, kind := column[0], column[1]
		if name == "check_id" {
			continue // see "another identifier" below
		}
		other := map[string]string{
			"uuid": "gen_random_uuid()", "bigint": "coalesce(%s, 0) + 1", "integer": "%s - 1", "smallint": "%s + 1",
			"char":    `CASE %s WHEN 'r' THEN 's' ELSE 'r' END`,
			"numeric": "%s - 0.000000001", "bytea": "set_byte(%s, 5, 255 - get_byte(%[1]s, 5))", "text": "coalesce(%s, '') || ' '",
		}[kind]
		if other == "" {
			t.Fatalf("column %s has the type %s: say how it is altered", name, kind)
		}
		if strings.Contains(other, "%") {
			other = fmt.Sprintf(other, name)
		}
		changes = append(changes, change{name, other, ofFull})
		if kind == "text" && tr.isNull(name, sparse) {
			changes = append(changes, change{name, "''", ofSparse})
		}
		if !tr.isNull(name, full) && name != "decision" && name != "rule_id" {
			changes = append(changes, change{name, "NULL", ofFull})
		}
	}
	for some := range slices.Chunk(changes, len(tr.records)) { // each is done to another check
		tr.alter(t, fmt.Sprint(some), func(tr *trail) {
			var want []string
			for i, change := range some {
				c := tr.records[i][change.of]
				tr.exec("ALTER TABLE checks ALTER COLUMN %s DROP NOT NULL", change.column)
				tr.exec("UPDATE checks SET %s = %s WHERE check_id = '%s'", change.column, change.to, c.ID.Text(""))
				want = append(want, check("altered", c))
				if slices.Contains(copied, change.column) && c.Violation() {
					want = append(want, violation("unchecked", c))
				}
			}
			tr.finds(nil, want...)
		})
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

// TestTamperedCatalogue: a catalogue in which rows can hide from the verifier, or from everybody
// else, is refused (G8).
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
		"UPDATE batches AS b SET last_id = k.last_id FROM kept AS k WHERE k.chain_id = b.chain_id "+
			"AND k.seq = b.seq; ALTER TABLE batches ALTER COLUMN last_id SET NOT NULL")
	refused("violations has row-level security", "ALTER TABLE violations ENABLE ROW LEVEL SECURITY",
		"ALTER TABLE violations DISABLE ROW LEVEL SECURITY")
	refused("policies is no table", "ALTER TABLE policies RENAME TO real; CREATE VIEW policies AS TABLE real",
		"DROP VIEW policies; ALTER TABLE real RENAME TO policies")
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
	must.Do(tr.t, err)
	columns := must.Get(pgx.CollectRows(rows, func(row pgx.CollectableRow) (c [2]string, err error) {
		err = row.Scan(&c[0], &c[1])
		return c, err
	}))(tr.t)
	return columns
}

func (tr *trail) isNull(column string, c *spend.Check) (is bool) {
	must.Do(tr.t, tr.conn.QueryRow(tr.t.Context(), "SELECT "+column+" IS NULL FROM checks WHERE check_id = $1", [16]byte(c.ID)).
		Scan(&is))
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

// TestTamperedChecks does to rows what a superuser can, and has each named (G8).
func TestTamperedChecks(t *testing.T) {
	t.Parallel()
	whole := newTrail(t)
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
			var bounds string
			must.Do(tr.t, tr.conn.QueryRow(tr.t.Context(), "SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE oid = $1::text::regclass",
				today()).Scan(&bounds))
			tr.exec("ALTER TABLE checks DETACH PARTITION " + today())
			tr.t.Cleanup(func() { whole.exec("ALTER TABLE checks ATTACH PARTITION " + today() + " " + bounds) })
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
		"idempotency keys": func(tr *trail) []string {
			// The same key passes twice; a row is missing; one belongs to another check; one
			// expires at another time; one belongs to no check.
			var want []string
			of := func(i int, kind string) string {
				want = append(want, kind+" idempotency key of "+check("", tr.records[i][0])[1:])
				return tr.records[i][0].ID.Text("")
			}
			tr.exec("DELETE FROM idempotency_keys WHERE check_id IN ('%s', '%s')", of(0, "removed"), of(1, "removed"))
			again := checksOfAllSorts(tr.records[0][0].Fence)[0]
			again.Action.IdempotencyKey = tr.records[0][0].Action.IdempotencyKey
			again.Fence.Node = spend.NewID(time.Now())
			must.Do(tr.t, tr.writer.Append(again).Final())
			tr.exec("UPDATE idempotency_keys SET check_id = '%s' WHERE check_id = '%s'", tr.records[1][1].ID.Text(""), of(2, "altered"))
			tr.exec("UPDATE idempotency_keys SET expires_at = expires_at - interval '2 hours' WHERE check_id = '%s'", of(3, "altered"))
			tr.exec("UPDATE idempotency_keys SET expires_at = now() WHERE check_id = '%s'", of(4, "altered"))
			tr.exec("INSERT INTO idempotency_keys VALUES ('\\x%s', '%s', now() + interval '1 hour')", strings.Repeat("ee", 32), of(5, "inserted"))
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
		whole.alter(t, name, func(tr *trail) {
			want := tamper(tr)
			tr.finds(nil, want...)
			tr.finds(func(o *verify.Options) { o.SliceSize = 3 }, want...)
		})
	}
	whole.finds(nil)
}

// alter runs a subtest on a trail, and then restores all rows.
func (tr *trail) alter(t *testing.T, name string, test func(*trail)) {
	t.Run(name, func(t *testing.T) {
		altered := *tr
		altered.t, altered.chains = t, slices.Clone(tr.chains)
		tables := []string{
			"checks", "violations", "batches", "policies", "changes", "archived_days", "archived_violations", "idempotency_keys", "folded_chains",
			"outcomes",
		}
		for _, table := range tables {
			tr.exec("CREATE TEMPORARY TABLE kept_%s AS TABLE %[1]s", table)
		}
		t.Cleanup(func() {
			tr.exec("DROP TABLE IF EXISTS pg_temp.copy")
			for _, table := range tables {
				tr.exec("DELETE FROM %s; INSERT INTO %[1]s TABLE kept_%[1]s; DROP TABLE kept_%[1]s", table)
			}
		})
		test(&altered)
	})
}

// TestEveryColumnOfAViolation alters each, of one violation each.
func TestEveryColumnOfAViolation(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	columns := slices.DeleteFunc(tr.columns("violations")[1:], func(column [2]string) bool { return column[0] == "xid" }) // bookkeeping
	for some := range slices.Chunk(columns, len(tr.records)) {
		tr.alter(t, fmt.Sprint(some), func(tr *trail) {
			var want []string
			for i, column := range some {
				to := map[string]string{"integer": "%s - 1", "char": "'r'", "numeric": "%s - 0.01", "text": "%s || 'x'"}[column[1]]
				if strings.Contains(to, "%") {
					to = fmt.Sprintf(to, column[0])
				}
				c := tr.records[i][0]
				tr.exec("UPDATE violations SET %s = %s WHERE id = '%s'", column[0], pick(column[0] == "action_type", "'s'", to), c.ID.Text(""))
				want = append(want, violation("altered", c))
			}
			tr.finds(nil, want...)
		})
	}
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
