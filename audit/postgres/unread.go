package postgres

import (
	"bytes"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// Unread redemptions are compared with their checks by a statement of their own, before the
// commit's call and in its transaction. It selects what the requests did not say, or refuses the
// transaction.

// Unread implements audit.Redemptions. Behind a pooler each commit would have the statement planned.
func (s *Store) Unread(check spend.ID) bool {
	return s.statement != "" && !s.remembered.has(check)
}

// unreadDays is how many days the statement finds checks of: the current one and the one before,
// since a check may be redeemed for a day at most.
const unreadDays = 2

// unreadFrom returns the first of these days.
func unreadFrom(now time.Time) time.Time {
	return now.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-unreadDays)
}

// unreadQuery compares the checks of unread_rows from a day on. It names the days, so that its plan,
// which is kept, has, locks and reads no other partitions. A comparison that is not true, such as
// one with a check that is not recorded, refuses the commit. The limit has the planner look each
// check up, however few it expects.
func unreadQuery(from time.Time) string {
	first, end := audit.FirstID(from.UnixMilli()), audit.FirstID(from.AddDate(0, 0, unreadDays).UnixMilli())
	return `SELECT c.check_id, c.key_id, c.principal, c.reason_text, c.idempotency_key, c.approval_id, c.agent_id, c.owner
		FROM unnest($1::unread_row[]) AS u
		LEFT JOIN LATERAL (SELECT * FROM checks WHERE check_id = u.check_id
			AND check_id >= '` + first.Text("") + "' AND check_id < '" + end.Text("") + `' LIMIT 1) AS c ON true
		WHERE CASE WHEN c.decision = 'a' AND c.payment IS NULL AND c.policy_version = u.policy_version AND c.action_type = u.action_type
			AND c.amount = u.amount AND c.currency = u.currency AND (u.agent_id IS NULL OR c.agent_id = u.agent_id) AND c.policy_id = u.policy_id
			AND c.counterparty = u.counterparty AND c.payment_method IS NOT DISTINCT FROM u.payment_method
			AND c.merchant_or_vendor IS NOT DISTINCT FROM u.merchant_or_vendor AND c.metadata IS NOT DISTINCT FROM u.metadata
			THEN true ELSE refuse_unread(u.check_id) END`
}

// appendUnread adds an unread_row, a composite value in the binary format.
func appendUnread(b []byte, o *spend.Outcome) []byte {
	c := o.Check
	a := &c.Action
	w := chain.NewComposite(b)
	w.ID(o.CheckID)
	w.Int32(int32(c.Decision.PolicyVersion))
	w.Letter(chain.TypeLetters[c.ActionType])
	w.Amount(a.Amount)
	w.Text(a.Currency)
	w.Optional(a.AgentID)
	w.Text(a.PolicyID)
	w.Text(a.Counterparty)
	w.Optional(a.PaymentMethod)
	w.Optional(a.MerchantOrVendor)
	w.Optional(a.Metadata.JSON)
	return w.End()
}

// unreadOf returns the unread ones of outcomes; nil, mostly, if there are none.
func unreadOf(outcomes []*spend.Outcome) (unread []*spend.Outcome) {
	for _, o := range outcomes {
		if o.Unread {
			unread = append(unread, o)
		}
	}
	return unread
}

// appendUnreadQuery begins the messages of a commit with the statement for its unread redemptions,
// which is prepared anew each day. statement is as of appendMessages.
func (s *session) appendUnreadQuery(b []byte, statement string, unread []*spend.Outcome) (_ []byte, err error) {
	name, from := statement, unreadFrom(time.Now())
	if name != "" {
		name += "_unread"
	}
	if name == "" || !s.unreadPrepared || !from.Equal(s.unreadFrom) {
		if b, err = (&pgproto3.Close{ObjectType: 'S', Name: name}).Encode(b); err != nil {
			return nil, err
		}
		if b, err = (&pgproto3.Parse{Name: name, Query: unreadQuery(from)}).Encode(b); err != nil {
			return nil, err
		}
		s.unreadPrepared, s.unreadFrom = false, from
		s.parsing = append(s.parsing, &s.unreadPrepared)
	}
	var p parameters
	array(&p, 0, unread, nil, appendUnread)
	if b, err = appendBind(b, name, &p, pgtype.BinaryFormatCode); err != nil {
		return nil, err
	}
	return (&pgproto3.Execute{}).Encode(b)
}

// addUnsaid adds what was selected to the checks of redemptions that were recorded.
func addUnsaid(unread []*spend.Outcome, rows [][][]byte) {
	for _, row := range rows {
		for _, o := range unread {
			if !bytes.Equal(o.CheckID[:], row[0]) {
				continue
			}
			c := o.Check
			c.KeyID, c.Principal, c.Action.ReasonText, c.Action.IdempotencyKey = string(row[1]), string(row[2]), string(row[3]), string(row[4])
			copy(c.Action.ApprovalID[:], row[5]) // null: there is none
			c.Action.AgentID, c.Owner = string(row[6]), string(row[7])
			o.Unread = false
		}
	}
}
