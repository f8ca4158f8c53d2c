package postgres

import (
	"context"
	"encoding/binary"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// released is whether check c, or the use of its approval, was given back by the last report, or
// whether the expiry of its approval is recorded. Inside an expression the planner looks up each
// check, however many outcomes it expects.
const released = `(CASE WHEN c.approval IS NOT NULL THEN EXISTS (
	SELECT FROM changes AS e WHERE e.subject = name_approval(c.check_id) AND e.kind = 'approval.expired') ELSE false END
	OR coalesce((SELECT bool_or(o.release = 'd' AND o.status <> 'x') FROM outcomes AS o WHERE o.check_id IN (c.check_id,
	CASE WHEN c.approval IS NOT NULL THEN (SELECT u.check_id FROM approval_uses AS u WHERE u.approval_id = c.check_id) END)
	AND o.step = (SELECT max(l.step) FROM outcomes AS l WHERE l.check_id = o.check_id)), false))`

// PassStates implements audit.Passes.
func (s *Store) PassStates(ctx context.Context, ids []spend.ID) (map[spend.ID]audit.PassState, error) {
	states := make(map[spend.ID]audit.PassState, len(ids))
	if len(ids) == 0 {
		return states, nil
	}
	_, err := collect(ctx, s, "cannot look up passes", func(row pgx.CollectableRow) (_ struct{}, err error) {
		var id spend.ID
		var f audit.PassFacts
		err = row.Scan(uuid(&id), &f.Allowed, &f.Asks, &f.Released, &f.Overdue)
		states[id] = f.State()
		return struct{}{}, err
	}, "SELECT c.check_id, c.decision = 'a', c.approval IS NOT NULL, c.claimed_ms IS NULL OR "+released+`,
		CASE WHEN c.approval IS NOT NULL THEN EXISTS (
			SELECT FROM approval_deadlines AS d WHERE d.approval_id = c.check_id AND d.at <= clock_timestamp()) ELSE false END
		FROM checks AS c WHERE c.check_id = ANY ($1::uuid[])`, uuids(ids))
	return states, err
}

// Outcomes implements audit.Trail.
func (s *Store) Outcomes(ctx context.Context, checkIDs []spend.ID) ([]*spend.Outcome, error) {
	if len(checkIDs) == 0 {
		return nil, nil
	}
	return collect(ctx, s, "cannot look up outcomes", scanOutcome, "SELECT "+columnList(chain.OutcomeColumns())+
		" FROM outcomes WHERE check_id = ANY ($1::uuid[]) ORDER BY check_id, step",
		pgx.QueryResultFormats{pgx.BinaryFormatCode}, uuids(checkIDs))
}

func scanOutcome(row pgx.CollectableRow) (*spend.Outcome, error) {
	return chain.OutcomeOf(row.RawValues())
}

// appendOutcome adds an outcome_row, a composite value in the binary format.
func appendOutcome(b []byte, o *spend.Outcome) []byte {
	b = binary.BigEndian.AppendUint32(b, 17) // fields
	b = appendField(b, pgtype.UUIDOID, o.ID[:])
	b = appendField(b, pgtype.UUIDOID, o.CheckID[:])
	b = appendInt16(appendInt16(b, o.Step), o.Number)
	b = appendLetter(b, chain.StatusLetter(o.Status))
	b = appendLetter(b, chain.ReleaseLetter(o.Release))
	if o.Excess == "" {
		b = appendNull(b, pgtype.QCharOID)
	} else {
		b = appendLetter(b, chain.ExcessLetter(o.Excess))
	}
	if o.Status == spend.Executed {
		b = appendNumeric(b, o.Amount.Total())
	} else {
		b = appendNull(b, pgtype.NumericOID)
	}
	b = appendOptional(b, o.Reference)
	b = appendOptional(b, o.Note)
	b = appendText(b, o.KeyID)
	b = appendOptional(b, o.Principal)
	b = appendText(b, o.RequestID)
	b = appendBool(b, o.MayRelease)
	b = appendHash(appendHash(b, o.Replay), o.Once)
	if o.RedeemBy.IsZero() {
		return appendNull(b, pgtype.Int8OID)
	}
	return appendInt64(b, o.RedeemBy.UnixMilli())
}

func appendInt16(b []byte, n int) []byte {
	return binary.BigEndian.AppendUint16(append(b, 0, 0, 0, pgtype.Int2OID, 0, 0, 0, 2), uint16(n))
}

// appendHash adds a hash; null when it is zero.
func appendHash(b []byte, h spend.Hash) []byte {
	if h.IsZero() {
		return appendNull(b, pgtype.ByteaOID)
	}
	return appendField(b, pgtype.ByteaOID, h[:])
}

func appendBool(b []byte, value bool) []byte {
	if value {
		return appendField(b, pgtype.BoolOID, "\x01")
	}
	return appendField(b, pgtype.BoolOID, "\x00")
}

// appendCorrection adds a counter_correction, a composite value in the binary
// format.
func appendCorrection(b []byte, ch audit.CounterChange) []byte {
	b = binary.BigEndian.AppendUint32(b, 5) // fields
	b = appendField(b, pgtype.UUIDOID, ch.ID[:])
	b = appendInt64(appendInt64(b, ch.StartMS), ch.BucketMS)
	b = appendInt64(b, -ch.Correct.Count)
	if more, ok := ch.Correct.Over.Minus(ch.Correct.Back); ok {
		return appendNumeric(b, more)
	}
	less, _ := ch.Correct.Back.Minus(ch.Correct.Over)
	at := len(b)
	b = appendNumeric(b, less)
	// The sign comes after the type, the length, the number of groups and the weight of the first
	// group.
	binary.BigEndian.PutUint16(b[at+12:], numericNegative)
	return b
}

// numericNegative is the sign of a numeric below zero.
const numericNegative = 0x4000
