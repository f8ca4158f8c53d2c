package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
	"spendgate/audit/sqlstore"
)

// paymentExtra are the fields of a commit_extra that are about payments, outcomes and the horizon.
type paymentExtra struct {
	horizonMS   int64 // 0 unless it is raised
	changes     []paymentChange
	known       bool             // some of them are recorded
	redeemed    []*spend.Outcome // redemptions: of the commit's own checks, or of no payment and without other outcomes
	reports     []*spend.Outcome // the other outcomes
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

// rest reports whether only record_extra can do all of it.
func (e *paymentExtra) rest() bool {
	return e.horizonMS > 0 || e.known || e.reports != nil || e.checks != nil || e.allows != nil || e.withdrawals != nil
}

func paymentExtraOf(checks []*spend.Check, outcomes []*spend.Outcome) (e paymentExtra) {
	own := make(map[spend.ID]bool) // the checks of the commit, and whether it redeems them
	if len(outcomes) > 0 {
		for _, c := range checks {
			own[c.ID] = false
		}
	}
	others := false
	for _, o := range outcomes {
		e.change(o.Payments)
		_, redeems := own[o.CheckID]
		switch redeems = redeems && o.Status == spend.Redeemed; {
		case redeems:
			own[o.CheckID] = true
			e.redeemed = append(e.redeemed, o)
		default:
			others = others || o.Status != spend.Redeemed || len(o.Payments) > 0
			e.reports = append(e.reports, o)
		}
		if o.Status == spend.Redeemed {
			e.note(o.Payments, o.CheckID)
		}
	}
	if !others {
		e.redeemed, e.reports = append(e.redeemed, e.reports...), nil
	}
	slices.SortFunc(e.redeemed, func(a, b *spend.Outcome) int { return a.CheckID.Compare(b.CheckID) })
	for _, c := range checks {
		e.change(c.Payments)
		e.note(c.Payments, c.ID)
		if !c.RedeemBy.IsZero() && c.Decision.Effect == spend.Allow && !own[c.ID] {
			e.allows = append(e.allows, c)
		}
		for _, id := range c.Withdrawn {
			e.withdrawals = append(e.withdrawals, withdrawal{c.ID, id})
		}
	}
	slices.SortFunc(e.changes, func(a, b paymentChange) int { return bytes.Compare(a.hash[:], b.hash[:]) })
	return e
}

// note notes a further check of payments. The first one stands in the payment's row.
func (e *paymentExtra) note(changes []spend.PaymentChange, id spend.ID) {
	for i := range changes {
		if changes[i].Seen > 0 {
			e.checks = append(e.checks, paymentCheck{changes[i].Hash(), id})
		}
	}
}

// change adds changes. A commit has one of each payment; a second one is refused.
func (e *paymentExtra) change(changes []spend.PaymentChange) {
	for i := range changes {
		next, hash := changes[i], changes[i].Hash()
		at := slices.IndexFunc(e.changes, func(c paymentChange) bool { return c.hash == hash })
		if at >= 0 {
			e.changes[at].Seen = -1 // which no payment has
			continue
		}
		e.known = e.known || next.Seen > 0
		e.changes = append(e.changes, paymentChange{hash, next})
	}
}

// payments adds the fields of a commit_extra.
func (p *parameters) payments(e *paymentExtra) {
	const uuids, uuid, byteas, bytea = pgtype.UUIDArrayOID, pgtype.UUIDOID, pgtype.ByteaArrayOID, pgtype.ByteaOID
	arrayField(p, 0, 0, e.changes, nil, appendPaymentChange)
	arrayField(p, 0, 0, e.redeemed, nil, chain.AppendOutcomeRecord)
	arrayField(p, byteas, bytea, e.checks, nil, func(b []byte, c paymentCheck) []byte { return append(b, c.payment[:]...) })
	arrayField(p, uuids, uuid, e.checks, nil, func(b []byte, c paymentCheck) []byte { return append(b, c.check[:]...) })
	arrayField(p, uuids, uuid, e.allows, nil, appendID)
	arrayField(p, pgtype.Int8ArrayOID, pgtype.Int8OID, e.allows, nil, func(b []byte, c *spend.Check) []byte {
		return binary.BigEndian.AppendUint64(b, uint64(c.RedeemBy.UnixMilli()))
	})
	arrayField(p, uuids, uuid, e.withdrawals, nil, func(b []byte, w withdrawal) []byte { return append(b, w.check[:]...) })
	arrayField(p, uuids, uuid, e.withdrawals, nil, func(b []byte, w withdrawal) []byte { return append(b, w.approval[:]...) })
}

// appendPaymentChange adds a payment_change, a composite value in the binary format.
func appendPaymentChange(b []byte, c paymentChange) []byte {
	w := chain.NewComposite(b)
	w.Hash(c.hash)
	w.Int64(c.To.Version)
	w.Int64(c.Seen)
	w.ID(c.To.Current)
	w.ID(c.To.First)
	w.Text(c.To.Namespace)
	w.Text(c.To.Key)
	w.Written(c.To.PaymentState.Append)
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
			return p, row.Scan(&p.Namespace, &p.Key, &p.Version, pg.UUID(&p.First), sqlstore.Parse(&p.PaymentState, spend.ParsePaymentState))
		}, query, pg.Byteas(hashes))
	}
	for _, p := range payments {
		found[p.Hash()] = p
	}
	return found, err
}

// CountPayments implements audit.Payments.
func (s *Store) CountPayments(ctx context.Context) (int64, error) {
	return one(ctx, s, "cannot count payments", pgx.RowTo[int64],
		`SELECT CASE WHEN c.reltuples < 100000 THEN (SELECT count(*) FROM (SELECT FROM payments LIMIT 100000) AS p)
			ELSE c.reltuples::bigint END FROM pg_class AS c WHERE c.oid = 'payments'::regclass`)
}

// PaymentApprovals implements audit.Payments.
func (s *Store) PaymentApprovals(ctx context.Context, payments []spend.Hash) ([]*audit.Approval, error) {
	return s.approvals(ctx, s.read,
		selectOpenApprovals+"WHERE a.payment = ANY ($1::bytea[]) AND s.status IN ('pending', 'approved') ORDER BY a.id DESC", pg.Byteas(payments))
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
