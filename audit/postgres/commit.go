package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/hotpath/spend"
)

// Commit implements audit.Trail: one buffer, one wait.
func (s *Store) Commit(ctx context.Context, checks []*spend.Check, link chain.Link) error {
	if len(checks) == 0 {
		return nil
	}
	for _, c := range checks {
		if err := encodable(c); err != nil {
			return err
		}
	}
	session, err := s.writers.take(ctx)
	if err != nil {
		return fmt.Errorf("cannot commit: %w", err)
	}
	defer s.writers.give(session)
	reach := horizon(checks)
	if reach <= s.horizonMS.Load() {
		reach = 0
	}
	session.buf = session.buf[:0]
	if !session.prepared || s.statement == "" {
		session.buf = appendParse(session.buf, s.statement, commitQuery)
	}
	session.buf = appendCommit(session.buf, s.statement, checks, reach, link)
	if _, err := session.exchange(ctx, 1); err != nil {
		return fmt.Errorf("cannot commit: %w", err)
	}
	for known := s.horizonMS.Load(); reach > known && !s.horizonMS.CompareAndSwap(known, reach); {
		known = s.horizonMS.Load()
	}
	return nil
}

// horizon is how far beyond its identifier's millisecond a pass of the checks
// is live, in whole minutes, rounded up: so that the table horizon is raised
// for a longer window, not for every jitter between two clocks.
func horizon(checks []*spend.Check) int64 {
	const minute = 60_000
	var most int64
	for _, c := range checks {
		if c.Pass.Passed() {
			most = max(most, c.Pass.UntilMS-c.ID.Time().UnixMilli())
		}
	}
	return (most + minute - 1) / minute * minute
}

// commitQuery is prepared with the first commit of a connection.
const commitQuery = "SELECT commit_checks($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14)"

// appendCommit adds the call of commit_checks, a transaction of its own.
func appendCommit(b []byte, statement string, checks []*spend.Check, reach int64, link chain.Link) []byte {
	fence := checks[0].Fence
	b, bind := openBind(b, statement, 14)
	b = appendParameter(b, fence.Node[:])
	b = appendParameter(b, fence.Epoch[:])
	b = appendKeys(b, checks)
	b = binary.BigEndian.AppendUint64(append(b, 0, 0, 0, 8), uint64(reach))
	b = append(b, 0, 0, 0, 2, 0, audit.RowFormat)
	b = append(b, 0, 0, 0, 1, 0)
	if slices.ContainsFunc(checks, (*spend.Check).Violation) {
		b[len(b)-1] = 1
	}
	b, rows := openArray(b, 0, len(checks))
	for _, c := range checks {
		var row int
		b, row = openValue(b)
		b = closeValue(appendRow(b, c), row)
	}
	return closeBind(appendLink(closeValue(b, rows), link), bind)
}

// appendLink adds the parameters of the batch's place in the node's chain.
func appendLink(b []byte, link chain.Link) []byte {
	first, last := link.First(), link.Last()
	b = binary.BigEndian.AppendUint64(append(b, 0, 0, 0, 8), uint64(link.Seq))
	b = append(b, 0, 0, 0, 2, 0, chain.Version)
	b = appendParameter(b, first[:])
	b = appendParameter(b, last[:])
	b = appendParameter(b, link.Entries)
	return appendParameter(b, link.Head[:])
}

// appendKeys adds two arrays: the hashes of the idempotency keys, and the
// checks that have them.
func appendKeys(b []byte, checks []*spend.Check) []byte {
	n := 0
	for _, c := range checks {
		if c.Action.IdempotencyKey != "" {
			n++
		}
	}
	b, array := openArray(b, typeBytes, n)
	for _, c := range checks {
		if c.Action.IdempotencyKey != "" {
			hash := spend.HashKey(c.Action.IdempotencyKey)
			b = appendParameter(b, hash[:])
		}
	}
	b, array = openArray(closeValue(b, array), typeUUID, n)
	for _, c := range checks {
		if c.Action.IdempotencyKey != "" {
			b = appendParameter(b, c.ID[:])
		}
	}
	return closeValue(b, array)
}
