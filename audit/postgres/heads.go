package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"spendgate/audit/chain"
)

// lastBatches finds each chain, and its last batch, with a few steps through the
// primary key: how long the chains are is of no matter.
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

// Heads returns the ends of all chains, of this node and of all others, as they
// are now.
func (s *Store) Heads(ctx context.Context) (heads chain.Heads, err error) {
	// One statement: the changes as they were when the chains were.
	ends, err := collect(ctx, s, "cannot read the heads of the chains", func(row pgx.CollectableRow) (h chain.Head, err error) {
		err = row.Scan(uuid(&h.Chain), &h.Seq, bytea(&h.Head))
		return h, err
	}, allHeads)
	for _, h := range ends {
		if h.Chain.IsZero() {
			heads.ChangeSeq, heads.ChangeHead = h.Seq, h.Head
		} else {
			heads.Chains = append(heads.Chains, h)
		}
	}
	return heads, err
}
