package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
)

// Rehearse commits a blocked check with an idempotency key by each call of Commit, and rolls it
// back: it fails where commits fail for lack of a connection, a right, a lock or space. It does not
// notice a missing standby, for which only the end of a commit waits.
func (s *Store) Rehearse(ctx context.Context) error {
	fence, err := one(ctx, s, "cannot rehearse a commit", func(row pgx.CollectableRow) (f spend.Fence, err error) {
		return f, row.Scan(pg.UUID(&f.Epoch), &f.Stops)
	}, "SELECT id, stops FROM epoch")
	if err != nil {
		return err
	}
	fence.Node = spend.NewID(time.Now())
	session, err := s.writers.take(ctx)
	if err != nil {
		return fmt.Errorf("cannot rehearse a commit: %w", err)
	}
	defer s.writers.give(session)
	checks := []*spend.Check{rehearsed(fence)}
	link := (&chain.Builder{Chain: checks[0].Fence.Node}).Next([]chain.Entry{{ID: checks[0].ID}})
	for _, session.call = range [...]call{callPayments | callRedemptions | callCalendar, callRest} {
		session.parameters.reset()
		extra := &paymentExtra{horizonMS: 1} // so that the commit is more than checks, and raises nothing
		session.parameters.commit(session.call, checks[0].Fence, checks, extra, new(budgetChanges), link)
		err = session.undo(ctx, &session.parameters)
		if err != nil && !errors.Is(err, audit.ErrStaleEpoch) && !errors.Is(err, audit.ErrStaleStops) { // these came meanwhile
			return fmt.Errorf("cannot rehearse a commit: %w", err)
		}
		if session.conn == nil {
			return fmt.Errorf("cannot rehearse a commit: the connection was lost behind it: %w", audit.ErrUnavailable)
		}
	}
	return nil
}

// rehearsed returns a check of no agent.
func rehearsed(f spend.Fence) *spend.Check {
	const nobody = "spendgate"
	c := &spend.Check{
		ID: spend.NewID(time.Now()), ActionType: spend.Spend, KeyID: nobody, RequestID: nobody, Fence: f,
		Action: spend.Action{
			AgentID: nobody, PolicyID: nobody, Type: spend.Spend, Currency: "XXX", Counterparty: nobody, IdempotencyKey: rand.Text(),
		},
		Decision: spend.Decision{Effect: spend.Block, Reason: spend.ReasonMaxAmount, RuleID: nobody, RuleDescription: nobody},
	}
	c.Fingerprint = spend.FingerprintOf(&c.Action, c.ActionType)
	c.RequestSHA = spend.RequestSHA(&c.Action)
	return c
}

// undo makes the session's call in a transaction, and rolls it back.
func (s *session) undo(ctx context.Context, p *parameters) (err error) {
	if s.buf, err = (&pgproto3.Query{String: begin}).Encode(s.buf[:0]); err != nil {
		return err
	}
	if s.buf, err = appendCommit(s.buf, "", s.call, true, p); err != nil {
		return err
	}
	conn := s.conn
	s.asked = time.Now()
	stop := context.AfterFunc(ctx, func() {
		_ = conn.SetDeadline(time.Unix(1, 0)) // fails on a closed connection only
	})
	defer func() {
		if !stop() {
			s.drop() // the deadline may still be about to be set
		}
	}()
	s.parsing, s.selects = nil, false // the statement has no name
	if _, err := conn.Write(s.buf); err != nil {
		s.drop()
		return fmt.Errorf("cannot send: %w: %w", audit.ErrUnavailable, err)
	}
	for range 2 { // BEGIN, and the call
		a, err := s.receive()
		if err != nil {
			s.drop()
			return fmt.Errorf("connection lost: %w: %w", audit.ErrUnavailable, err)
		}
		if a.refused != nil {
			s.rollback()
			return refusal(a.refused)
		}
	}
	s.rollback()
	return nil
}
