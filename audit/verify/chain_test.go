package verify_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/audit/chain"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
	"spendgate/bench/must"
)

// entries are the entries of a batch.
func (tr *trail) entries(chainID spend.ID, seq int64) []chain.Entry {
	tr.t.Helper()
	var raw []byte
	must.Do(tr.t, tr.conn.QueryRow(tr.t.Context(), "SELECT entries FROM batches WHERE chain_id = $1 AND seq = $2", [16]byte(chainID), seq).
		Scan(&raw))
	entries := must.Get(chain.ParseEntries(raw))(tr.t)
	return entries
}

// last is the number of a chain's last batch.
func (tr *trail) last(chainID spend.ID) (seq int64) {
	tr.t.Helper()
	must.Do(tr.t, tr.conn.QueryRow(tr.t.Context(), "SELECT max(seq) FROM batches WHERE chain_id = $1", [16]byte(chainID)).Scan(&seq))
	return seq
}

// forget removes batches of a chain from a number on, with everything that they list, as somebody
// could who knows how the trail is made.
func (tr *trail) forget(chainID spend.ID, from int64) {
	tr.t.Helper()
	for seq := from; seq <= tr.last(chainID); seq++ {
		for _, e := range tr.entries(chainID, seq) {
			tr.exec("DELETE FROM checks WHERE check_id = '%s'; DELETE FROM violations WHERE id = '%[1]s'; DELETE FROM idempotency_keys "+
				"WHERE check_id = '%[1]s'", e.ID.Text(""))
		}
	}
	tr.exec("DELETE FROM batches WHERE chain_id = '%s' AND seq >= %d", chainID.Text(""), from)
}

// TestTamperedBatches changes the batches themselves (F40, G8).
func TestTamperedBatches(t *testing.T) {
	t.Parallel()
	whole := newTrail(t)
	const seq = 2
	for name, tamper := range map[string]func(tr *trail, of spend.ID) []string{
		"head": func(tr *trail, of spend.ID) []string {
			tr.exec("UPDATE batches SET head = set_byte(head, 0, 255 - get_byte(head, 0)) WHERE chain_id = '%s' AND seq = %d", of.Text(""), seq)
			return []string{batch("altered", seq, of)} // and not the one behind it
		},
		"row hash": func(tr *trail, of spend.ID) []string {
			tr.exec("UPDATE batches SET entries = set_byte(entries, 20, 255 - get_byte(entries, 20)) WHERE chain_id = '%s' AND seq = %d",
				of.Text(""), seq)
			want := []string{batch("altered", seq, of)}
			c := &spend.Check{ID: tr.entries(of, seq)[0].ID}
			return append(want, tr.alteredWith(c)...)
		},
		"malformed": func(tr *trail, of spend.ID) []string {
			first := tr.entries(of, seq)
			tr.exec("UPDATE batches SET entries = entries || '\\x00' WHERE chain_id = '%s' AND seq = %d", of.Text(""), seq)
			want := []string{batch("altered", seq, of)}
			for _, e := range first {
				want = append(want, check("inserted", &spend.Check{ID: e.ID}))
			}
			return want
		},
		"deleted": func(tr *trail, of spend.ID) []string {
			want := []string{batch("removed", seq, of)}
			for _, e := range tr.entries(of, seq) {
				want = append(want, check("inserted", &spend.Check{ID: e.ID}))
			}
			tr.exec("DELETE FROM batches WHERE chain_id = '%s' AND seq = %d", of.Text(""), seq)
			return want
		},
		"reordered": func(tr *trail, of spend.ID) []string {
			for _, step := range [][2]int{{seq, 0}, {seq + 1, seq}, {0, seq + 1}} {
				tr.exec("UPDATE batches SET seq = %d WHERE chain_id = '%s' AND seq = %d", step[1], of.Text(""), step[0])
			}
			return []string{batch("altered", seq, of), batch("altered", seq+1, of)}
		},
		"moved to another chain": func(tr *trail, of spend.ID) []string {
			end := tr.last(tr.chains[1])
			tr.exec("UPDATE batches SET chain_id = '%s', seq = %d WHERE chain_id = '%s' AND seq = %d", tr.chains[1].Text(""), end+1,
				of.Text(""), seq)
			return []string{batch("removed", seq, of), batch("altered", int(end)+1, tr.chains[1])}
		},
		"noted elsewhere": func(tr *trail, of spend.ID) []string {
			tr.exec("UPDATE batches SET last_id = gen_random_uuid() WHERE chain_id = '%s' AND seq = %d", of.Text(""), seq)
			return []string{batch("altered", seq, of)}
		},
		"format": func(tr *trail, of spend.ID) []string {
			want := []string{batch("unchecked", seq, of)}
			for _, e := range tr.entries(of, seq) {
				want = append(want, check("inserted", &spend.Check{ID: e.ID}))
			}
			tr.exec("UPDATE batches SET version = 2 WHERE chain_id = '%s' AND seq = %d", of.Text(""), seq)
			return want
		},
		"listed twice": func(tr *trail, of spend.ID) []string {
			tr.exec(`INSERT INTO batches SELECT '%s', %d, first_id, last_id, version, head, entries FROM batches WHERE chain_id = '%s' AND seq = %d`,
				tr.chains[1].Text(""), tr.last(tr.chains[1])+1, of.Text(""), seq)
			name := batch("altered", int(tr.last(tr.chains[1])), tr.chains[1])
			want := []string{name}
			for range tr.entries(of, seq) {
				want = append(want, name) // whichever of the two comes second
			}
			return want
		},
		"before the first": func(tr *trail, of spend.ID) []string {
			id := spend.NewID(time.Now()) // with a check that it lists
			tr.exec(`CREATE TEMPORARY TABLE copy AS SELECT * FROM checks WHERE check_id = '%s'; UPDATE copy SET check_id = '%s';
				INSERT INTO checks SELECT * FROM copy`, tr.find(isAllowed).ID.Text(""), id.Text(""))
			row := chain.HashRow(tr.row(id))
			tr.exec(`INSERT INTO batches VALUES ('%s', 0, '%s', '%[2]s', 1, '\x00', '\x%[2]s%[3]x')`, of.Text(""), id.Text(""), row[:])
			return []string{batch("inserted", 0, of)}
		},
	} {
		whole.alter(t, name, func(tr *trail) {
			of := slices.MinFunc(tr.chains, func(a, b spend.ID) int { return bytes.Compare(a[:], b[:]) })
			if of != tr.chains[0] {
				tr.chains[0], tr.chains[1] = tr.chains[1], tr.chains[0]
			}
			want := tamper(tr, of)
			tr.finds(nil, want...)
		})
	}
}

// TestGapOfARange finds batches that were removed with everything that they listed, even if only
// their time is verified.
func TestGapOfARange(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	of := spend.NewID(time.Now())
	var ends []int64 // of records
	var records [][]*spend.Check
	for range 4 {
		time.Sleep(3 * time.Millisecond) // none shares its millisecond with another
		records = append(records, tr.record(tr.writer, of))
		ends = append(ends, tr.last(of))
	}
	within := func(from, to int) func(*verify.Options) {
		return func(o *verify.Options) {
			o.From, o.To = records[from][0].Timestamp(), records[to][len(records[to])-1].Timestamp()
		}
	}
	for _, c := range records[2] {
		tr.exec("DELETE FROM checks WHERE check_id = '%s'; DELETE FROM violations WHERE id = '%[1]s'", c.ID.Text(""))
	}
	tr.exec("DELETE FROM batches WHERE chain_id = '%s' AND seq BETWEEN %d AND %d", of.Text(""), ends[1]+1, ends[2])
	gap := batch("removed", int(ends[1])+1, of)
	tr.finds(within(2, 2), gap)
	tr.finds(within(1, 2), gap) // its edge
	tr.finds(within(2, 3), gap)
	tr.finds(within(0, 0))
	tr.exec("DELETE FROM batches WHERE chain_id = '%s' AND seq <= %d", of.Text(""), ends[0])
	for _, c := range records[0] {
		tr.exec("DELETE FROM checks WHERE check_id = '%s'; DELETE FROM violations WHERE id = '%[1]s'", c.ID.Text(""))
	}
	tr.finds(within(0, 0), batch("removed", int(ends[0]), of)) // the beginning
}

// alteredWith are the findings of a check whose row is not as it was.
func (tr *trail) alteredWith(c *spend.Check) []string { return []string{check("altered", c)} }

// TestCutOff shows what only a checkpoint can: a chain without its end, a missing chain, and
// changed rows with every following hash recomputed (G8).
func TestCutOff(t *testing.T) {
	t.Parallel()
	whole := newTrail(t)
	for name, tamper := range map[string]func(tr *trail) []string{
		"the end": func(tr *trail) []string {
			tr.forget(tr.chains[0], tr.last(tr.chains[0]))
			return []string{chainFinding("removed", tr.chains[0])}
		},
		"a whole chain": func(tr *trail) []string {
			tr.forget(tr.chains[1], 1)
			return []string{chainFinding("removed", tr.chains[1])}
		},
		"everything": func(tr *trail) []string {
			tr.forget(tr.chains[0], 1)
			tr.forget(tr.chains[1], 1)
			tr.exec("DELETE FROM policies; DELETE FROM changes")
			return []string{chainFinding("removed", tr.chains[0]), chainFinding("removed", tr.chains[1]), "removed change 3 of the configuration"}
		},
		"rewritten": func(tr *trail) []string {
			of := tr.chains[0]
			tr.exec("UPDATE checks SET request_id = 'someone' WHERE check_id = '%s'", tr.entries(of, 1)[0].ID.Text(""))
			tr.rewrite(of)
			return []string{batch("altered", int(tr.last(of)), of)}
		},
	} {
		whole.alter(t, name, func(tr *trail) {
			want := tamper(tr)
			tr.finds(nil)
			tr.finds(tr.held, want...)
		})
	}
}

// rewrite recomputes all hashes of a chain from its current rows.
func (tr *trail) rewrite(of spend.ID) {
	tr.t.Helper()
	var head spend.Hash
	for seq := int64(1); seq <= tr.last(of); seq++ {
		var raw []byte
		for _, e := range tr.entries(of, seq) {
			row := tr.row(e.ID)
			sum := chain.HashRow(row)
			raw = append(append(raw, e.ID[:]...), sum[:]...)
		}
		head = chain.HashBatch(of, seq, head, raw)
		tr.exec("UPDATE batches SET entries = '\\x%x', head = '\\x%x' WHERE chain_id = '%s' AND seq = %d", raw, head[:], of.Text(""), seq)
	}
}

// row returns a check's row as PostgreSQL sends it.
func (tr *trail) row(id spend.ID) []byte {
	tr.t.Helper()
	var out bytes.Buffer
	columns := strings.ReplaceAll(strings.Join(chain.Checks().Columns(), ","), "amount", "amount::text")
	must.Get(tr.conn.PgConn().CopyTo(tr.t.Context(), &out,
		fmt.Sprintf("COPY (SELECT %s FROM checks WHERE check_id = '%s') TO STDOUT (FORMAT binary)", columns, id.Text(""))))(tr.t)
	const header, trailer = 19, 2
	return out.Bytes()[header : out.Len()-trailer]
}

// TestRowsAreHashedAsStored compares the writer's hash of a row with the hash of the row that the
// database sends.
func TestRowsAreHashedAsStored(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	for _, record := range tr.records {
		for _, c := range record {
			if row := tr.row(c.ID); chain.HashRow(row) != chain.HashCheck(c) {
				t.Errorf("%x\nis sent as\n%x", chain.AppendCheck(nil, c, c.Format()), row)
			}
		}
	}
}

// TestTamperedPolicies alters each column of a policy, and more.
func TestTamperedPolicies(t *testing.T) {
	t.Parallel()
	tr := newTrail(t)
	second := `policy "refunds" version 2`
	for _, column := range tr.columns("policies") {
		to := map[string]string{
			"text": "coalesce(%s, '') || ' '", "jsonb": `coalesce(%s, '{}') || '{"x":1}'`, "integer": "%s + 10", "bigint": "%s + 10",
			"timestamp with time zone": "%s + interval '1 microsecond'",
		}[column[1]]
		want := []string{"altered " + second}
		switch column[0] {
		case "policy_id":
			want = []string{"removed " + second, `inserted policy "refunds " version 2`}
		case "version":
			want = []string{"removed " + second, `inserted policy "refunds" version 12`}
		}
		tr.exec("CREATE TEMPORARY TABLE kept AS SELECT * FROM policies WHERE version = 2")
		tr.exec("UPDATE policies SET %s = %s WHERE version = 2", column[0], fmt.Sprintf(to, column[0]))
		tr.finds(nil, want...)
		tr.exec("DELETE FROM policies WHERE version IN (2, 12); INSERT INTO policies SELECT * FROM kept; DROP TABLE kept")
	}
	tr.finds(tr.held)
	for _, c := range []struct{ tamper, want string }{
		{"DELETE FROM policies WHERE version = 2", "removed " + second},
		{"INSERT INTO policies SELECT policy_id, 4, name, description, rules, metadata, created_at, updated_at, generation FROM policies " +
			"WHERE version = 2", `inserted policy "refunds" version 4`},
		{"UPDATE changes SET head = set_byte(head, 0, 255 - get_byte(head, 0)) WHERE seq = 2", "altered change 2 of the configuration"},
		{"UPDATE changes SET hash = set_byte(hash, 0, 255 - get_byte(hash, 0)) WHERE seq = 2", "altered change 2 of the configuration, altered " +
			second},
		{"DELETE FROM changes WHERE seq = 2", "removed change 2 of the configuration, inserted " + second},
	} {
		tr.exec("CREATE TEMPORARY TABLE kept AS SELECT * FROM policies; CREATE TEMPORARY TABLE links AS SELECT * FROM changes")
		tr.exec("%s", c.tamper)
		tr.finds(nil, strings.Split(c.want, ", ")...)
		tr.exec(`DELETE FROM policies; INSERT INTO policies SELECT * FROM kept; DROP TABLE kept;
			DELETE FROM changes; INSERT INTO changes SELECT * FROM links; DROP TABLE links`)
	}
	// A node's rights alone do not suffice to insert a batch.
	tr.exec("SET session_replication_role = origin")
	if _, err := tr.conn.Exec(t.Context(),
		"INSERT INTO policies SELECT 'mine', 1, name, description, rules, "+
			"metadata, created_at, updated_at, generation FROM policies LIMIT 1"); err == nil {
		t.Error("a policy was inserted without its place in the chain")
	}
}
