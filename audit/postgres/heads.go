package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"spendgate/audit/chain"
	"spendgate/audit/postgres/internal/pg"
)

// Heads returns the current ends of all chains, of this node and of all others.
func (s *Store) Heads(ctx context.Context) (chain.Heads, error) {
	// One statement: the changes as they were when the chains were.
	return s.heads(ctx, pg.AllHeads)
}

// headsAt selects the batches at earlier ends of chains, and the change. For a folded batch the
// head is that of the last folded batch, from the signed note.
const headsAt = `SELECT p.chain_id, p.seq, coalesce(b.head, f.head)
	FROM unnest($1::uuid[], $2::bigint[], $3::bytea[]) AS p (chain_id, seq, head)
	LEFT JOIN batches AS b ON b.chain_id = p.chain_id AND b.seq = p.seq
	LEFT JOIN LATERAL (SELECT CASE n.to_seq WHEN p.seq THEN n.head ELSE p.head END AS head FROM folded_chains AS n
		WHERE n.chain_id = p.chain_id AND p.seq BETWEEN n.from_seq AND n.to_seq LIMIT 1) AS f ON true
	WHERE coalesce(b.head, f.head) IS NOT NULL
	UNION ALL SELECT NULL, seq, head FROM changes WHERE seq = $4`

// HeadsAt implements checkpoint.Options.
func (s *Store) HeadsAt(ctx context.Context, then chain.Heads) (chain.Heads, error) {
	chains, seqs, heads := make([][16]byte, len(then.Chains)), make([]int64, len(then.Chains)), make([][]byte, len(then.Chains))
	for i := range then.Chains {
		h := &then.Chains[i]
		chains[i], seqs[i], heads[i] = h.Chain, h.Seq, h.Head[:]
	}
	return s.heads(ctx, headsAt, chains, seqs, heads, then.ChangeSeq)
}

func (s *Store) heads(ctx context.Context, query string, args ...any) (heads chain.Heads, err error) {
	ends, err := collect(ctx, s, "cannot read the heads of the chains", func(row pgx.CollectableRow) (h chain.Head, err error) {
		err = row.Scan(pg.UUID(&h.Chain), &h.Seq, pg.Bytea(&h.Head))
		return h, err
	}, query, args...)
	for _, h := range ends {
		if h.Chain.IsZero() {
			heads.ChangeSeq, heads.ChangeHead = h.Seq, h.Head
		} else {
			heads.Chains = append(heads.Chains, h)
		}
	}
	return heads, err
}
