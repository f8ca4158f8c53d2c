package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
)

// The columns of a history for every check, and those only for checks of the policy.
const (
	passHistory = "check_id, claimed_ms, until_ms, decision, fingerprint, approval_id, namespace, payment"
	ownHistory  = `policy_version, action_type, amount::text, currency, agent_id, counterparty, payment_method, merchant_or_vendor, metadata,
		reason_code, rule_id, key_id, principal, approval, stops`
)

// maxHistoryDays is how many partitions one page touches: the planner pays for each.
const maxHistoryDays = 16

// historyQuery selects a page. Of other policies' checks it returns only their passes, their payments and the
// approvals that they used.
func historyQuery(q audit.HistoryQuery) (query string, args []any) {
	var own []string
	for column := range strings.SplitSeq(ownHistory, ",") {
		own = append(own, "CASE WHEN policy_id = $3 THEN "+strings.TrimSpace(column)+" END")
	}
	end := q.End
	if last := audit.FirstID(q.After.Time().AddDate(0, 0, maxHistoryDays).UnixMilli()); last.Compare(end) < 0 {
		end = last
	}
	return "SELECT " + passHistory + ", policy_id = $3, " + strings.Join(own, ", ") +
			" FROM checks WHERE check_id > $1 AND check_id < $2 ORDER BY check_id LIMIT $4",
		[]any{[16]byte(q.After), [16]byte(end), q.PolicyID, q.Limit}
}

// PageHistory implements audit.History. If the days that a page looks at have nothing for it, it
// continues with the days after them.
func (s *Store) PageHistory(ctx context.Context, q audit.HistoryQuery) (audit.HistoryPage, error) {
	return inSnapshot(ctx, s.list, "cannot read the history of checks", func(ctx context.Context, tx pgx.Tx) (audit.HistoryPage, error) {
		return pageHistory(ctx, tx, q)
	})
}

func pageHistory(ctx context.Context, tx pgx.Tx, q audit.HistoryQuery) (page audit.HistoryPage, err error) {
	if _, err := tx.Exec(ctx, onlyPrimaryKey); err != nil {
		return page, err
	}
	for {
		query, args := historyQuery(q)
		rows, _ := tx.Query(ctx, query, append([]any{pgx.QueryResultFormats{pgx.BinaryFormatCode}}, args...)...) // the rows return its error
		if page.Checks, err = scanHistory(rows, q); err != nil {
			return page, err
		}
		end := spend.ID(args[1].([16]byte))
		if len(page.Checks) > 0 || end == q.End {
			break
		}
		q.After = end // exclusive: no check has the first ID of a day
	}
	if n := len(page.Checks); n > 0 {
		page.Outcomes, err = historyOutcomes(ctx, tx, page.Checks[0].ID, page.Checks[n-1].ID)
	}
	return page, err
}

// scanHistory reads rows, mostly without an allocation for each.
func scanHistory(rows pgx.Rows, q audit.HistoryQuery) ([]audit.HistoryCheck, error) {
	defer rows.Close()
	checks := make([]audit.HistoryCheck, 0, q.Limit)
	interned := make(map[string]string) // texts repeat
	text := func(b []byte) string {
		if s, ok := interned[string(b)]; ok {
			return s
		}
		s := string(b)
		interned[s] = s
		return s
	}
	for rows.Next() {
		f := rows.RawValues()
		checks = append(checks, audit.HistoryCheck{})
		c := &checks[len(checks)-1]
		copy(c.ID[:], f[0])
		if f[1] != nil && f[2] != nil {
			c.Pass = spend.Pass{ClaimedMS: int64(binary.BigEndian.Uint64(f[1])), UntilMS: int64(binary.BigEndian.Uint64(f[2]))}
		}
		c.Decision.Effect = effectOf(f[3][0])
		copy(c.Fingerprint[:], f[4])
		copy(c.Action.ApprovalID[:], f[5])
		c.Namespace = text(f[6])
		var err error
		c.Payment, err = spend.ParseCheckPayment(string(f[7]))
		if c.Foreign = f[8][0] == 0; !c.Foreign && err == nil {
			err = scanOwn(c, f[9:], q.PolicyID, text)
		}
		if err != nil {
			return nil, fmt.Errorf("check %s: %w", c.ID.Text(spend.PrefixCheck), err)
		}
	}
	return checks, rows.Err()
}

// scanOwn reads ownHistory.
func scanOwn(c *audit.HistoryCheck, f [][]byte, policyID string, text func([]byte) string) (err error) {
	a, d := &c.Action, &c.Decision
	d.PolicyVersion, c.ActionType, a.PolicyID = int(int32(binary.BigEndian.Uint32(f[0]))), typeOf(f[1][0]), policyID
	if a.Amount, err = spend.ParseAmount(string(f[2])); err != nil {
		return err
	}
	a.Currency, a.AgentID, a.Counterparty, a.PaymentMethod, a.MerchantOrVendor = text(f[3]), text(f[4]), string(f[5]), text(f[6]), text(f[7])
	if f[8] != nil {
		var faults spend.Faults
		if a.Metadata = spend.ParseMetadata(string(f[8]), "metadata", &faults); faults != nil {
			return faults.Err()
		}
	}
	d.Reason, d.RuleID, c.KeyID, c.Principal = spend.Reason(text(f[9])), text(f[10]), text(f[11]), text(f[12])
	if f[14] != nil {
		c.Fence.Stops = int64(binary.BigEndian.Uint64(f[14]))
	}
	c.Approval, err = spend.ParseApprovalRequest(string(f[13]))
	return err
}

// HistoryOutcomes implements audit.History.
func (s *Store) HistoryOutcomes(ctx context.Context, from, to spend.ID) ([]*spend.Outcome, error) {
	return inSnapshot(ctx, s.list, "cannot read the history of outcomes", func(ctx context.Context, tx pgx.Tx) ([]*spend.Outcome, error) {
		return historyOutcomes(ctx, tx, from, to)
	})
}

// selectHistoryOutcomes skips reports that change nothing.
const selectHistoryOutcomes = " FROM outcomes WHERE check_id >= $1 AND check_id <= $2 AND (release = 'd' OR excess = 'e' OR number > 1) " +
	"ORDER BY check_id, number"

func historyOutcomes(ctx context.Context, tx pgx.Tx, from, to spend.ID) ([]*spend.Outcome, error) {
	return collectIn(ctx, tx, scanOutcome, "SELECT "+pg.ColumnList(chain.Outcomes())+selectHistoryOutcomes,
		pgx.QueryResultFormats{pgx.BinaryFormatCode}, [16]byte(from), [16]byte(to))
}

// selectHistoryApprovals reads no check: its day may be archived.
const selectHistoryApprovals = approvalState + `, a.use_within_ms,
	(SELECT max(d.at) FROM changes AS d WHERE d.subject = name_approval(a.id) AND d.kind = 'approval.denied'),
	(SELECT max(d.at) FROM changes AS d WHERE d.subject = name_approval(a.id) AND d.kind = 'approval.withdrawn')
	FROM approvals AS a, LATERAL state_of_approval(a) AS s WHERE a.id = ANY ($1::uuid[])`

// HistoryApprovals implements audit.History.
func (s *Store) HistoryApprovals(ctx context.Context, ids []spend.ID) ([]*audit.Approval, error) {
	return collect(ctx, s, "cannot read the history of approvals", func(row pgx.CollectableRow) (*audit.Approval, error) {
		asked := new(spend.ApprovalRequest)
		a := &audit.Approval{Check: &spend.Check{Approval: asked}}
		var useWithin int64
		var denied time.Time
		err := row.Scan(pg.UUID(&a.Check.ID), &a.Status, pg.UTC(&a.CreatedAt), pg.UTC(&a.ExpiresAt), pg.UTC(&a.ApprovedAt),
			pg.UUID(&a.UsedBy), &useWithin,
			pg.UTC(&denied), pg.UTC(&a.WithdrawnAt))
		asked.Expires, asked.UseWithin = a.ExpiresAt.Sub(a.CreatedAt), time.Duration(useWithin)*time.Millisecond
		if !denied.IsZero() {
			a.Decisions = []audit.ApprovalDecision{{At: denied}}
		}
		return a, err
	}, selectHistoryApprovals, pg.UUIDs(ids))
}

// ArchivedDays implements audit.History.
func (s *Store) ArchivedDays(ctx context.Context, from, to time.Time) ([]audit.ArchivedDay, error) {
	return collect(ctx, s, "cannot read which days are archived", func(row pgx.CollectableRow) (d audit.ArchivedDay, err error) {
		err = row.Scan(pg.UTC(&d.Day), &d.Rows, pg.Bytea(&d.Manifest))
		return d, err
	}, "SELECT day::timestamp AT TIME ZONE 'UTC', rows, manifest_sha256 FROM archived_days WHERE day BETWEEN $1::date AND $2::date "+
		"ORDER BY day",
		from.UTC().Format(time.DateOnly), to.UTC().Format(time.DateOnly))
}

// ViolationsFrom implements audit.History.
func (s *Store) ViolationsFrom(ctx context.Context) (spend.ID, error) {
	return one(ctx, s, "cannot read which violations are archived", func(row pgx.CollectableRow) (id spend.ID, err error) {
		return id, row.Scan(pg.UUID(&id))
	}, "SELECT violations_from()")
}
