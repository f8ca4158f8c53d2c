package detach

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
	"spendgate/bench/must"
)

// TestHeadsAt reads the heads that chains have at earlier numbers. Folded batches have the same
// heads as before.
func TestHeadsAt(t *testing.T) {
	l := newLongChain(t)
	p := &audit.Policy{PolicyID: "p", Name: "P", Rules: "[]"}
	for range 2 {
		must.Do(t, l.CreatePolicy(t.Context(), audit.Actor{}, p, audit.NewBudgets{}, l.first))
	}
	rows, _ := l.Reads.Query(t.Context(), "SELECT chain_id, seq, head FROM batches WHERE chain_id = $1 ORDER BY seq", [16]byte(l.fence.Node))
	then := chain.Heads{ChangeSeq: 1}
	var err error
	then.Chains, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (h chain.Head, err error) {
		return h, row.Scan(pg.UUID(&h.Chain), &h.Seq, pg.Bytea(&h.Head))
	})
	if err != nil || len(then.Chains) < 6 {
		t.Fatalf("%v, %v", then, err)
	}
	same := func(want []chain.Head) {
		t.Helper()
		now, err := l.HeadsAt(t.Context(), then)
		slices.SortFunc(now.Chains, func(a, b chain.Head) int { return int(a.Seq - b.Seq) })
		if err != nil || !slices.Equal(now.Chains, want) || now.ChangeSeq != 1 || now.ChangeHead == (spend.Hash{}) {
			t.Errorf("%+v, %v, want %+v", now, err, want)
		}
	}
	same(then.Chains)
	was := slices.Clone(then.Chains)
	for i := range then.Chains {
		then.Chains[i].Head = spend.Hash{byte(i)} // the database's heads are returned, whatever the caller's are
	}
	then.Chains = append(then.Chains, chain.Head{Chain: l.fence.Node, Seq: 99}, chain.Head{Chain: spend.ID{9}, Seq: 1})
	same(was)
	if _, found, err := l.fold(t, nil); err != nil || len(found) > 0 {
		t.Fatal(found, err)
	}
	folded := slices.Clone(was)
	s := l.snapshot(t)
	defer s.Close()
	ends := make(map[int64]bool)
	must.Do(t, s.Folds(t.Context(), func(f verify.Fold) error {
		ends[f.To] = ends[f.To] || f.Chain == l.fence.Node
		return nil
	}))
	for i := range folded[:len(folded)-1] {
		if !ends[folded[i].Seq] {
			folded[i].Head = then.Chains[i].Head // nothing here tells otherwise
		}
	}
	same(folded)
}
