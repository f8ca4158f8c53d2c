package violations

import (
	"context"
	"fmt"
	"time"
)

// agents is how many there are: the first has 6 % of the violations, most have
// a few.
const agents = 100_000

// generated returns the time of the n-th violation: one a second.
func generated(n int) time.Time { return time.Unix(1_780_000_000+int64(n), 0) }

// columns are those that record_checks fills.
const columns = "id, policy_version, latency_ms, action_type, decision, confidence, amount, currency, agent_id, policy_id, " +
	"counterparty, rule_id, rule_description, key_id"

// violationsFrom returns the rows of violations from $1 to before $2.
var violationsFrom = fmt.Sprintf(`SELECT (left(first_id((1780000000 + i) * 1000)::text, 24) || substr(md5(i::text), 1, 12))::uuid, 3, 2,
	CASE WHEN kind < 0.40 THEN 'r' WHEN kind < 0.80 THEN 's' WHEN kind < 0.95 THEN 'c' ELSE 'd' END::"char",
	CASE WHEN kind < 0.95 AND random() < 0.1 OR random() < 0.0004 THEN 'e' ELSE 'b' END::"char", 'h'::"char",
	(random() * 10000)::numeric(12, 2), 'USD', 'agent-' || floor(%d * random() ^ 4), 'support-refunds', 'customer-' || i %% 1000000,
	'cap', 'Refunds are capped at 100.00 USD', 'key_' || lpad(to_hex(i %% 1000), 32, '0')
	FROM (SELECT i, random() AS kind FROM generate_series($1::bigint, $2::bigint - 1) AS i) AS drawn`, agents)

// generate adds the violations of those numbers, some in each transaction.
func (b *bench) generate(ctx context.Context, from, to int) error {
	const chunk = 20_000
	if _, err := b.db.Exec(ctx, "SET synchronous_commit = off"); err != nil {
		return err
	}
	for ; from < to; from += chunk {
		_, err := b.db.Exec(ctx, "INSERT INTO violations ("+columns+") "+violationsFrom, from, min(from+chunk, to))
		if err != nil {
			return err
		}
	}
	return nil
}
