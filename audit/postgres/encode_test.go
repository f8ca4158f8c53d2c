package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"spendgate/audit/audittest"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// TestNumeric demands that amounts are kept exactly as the server would keep
// them: equal for every function, comparison and index of SQL.
func TestNumeric(t *testing.T) {
	s := open(t, migrated(t), true)
	f := newFence(t, s)
	for _, text := range []string{
		"0", "1", "9999", "10000", "10001", "99990000", "100000000", "0.1", "0.01", "0.001", "0.0001", "0.00001", "0.00010001",
		"0.000000001", "0.999999999", "1.5", "12345.6789", "10000.0001", "999999999999999999", "100000000000000000.9",
		"9999999999.999999999", "1000000000.000000001", "600.05",
	} {
		c := minimal(f)
		var err error
		if c.Action.Amount, err = spend.ParseAmount(text); err != nil {
			t.Fatal(err)
		}
		must.Do(t, audittest.Record(t.Context(), s, c))
		var kept string
		var same bool
		must.Do(t, s.Reads.QueryRow(t.Context(), "SELECT amount::text, numeric_send(amount) = numeric_send("+text+
			"::numeric) FROM checks WHERE check_id = $1",
			[16]byte(c.ID)).Scan(&kept, &same))
		if kept != text || !same {
			t.Errorf("%s is kept as %s", text, kept)
		}
	}
}

// TestNumericOfTotals: sums are longer than an amount can be.
func TestNumericOfTotals(t *testing.T) {
	for _, text := range []string{
		"0", "0.000000001", "1000000000000000000", "12345678901234567890.000000001", "99999999999999999999999999999",
		"34028236692093846346337460743.5",
	} {
		total, err := spend.ParseTotal(text)
		must.Do(t, err)
		var kept pgtype.Numeric
		w := chain.NewComposite(nil)
		w.Numeric(total, false)
		err = pgtype.NewMap().Scan(pgtype.NumericOID, pgtype.BinaryFormatCode, w.End()[12:], &kept)
		if got, _ := kept.MarshalJSON(); err != nil || string(got) != text {
			t.Errorf("%s is sent as %s, %v", text, got, err)
		}
	}
}

// TestNoAllocation keeps the encoding free of garbage.
func TestNoAllocation(t *testing.T) {
	var batch []*spend.Check
	for range 64 {
		c := minimal(spend.Fence{})
		c.Pass = spend.Pass{ClaimedMS: 1, UntilMS: 2}
		c.Action.IdempotencyKey = c.ID.Text("key-")
		c.Decision.Effect = spend.Block
		batch = append(batch, c)
	}
	link := audittest.Link(1, batch...)
	var p parameters
	var buf []byte
	extra, budgets := &paymentExtra{horizonMS: 60_000}, new(budgetChanges)
	encode := func() {
		p.reset()
		p.commit(callRest, batch[0].Fence, batch, extra, budgets, link)
		var err error
		if buf, err = appendCommit(buf[:0], "", callRest, true, &p); err != nil {
			t.Error(err)
		}
	}
	encode()
	if allocs := testing.AllocsPerRun(100, encode); allocs > 0 {
		t.Errorf("%v allocations for %d rows", allocs, len(batch))
	}
}

// TestCommitAllocations keeps a commit's garbage few things, whatever the rows.
func TestCommitAllocations(t *testing.T) {
	const most = 8
	s := open(t, migrated(t), true)
	f := newFence(t, s)
	for _, rows := range []int{1, 64} {
		batch := make([]*spend.Check, rows)
		const runs = 20
		builder := chain.Builder{Chain: f.Node}
		entries := make([]chain.Entry, rows)
		f.Node = spend.NewID(time.Now())
		renewed := make([]spend.ID, 0, (runs+3)*rows)
		for range cap(renewed) {
			renewed = append(renewed, spend.NewID(time.Now()))
		}
		for i := range batch {
			batch[i] = minimal(f)
			batch[i].Decision.Effect = spend.Block // of no rule: nothing of it is optional for a violation
		}
		commit := func() {
			for i, c := range batch {
				c.ID, renewed = renewed[0], renewed[1:]
				entries[i] = chain.Entry{ID: c.ID}
			}
			link := builder.Next(entries)
			must.Check(t, s.Commit(t.Context(), batch, nil, link))
			builder.Advance(link)
		}
		commit() // on either connection, which grow their buffers
		commit()
		if allocs := testing.AllocsPerRun(runs, commit); allocs > most {
			t.Errorf("%v allocations for a commit of %d rows, want at most %d", allocs, rows, most)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	batch := make([]*spend.Check, 64)
	for i := range batch {
		batch[i] = minimal(spend.Fence{})
		batch[i].ID = spend.NewID(time.Now())
	}
	link := audittest.Link(1, batch...)
	var p parameters
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		p.reset()
		p.commit(0, batch[0].Fence, batch, new(paymentExtra), new(budgetChanges), link)
		buf, _ = appendCommit(buf[:0], "", 0, false, &p)
	}
}
