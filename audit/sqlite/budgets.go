package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/audit/sqlstore"
)

// changeCounters takes from counters what the checks take, or refuses with all changes that have no
// room. Then it corrects counters. Counters that the commit uses up, or that refused its checks before, are recorded as exhausted.
func changeCounters(tx *sql.Tx, changes, refusals []audit.CounterChange) error {
	exceeded := new(audit.ExceededError)
	before := make(map[spend.ID]spend.Usage) // of rolling windows
	for _, ch := range changes {
		if !ch.Take {
			continue
		}
		own, window, err := usageOf(context.Background(), tx, ch.Counter)
		if err != nil {
			return err
		}
		if !ch.Meets(window) {
			exceeded.Usages = append(exceeded.Usages, audit.CounterUsage{Counter: ch.Counter, Usage: window})
			continue
		}
		if _, known := before[ch.ID]; ch.BucketMS > 0 && !known {
			before[ch.ID] = window
		}
		if err := take(tx, &ch, own); err != nil {
			return err
		}
	}
	if exceeded.Usages != nil {
		return exceeded
	}
	for _, ch := range changes {
		if !ch.Corrects() {
			continue
		}
		own, _, err := usageOf(context.Background(), tx, ch.Counter)
		if err != nil {
			return err
		}
		own = ch.Corrected(own)
		// A missing row is of a window that has ended.
		_, err = tx.Exec("UPDATE budget_counters SET used = ?, count = ? WHERE counter_id = ? AND start_ms = ?",
			own.Used.String(), own.Count, ch.ID[:], ch.StartMS)
		if err != nil {
			return err
		}
	}
	exhausted := refusals
	for _, ch := range changes {
		if !ch.Take {
			continue
		}
		_, window, err := usageOf(context.Background(), tx, ch.Counter)
		if err != nil {
			return err
		}
		if ch.Exhausts(window) {
			exhausted = append(exhausted, ch)
		}
	}
	if err := noticePercentages(tx, changes, before); err != nil {
		return err
	}
	return insertExhaustions(tx, exhausted)
}

// noticePercentages records which percentages counters reach that were taken from, once for each window (S90). What a
// rolling window was below before the commit counts again.
func noticePercentages(tx *sql.Tx, changes []audit.CounterChange, before map[spend.ID]spend.Usage) error {
	for i, ch := range changes {
		// A later bucket of the same window comes next.
		again := i+1 < len(changes) && ch.BucketMS > 0 && changes[i+1].ID == ch.ID && changes[i+1].Count > 0
		if ch.Count == 0 || ch.Charge.NotifyAt == "" || again {
			continue
		}
		_, now, err := usageOf(context.Background(), tx, ch.Counter)
		if err != nil {
			return err
		}
		var noticed spend.Percentages
		err = tx.QueryRow("SELECT noticed FROM budget_counters WHERE counter_id = ? AND start_ms = ?", ch.ID[:], ch.StartMS).
			Scan((*string)(&noticed))
		if err != nil {
			return err
		}
		told := noticed
		if ch.BucketMS > 0 {
			told = ch.Charge.Reached(told, before[ch.ID])
		}
		for _, percent := range ch.Charge.Reached(ch.Charge.NotifyAt, now).Without(told) {
			if err := insertExhaustion(tx, &ch, percent, now); err != nil {
				return err
			}
			told = told.With(percent)
		}
		of, args := "counter_id = ? AND start_ms = ?", []any{string(told), ch.ID[:], ch.StartMS}
		if ch.BucketMS > 0 {
			told = ch.Charge.Reached(told, now)
			of, args = "counter_id = ?", []any{string(told), ch.ID[:]}
		}
		if told == noticed {
			continue
		}
		if _, err := tx.Exec("UPDATE budget_counters SET noticed = ? WHERE "+of, args...); err != nil {
			return err
		}
	}
	return nil
}

// take takes from a counter whose row has that usage; none without a row.
func take(tx *sql.Tx, ch *audit.CounterChange, own spend.Usage) error {
	own = spend.Usage{Used: own.Used.Plus(ch.Used), Count: own.Count + ch.Count}
	var end any
	if ch.Charge.EndMS != 0 {
		end = ch.Charge.EndMS
	}
	_, err := tx.Exec(`INSERT INTO budget_counters (counter_id, start_ms, bucket_ms, end_ms, since, used, count, policy_id, rule_id, subject,
			noticed)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10,
			iif(?3 > 0, coalesce((SELECT noticed FROM budget_counters WHERE counter_id = ?1 LIMIT 1), ''), ''))
		ON CONFLICT (counter_id, start_ms) DO UPDATE SET used = ?6, count = ?7`,
		ch.ID[:], ch.StartMS, ch.BucketMS, end, ch.Charge.Since, own.Used.String(), own.Count, ch.PolicyID, ch.Charge.RuleID, ch.Charge.Subject)
	if err != nil {
		return err
	}
	for _, principal := range ch.Principals {
		_, err := tx.Exec("INSERT INTO budget_principals (counter_id, principal) VALUES (?, ?) ON CONFLICT DO NOTHING", ch.ID[:], principal)
		if err != nil {
			return err
		}
	}
	return nil
}

// insertExhaustions records that counters are exhausted, unless that is already recorded for their
// window: for a rolling window, in any of the buckets that count (S51).
func insertExhaustions(tx *sql.Tx, changes []audit.CounterChange) error {
	for _, ch := range changes {
		_, window, err := usageOf(context.Background(), tx, ch.Counter)
		if err != nil {
			return err
		}
		newest := ch.StartMS
		if ch.BucketMS > 0 {
			newest = math.MaxInt64
		}
		var known bool
		err = tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM budget_exhaustions
				WHERE counter_id = ? AND percent = 100 AND nth = ? AND start_ms BETWEEN ? AND ?)`,
			ch.ID[:], ch.Charge.Raised, ch.StartMS-spend.RollingBuckets*ch.BucketMS, newest).Scan(&known)
		if err == nil && !known {
			err = insertExhaustion(tx, &ch, spend.Exhausted, window)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// insertExhaustion records that a counter reached a percentage of its limit, unless that is recorded for its calendar window. Of
// 100, nth is the last change of the counter's open grants.
func insertExhaustion(tx *sql.Tx, ch *audit.CounterChange, percent int, usage spend.Usage) error {
	var maxUsed, maxCount any
	if ch.Charge.Limited {
		maxUsed = ch.Charge.Limit.String()
	}
	if ch.Charge.Counted {
		maxCount = ch.Charge.MaxCount
	}
	id := spend.NewID(time.Now())
	_, err := tx.Exec(`INSERT INTO budget_exhaustions (counter_id, start_ms, bucket_ms, id, at, since, percent, nth, max_used,
			max_count, used, count, policy_id, rule_id, subject, agent_id)
		SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, iif(?7 = 100, ?16, n.nth), ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15 FROM (
			SELECT count(*) AS nth FROM budget_exhaustions WHERE counter_id = ?1 AND start_ms = ?2 AND percent = ?7) AS n
			WHERE n.nth = 0 OR ?3 > 0 OR ?7 = 100`,
		ch.ID[:], ch.StartMS, ch.BucketMS, id[:], id.Time().UnixMilli(), ch.Charge.Since, percent, maxUsed, maxCount,
		usage.Used.String(), usage.Count, ch.PolicyID, ch.Charge.RuleID, ch.Charge.Subject, orNull(ch.Charge.AgentID), ch.Charge.Raised)
	return err
}

// usageOf returns the use of a counter's row, and the use that counts: the same, or that of all
// buckets of a rolling window.
func usageOf(ctx context.Context, from querier, c spend.Counter) (own, window spend.Usage, err error) {
	oldest, newest := c.StartMS, c.StartMS
	if c.BucketMS > 0 {
		oldest, newest = max(c.StartMS-spend.RollingBuckets*c.BucketMS, 0), 1<<62
	}
	err = each(ctx, from, "cannot read counters of budgets", func(row scanner) error {
		var start int64
		var u spend.Usage
		err := row.Scan(&start, sqlstore.Parse(&u.Used, spend.ParseTotal), &u.Count)
		window = window.Add(u)
		if start == c.StartMS {
			own = u
		}
		return err
	}, "SELECT start_ms, used, count FROM budget_counters WHERE counter_id = ? AND start_ms BETWEEN ? AND ?", c.ID[:], oldest, newest)
	return own, window, err
}

// CounterUsages implements audit.Budgets.
func (s *Store) CounterUsages(ctx context.Context, counters []spend.Counter) ([]spend.Usage, error) {
	usages := make([]spend.Usage, len(counters))
	for i, c := range counters {
		var err error
		if _, usages[i], err = usageOf(ctx, s.reader, c); err != nil {
			return nil, err
		}
	}
	return usages, nil
}

// ListCounters implements audit.Budgets.
func (s *Store) ListCounters(ctx context.Context, q audit.CounterQuery) ([]audit.SubjectUsage, bool, error) {
	var w sqlstore.Where
	w.And("subject > ", q.After)
	if q.BucketMS > 0 {
		w.And("start_ms >= ", q.StartMS-spend.RollingBuckets*q.BucketMS)
		if q.Past {
			w.And("start_ms <= ", q.StartMS)
		}
	} else {
		w.And("start_ms = ", q.StartMS)
	}
	if ids := q.CounterIDs(); ids != nil {
		sqlstore.Among(&w, "counter_id", ids)
	} else {
		w.And("policy_id = ", q.PolicyID)
		w.And("rule_id = ", q.RuleID)
		w.And("since = ", q.Since)
		for i, values := range q.Subject {
			sqlstore.In(&w, fmt.Sprintf("subject ->> %d", i), values)
		}
	}
	if q.Principal != "" {
		w.Text += " AND EXISTS (SELECT 1 FROM budget_principals AS p WHERE p.counter_id = budget_counters.counter_id AND principal = " +
			w.Arg(q.Principal) + ")"
	}
	subjects, err := collect(ctx, s.reader, "cannot list budgets", func(row scanner) (subject audit.SubjectUsage, err error) {
		var parts []struct {
			Used  string
			Count int64
		}
		read := func(text string) error { return json.Unmarshal([]byte(text), &parts) }
		err = row.Scan(&subject.Subject, &subject.FirstMS, sqlstore.Parsed(read))
		for _, part := range parts {
			used, wrong := spend.ParseTotal(part.Used)
			err = errors.Join(err, wrong)
			subject.Usage = subject.Add(spend.Usage{Used: used, Count: part.Count})
		}
		return subject, err
	}, "SELECT subject, min(start_ms), json_group_array(json_object('used', used, 'count', count)) FROM budget_counters"+w.String()+
		" AND (count > 0 OR used <> '0') GROUP BY subject ORDER BY subject LIMIT "+w.Arg(q.Limit+1), w.Args...)
	subjects, more := audit.Cut(subjects, q.Limit)
	return subjects, more, err
}
