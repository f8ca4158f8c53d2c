package postgres

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// changesPayments reports whether a commit records something about payments, or an allowed check that only a
// redemption carries out.
func changesPayments(checks []*spend.Check, outcomes []*spend.Outcome) bool {
	return slices.ContainsFunc(checks, func(c *spend.Check) bool {
		return c.Payment != nil || len(c.Payments) > 0 || len(c.Withdrawn) > 0 || !c.RedeemBy.IsZero()
	}) || slices.ContainsFunc(outcomes, func(o *spend.Outcome) bool { return len(o.Payments) > 0 })
}

// paymentExtra are the fields of a commit_extra that are about payments.
type paymentExtra struct {
	changes     []paymentChange
	at          map[spend.Hash]int // their places
	redeemed    []*spend.Outcome   // redemptions of the commit's own checks
	reports     []*spend.Outcome   // the other outcomes
	checks      []paymentCheck
	allows      []*spend.Check // that only a redemption carries out, and that the commit does not redeem
	withdrawals []withdrawal
}

// paymentChange is a payment_change.
type paymentChange struct {
	hash spend.Hash
	spend.PaymentChange
}

type paymentCheck struct {
	payment spend.Hash
	check   spend.ID
}

type withdrawal struct{ check, approval spend.ID }

func paymentExtraOf(checks []*spend.Check, outcomes []*spend.Outcome) (e paymentExtra) {
	if !changesPayments(checks, outcomes) {
		return paymentExtra{reports: outcomes}
	}
	e.at = make(map[spend.Hash]int)
	own := make(map[spend.ID]bool, len(outcomes)) // the checks of the commit that it redeems
	ids := make(map[spend.ID]bool, len(checks))
	for _, c := range checks {
		ids[c.ID] = true
	}
	for _, o := range outcomes {
		e.change(o.Payments)
		if o.Status != spend.Redeemed {
			e.reports = append(e.reports, o)
			continue
		}
		for i := range o.Payments {
			e.check(&o.Payments[i], o.CheckID)
		}
		if own[o.CheckID] = ids[o.CheckID]; own[o.CheckID] {
			e.redeemed = append(e.redeemed, o)
		} else {
			e.reports = append(e.reports, o)
		}
	}
	for _, c := range checks {
		e.change(c.Payments)
		for i := range c.Payments {
			e.check(&c.Payments[i], c.ID)
		}
		if !c.RedeemBy.IsZero() && c.Decision.Effect == spend.Allow && !own[c.ID] {
			e.allows = append(e.allows, c)
		}
		for _, id := range c.Withdrawn {
			e.withdrawals = append(e.withdrawals, withdrawal{c.ID, id})
		}
	}
	return e
}

// check notes a further check of a payment. The first one stands in the payment's row.
func (e *paymentExtra) check(change *spend.PaymentChange, id spend.ID) {
	if change.Seen > 0 {
		e.checks = append(e.checks, paymentCheck{change.To.Hash(), id})
	}
}

// change adds changes. A commit has one of each payment; a second one is refused.
func (e *paymentExtra) change(changes []spend.PaymentChange) {
	for _, next := range changes {
		hash := next.To.Hash()
		if at, twice := e.at[hash]; twice {
			e.changes[at].Seen = -1 // which no payment has
			continue
		}
		e.at[hash] = len(e.changes)
		e.changes = append(e.changes, paymentChange{hash, next})
	}
}

// payments adds the fields of a commit_extra.
func (p *parameters) payments(e *paymentExtra) {
	p.field(0)
	array(p, 0, e.changes, nil, appendPaymentChange)
	p.field(0)
	array(p, 0, e.redeemed, nil, chain.AppendOutcomeRecord)
	p.field(pgtype.ByteaArrayOID)
	array(p, pgtype.ByteaOID, e.checks, nil, func(b []byte, c paymentCheck) []byte { return append(b, c.payment[:]...) })
	p.field(pgtype.UUIDArrayOID)
	array(p, pgtype.UUIDOID, e.checks, nil, func(b []byte, c paymentCheck) []byte { return append(b, c.check[:]...) })
	p.field(pgtype.UUIDArrayOID)
	array(p, pgtype.UUIDOID, e.allows, nil, appendID)
	p.field(pgtype.Int8ArrayOID)
	array(p, pgtype.Int8OID, e.allows, nil, func(b []byte, c *spend.Check) []byte {
		return binary.BigEndian.AppendUint64(b, uint64(c.RedeemBy.UnixMilli()))
	})
	p.field(pgtype.UUIDArrayOID)
	array(p, pgtype.UUIDOID, e.withdrawals, nil, func(b []byte, w withdrawal) []byte { return append(b, w.check[:]...) })
	p.field(pgtype.UUIDArrayOID)
	array(p, pgtype.UUIDOID, e.withdrawals, nil, func(b []byte, w withdrawal) []byte { return append(b, w.approval[:]...) })
}

// appendPaymentChange adds a payment_change, a composite value in the binary format.
func appendPaymentChange(b []byte, c paymentChange) []byte {
	w := chain.NewComposite(b)
	w.Hash(c.hash)
	w.Int64(c.To.Version)
	w.Int64(c.Seen)
	w.ID(c.To.Current)
	w.Text(c.To.Namespace)
	w.Text(c.To.Key)
	w.Text(c.To.Text())
	return w.End()
}

// Payments implements audit.Payments.
func (s *Store) Payments(ctx context.Context, hashes []spend.Hash) (map[spend.Hash]*spend.Payment, error) {
	found := make(map[spend.Hash]*spend.Payment, len(hashes))
	if len(hashes) == 0 {
		return found, nil
	}
	const (
		doing = "cannot look up payments"
		query = "SELECT namespace, payment_key, version, first_check, state FROM payments WHERE payment_hash = ANY ($1::bytea[])"
	)
	var p parameters
	array(&p, pgtype.ByteaOID, hashes, nil, func(b []byte, h spend.Hash) []byte { return append(b, h[:]...) })
	payments, done, err := lookUp(ctx, s, doing, query, &p, func(values [][]byte) (*spend.Payment, error) {
		p := &spend.Payment{
			Namespace: string(values[0]), Key: string(values[1]), Version: int64(binary.BigEndian.Uint64(values[2])), First: spend.ID(values[3]),
		}
		var err error
		p.PaymentState, err = spend.ParsePaymentState(string(values[4]))
		return p, err
	})
	if !done {
		payments, err = collect(ctx, s, doing, func(row pgx.CollectableRow) (*spend.Payment, error) {
			p := new(spend.Payment)
			return p, row.Scan(&p.Namespace, &p.Key, &p.Version, uuid(&p.First), parse(&p.PaymentState, spend.ParsePaymentState))
		}, query, byteas(hashes))
	}
	for _, p := range payments {
		found[p.Hash()] = p
	}
	return found, err
}

// CountPayments implements audit.Payments.
func (s *Store) CountPayments(ctx context.Context) (count int64, err error) {
	err = s.read(ctx, "cannot count payments", func(ctx context.Context, db *pgx.Conn) error {
		return db.QueryRow(ctx, `SELECT CASE WHEN c.reltuples < 100000 THEN (SELECT count(*) FROM (SELECT FROM payments LIMIT 100000) AS p)
			ELSE c.reltuples::bigint END FROM pg_class AS c WHERE c.oid = 'payments'::regclass`).Scan(&count)
	})
	return count, err
}

// PaymentApprovals implements audit.Payments.
func (s *Store) PaymentApprovals(ctx context.Context, payments []spend.Hash) ([]*audit.Approval, error) {
	return s.approvals(ctx, s.read,
		selectOpenApprovals+"WHERE a.payment = ANY ($1::bytea[]) AND s.status IN ('pending', 'approved') ORDER BY a.id DESC", byteas(payments))
}

// lapsesAtOnce is how many checks whose time is over one statement examines.
const lapsesAtOnce = 1000

// Lapses implements audit.Payments.
func (s *Store) Lapses(ctx context.Context, limit int) (ids []spend.ID, err error) {
	for more := true; more && len(ids) < limit && err == nil; {
		err = s.read(ctx, "cannot look for checks that nobody redeemed", func(ctx context.Context, db *pgx.Conn) error { // may be repeated
			var found []pgtype.UUID
			err := db.QueryRow(ctx, "SELECT coalesce(ids, '{}'), more FROM lapses($1, $2)", limit, max(limit, lapsesAtOnce)).Scan(&found, &more)
			ids = ids[:0]
			for _, id := range found {
				ids = append(ids, id.Bytes)
			}
			return err
		})
	}
	return ids, err
}
