package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"

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
	session.parameters.reset()
	session.parameters.appendCommit(checks, reach, link)
	prepare := !session.prepared || s.statement == ""
	if session.buf, err = appendCommit(session.buf[:0], s.statement, prepare, &session.parameters); err != nil {
		return fmt.Errorf("cannot commit: %w", &audit.RowError{Err: err})
	}
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

// appendCommit adds messages that call commit_checks, a transaction of its own
// that ends with the last of them.
func appendCommit(b []byte, statement string, prepare bool, p *parameters) (_ []byte, err error) {
	if prepare {
		if b, err = (&pgproto3.Parse{Name: statement, Query: commitQuery}).Encode(b); err != nil {
			return nil, err
		}
	}
	bind := pgproto3.Bind{PreparedStatement: statement, ParameterFormatCodes: []int16{pgtype.BinaryFormatCode}, Parameters: p.values}
	if b, err = appendExecution(b, &bind); err != nil {
		return nil, err
	}
	return (&pgproto3.Sync{}).Encode(b)
}

// appendCommit adds the parameters of commit_checks.
func (p *parameters) appendCommit(checks []*spend.Check, horizonMS int64, link chain.Link) {
	fence := checks[0].Fence
	p.bytes(fence.Node[:])
	p.bytes(fence.Epoch[:])
	p.keys(checks)
	p.int64(horizonMS)
	p.int16(audit.RowFormat)
	p.bool(slices.ContainsFunc(checks, (*spend.Check).Violation))
	p.rows(checks)
	p.int64(link.Seq)
	p.int16(chain.Version)
	first, last := link.First(), link.Last()
	p.bytes(first[:])
	p.bytes(last[:])
	p.bytes(link.Entries)
	p.bytes(link.Head[:])
}

// keys adds two arrays: the hashes of the idempotency keys, and the checks that
// have them.
func (p *parameters) keys(checks []*spend.Check) {
	n := 0
	for _, c := range checks {
		if c.Action.IdempotencyKey != "" {
			n++
		}
	}
	b := appendArrayHeader(p.buf, pgtype.ByteaOID, n)
	for _, c := range checks {
		if c.Action.IdempotencyKey != "" {
			hash := spend.HashKey(c.Action.IdempotencyKey)
			b = appendElement(b, hash[:])
		}
	}
	p.add(b)
	b = appendArrayHeader(p.buf, pgtype.UUIDOID, n)
	for _, c := range checks {
		if c.Action.IdempotencyKey != "" {
			b = appendElement(b, c.ID[:])
		}
	}
	p.add(b)
}

// rows adds an array of check_row. Its type's OID differs from schema to schema;
// the server knows it and does not ask for it.
func (p *parameters) rows(checks []*spend.Check) {
	b := appendArrayHeader(p.buf, 0, len(checks))
	for _, c := range checks {
		at := len(b)
		b = appendRow(append(b, 0, 0, 0, 0), c)
		binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	}
	p.add(b)
}
