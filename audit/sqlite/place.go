package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"spendgate/audit/chain"
	"spendgate/hotpath/spend"
)

// Place returns the batch that lists a check, among those of its chain, and the
// check's entry in it; 0 when there is none.
func (s *Store) Place(ctx context.Context, chainID, check spend.ID) (seq int64, entry chain.Entry, err error) {
	rows, err := s.reader.QueryContext(ctx, "SELECT seq, entries FROM batches WHERE chain_id = ? AND instr(entries, ?) > 0", chainID[:], check[:])
	if err != nil {
		return 0, entry, fmt.Errorf("cannot look up a batch: %w", err)
	}
	defer rows.Close() //nolint:errcheck // only read
	for rows.Next() {
		var at int64
		var raw sql.RawBytes
		if err := rows.Scan(&at, &raw); err != nil {
			return 0, entry, fmt.Errorf("cannot look up a batch: %w", err)
		}
		entries, err := chain.ParseEntries(raw)
		if err != nil {
			continue // it lists nothing that could be read
		}
		for _, e := range entries {
			if e.ID == check {
				seq, entry = at, e
			}
		}
	}
	return seq, entry, errors.Join(rows.Err())
}
