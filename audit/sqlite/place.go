package sqlite

import (
	"context"

	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// Place returns the batch that lists a check, among the batches of its chain, and the
// check's entry in it; 0 when there is none.
func (s *Store) Place(ctx context.Context, chainID, check spend.ID) (seq int64, entry chain.Entry, err error) {
	_, err = collect(ctx, s.reader, "cannot look up a batch", func(row scanner) (_ struct{}, err error) {
		var at int64
		var encoded []byte
		err = row.Scan(&at, &encoded)
		entries, _ := chain.ParseEntries(encoded) // an unreadable batch lists nothing
		for _, e := range entries {
			if e.ID == check {
				seq, entry = at, e
			}
		}
		return struct{}{}, err
	}, "SELECT seq, entries FROM batches WHERE chain_id = ? AND instr(entries, ?) > 0", chainID[:], check[:])
	return seq, entry, err
}
