package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"spendgate/audit/chain"
	"spendgate/hotpath/spend"
)

// lastBatches finds each lane, and its last batch, with a few steps through the
// primary key: how long the lanes are is of no matter.
const lastBatches = `WITH RECURSIVE lanes AS (
		(SELECT lane FROM batches ORDER BY lane LIMIT 1)
		UNION ALL
		SELECT (SELECT b.lane FROM batches AS b WHERE b.lane > l.lane ORDER BY b.lane LIMIT 1) FROM lanes AS l WHERE l.lane IS NOT NULL)
	SELECT l.lane, last.seq, last.head FROM lanes AS l CROSS JOIN LATERAL (
		SELECT seq, head FROM batches AS b WHERE b.lane = l.lane ORDER BY seq DESC LIMIT 1) AS last`

// Heads gives the ends of all chains, of this node and of all others, as they
// are now.
func (s *Store) Heads(ctx context.Context) (heads chain.Heads, err error) {
	// One statement: the policies as they were when the lanes were.
	const query = `SELECT lane, seq, head FROM (` + lastBatches + `) AS lanes
		UNION ALL (SELECT NULL, seq, head FROM policy_chain ORDER BY seq DESC LIMIT 1)`
	_, err = collect(ctx, s, "cannot read the heads of the chains", func(row pgx.CollectableRow) (_ struct{}, err error) {
		var lane *[16]byte
		var h chain.LaneHead
		var head []byte
		if err = row.Scan(&lane, &h.Seq, &head); err != nil {
			return struct{}{}, err
		}
		copy(h.Head[:], head)
		if lane == nil {
			heads.PolicySeq, heads.PolicyHead = h.Seq, h.Head
		} else {
			h.Lane = spend.ID(*lane)
			heads.Lanes = append(heads.Lanes, h)
		}
		return struct{}{}, nil
	}, query)
	return heads, err
}
