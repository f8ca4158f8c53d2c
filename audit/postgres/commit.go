package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
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
	err := s.commit(ctx, checks, outcomes, link, false)
	if errors.Is(err, errNotCalendar) {
		err = s.commit(ctx, checks, outcomes, link, true)
	}
	if errors.Is(err, errCounters) { // restored, or given back to
		s.forgetRecorded()
		err = s.commit(ctx, checks, outcomes, link, true)
	}
	if err != nil {
		return fmt.Errorf("cannot commit: %w", err)
	}
	return nil
}

// commit commits with the cheapest call that suffices, or with callRest if whole is set.
func (s *Store) commit(ctx context.Context, checks []*spend.Check, outcomes []*spend.Outcome, link chain.Link, whole bool) error {
	session, err := s.writers.take(ctx)
	if err != nil {
		return err
	}
	defer s.writers.give(session)
	if !session.met { // nor is it known which rows this server has
		session.met = true
		s.forgetRecorded()
		s.remembered.forget()
	}
	if err := s.remembered.refuse(outcomes); err != nil {
		return err
	}
	reach := horizon(checks)
	if reach <= s.horizonMS.Load() {
		reach = 0
	}
	budgets, payments := s.budgetChanges(checks, outcomes), paymentExtraOf(checks, outcomes)
	payments.horizonMS = reach
	if session.call = callRest; !whole {
		session.call = s.callOf(checks, &payments, &budgets)
	}
	session.parameters.reset()
	session.parameters.commit(session.call, fenceOf(checks, outcomes), checks, &payments, &budgets, link)
	unread := unreadOf(outcomes)
	if session.buf, err = session.appendMessages(session.buf[:0], s.statement, unread); err != nil {
		return &audit.RowError{Err: err}
	}
	steps := 1
	if unread != nil {
		steps = 2
	}
	if _, err := session.exchange(ctx, steps); err != nil {
		if refused, ok := errors.AsType[*noRoomError](err); ok {
			return refused.exceeded(budgets.takes)
		}
		return err
	}
	addUnsaid(unread, session.selected)
	session.selected = nil
	s.recorded(&budgets)
	if s.statement != "" { // behind a pooler the server may change unnoticed
		s.remembered.add(checks)
	}
	s.remembered.remove(outcomes)
	for known := s.horizonMS.Load(); reach > known && !s.horizonMS.CompareAndSwap(known, reach); {
		known = s.horizonMS.Load()
	}
	return nil
}

// forgetRecorded forgets which rows need not be recorded again: the server may have changed to one
// that lacks recent commits.
func (s *Store) forgetRecorded() {
	s.counters.forget()
	s.refusals.forget()
	s.horizonMS.Store(0)
}

// horizon returns the longest time by which a pass of the checks is live beyond its identifier's
// millisecond, rounded up to whole minutes, so that the table horizon is raised for a longer window
// and not for each jitter between two clocks.
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

// call says which functions a statement that commits calls around record_checks. callRest is alone.
type call uint8

const (
	callPayments call = 1 << iota // new payments
	callRedemptions
	callCalendar // counters of calendar windows which have rows
	callRest     // anything

	calls
)

// query returns the call's text, which is prepared with the first such commit of a connection.
func (c call) query() string {
	const (
		checks      = "record_checks($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14)"
		payments    = "change_payments(" + checks + ",$15)"
		redemptions = "redeem(" + checks + ",$1,$2,$15)"
		both        = "redeem(" + payments + ",$1,$2,$16)"
	)
	switch c {
	case callPayments:
		return "SELECT " + payments
	case callRedemptions:
		return "SELECT " + redemptions
	case callPayments | callRedemptions:
		return "SELECT " + both
	case callCalendar:
		return "SELECT take_from_calendar(" + checks + ",$15)"
	case callPayments | callCalendar:
		return "SELECT take_from_calendar(" + payments + ",$16)"
	case callRedemptions | callCalendar:
		return "SELECT take_from_calendar(" + redemptions + ",$16)"
	case callPayments | callRedemptions | callCalendar:
		return "SELECT take_from_calendar(" + both + ",$17)"
	case callRest:
		return "SELECT record_extra(" + checks + ",$1,$2,$7,$15)"
	default:
		return "SELECT " + checks
	}
}

// name returns the name of the prepared statement; empty without one.
func (c call) name(statement string) string {
	if statement == "" {
		return ""
	}
	return statement + string('0'+rune(c))
}

// callOf returns the call for a commit. A pooler's session lacks the settings that
// take_from_calendar relies on.
func (s *Store) callOf(checks []*spend.Check, payments *paymentExtra, budgets *budgetChanges) (c call) {
	people := func(c *spend.Check) bool { return c.Approval != nil || c.ProvesApproval() }
	if payments.rest() || slices.ContainsFunc(checks, people) {
		return callRest
	}
	if payments.changes != nil {
		c |= callPayments
	}
	if payments.redeemed != nil {
		c |= callRedemptions
	}
	switch {
	case budgets.none():
	case s.statement != "" && budgets.calendarOnly():
		c |= callCalendar
	default:
		c = callRest
	}
	return c
}

// appendMessages adds the messages of a commit: the session's call, and before it the statement for
// unread redemptions, if there are any. statement is the Store's.
func (s *session) appendMessages(b []byte, statement string, unread []*spend.Outcome) (_ []byte, err error) {
	s.parsing, s.selected, s.selects = nil, nil, unread != nil
	if unread != nil {
		if b, err = s.appendUnreadQuery(b, statement, unread); err != nil {
			return nil, err
		}
	}
	prepare := !s.prepared[s.call] || statement == ""
	if prepare {
		s.parsing = append(s.parsing, &s.prepared[s.call])
	}
	return appendCommit(b, statement, s.call, prepare, &s.parameters)
}

// appendCommit adds the messages of a call. The transaction ends with the last message.
func appendCommit(b []byte, statement string, c call, prepare bool, p *parameters) (_ []byte, err error) {
	name := c.name(statement)
	if prepare {
		if b, err = (&pgproto3.Parse{Name: name, Query: c.query()}).Encode(b); err != nil {
			return nil, err
		}
	}
	if b, err = appendBind(b, name, p, pgtype.TextFormatCode); err != nil {
		return nil, err
	}
	if b, err = (&pgproto3.Execute{}).Encode(b); err != nil {
		return nil, err
	}
	return (&pgproto3.Sync{}).Encode(b)
}

// appendBind adds a Bind message itself, because pgproto3 would copy each parameter once more.
func appendBind(b []byte, statement string, p *parameters, results byte) ([]byte, error) {
	start := len(b) + 1
	b = append(b, 'B', 0, 0, 0, 0, 0) // its length, set below; the portal has no name
	b = append(append(b, statement...), 0)
	b = append(b, 0, 1, 0, pgtype.BinaryFormatCode) // of all parameters
	b = append(binary.BigEndian.AppendUint16(b, p.n), p.buf...)
	b = append(b, 0, 1, 0, results) // of all columns
	if len(b)-start > maxMessage {
		return nil, fmt.Errorf("cannot encode parameters: %d bytes are too many", len(b)-start)
	}
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start))
	return b, nil
}

// maxMessage is PostgreSQL's limit for the size of a message.
const maxMessage = 1<<30 - 1

// commit adds the parameters of a call, in its order.
func (p *parameters) commit(
	c call, fence spend.Fence, checks []*spend.Check, payments *paymentExtra, budgets *budgetChanges, link chain.Link,
) {
	p.bytes(fence.Node[:])
	p.bytes(fence.Epoch[:])
	p.int64(fence.Stops)
	p.keys(checks)
	p.bool(slices.ContainsFunc(checks, (*spend.Check).Violation))
	array(p, 0, checks, nil, chain.AppendCheckRecord)
	p.batch(link)
	p.countChecks(checks)
	if c&callPayments != 0 {
		array(p, 0, payments.changes, nil, appendPaymentChange)
	}
	if c&callRedemptions != 0 {
		array(p, 0, payments.redeemed, nil, chain.AppendOutcomeRecord)
	}
	if c&callCalendar != 0 {
		array(p, 0, budgets.takes, nil, appendChange)
	}
	if c == callRest {
		p.extra(checks, payments, budgets)
	}
}

// batch adds the fields of a batch's row other than its chain and counts.
func (p *parameters) batch(link chain.Link) {
	p.int64(link.Seq)
	p.int16(chain.Version)
	first, last := link.First(), link.Last()
	p.bytes(first[:])
	p.bytes(last[:])
	p.bytes(link.Entries)
	p.bytes(link.Head[:])
}

// fenceOf returns the fence that all checks and outcomes of a commit share.
func fenceOf(checks []*spend.Check, outcomes []*spend.Outcome) spend.Fence {
	if len(checks) > 0 {
		return checks[0].Fence
	}
	return outcomes[0].Fence
}

// keyed is the idempotency key of a check.
type keyed struct {
	hash  spend.Hash
	check spend.ID
}

// keys adds two arrays: the hashes of the idempotency keys, sorted, and the checks that have these keys.
func (p *parameters) keys(checks []*spend.Check) {
	p.keyed = p.keyed[:0]
	for _, c := range checks {
		if c.Action.IdempotencyKey != "" {
			p.keyed = append(p.keyed, keyed{c.KeyHash(), c.ID})
		}
	}
	slices.SortFunc(p.keyed, func(a, b keyed) int { return bytes.Compare(a.hash[:], b.hash[:]) })
	array(p, pgtype.ByteaOID, p.keyed, nil, func(b []byte, k keyed) []byte { return append(b, k.hash[:]...) })
	array(p, pgtype.UUIDOID, p.keyed, nil, func(b []byte, k keyed) []byte { return append(b, k.check[:]...) })
}

func appendID(b []byte, c *spend.Check) []byte { return append(b, c.ID[:]...) }

// extra adds a commit_extra.
func (p *parameters) extra(checks []*spend.Check, payments *paymentExtra, budgets *budgetChanges) {
	asks := slices.ContainsFunc(checks, func(c *spend.Check) bool { return c.Approval != nil })
	end := p.composite(19)
	p.field(pgtype.Int8OID)
	p.int64(payments.horizonMS)
	p.approvals(checks)
	p.field(pgtype.BoolOID)
	p.bool(asks)
	arrayField(p, 0, 0, payments.reports, nil, chain.AppendOutcomeRecord)
	p.budgets(budgets)
	p.payments(payments)
	end()
}

// approvals adds three arrays of the checks that prove approvals: the checks, the approvals and the hashes of the actions, which
// are empty where the check does not use its approval.
func (p *parameters) approvals(checks []*spend.Check) {
	arrayField(p, pgtype.UUIDArrayOID, pgtype.UUIDOID, checks, (*spend.Check).ProvesApproval, appendID)
	arrayField(p, pgtype.UUIDArrayOID, pgtype.UUIDOID, checks, (*spend.Check).ProvesApproval,
		func(b []byte, c *spend.Check) []byte { return append(b, c.Action.ApprovalID[:]...) })
	arrayField(p, pgtype.ByteaArrayOID, pgtype.ByteaOID, checks, (*spend.Check).ProvesApproval, func(b []byte, c *spend.Check) []byte {
		if !c.UsesApproval() {
			return b
		}
		hash := spend.ActionHash(c)
		return append(b, hash[:]...)
	})
}
