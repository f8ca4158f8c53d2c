package snapshot

import (
	"bytes"
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"spendgate/audit/chain"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
)

const batchColumns = "chain_id, seq, version, first_id, last_id, head, entries"

// Batches implements verify.Evidence.
func (s *Snapshot) Batches(ctx context.Context, r verify.Range, each func(verify.Batch) error) error {
	return s.batches(ctx, each, "SELECT "+batchColumns+" FROM {schema}.batches WHERE first_id <= $2 AND last_id >= $1",
		[16]byte(r.Low), [16]byte(r.High))
}

// Chain implements verify.Evidence.
func (s *Snapshot) Chain(ctx context.Context, chainID spend.ID, from, to int64, each func(verify.Batch) error) error {
	return s.batches(ctx, each, "SELECT "+batchColumns+" FROM {schema}.batches WHERE chain_id = $1 AND seq BETWEEN $2 AND $3 ORDER BY seq",
		[16]byte(chainID), from, to)
}

func (s *Snapshot) batches(ctx context.Context, each func(verify.Batch) error, query string, args ...any) error {
	return s.read(ctx, "batches", func(ctx context.Context, tx pgx.Tx) error {
		var b verify.Batch
		return stream(ctx, tx, []any{pg.UUID(&b.Chain), &b.Seq, &b.Version, pg.UUID(&b.First), pg.UUID(&b.Last), &b.Head, &b.Entries},
			func() error { return each(b) }, s.in(query), args...)
	})
}

// stream scans rows one after the other.
func stream(ctx context.Context, tx pgx.Tx, into []any, each func() error, query string, args ...any) error {
	rows, _ := tx.Query(ctx, query, args...) // the rows return its error
	_, err := pgx.ForEachRow(rows, into, each)
	return err
}

// selectChains looks for gaps in all chains, with their index alone: the removed batches may be all
// that a chain had in the range. A gap covers the whole time between the batches beside it; a
// chain's identifier tells when it began.
const selectChains = `WITH gaps AS MATERIALIZED (
		SELECT chain_id, before, seq FROM (
			SELECT chain_id, seq, lag(seq, 1, 0) OVER (PARTITION BY chain_id ORDER BY seq) AS before FROM {schema}.batches) AS steps
		WHERE seq > before + 1
	), found AS (
		SELECT chain_id, seq FROM {schema}.batches WHERE first_id <= $2 AND last_id >= $1
		UNION ALL
		SELECT g.chain_id, beside.seq FROM gaps AS g JOIN {schema}.batches AS b ON b.chain_id = g.chain_id AND b.seq = g.seq
			LEFT JOIN {schema}.batches AS a ON a.chain_id = g.chain_id AND a.seq = g.before
			CROSS JOIN LATERAL (VALUES (a.seq), (b.seq)) AS beside (seq)
		WHERE coalesce(a.first_id, g.chain_id) <= $2 AND b.last_id >= $1 AND beside.seq IS NOT NULL)
	SELECT chain_id, min(seq), max(seq) FROM found GROUP BY chain_id ORDER BY chain_id`

// Chains implements verify.Evidence.
func (s *Snapshot) Chains(ctx context.Context, r verify.Range) (spans []verify.ChainSpan, err error) {
	err = s.read(ctx, "the chains", func(ctx context.Context, tx pgx.Tx) error {
		var span verify.ChainSpan
		return stream(ctx, tx, []any{pg.UUID(&span.Chain), &span.From, &span.To}, func() error {
			spans = append(spans, span)
			return nil
		}, s.in(selectChains), [16]byte(r.Low), [16]byte(r.High))
	})
	return spans, err
}

// Heads implements verify.Evidence.
func (s *Snapshot) Heads(ctx context.Context, places []verify.Place) (map[verify.Place]spend.Hash, map[spend.ID]int64, error) {
	heads := make(map[verify.Place]spend.Hash, len(places))
	latest := make(map[spend.ID]int64)
	chains, seqs := make([][16]byte, len(places)), make([]int64, len(places))
	for i, p := range places {
		chains[i], seqs[i] = p.Chain, p.Seq
	}
	err := s.read(ctx, "the heads of a checkpoint", func(ctx context.Context, tx pgx.Tx) error {
		var p verify.Place
		var last *int64
		var head []byte
		return stream(ctx, tx, []any{pg.UUID(&p.Chain), &p.Seq, &head, &last}, func() error {
			if last != nil {
				latest[p.Chain] = *last
			}
			if len(head) == len(spend.Hash{}) {
				heads[p] = spend.Hash(head)
			}
			return nil
		}, s.in(`SELECT p.chain_id, p.seq, b.head, (
				SELECT latest.seq FROM {schema}.batches AS latest WHERE latest.chain_id = p.chain_id ORDER BY latest.seq DESC LIMIT 1)
			FROM unnest($1::uuid[], $2::bigint[]) AS p (chain_id, seq)
			LEFT JOIN {schema}.batches AS b ON b.chain_id = p.chain_id AND b.seq = p.seq`),
			chains, seqs)
	})
	return heads, latest, err
}

// Folds implements verify.Evidence.
func (s *Snapshot) Folds(ctx context.Context, each func(verify.Fold) error) error {
	return s.read(ctx, "what was folded of the chains", func(ctx context.Context, tx pgx.Tx) error {
		var f verify.Fold
		return stream(ctx, tx, []any{
			pg.UUID(&f.Chain), &f.From, &f.To, pg.Bytea(&f.Previous), pg.Bytea(&f.Head), &f.Entries, &f.Day,
			pg.Bytea(&f.Manifest), &f.Signature, pg.UTC(&f.At),
		}, func() error {
			one := f
			one.Signature = bytes.Clone(f.Signature)
			return each(one)
		}, s.in(`SELECT chain_id, from_seq, to_seq, previous, head, entries, (day - date '1970-01-01')::bigint, manifest_sha256,
			signature, folded_at
			FROM {schema}.folded_chains ORDER BY chain_id, to_seq`))
	})
}

// AllHeads returns the ends of all chains.
func (s *Snapshot) AllHeads(ctx context.Context) (heads chain.Heads, err error) {
	err = s.read(ctx, "the heads of the chains", func(ctx context.Context, tx pgx.Tx) error {
		var h chain.Head
		return stream(ctx, tx, []any{pg.UUID(&h.Chain), &h.Seq, pg.Bytea(&h.Head)}, func() error {
			if h.Chain.IsZero() {
				heads.ChangeSeq, heads.ChangeHead = h.Seq, h.Head
			} else {
				heads.Chains = append(heads.Chains, h)
			}
			return nil
		}, s.in(strings.NewReplacer("FROM batches", "FROM {schema}.batches", "FROM changes", "FROM {schema}.changes").Replace(pg.AllHeads)))
	})
	return heads, err
}
