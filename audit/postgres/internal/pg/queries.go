package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"spendgate/audit/pause"
)

// ReadOnly are the options of a transaction that reads one moment.
func ReadOnly() pgx.TxOptions {
	return pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
}

// lastBatches finds each chain and its last batch with a few steps through the primary key, however
// long the chains are.
const lastBatches = `WITH RECURSIVE chains AS (
		(SELECT chain_id FROM batches ORDER BY chain_id LIMIT 1)
		UNION ALL
		SELECT (SELECT b.chain_id FROM batches AS b WHERE b.chain_id > c.chain_id ORDER BY b.chain_id LIMIT 1) FROM chains AS c
		WHERE c.chain_id IS NOT NULL)
	SELECT c.chain_id, last.seq, last.head FROM chains AS c CROSS JOIN LATERAL (
		SELECT seq, head FROM batches AS b WHERE b.chain_id = c.chain_id ORDER BY seq DESC LIMIT 1) AS last`

// AllHeads are the last batches and, as a row of no chain, the last change.
const AllHeads = `SELECT chain_id, seq, head FROM (` + lastBatches + `) AS chains
	UNION ALL (SELECT NULL, seq, head FROM changes ORDER BY seq DESC LIMIT 1)`

const (
	// CountedAtOnce bounds a step of CountViolations to some 5 ms of processor time, for which
	// commits of checks may have to wait.
	CountedAtOnce = 1000
	countTimeout  = time.Minute
)

// CountSome takes a step, unless another session is at it.
func CountSome(ctx context.Context, conn *pgx.Conn, query string) (done, complete bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	var all *bool
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, query, CountedAtOnce).Scan(&all)
	})
	if refused, is := errors.AsType[*pgconn.PgError](err); is && refused.Code == CodeSerialization {
		return false, false, nil // another was first
	}
	return all != nil, all != nil && *all, err
}

// SequencedAtOnce bounds a step of sequencing to some milliseconds, because other readers of the
// feed wait for it.
const SequencedAtOnce = 1000

// SequenceEvents numbers the events committed so far.
func SequenceEvents(ctx context.Context, db *pgx.Conn) error {
	for complete := false; !complete; {
		if err := db.QueryRow(ctx, "SELECT sequence_events($1)", SequencedAtOnce).Scan(&complete); err != nil {
			return fmt.Errorf("cannot number events: %w", err)
		}
	}
	return nil
}

// Rest pauses for as long as the last step took, so that others can use the database.
func Rest(ctx context.Context, begun time.Time) error {
	return pause.For(ctx, time.Since(begun))
}
