package violations

import (
	"context"
	_ "embed"
)

//go:embed write.sql
var prepareWrites string

// write is what a violation costs those who write it: with an index of agents
// beside the primary key, and with all indexes that listings need.
type write struct {
	Violations int     `json:"violations_in_the_table"`
	Batch      int     `json:"violations_a_batch"`
	Batches    int     `json:"batches"`
	FewUS      float64 `json:"few_indexes_us_per_violation"` // medians
	AllUS      float64 `json:"all_indexes_us_per_violation"`
	FewBytes   float64 `json:"few_indexes_bytes_per_violation"` // on disk
	AllBytes   float64 `json:"all_indexes_bytes_per_violation"`
}

// measureWrites leaves the violations as they are.
func (b *bench) measureWrites(ctx context.Context) error {
	w := write{Batch: 20, Batches: 5000}
	if _, err := b.db.PgConn().Exec(ctx, prepareWrites).ReadAll(); err != nil {
		return err
	}
	for _, statement := range []string{"VACUUM ANALYZE few, every", "CHECKPOINT"} {
		if _, err := b.db.Exec(ctx, statement); err != nil {
			return err
		}
	}
	if _, err := b.db.Exec(ctx, "CALL compare($1, $2)", w.Batches, w.Batch); err != nil {
		return err
	}
	err := b.db.QueryRow(ctx, `SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY few), percentile_cont(0.5) WITHIN GROUP (ORDER BY every),
		n, pg_total_relation_size('few')::float8 / n, pg_total_relation_size('every')::float8 / n
		FROM took, (SELECT count(*) AS n FROM few) AS f GROUP BY n`).
		Scan(&w.FewUS, &w.AllUS, &w.Violations, &w.FewBytes, &w.AllBytes)
	if err != nil {
		return err
	}
	b.report.Write = w
	_, err = b.db.Exec(ctx, "DROP TABLE few, every, took CASCADE")
	return err
}
