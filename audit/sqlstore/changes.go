package sqlstore

import (
	"context"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// ChangeColumns are what ScanChange reads.
const ChangeColumns = `seq, kind, subject, coalesce(version, 0), coalesce(key_id, ''), coalesce(principal, ''), coalesce(credential, ''),
	coalesce(request_id, ''), coalesce(address, ''), at, details, hash, head`

const selectChanges = "SELECT " + ChangeColumns + " FROM changes"

// ScanChange reads ChangeColumns.
func ScanChange(row Row) (c audit.Change, err error) {
	return c, row.Scan(&c.Seq, &c.Kind, &c.Subject, &c.Version, &c.By.KeyID, &c.By.Principal, &c.By.Credential, &c.By.RequestID,
		&c.By.Address, &c.At, &c.Details, &c.Hash, &c.Head)
}

// Changes implements audit.Changes.
func (s *Store) Changes(ctx context.Context, q audit.ChangeQuery) ([]audit.Change, error) {
	return list(ctx, s, "cannot read the changes", ScanChange, selectChanges+` WHERE seq > $1
		AND ($2 = '' OR subject = $2 AND kind LIKE 'policy.%')
		AND ($3 = '' OR subject = $3 AND kind NOT LIKE 'policy.%' OR key_id = $3) AND at >= from_ms($4) ORDER BY seq LIMIT $5`,
		q.After, q.PolicyID, q.KeyID, q.Since.UnixMilli(), q.Limit)
}

// ChangesOf implements audit.EventSources.
func (s *Store) ChangesOf(ctx context.Context, seqs []int64) ([]audit.Change, error) {
	var w Where
	Among(&w, "seq", seqs)
	return list(ctx, s, "cannot read the changes", ScanChange, selectChanges+w.String(), w.Args...)
}

// ExhaustionsOf implements audit.EventSources.
func (s *Store) ExhaustionsOf(ctx context.Context, ids []spend.ID) ([]audit.Exhaustion, error) {
	var w Where
	Among(&w, "id", ids)
	return list(ctx, s, "cannot look up exhausted budgets", func(row Row) (e audit.Exhaustion, err error) {
		return e, row.Scan(&e.ID, &e.At, &e.Counter.ID, &e.Counter.StartMS, &e.Counter.BucketMS, &e.PolicyID, &e.RuleID, &e.Since, &e.Subject,
			&e.AgentID, &e.Limited, Parse(&e.Limit, spend.ParseTotal), &e.Counted, &e.MaxCount, &e.Percent,
			Parse(&e.Usage.Used, spend.ParseTotal), &e.Usage.Count)
	}, `SELECT id, at, counter_id, start_ms, bucket_ms, policy_id, rule_id, since, subject, coalesce(agent_id, ''), max_used IS NOT NULL,
			coalesce(CAST(max_used AS text), '0'), max_count IS NOT NULL, coalesce(max_count, 0), percent, CAST(used AS text), count
		FROM budget_exhaustions`+w.String(), w.Args...)
}
