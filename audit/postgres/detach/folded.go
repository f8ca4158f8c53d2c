package detach

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
)

// lastFolded returns the last day whose batches were folded; zero if there is none.
func (d *days) lastFolded(ctx context.Context) (day time.Time, err error) {
	var last *time.Time
	if err = d.conn.QueryRow(ctx, "SELECT max(day) FROM folded_chains").Scan(&last); err != nil {
		return day, fmt.Errorf("cannot tell which batches were folded: %w", err)
	}
	if last != nil {
		day = *last
	}
	return day, nil
}

// foldedHeads returns the heads of the last folded batches, by chain.
func (d *days) foldedHeads(ctx context.Context) (map[spend.ID]spend.Hash, error) {
	heads := make(map[spend.ID]spend.Hash)
	var chainID spend.ID
	var head spend.Hash
	rows, _ := d.conn.Query(ctx, "SELECT DISTINCT ON (chain_id) chain_id, head FROM folded_chains ORDER BY chain_id, to_seq DESC")
	// the rows return the error of Query
	_, err := pgx.ForEachRow(rows, []any{pg.UUID(&chainID), pg.Bytea(&head)}, func() error {
		heads[chainID] = head
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the folded heads: %w", err)
	}
	return heads, nil
}

// foldable returns the batches that can leave with a day.
func (d *days) foldable(ctx context.Context, one day) (spans []foldSpan, err error) {
	var s foldSpan
	rows, _ := d.conn.Query(ctx, "SELECT chain_id, from_seq, to_seq, low FROM foldable_batches($1) ORDER BY chain_id", one.date)
	// the rows return the error of Query
	_, err = pgx.ForEachRow(rows, []any{pg.UUID(&s.Chain), &s.From, &s.To, pg.UUID(&s.low)}, func() error {
		spans = append(spans, s)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot tell which batches can leave: %w", err)
	}
	return spans, nil
}

// batchesAtOnce bounds how many batches one query reads.
const batchesAtOnce = 10_000

// selectFolded selects batches in the form of an archive, with the texts of the outcomes that they
// list.
const selectFolded = `SELECT b.chain_id, b.seq, b.version, b.first_id, b.last_id, b.head, b.entries, (
		SELECT json_agg(json_build_array(replace(o.outcome_id::text, '-', ''),
			CASE WHEN o.payment IS NULL THEN o.reference END, o.note) ORDER BY o.outcome_id)::text
		FROM generate_series(1, octet_length(b.entries) - 15, 48) AS at
		JOIN outcomes AS o ON o.outcome_id = encode(substring(b.entries FROM at FOR 16), 'hex')::uuid
		WHERE get_byte(b.entries, at + 5) >> 4 = 8 AND (o.reference IS NOT NULL AND o.payment IS NULL OR o.note IS NOT NULL))
	FROM batches AS b WHERE b.chain_id = '%s' AND b.seq BETWEEN %d AND %d ORDER BY b.seq`

// batches reads spans of chains, piece by piece.
func (d *days) batches(ctx context.Context, spans []foldSpan) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, s := range spans {
			for at := s.From; at <= s.To; at += batchesAtOnce {
				query := fmt.Sprintf(selectFolded, s.Chain.Text(""), at, min(s.To, at+batchesAtOnce-1))
				if !d.copyRows(ctx, "batches", query, yield) {
					return
				}
			}
		}
	}
}

// countChecks counts the checks of all existing batches.
func (d *days) countChecks(ctx context.Context) error {
	for complete := false; !complete; {
		begun := time.Now()
		_, all, err := pg.CountSome(ctx, d.conn, "SELECT count_checks($1)")
		if err != nil {
			return fmt.Errorf("cannot count checks: %w", err)
		}
		if complete = all; complete {
			return nil
		}
		if err := pg.Rest(ctx, begun); err != nil {
			return err
		}
	}
	return nil
}

// foldChains notes the folds and deletes their batches in one transaction.
func (d *days) foldChains(ctx context.Context, one day, manifest spend.Hash, folds []verify.Fold) error {
	chains, from, to, entries := make([][16]byte, len(folds)), make([]int64, len(folds)), make([]int64, len(folds)), make([]int64, len(folds))
	previous, heads, signatures := make([][]byte, len(folds)), make([][]byte, len(folds)), make([][]byte, len(folds))
	var batches, deleted int64
	for i, f := range folds {
		chains[i], from[i], to[i], entries[i] = f.Chain, f.From, f.To, f.Entries
		previous[i], heads[i], signatures[i] = f.Previous[:], f.Head[:], f.Signature
		batches += f.To - f.From + 1
	}
	err := pgx.BeginFunc(ctx, d.conn, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `SELECT fold_chains($1, $2, ARRAY(
				SELECT ROW(f.chain_id, f.from_seq, f.to_seq, f.previous, f.head, f.entries, $1::date, $2::bytea, f.signature, now())::folded_chains
				FROM unnest($3::uuid[], $4::bigint[], $5::bigint[], $6::bytea[], $7::bytea[], $8::bigint[], $9::bytea[])
					AS f (chain_id, from_seq, to_seq, previous, head, entries, signature)))`,
			one.date, manifest[:], chains, from, to, previous, heads, entries, signatures).Scan(&deleted)
		if err == nil && deleted != batches {
			err = fmt.Errorf("%d batches were deleted, and the archive has %d", deleted, batches)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot fold: %w", err)
	}
	return nil
}

// vacuumFolded removes deleted rows, and the emptied texts of outcomes, from pages and indexes.
// TRUNCATE would stop commits.
func (d *days) vacuumFolded(ctx context.Context) error {
	if _, err := d.conn.Exec(ctx, "VACUUM (TRUNCATE false) batches, outcomes"); err != nil {
		return fmt.Errorf("cannot vacuum batches and outcomes: %w", err)
	}
	return nil
}

// NotFolded counts batches that list nothing of a given day or later, and yet remain.
type NotFolded struct {
	Last   int64 // because they are the last of their chains
	Behind int64 // because they follow a batch that lists something later
}

// notFolded counts the batches that list only what is before a date and remain.
func (d *days) notFolded(ctx context.Context, before time.Time) (u NotFolded, err error) {
	err = d.conn.QueryRow(ctx, `SELECT count(*) FILTER (WHERE last), count(*) FILTER (WHERE NOT last) FROM (
			SELECT NOT EXISTS (SELECT FROM batches AS n WHERE n.chain_id = b.chain_id AND n.seq > b.seq) AS last
			FROM batches AS b WHERE b.last_id < $1) AS old`, [16]byte(audit.FirstID(before.UnixMilli()))).Scan(&u.Last, &u.Behind)
	if err != nil {
		err = fmt.Errorf("cannot count the batches that are left: %w", err)
	}
	return u, err
}
