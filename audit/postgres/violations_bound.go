package postgres

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
)

// readBound is readPage for a key that may not see all violations (S31), and for violations of one
// policy or of some amounts. There are no counts for these, so it counts the violations of the range one by one.
func (s selection) readBound(ctx context.Context, tx pgx.Tx, q audit.ViolationQuery) (page audit.ViolationPage, err error) {
	var count query
	count.add("SELECT count(*) FROM violations WHERE id >= greatest(").arg([16]byte(s.low))
	count.add("::uuid, violations_from()) AND id < ").arg([16]byte(s.end))
	s.filterBound(&count, q)
	var total int64
	if err := tx.QueryRow(ctx, count.String(), count.args...).Scan(&total); err != nil {
		return page, err
	}
	end := s.end
	if !q.Before.IsZero() && q.Before.Compare(end) < 0 {
		end = q.Before
	}
	var newest query
	newest.add("SELECT " + violationColumns + " FROM violations WHERE id >= greatest(").arg([16]byte(s.low))
	newest.add("::uuid, violations_from()) AND id < ").arg([16]byte(end))
	s.filterBound(&newest, q)
	newest.add(" ORDER BY id DESC LIMIT " + strconv.Itoa(q.Limit+1))
	rows, _ := tx.Query(ctx, newest.String(), newest.args...) // the rows return its error
	return collectPage(rows, q.Limit, total)
}

// filterBound adds the conditions of filter and those of what the asking key may see.
func (s selection) filterBound(to *query, q audit.ViolationQuery) {
	s.filter(to)
	to.is("policy_id", q.PolicyID)
	to.amounts(q.Amounts)
	to.within(q.Bounds)
}

// is adds the condition that a column has a value, unless the value is empty.
func (q *query) is(column, value string) {
	if value != "" {
		q.add(" AND " + column + " = ").arg(value)
	}
}

// within adds the conditions of what the asking key may see.
func (q *query) within(b audit.Bounds) {
	if b.PolicyIDs != nil {
		q.add(" AND policy_id = ANY (").arg(b.PolicyIDs)
		q.add(")")
	}
	if b.AgentIDs != nil {
		q.add(" AND agent_id = ANY (").arg(b.AgentIDs)
		q.add(")")
	}
	if b.Principal != "" {
		q.add(" AND coalesce(principal, key_id) = ").arg(b.Principal)
	}
}
