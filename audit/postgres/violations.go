package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
)

// Violations implements audit.Lists. Its cost hardly grows with the number of violations: the page
// comes from an index that begins with the columns of the filters, and the total is a sum of counts
// (see CountViolations) plus the violations that the counts leave out, counted one by one. It reads
// all in one snapshot, so the sum is exact even while violations are being added to the counts.
func (s *Store) Violations(ctx context.Context, q audit.ViolationQuery) (audit.ViolationPage, error) {
	return inSnapshot(ctx, s.list, "cannot list violations", func(ctx context.Context, tx pgx.Tx) (audit.ViolationPage, error) {
		return readPage(ctx, tx, q)
	})
}

func readPage(ctx context.Context, tx pgx.Tx, q audit.ViolationQuery) (page audit.ViolationPage, err error) {
	s := selectionOf(q)
	if q.Bound() || q.PolicyID != "" || q.Amounts != (audit.Amounts{}) {
		return s.readBound(ctx, tx, q)
	}
	c, err := readCounted(ctx, tx, s)
	if err != nil {
		return page, err
	}
	s.low = spend.Later(s.low, c.from)
	query, args := s.total(c)
	var total int64
	if err := tx.QueryRow(ctx, query, args...).Scan(&total); err != nil {
		return page, err
	}
	query, args = s.page(q.Before, q.Limit+1)
	rows, _ := tx.Query(ctx, query, args...) // the rows return its error
	return collectPage(rows, q.Limit, total)
}

// collectPage makes a page from rows that were queried with one row more than the limit.
func collectPage(rows pgx.Rows, limit int, total int64) (audit.ViolationPage, error) {
	violations, err := pgx.CollectRows(rows, scanViolation)
	page := audit.ViolationPage{Total: total}
	page.Violations, page.More = audit.Cut(violations, limit)
	return page, err
}

// selection is the filters of a listing: the violations of one agent, or of all, of certain types
// and effects, with identifiers from low on and before end.
type selection struct {
	agent    string
	types    []spend.ActionType
	effects  []spend.Effect
	low, end spend.ID
}

func selectionOf(q audit.ViolationQuery) selection {
	s := selection{agent: q.AgentID, types: spend.ActionTypes[:], effects: []spend.Effect{spend.Block, spend.Escalate}}
	if q.ActionType != spend.Unspecified {
		s.types = []spend.ActionType{q.ActionType}
	}
	if q.Effect != spend.Allow {
		s.effects = []spend.Effect{q.Effect}
	}
	s.low, s.end = q.IDRange()
	if s.end != audit.MaxID() {
		s.end = audit.FirstID(q.To.UnixMilli() + 1)
	}
	return s
}

// everyKind reports whether neither type nor effect is filtered.
func (s selection) everyKind() bool {
	return len(s.types) == len(spend.ActionTypes) && len(s.effects) == 2
}

// counted describes what the counts cover of a selection.
type counted struct {
	// Violations from first on and before last have counts, if some is set: an agent with few
	// violations has no counts, and no agent has any until all violations from before the first
	// roll-up are counted.
	some        bool
	first, last spend.ID
	from        spend.ID // older violations are archived, and neither listed nor counted
	// The counts leave out transactions with numbers from below on, or in pending, as text (see the
	// table violation_count_state).
	below, pending string
}

// Transaction numbers mean nothing in another cluster.
const selectCounted = `SELECT below::text, pending::text, recounted_to IS NULL
	AND cluster = (SELECT system_identifier FROM pg_control_system()),
	(SELECT start_id FROM violation_counts WHERE agent_id = $1 AND start_id >= greatest($2, kept.low) ORDER BY start_id LIMIT 1),
	last.start_id, last.max_id, kept.low
	FROM violation_count_state CROSS JOIN (SELECT violations_from() AS low OFFSET 0) AS kept LEFT JOIN LATERAL
		(SELECT start_id, max_id FROM violation_counts WHERE agent_id = $1 AND start_id <= $3 ORDER BY start_id DESC LIMIT 1) AS last ON true`

func readCounted(ctx context.Context, tx pgx.Tx, s selection) (c counted, err error) {
	var first, last, high pgtype.UUID
	err = tx.QueryRow(ctx, selectCounted, s.agent, [16]byte(s.low), [16]byte(s.end)).Scan(&c.below, &c.pending, &c.some, &first, &last, &high,
		pg.UUID(&c.from))
	c.first, c.last = first.Bytes, last.Bytes
	// The last count lies wholly before the end: between the two there is
	// nothing of an agent that was frequent until then, but much of others.
	if s.end == audit.MaxID() || s.end.Compare(high.Bytes) > 0 {
		c.last = s.end
	}
	c.some = c.some && first.Valid && c.first.Compare(c.last) < 0
	return c, err
}

// total returns the query for the exact number: the counts in the middle, the ends that they do not
// cover, and the violations that are too new for them.
func (s selection) total(c counted) (string, []any) {
	var q query
	if !c.some {
		q.add("SELECT ")
		s.countEach(&q, s.low, s.end)
		return q.String(), q.args
	}
	q.add("SELECT (SELECT coalesce(sum(" + s.columns() + "), 0)::bigint FROM violation_counts WHERE agent_id = ")
	q.arg(s.agent)
	q.add(" AND start_id >= ").arg([16]byte(c.first))
	q.add(" AND start_id < ").arg([16]byte(c.last))
	q.add(")")
	if s.low != c.first {
		q.add(" + ")
		s.countEach(&q, s.low, c.first)
	}
	if s.end != c.last {
		q.add(" + ")
		s.countEach(&q, c.last, s.end)
	}
	q.add(" + ")
	s.countNew(&q, c, "xid >= ", c.below, "::xid8")
	if c.pending != "{}" {
		q.add(" + ")
		s.countNew(&q, c, "xid = ANY (", c.pending, "::xid8[])")
	}
	return q.String(), q.args
}

// columns returns the columns of violation_counts that the selection sums up.
func (s selection) columns() string {
	if s.everyKind() {
		return "total"
	}
	names := map[spend.Effect]string{spend.Block: "_blocks", spend.Escalate: "_escalations"}
	var all []string
	for _, t := range s.types {
		for _, e := range s.effects {
			all = append(all, t.String()+names[e])
		}
	}
	return strings.Join(all, " + ")
}

// countEach counts a part of the selection one by one.
func (s selection) countEach(q *query, low, end spend.ID) {
	q.add("(SELECT count(*) FROM violations WHERE id >= ").arg([16]byte(low))
	q.add(" AND id < ").arg([16]byte(end))
	s.filter(q)
	q.add(")")
}

// countNew counts the violations of some transactions one by one. OFFSET 0 keeps the planner on the
// index of transactions: outdated statistics might make it choose another.
func (s selection) countNew(q *query, c counted, condition, transactions, end string) {
	q.add("(SELECT count(*) FROM (SELECT id, agent_id, action_type, decision FROM violations WHERE xid > '0' AND " + condition).
		arg(transactions)
	q.add(end + " OFFSET 0) AS new WHERE id >= ").arg([16]byte(c.first))
	q.add(" AND id < ").arg([16]byte(c.last))
	s.filter(q)
	q.add(")")
}

// filter adds the conditions other than the identifier's. For an agent it names all types and
// effects, because these come before the identifier in the index.
func (s selection) filter(q *query) {
	if s.agent != "" {
		q.add(" AND agent_id = ").arg(s.agent)
	}
	if s.agent == "" && s.everyKind() {
		return
	}
	var types, effects []string
	for _, t := range s.types {
		types = append(types, "'"+chain.TypeLetters[t:t+1]+"'")
	}
	for _, e := range s.effects {
		effects = append(effects, "'"+chain.EffectLetters[e:e+1]+"'")
	}
	q.add(" AND action_type IN (" + strings.Join(types, ", ") + ") AND decision IN (" + strings.Join(effects, ", ") + ")")
}

const violationColumns = `id, agent_id, policy_id, policy_version, action_type, amount::text, currency, counterparty,
	decision, rule_id, rule_description, confidence, latency_ms`

// page returns the query for the newest violations before an ID, or of all if the ID is zero.
func (s selection) page(before spend.ID, limit int) (string, []any) {
	end := s.end
	if !before.IsZero() && before.Compare(end) < 0 {
		end = before
	}
	var q query
	if s.agent == "" && s.everyKind() {
		q.add("SELECT " + violationColumns + " FROM violations WHERE id >= ").arg([16]byte(s.low))
		q.add(" AND id < ").arg([16]byte(end))
		q.add(" ORDER BY id DESC LIMIT " + strconv.Itoa(limit))
		return q.String(), q.args
	}
	q.add("SELECT " + violationColumns + " FROM violations WHERE id = ANY (ARRAY(SELECT id FROM (")
	for i, t := range s.types {
		for j, e := range s.effects {
			if i+j > 0 {
				q.add(" UNION ALL ")
			}
			s.newestOf(&q, t, e, end, limit)
		}
	}
	q.add(") AS newest WHERE id >= ").arg([16]byte(s.low))
	q.add(" ORDER BY id DESC LIMIT " + strconv.Itoa(limit) + ")) ORDER BY id DESC")
	return q.String(), q.args
}

// newestOf selects the newest of a kind before end, the range's beginning
// notwithstanding. It reads as many entries of the index as the limit says, and
// drops entries of whatever follows the kind there: a bound below would not end
// the scan but filter. Rows are compared, and ordered by columns that are
// equal, so that no other index will do: the planner would scan the index of
// identifiers for an agent that it believes to be frequent, past all that came
// since the agent's last violation.
func (s selection) newestOf(q *query, t spend.ActionType, e spend.Effect, end spend.ID, limit int) {
	columns, descending := "action_type, decision, id", "action_type DESC, decision DESC, id DESC"
	if s.agent != "" {
		columns, descending = "agent_id, "+columns, "agent_id DESC, "+descending
	}
	letters := "'" + chain.TypeLetters[t:t+1] + "', '" + chain.EffectLetters[e:e+1] + "'"
	kind := "(" + strings.TrimSuffix(columns, ", id") + ") = ("
	q.add("(SELECT id FROM (SELECT " + columns + " FROM violations WHERE (" + columns + ") < (")
	if s.agent != "" {
		q.arg(s.agent)
		q.add(", ")
		kind += "$" + strconv.Itoa(len(q.args)) + ", "
	}
	q.add(letters + ", ").arg([16]byte(end))
	q.add(") ORDER BY " + descending + " LIMIT " + strconv.Itoa(limit) + ") AS entry WHERE " + kind + letters + "))")
}

// query is the text of a query that is being built, and its arguments.
type query struct {
	strings.Builder
	args []any
}

func (q *query) add(text string) *query {
	q.WriteString(text)
	return q
}

// arg adds a parameter and its place in the text.
func (q *query) arg(value any) {
	q.args = append(q.args, value)
	q.add("$" + strconv.Itoa(len(q.args)))
}

func scanViolation(row pgx.CollectableRow) (audit.Violation, error) {
	var v audit.Violation
	var actionType, effect, confidence byte
	var amount string
	err := row.Scan(pg.UUID(&v.ID), &v.AgentID, &v.PolicyID, &v.PolicyVersion, &actionType, &amount, &v.Currency,
		&v.Counterparty, &effect, &v.RuleID, &v.RuleDescription, &confidence, &v.LatencyMS)
	if err != nil {
		return v, err
	}
	v.ActionType = typeOf(actionType)
	v.Effect = effectOf(effect)
	v.Confidence = confidenceOf(confidence)
	if v.Amount, err = spend.ParseAmount(amount); err != nil {
		return v, fmt.Errorf("violation %s: amount %w", v.ID.Text(spend.PrefixViolation), err)
	}
	return v, nil
}
