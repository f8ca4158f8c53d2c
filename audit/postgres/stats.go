package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
)

// checkCount is the number of checks in a commit for a policy and a minute.
type checkCount struct {
	audit.CountKey
	of [spend.Block + 1]int32
}

// countChecks adds the counts of the checks, in the order in which policies and minutes first
// appear.
func (p *parameters) countChecks(checks []*spend.Check) {
	counts := p.counts[:0]
	at := -1 // of the previous check: most have the same policy and minute
	for _, c := range checks {
		key := audit.CountKey{PolicyID: c.Action.PolicyID, Minute: audit.Minute(c.ID)}
		if at < 0 || counts[at].CountKey != key {
			for at = range counts {
				if counts[at].CountKey == key {
					break
				}
			}
			if len(counts) == 0 || counts[at].CountKey != key {
				at = len(counts)
				counts = append(counts, checkCount{CountKey: key})
			}
		}
		counts[at].of[c.Decision.Effect]++
	}
	array(p, 0, counts, nil, appendCheckCount)
	clear(counts) // so that no policy's name is kept
	p.counts = counts
}

// appendCheckCount adds a check_count, a composite value in the binary format.
func appendCheckCount(b []byte, c checkCount) []byte {
	w := chain.NewComposite(b)
	w.Int64(c.Minute)
	w.Text(c.PolicyID)
	w.Int32(c.of[spend.Allow])
	w.Int32(c.of[spend.Escalate])
	w.Int32(c.of[spend.Block])
	return w.End()
}

// CountChecks implements audit.Store, in the same way as CountViolations.
func (s *Store) CountChecks(ctx context.Context) error {
	_, err := s.countAll(ctx, "cannot count checks", "SELECT count_checks($1)")
	return err
}

// CheckCounts implements audit.Lists. It reads the counts by minute, and what is too new for them,
// in one snapshot.
func (s *Store) CheckCounts(ctx context.Context, q audit.CountQuery) (counts []audit.CheckCount, err error) {
	var refused error
	counts, err = inSnapshot(ctx, s.list, "cannot count checks", func(ctx context.Context, tx pgx.Tx) (counts []audit.CheckCount, err error) {
		if !q.OneByOne() {
			return sumCounts(ctx, tx, &q)
		}
		counts, refused, err = countOneByOne(ctx, tx, &q)
		return counts, err
	})
	if err == nil && refused != nil {
		return nil, fmt.Errorf("cannot count checks: %w", refused)
	}
	return counts, err
}

// selectCountState reads how far checks are counted. In another cluster nothing is counted, because
// transaction numbers mean nothing there.
const selectCountState = `SELECT below::text, pending::text, cluster = (SELECT system_identifier FROM pg_control_system())
	FROM check_count_state`

func sumCounts(ctx context.Context, tx pgx.Tx, q *audit.CountQuery) (counts []audit.CheckCount, err error) {
	var below, pending string
	var here bool
	if err := tx.QueryRow(ctx, selectCountState).Scan(&below, &pending, &here); err != nil {
		return nil, err
	}
	query, args := countsQuery(q, below, pending, here)
	rows, _ := tx.Query(ctx, query, append([]any{pgx.QueryResultFormats{pgx.BinaryFormatCode}}, args...)...) // the rows return its error
	defer rows.Close()
	first, length := q.From.Unix()/60, int64(q.Step/time.Minute)
	sums := make([][spend.Block + 1]int64, q.Until.Sub(q.From)/q.Step)
	for rows.Next() { // tens of thousands: they are not scanned one by one
		f := rows.RawValues()
		of := &sums[(int64(binary.BigEndian.Uint64(f[0]))-first)/length]
		for i, effect := range [...]spend.Effect{spend.Allow, spend.Escalate, spend.Block} {
			of[effect] += int64(binary.BigEndian.Uint64(f[i+1]))
		}
	}
	for i := range sums {
		if sums[i] != ([spend.Block + 1]int64{}) {
			counts = append(counts, audit.CheckCount{Start: q.From.UTC().Add(time.Duration(i) * q.Step), Of: sums[i]})
		}
	}
	return counts, rows.Err()
}

// countsQuery selects the counts of minutes, and the counts in batches that they do not include
// yet, grouped by the first minutes of steps; counts of one policy stay by minute. In another
// cluster, transaction numbers say nothing about the batches, so all batches of the range are read.
func countsQuery(q *audit.CountQuery, below, pending string, here bool) (string, []any) {
	var text query
	policies := q.Policies()
	counted := policies
	if counted == nil {
		counted = []string{""}
	}
	each := q.Step == time.Minute && len(counted) == 1
	if each {
		text.add("SELECT minute, allows::bigint, escalations::bigint, blocks::bigint FROM (")
	} else {
		text.add("SELECT min(minute), sum(allows)::bigint, sum(escalations)::bigint, sum(blocks)::bigint FROM (")
	}
	if here {
		text.add("SELECT minute, allows, escalations, blocks FROM check_counts WHERE policy_id = ANY (").arg(counted)
		text.add(")")
		text.minutes("minute", q)
		text.add(" UNION ALL SELECT c.minute, c.allows, c.escalations, c.blocks FROM (SELECT counts FROM batches WHERE xid > '0' AND xid >= ").
			arg(below)
		text.add("::xid8 UNION ALL SELECT counts FROM batches WHERE xid > '0' AND xid = ANY (").arg(pending)
		text.add("::xid8[])")
	} else {
		low, end := q.IDRange()
		text.add("SELECT c.minute, c.allows, c.escalations, c.blocks FROM (SELECT counts FROM batches WHERE last_id >= ").arg([16]byte(low))
		text.add(" AND first_id < ").arg([16]byte(end))
		text.add(" UNION ALL SELECT ARRAY[ROW(minute, policy_id, allows, escalations, blocks)::check_count] FROM folded_check_counts ")
		text.add("WHERE policy_id <> ''")
		text.minutes("minute", q)
	}
	text.add(") AS fresh, unnest(fresh.counts) AS c WHERE true")
	text.minutes("c.minute", q)
	if policies != nil {
		text.add(" AND c.policy_id = ANY (").arg(policies)
		text.add(")")
	}
	text.add(") AS counted")
	if !each {
		text.add(" GROUP BY minute / " + strconv.Itoa(int(q.Step/time.Minute)))
	}
	return text.String(), text.args
}

// minutes adds the condition that a minute is in the range.
func (q *query) minutes(column string, of *audit.CountQuery) {
	q.add(" AND " + column + " >= ").arg(of.From.Unix() / 60)
	q.add(" AND " + column + " < ").arg(of.Until.Unix() / 60)
}

// countOneByOne counts the checks of the range one by one, if there are not too many.
func countOneByOne(ctx context.Context, tx pgx.Tx, q *audit.CountQuery) (counts []audit.CheckCount, refused, err error) {
	low, end := q.IDRange()
	var archived bool
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM archived_days WHERE day >= day_of($1) AND day <= day_of($2))
		OR $1 < violations_from()`, [16]byte(low), [16]byte(end)).Scan(&archived)
	switch {
	case err != nil:
		return nil, nil, err
	case archived:
		return nil, audit.ErrArchived, nil
	}
	starts, err := listingStarts(ctx, tx, low, end)
	if err != nil {
		return nil, nil, err
	}
	t := tallying{tally: make(audit.Tally), left: q.Examine}
	for _, start := range starts {
		if err = t.add(ctx, tx, q, start, end); err != nil || t.left < 0 {
			return nil, audit.ErrTooMany, err
		}
		end = start
	}
	return t.tally.Steps(q.Step), nil, nil
}

// tallying counts checks one by one.
type tallying struct {
	tally audit.Tally
	left  int // how many more may be counted; negative if there were too many
}

// add adds the checks of a range, newest first.
func (t *tallying) add(ctx context.Context, tx pgx.Tx, q *audit.CountQuery, low, end spend.ID) error {
	var text query
	text.add("SELECT check_id, policy_id, decision, check_id >= ").arg([16]byte(low))
	text.is("agent_id", q.AgentID)
	text.within(q.Bounds)
	text.is("policy_id", q.PolicyID)
	text.add(" FROM (SELECT * FROM checks WHERE check_id >= $1 AND check_id < ").arg([16]byte(end))
	text.add(" ORDER BY check_id DESC LIMIT " + strconv.Itoa(t.left+1) + ") AS examined")
	rows, err := tx.Query(ctx, text.String(), text.args...)
	if err != nil {
		return err
	}
	var id spend.ID
	var policyID string
	var letter byte
	var counts bool
	_, err = pgx.ForEachRow(rows, []any{pg.UUID(&id), &policyID, &letter, &counts}, func() error {
		if t.left--; counts {
			t.tally.Add(policyID, id, effectOf(letter))
		}
		return nil
	})
	return err
}
