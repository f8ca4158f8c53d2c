package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/audit/sqlstore"
)

const (
	// countedAtOnce bounds how long commits wait for a step of CountChecks.
	countedAtOnce = 1000
	selectCounted = "SELECT counted_to FROM check_count_state"
	addCount      = `INSERT INTO check_counts (policy_id, minute, allows, escalations, blocks) VALUES (?1, ?2, ?3, ?4, ?5)
		ON CONFLICT (policy_id, minute) DO UPDATE SET allows = allows + ?3, escalations = escalations + ?4, blocks = blocks + ?5`
)

// CountChecks implements audit.Store.
func (s *Store) CountChecks(ctx context.Context) error {
	for {
		waiting, err := one(ctx, s.reader, "cannot count checks", scalar[bool], "SELECT EXISTS (SELECT 1 FROM checks WHERE rowid > ("+
			selectCounted+"))")
		if err != nil || !waiting {
			return err
		}
		if err := s.write(ctx, "cannot count checks", func(tx *sql.Tx) error { return countSome(ctx, tx) }); err != nil {
			return err
		}
	}
}

func countSome(ctx context.Context, tx *sql.Tx) error {
	counted, err := one(ctx, tx, "cannot count checks", scalar[int64], selectCounted)
	if err != nil {
		return err
	}
	tally := make(audit.Tally)
	last := counted
	if err = each(ctx, tx, "cannot count checks", func(row scanner) error { return tallyRow(row, tally, &last) },
		"SELECT check_id, policy_id, decision, rowid FROM checks WHERE rowid > ? ORDER BY rowid LIMIT ?", counted, countedAtOnce); err != nil {
		return err
	}
	for key, c := range tally {
		for _, policyID := range []string{"", key.PolicyID} {
			if _, err := tx.Exec(addCount, policyID, key.Minute, c.Of[spend.Allow], c.Of[spend.Escalate], c.Of[spend.Block]); err != nil {
				return err
			}
		}
	}
	_, err = tx.Exec("UPDATE check_count_state SET counted_to = ?", last)
	return err
}

func tallyRow(row scanner, tally audit.Tally, number *int64) error {
	var id spend.ID
	var policyID string
	var effect spend.Effect
	err := row.Scan(blob(id[:]), &policyID, known(&effect, spend.ParseEffect), number)
	if err == nil {
		tally.Add(policyID, id, effect)
	}
	return err
}

// CheckCounts implements audit.Lists, in one snapshot.
func (s *Store) CheckCounts(ctx context.Context, q audit.CountQuery) ([]audit.CheckCount, error) {
	const doing = "cannot count checks"
	tx, err := s.reader.BeginTx(ctx, nil)
	if err != nil {
		return nil, unavailable(doing, err)
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	low, end := q.IDRange()
	var w sqlstore.Where
	tally := make(audit.Tally)
	if q.OneByOne() {
		w.Range("check_id", low, end)
		examined, err := one(ctx, tx, doing, scalar[int], "SELECT count(*) FROM (SELECT 1 FROM checks"+w.String()+" LIMIT "+
			strconv.Itoa(q.Examine+1)+")", w.Args...)
		if err != nil {
			return nil, err
		}
		if examined > q.Examine {
			return nil, fmt.Errorf("%s: %w", doing, audit.ErrTooMany)
		}
		w.Is("agent_id", q.AgentID)
		w.Is("policy_id", q.PolicyID)
		w.Within(q.Bounds)
	} else {
		if err := addCounted(ctx, tx, &q, tally); err != nil {
			return nil, err
		}
		// The plus keeps the query from the index on check_id, so that it reads only new rows.
		w.Text = " AND rowid > (" + selectCounted + ")"
		w.Range("+check_id", low, end)
		sqlstore.In(&w, "policy_id", q.Policies())
	}
	var number int64
	err = each(ctx, tx, doing, func(row scanner) error { return tallyRow(row, tally, &number) },
		"SELECT check_id, policy_id, decision, rowid FROM checks"+w.String(), w.Args...)
	if err != nil {
		return nil, err
	}
	return tally.Steps(q.Step), nil
}

// addCounted adds what is counted by minute.
func addCounted(ctx context.Context, tx *sql.Tx, q *audit.CountQuery, tally audit.Tally) error {
	policies := q.Policies()
	if policies == nil {
		policies = []string{""}
	}
	var w sqlstore.Where
	w.And("minute >= ", q.From.Unix()/60)
	w.And("minute < ", q.Until.Unix()/60)
	sqlstore.In(&w, "policy_id", policies)
	err := each(ctx, tx, "cannot count checks", func(row scanner) error {
		var key audit.CountKey
		var c audit.CheckCount
		err := row.Scan(&key.PolicyID, &key.Minute, &c.Of[spend.Allow], &c.Of[spend.Escalate], &c.Of[spend.Block])
		c.Start = time.Unix(key.Minute*60, 0).UTC()
		tally[key] = &c
		return err
	}, "SELECT policy_id, minute, allows, escalations, blocks FROM check_counts"+w.String(), w.Args...)
	return err
}
