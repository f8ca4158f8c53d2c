package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"spendgate/audit"
)

// ListChecks implements audit.Trail, in one snapshot.
func (s *Store) ListChecks(ctx context.Context, q audit.CheckQuery) (page audit.CheckPage, err error) {
	const doing = "cannot list checks"
	tx, err := s.reader.BeginTx(ctx, nil)
	if err != nil {
		return page, unavailable(doing, err)
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	low, end := q.IDRange()
	const examined = " FROM checks WHERE check_id >= ? AND check_id < ? ORDER BY check_id DESC LIMIT "
	w := where{args: []any{low[:], end[:], q.Examine}}
	if q.AgentID != "" {
		w.and("agent_id = ?", q.AgentID)
	}
	if q.PolicyID != "" {
		w.and("policy_id = ?", q.PolicyID)
	}
	if q.Effect != nil {
		w.and("decision = ?", q.Effect.String())
	}
	if q.Unreported {
		w.and("decision = 'allow' AND check_id NOT IN (SELECT check_id FROM outcomes)")
	}
	w.within(q.Bounds)
	page.Checks, err = collect(ctx, tx, doing, scanCheck, "SELECT "+checkColumns()+" FROM (SELECT *"+examined+"?) WHERE true"+w.text+
		" ORDER BY check_id DESC LIMIT ?", append(w.args, q.Limit+1)...)
	if err != nil {
		return page, err
	}
	if page.Cut(q.Limit); page.More {
		return page, nil
	}
	var last []byte
	err = tx.QueryRowContext(ctx, "SELECT check_id"+examined+"1 OFFSET ?", low[:], end[:], q.Examine-1).Scan(&last)
	switch {
	case errors.Is(err, sql.ErrNoRows): // there are not as many
		return page, nil
	case err != nil:
		return page, unavailable(doing, err)
	}
	page.More = true
	copy(page.Next[:], last)
	return page, nil
}

// where is the conditions of a query, and their arguments.
type where struct {
	text string
	args []any
}

func (w *where) and(condition string, args ...any) {
	w.text += " AND " + condition
	w.args = append(w.args, args...)
}

// within adds what the asking key may see.
func (w *where) within(b audit.Bounds) {
	if b.PolicyIDs != nil {
		w.and("policy_id IN ("+marks(len(b.PolicyIDs))+")", anys(b.PolicyIDs)...)
	}
	if b.AgentIDs != nil {
		w.and("agent_id IN ("+marks(len(b.AgentIDs))+")", anys(b.AgentIDs)...)
	}
	if b.Principal != "" {
		w.and("coalesce(principal, key_id) = ?", b.Principal)
	}
}

func anys(values []string) []any {
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = v
	}
	return args
}
