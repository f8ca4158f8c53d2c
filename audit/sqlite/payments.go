package sqlite

import (
	"context"
	"database/sql"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/audit/sqlstore"
)

// movePayments changes the payments that the checks and outcomes change, or names those that have another
// version than was seen.
func movePayments(tx *sql.Tx, checks []*spend.Check, outcomes []*spend.Outcome) error {
	var moved []spend.Hash
	move := func(of spend.ID, changes []spend.PaymentChange) error {
		for i := range changes {
			to := &changes[i].To
			if err := storable(of, to.Namespace, to.Key); err != nil {
				return err
			}
			if ok, err := movePayment(tx, changes[i].Seen, to); err != nil {
				return err
			} else if !ok {
				moved = append(moved, to.Hash())
			}
		}
		return nil
	}
	for _, c := range checks {
		if err := move(c.ID, c.Payments); err != nil {
			return err
		}
	}
	for _, o := range outcomes {
		if err := move(o.CheckID, o.Payments); err != nil {
			return err
		}
	}
	if moved != nil {
		return &audit.PaymentsMovedError{Hashes: moved}
	}
	return nil
}

// movePayment reports whether the payment had the version that was seen, and was not removed since.
func movePayment(tx *sql.Tx, seen int64, to *spend.Payment) (bool, error) {
	hash, state, now := to.Hash(), string(to.Append(nil)), time.Now().UnixMilli()
	statement, args := "UPDATE payments SET version = ?, state = ?, changed_at = ? WHERE payment_hash = ? AND version = ? AND first_check = ?",
		[]any{to.Version, state, now, hash[:], seen, to.First[:]}
	if seen == 0 {
		statement, args = `INSERT INTO payments (payment_hash, namespace, payment_key, version, first_check, state, changed_at)
			VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, []any{hash[:], to.Namespace, to.Key, to.Version, to.First[:], state, now}
	}
	rows, err := affected(tx.Exec(statement, args...))
	return rows > 0, err
}

// noteAllows notes which checks only a redemption carries out. Their first steps remove the notes.
func noteAllows(tx *sql.Tx, checks []*spend.Check) error {
	for _, c := range checks {
		if c.Decision.Effect != spend.Allow || c.RedeemBy.IsZero() {
			continue
		}
		if _, err := tx.Exec("INSERT INTO allows_open (check_id, redeem_by) VALUES (?, ?)", c.ID[:], c.RedeemBy.UnixMilli()); err != nil {
			return err
		}
	}
	return nil
}

// noteChecks notes which checks belong to payments: their own, and those that are redeemed under them.
func noteChecks(tx *sql.Tx, checks []*spend.Check, outcomes []*spend.Outcome) error {
	note := func(payment spend.Hash, check spend.ID) error {
		_, err := tx.Exec("INSERT INTO payment_checks (payment_hash, check_id) VALUES (?, ?) ON CONFLICT DO NOTHING", payment[:], check[:])
		return err
	}
	for _, c := range checks {
		if c.Payment == nil {
			continue
		}
		if err := note(c.PaymentHash(), c.ID); err != nil {
			return err
		}
	}
	for _, o := range outcomes {
		if o.Status != spend.Redeemed {
			continue
		}
		for _, of := range o.Payment.Of {
			if err := note(spend.PaymentHash(of.Namespace, of.Key), o.CheckID); err != nil {
				return err
			}
		}
	}
	return nil
}

// Payments implements audit.Payments.
func (s *Store) Payments(ctx context.Context, hashes []spend.Hash) (map[spend.Hash]*spend.Payment, error) {
	payments := make(map[spend.Hash]*spend.Payment, len(hashes))
	err := each(ctx, s.reader, "cannot look up payments", func(row scanner) error {
		p := new(spend.Payment)
		err := row.Scan(&p.Namespace, &p.Key, &p.Version, blob(p.First[:]), sqlstore.Parse(&p.PaymentState, spend.ParsePaymentState))
		payments[p.Hash()] = p
		return err
	}, "SELECT namespace, payment_key, version, first_check, state FROM payments WHERE payment_hash IN ("+marks(len(hashes))+")",
		hashArgs(hashes)...)
	return payments, err
}

// CountPayments implements audit.Payments.
func (s *Store) CountPayments(ctx context.Context) (int64, error) {
	return one(ctx, s.reader, "cannot count payments", scalar[int64], "SELECT count(*) FROM payments")
}

// PaymentApprovals implements audit.Payments.
func (s *Store) PaymentApprovals(ctx context.Context, payments []spend.Hash) ([]*audit.Approval, error) {
	return openApprovals(ctx, s.reader, payments)
}

// openApprovals returns the payments' approvals that are pending or approved, the newest first.
func openApprovals(ctx context.Context, from querier, payments []spend.Hash) (open []*audit.Approval, err error) {
	all, err := approvals(ctx, from,
		"WHERE a.payment IN ("+marks(len(payments))+") AND a.id IN (SELECT approval_id FROM approval_deadlines) ORDER BY a.id DESC",
		hashArgs(payments)...)
	for _, a := range all {
		if unused(a) {
			open = append(open, a)
		}
	}
	return open, err
}

// Lapses implements audit.Payments.
func (s *Store) Lapses(ctx context.Context, limit int) ([]spend.ID, error) {
	return collect(ctx, s.reader, "cannot look for checks that nobody redeemed", scanID,
		"SELECT check_id FROM allows_open WHERE redeem_by < ? ORDER BY redeem_by, check_id LIMIT ?", time.Now().UnixMilli(), limit)
}

// withdrawApprovals withdraws the approvals that the check withdraws, or returns why one cannot be.
func withdrawApprovals(tx *sql.Tx, c *spend.Check) (*audit.ApprovalError, error) {
	by := audit.Actor{KeyID: c.KeyID, Principal: c.PrincipalName(), RequestID: c.RequestID}
	for _, id := range c.Withdrawn {
		a, err := approvalOf(tx, id)
		switch {
		case err != nil:
			return nil, err
		case a == nil:
			return &audit.ApprovalError{Status: audit.ApprovalAbsent}, nil
		case !unused(a):
			return &audit.ApprovalError{Status: a.Status, UsedBy: a.UsedBy}, nil
		}
		if err := withdraw(tx, a, by, time.Now()); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// withdrawOthers withdraws the other approvals of the payment of one that was denied.
func withdrawOthers(ctx context.Context, tx *sql.Tx, denied *audit.Approval, by audit.Actor, now time.Time) error {
	if denied.Check.Payment == nil {
		return nil
	}
	others, err := openApprovals(ctx, tx, []spend.Hash{denied.Check.PaymentHash()})
	if err != nil {
		return err
	}
	for _, a := range others {
		if err := withdraw(tx, a, by, now); err != nil {
			return err
		}
	}
	return nil
}

// withdraw records that an unused approval is withdrawn.
func withdraw(tx *sql.Tx, a *audit.Approval, by audit.Actor, now time.Time) error {
	if err := record(tx, audit.ChangeOfWithdrawal(a, by, now)); err != nil {
		return err
	}
	return setDeadline(tx, a.Check.ID, time.Time{})
}

// unused reports whether the approval is pending or approved.
func unused(a *audit.Approval) bool {
	return a.Status == audit.ApprovalPending || a.Status == audit.ApprovalApproved
}
