package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/hotpath/spend"
)

// Commit implements audit.Trail: one buffer, one wait.
func (s *Store) Commit(ctx context.Context, checks []*spend.Check, outcomes []*spend.Outcome, link chain.Link) error {
	if len(checks)+len(outcomes) == 0 {
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
	corrected := audit.CounterChanges(checks, outcomes)
	changes := takes(corrected)
	newPrincipals := s.newPrincipals(changes)
	refusals := slices.DeleteFunc(audit.Refusals(checks), func(ch audit.CounterChange) bool { return s.refusals.has(ch.Counter) })
	session.parameters.fence(fenceOf(checks, outcomes))
	session.parameters.appendCommit(checks, changes, newPrincipals, reach)
	session.parameters.outcomes(outcomes)
	session.parameters.corrections(corrected)
	session.parameters.changes(refusals)
	session.parameters.link(link)
	prepare := !session.prepared || s.statement == ""
	if session.buf, err = appendCommit(session.buf[:0], s.statement, prepare, &session.parameters); err != nil {
		return fmt.Errorf("cannot commit: %w", &audit.RowError{Err: err})
	}
	if _, err := session.exchange(ctx, 1); err != nil {
		if refused, ok := errors.AsType[*noRoomError](err); ok {
			err = refused.exceeded(changes)
		}
		return fmt.Errorf("cannot commit: %w", err)
	}
	for _, one := range newPrincipals {
		s.principals.add(one)
	}
	for i := range refusals {
		s.refusals.add(refusals[i].Counter)
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
const commitQuery = "SELECT commit_checks($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19,$20,$21,$22,$23,$24)"

// appendCommit adds messages that call commit_checks, a transaction of its own
// that ends with the last of them.
func appendCommit(b []byte, statement string, prepare bool, p *parameters) (_ []byte, err error) {
	if prepare {
		if b, err = (&pgproto3.Parse{Name: statement, Query: commitQuery}).Encode(b); err != nil {
			return nil, err
		}
	}
	bind := pgproto3.Bind{PreparedStatement: statement, ParameterFormatCodes: []int16{pgtype.BinaryFormatCode}, Parameters: p.values}
	if b, err = bind.Encode(b); err != nil {
		return nil, fmt.Errorf("cannot encode parameters: %w", err)
	}
	if b, err = (&pgproto3.Execute{}).Encode(b); err != nil {
		return nil, err
	}
	return (&pgproto3.Sync{}).Encode(b)
}

// appendCommit adds the parameters of commit_checks that are of checks.
func (p *parameters) appendCommit(checks []*spend.Check, changes []audit.CounterChange, principals []counterPrincipal, horizonMS int64) {
	p.keys(checks)
	p.int64(horizonMS)
	p.int16(audit.RowFormat)
	p.bool(slices.ContainsFunc(checks, (*spend.Check).Violation))
	p.rows(checks)
	p.changes(changes)
	p.principals(principals)
	p.approvals(checks)
}

// fence adds that under which the commit is made.
func (p *parameters) fence(fence spend.Fence) {
	p.bytes(fence.Node[:])
	p.bytes(fence.Epoch[:])
}

// link adds what the commit adds to its chain.
func (p *parameters) link(link chain.Link) {
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
	keyed := func(c *spend.Check) bool { return c.Action.IdempotencyKey != "" }
	array(p, pgtype.ByteaOID, checks, keyed, func(b []byte, c *spend.Check) []byte {
		hash := spend.HashKey(c.Action.IdempotencyKey)
		return append(b, hash[:]...)
	})
	array(p, pgtype.UUIDOID, checks, keyed, appendID)
}

func appendID(b []byte, c *spend.Check) []byte { return append(b, c.ID[:]...) }

// rows adds an array of check_row. Its type's OID differs from schema to schema;
// the server knows it and does not ask for it.
func (p *parameters) rows(checks []*spend.Check) { array(p, 0, checks, nil, appendRow) }

// approvals adds three arrays of the checks that use approvals: the checks, the
// approvals and the hashes of the actions; and whether some check asks for one.
func (p *parameters) approvals(checks []*spend.Check) {
	array(p, pgtype.UUIDOID, checks, (*spend.Check).UsesApproval, appendID)
	array(p, pgtype.UUIDOID, checks, (*spend.Check).UsesApproval, func(b []byte, c *spend.Check) []byte { return append(b, c.Action.ApprovalID[:]...) })
	array(p, pgtype.ByteaOID, checks, (*spend.Check).UsesApproval, func(b []byte, c *spend.Check) []byte {
		hash := spend.ActionHash(c)
		return append(b, hash[:]...)
	})
	p.bool(slices.ContainsFunc(checks, func(c *spend.Check) bool { return c.Approval != nil }))
}

// principals adds two arrays: counters, and whose checks each met.
func (p *parameters) principals(principals []counterPrincipal) {
	array(p, pgtype.UUIDOID, principals, nil, func(b []byte, c counterPrincipal) []byte { return append(b, c.counter[:]...) })
	array(p, pgtype.TextOID, principals, nil, func(b []byte, c counterPrincipal) []byte { return append(b, c.principal...) })
}

// changeFields is how many fields the type counter_change has.
const changeFields = 15

// changes adds an array of counter_change.
func (p *parameters) changes(changes []audit.CounterChange) { array(p, 0, changes, nil, appendChange) }

// appendChange adds a counter_change, a composite value in the binary format.
func appendChange(b []byte, c audit.CounterChange) []byte {
	b = binary.BigEndian.AppendUint32(b, changeFields)
	b = appendField(b, pgtype.UUIDOID, c.ID[:])
	b = appendInt64(appendInt64(b, c.StartMS), c.BucketMS)
	if c.EndMS == 0 {
		b = appendNull(b, pgtype.Int8OID)
	} else {
		b = appendInt64(b, c.EndMS)
	}
	b = appendInt64(b, c.Count)
	if c.Counted {
		b = appendInt64(b, c.MostCount)
	} else {
		b = appendNull(b, pgtype.Int8OID)
	}
	b = appendInt32(b, int32(c.Since))
	b = appendTotal(b, c.Used)
	if c.Limited {
		b = appendTotal(b, c.MostUsed)
	} else {
		b = appendNull(b, pgtype.NumericOID)
	}
	b = appendText(b, c.PolicyID)
	b = appendText(b, c.RuleID)
	b = appendText(b, c.Subject)
	b = appendOptional(b, c.Charge.AgentID)
	if c.Charge.Counted {
		b = appendInt64(b, c.Charge.MaxCount)
	} else {
		b = appendNull(b, pgtype.Int8OID)
	}
	if c.Charge.Limited {
		return appendNumeric(b, c.Charge.Limit)
	}
	return appendNull(b, pgtype.NumericOID)
}
