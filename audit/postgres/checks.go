package postgres

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
)

// listedPartitions is how many partitions one query of a listing touches: the planner pays for
// each, even for an empty one.
const listedPartitions = 16

// A query that examines at most fewExamined checks does not count as a list, such as those of
// readiness.
const fewExamined = 2

// ListChecks implements audit.Lists. It looks at checks by their primary key, newest first, some
// partitions at a time, and stops when the page is full or when it has examined as many as the
// query allows. It reads all in one snapshot, so that concurrent commits move no position.
func (s *Store) ListChecks(ctx context.Context, q audit.CheckQuery) (audit.CheckPage, error) {
	read := s.list
	if q.Examine <= fewExamined {
		read = s.read
	}
	return inSnapshot(ctx, read, "cannot list checks", func(ctx context.Context, tx pgx.Tx) (audit.CheckPage, error) {
		return readChecks(ctx, tx, q)
	})
}

func readChecks(ctx context.Context, tx pgx.Tx, q audit.CheckQuery) (page audit.CheckPage, err error) {
	low, end := q.IDRange()
	if !q.Payment.IsZero() {
		return readPayment(ctx, tx, &q, low, end)
	}
	starts, err := listingStarts(ctx, tx, low, end)
	if err != nil {
		return page, err
	}
	left := q.Examine
	for _, start := range starts {
		query, args := checksQuery(pg.ColumnList(chain.Checks()), &q, start, end, left, q.Limit+1-len(page.Checks))
		checks, err := collectIn(ctx, tx, scanCheck, query, append([]any{pgx.QueryResultFormats{pgx.BinaryFormatCode}}, args...)...)
		if err != nil {
			return page, err
		}
		page.Checks = append(page.Checks, checks...)
		if page.Cut(q.Limit); page.More {
			return page, nil
		}
		var examined int
		if err := tx.QueryRow(ctx, examinedQuery(left), [16]byte(start), [16]byte(end)).Scan(&examined, pg.UUID(&end)); err != nil {
			return page, err
		}
		if left -= examined; left == 0 {
			page.More, page.Next = true, end
			return page, nil
		}
		end = start
	}
	return page, nil
}

// onlyPrimaryKey keeps the planner from reading whole partitions: it may have no statistics yet for
// the newest ones.
const onlyPrimaryKey = "SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), " +
	"set_config('enable_sort', 'off', true)"

// listingStarts prepares a transaction for a listing and splits its range of IDs where partitions
// begin. It returns the starts of the parts, the last first.
func listingStarts(ctx context.Context, tx pgx.Tx, low, end spend.ID) ([]spend.ID, error) {
	if _, err := tx.Exec(ctx, onlyPrimaryKey); err != nil {
		return nil, err
	}
	days, err := collectIn(ctx, tx, pgx.RowTo[string], `SELECT substr(relname, 8) FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid
		WHERE inhparent = 'checks'::regclass AND relname ~ '^checks_[0-9]{8}$' ORDER BY relname DESC`)
	if err != nil {
		return nil, err
	}
	var starts []spend.ID
	n := 0
	for _, name := range days {
		day, err := time.Parse("20060102", name)
		if err != nil {
			return nil, fmt.Errorf("partition checks_%s: %w", name, err)
		}
		first := audit.FirstID(day.UnixMilli())
		if first.Compare(low) <= 0 {
			break
		}
		if first.Compare(end) < 0 {
			if n++; n%listedPartitions == 0 {
				starts = append(starts, first)
			}
		}
	}
	return append(starts, low), nil
}

// readPayment reads a page of a payment's checks, which are found by the payment, also on archived days.
func readPayment(ctx context.Context, tx pgx.Tx, q *audit.CheckQuery, low, end spend.ID) (page audit.CheckPage, err error) {
	examined, err := collectIn(ctx, tx, scanID, `SELECT check_id FROM (
			SELECT check_id FROM payment_checks WHERE payment_hash = $1
			UNION SELECT first_check FROM payments WHERE payment_hash = $1) AS all_checks
		WHERE check_id >= $2 AND check_id < $3
		ORDER BY check_id DESC LIMIT `+strconv.Itoa(q.Examine), q.Payment[:], [16]byte(low), [16]byte(end))
	if err != nil || len(examined) == 0 {
		return page, err
	}
	var text query
	text.add("SELECT " + pg.ColumnList(chain.Checks()) + " FROM (SELECT * FROM checks WHERE check_id = ANY (").arg(pg.UUIDs(examined))
	text.add("::uuid[]) UNION SELECT * FROM kept_checks WHERE check_id = ANY (").arg(pg.UUIDs(examined))
	text.add("::uuid[])) AS examined WHERE true")
	text.matching(q, q.Limit+1)
	page.Checks, err = collectIn(ctx, tx, scanCheck, text.String(),
		append([]any{pgx.QueryResultFormats{pgx.BinaryFormatCode}}, text.args...)...)
	if page.Cut(q.Limit); !page.More && len(examined) == q.Examine {
		page.More, page.Next = true, examined[len(examined)-1]
	}
	return page, err
}

func collectIn[T any](ctx context.Context, tx pgx.Tx, scan pgx.RowToFunc[T], query string, args ...any) ([]T, error) {
	rows, _ := tx.Query(ctx, query, args...) // the rows return its error
	return pgx.CollectRows(rows, scan)
}

// checksQuery selects the newest checks that match among the newest of a range.
func checksQuery(columns string, q *audit.CheckQuery, start, end spend.ID, examine, limit int) (string, []any) {
	var text query
	text.add("SELECT " + columns + " FROM (SELECT * FROM checks WHERE check_id >= ").arg([16]byte(start))
	text.add(" AND check_id < ").arg([16]byte(end))
	text.add(" ORDER BY check_id DESC LIMIT " + strconv.Itoa(examine) + ") AS examined WHERE true")
	text.matching(q, limit)
	return text.String(), text.args
}

// matching adds the conditions of a query on checks that are examined, newest first.
func (q *query) matching(by *audit.CheckQuery, limit int) {
	q.is("agent_id", by.AgentID)
	q.is("policy_id", by.PolicyID)
	q.is("counterparty", by.Counterparty)
	q.is("idempotency_key", by.IdempotencyKey)
	q.is("coalesce(principal, key_id)", by.AskedBy)
	q.amounts(by.Amounts)
	q.is("reason_code", string(by.Reason))
	q.is("rule_id", by.RuleID)
	if t := by.ActionType; t != spend.Unspecified {
		q.add(" AND action_type = '" + chain.TypeLetters[t:t+1] + "'")
	}
	if !by.ApprovalID.IsZero() {
		q.add(" AND approval_id = ").arg([16]byte(by.ApprovalID))
	}
	if by.Effect != nil {
		q.add(" AND decision = '" + chain.EffectLetters[*by.Effect:*by.Effect+1] + "'")
	}
	switch by.Outcome {
	case "":
	case audit.NoOutcome:
		q.add(" AND decision = 'a' AND NOT EXISTS (SELECT FROM outcomes AS o WHERE o.check_id = examined.check_id AND o.number > 0)")
	default:
		q.add(" AND (SELECT o.status FROM outcomes AS o WHERE o.check_id = examined.check_id ORDER BY o.step DESC LIMIT 1) = '" +
			string(chain.StatusLetter(by.Outcome)) + "'")
	}
	q.within(by.Bounds)
	q.add(" ORDER BY check_id DESC LIMIT " + strconv.Itoa(limit))
}

// examinedQuery counts the checks that checksQuery examined without reaching its limit, and selects
// the oldest of them, or the end of the range if there is none.
func examinedQuery(examine int) string {
	return `SELECT count(*), coalesce(min(check_id::text COLLATE "C")::uuid, $2) FROM
		(SELECT check_id FROM checks WHERE check_id >= $1 AND check_id < $2 ORDER BY check_id DESC LIMIT ` + strconv.Itoa(examine) +
		") AS examined"
}
