package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"spendgate/audit/chain"
)

// lastBatches finds each chain and its last batch with a few steps through the primary key, however
// long the chains are.
const lastBatches = `WITH RECURSIVE chains AS (
		(SELECT chain_id FROM batches ORDER BY chain_id LIMIT 1)
		UNION ALL
		SELECT (SELECT b.chain_id FROM batches AS b WHERE b.chain_id > c.chain_id ORDER BY b.chain_id LIMIT 1) FROM chains AS c
		WHERE c.chain_id IS NOT NULL)
	SELECT c.chain_id, last.seq, last.head FROM chains AS c CROSS JOIN LATERAL (
		SELECT seq, head FROM batches AS b WHERE b.chain_id = c.chain_id ORDER BY seq DESC LIMIT 1) AS last`

// allHeads are the last batches and, as a row of no chain, the last change.
const allHeads = `SELECT chain_id, seq, head FROM (` + lastBatches + `) AS chains
	UNION ALL (SELECT NULL, seq, head FROM changes ORDER BY seq DESC LIMIT 1)`

// Heads returns the current ends of all chains, of this node and of all others.
func (s *Store) Heads(ctx context.Context) (chain.Heads, error) {
	// One statement: the changes as they were when the chains were.
	return s.heads(ctx, allHeads)
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
		err = row.Scan(uuid(&h.Chain), &h.Seq, bytea(&h.Head))
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
