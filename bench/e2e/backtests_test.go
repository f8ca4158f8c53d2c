package e2e_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// backtestedChecks are enough that a replay takes some seconds, within the minute before the
// policy was made from which checks are taken to be its.
const backtestedChecks = 60_000

// testBacktests: a node that is killed in the midst of a backtest loses it to another,
// whose report and flips are the ones of a run that nobody disturbed, byte for byte (S53).
func testBacktests(t *testing.T, binary string) {
	f := startFleet(t, fleet.Options{Binary: binary, Nodes: 2})
	_, key, err := f.Nodes[0].Admin(f.AdminKey).CreateKey(t.Context(), "test", plenty)
	must.Do(t, err)
	first, second := f.Nodes[0].Client(key), f.Nodes[1].Client(key)
	ok(t, must.Get(first.PostPolicy(t.Context(), standardPolicy()))(t), http.StatusCreated)
	template := check(t, first, fleet.Action{
		AgentID: "agent", PolicyID: standard, ActionType: "refund", Amount: "44", Currency: "USD", Counterparty: "c",
	}).Result()
	tag := must.Get(f.Postgres.Pool.Exec(t.Context(), `INSERT INTO checks
		SELECT (lpad(to_hex(c.claimed_ms - n / 4), 12, '0') || '70008000' || lpad(to_hex(n), 12, '0'))::uuid,
			c.node, c.epoch, c.claimed_ms - n / 4, c.until_ms - n / 4,
			c.policy_version, c.latency_ms, c.format, c.requested_type, c.action_type, c.decision, c.confidence, 1 + n % 150,
			sha256(n::text::bytea), c.request_sha, c.currency, 'agent-' || n % 50, c.policy_id, c.counterparty, c.payment_method,
			c.merchant_or_vendor, c.reason_text, NULL, c.metadata, c.reason_code, c.rule_id, c.rule_description, c.message,
			c.next_step, c.key_id, c.request_id
		FROM checks AS c, generate_series(4, $2::bigint + 2) AS n WHERE c.check_id = $1`,
		strings.TrimPrefix(template.CheckID, "chk_"), backtestedChecks))(t)
	if tag.RowsAffected() != backtestedChecks-1 {
		t.Fatalf("%d checks inserted", tag.RowsAffected())
	}
	asked := map[string]any{
		"policy_id": standard, "from": time.Now().Add(-time.Hour).UTC().Format(time.RFC3339), "to": time.Now().UTC().Format(time.RFC3339Nano),
		"rules": []fleet.Rule{
			{RuleID: "cap", RuleType: "max_amount", Parameters: map[string]any{"limit": 140, "currency": "USD"}},
			{RuleID: "hour", RuleType: "budget", Parameters: map[string]any{
				"limit": 20000, "currency": "USD", "window": "hour", "per": []string{"agent_id"},
			}},
		},
	}
	want := ended(t, first, beginBacktest(t, first, asked))
	if want.Report.Coverage.Compared != backtestedChecks || want.Report.Flips.Total < 10_000 {
		t.Fatalf("a run that nobody disturbs: %s", want.raw)
	}
	wantFlips := flipsOf(t, f, want.BacktestID)

	must.Do(t, f.Nodes[1].Stop()) // so that the other node runs the backtest
	disturbed := stuck(t, f, first, asked)
	must.Do(t, f.Nodes[0].Kill())
	must.Do(t, f.Nodes[1].Continue())
	disturbed.free()
	got := ended(t, second, disturbed.id)
	if string(got.raw) != string(want.raw) {
		t.Errorf("the report is\n%s, undisturbed\n%s", got.raw, want.raw)
	}
	if flips := flipsOf(t, f, disturbed.id); flips != wantFlips {
		t.Errorf("the flips are %s, undisturbed %s", flips, wantFlips)
	}
	var attempts int
	must.Do(t, f.Postgres.Pool.QueryRow(t.Context(), "SELECT attempts FROM backtests WHERE id = $1::uuid",
		strings.TrimPrefix(disturbed.id, "bt_")).Scan(&attempts))
	if attempts != 2 {
		t.Errorf("it was begun %d times", attempts)
	}
}

// stuckBacktest is a backtest whose node has recorded some flips and waits to record the others.
type stuckBacktest struct {
	id   string
	free func()
}

// stuck begins backtests until one is stuck.
func stuck(t *testing.T, f *fleet.Fleet, c *fleet.Client, asked any) stuckBacktest {
	t.Helper()
	for range 5 {
		id := beginBacktest(t, c, asked)
		recorded := func() (flips int, status string) {
			must.Do(t, f.Postgres.Pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM backtest_flips WHERE backtest_id = b.id), status
				FROM backtests AS b WHERE id = $1::uuid`,
				strings.TrimPrefix(id, "bt_")).Scan(&flips, &status))
			return flips, status
		}
		eventually(t, patience, "flips are recorded", func() bool {
			flips, _ := recorded()
			return flips > 0
		})
		tx, err := f.Postgres.Pool.Begin(t.Context())
		must.Do(t, err)
		_, err = tx.Exec(t.Context(), "LOCK TABLE backtest_flips IN EXCLUSIVE MODE")
		must.Do(t, err)
		if _, status := recorded(); status == "running" {
			return stuckBacktest{id, func() { must.Do(t, tx.Rollback(t.Context())) }}
		}
		must.Do(t, tx.Rollback(t.Context())) // the backtest ended before the lock was taken
	}
	t.Fatal("no backtest is met in its midst")
	return stuckBacktest{}
}

// backtest is one as the API has it, and its report as it came.
type backtest struct {
	BacktestID string `json:"backtest_id"`
	Status     string `json:"status"`
	Report     struct {
		Coverage struct {
			Compared int `json:"compared"`
		} `json:"coverage"`
		Flips struct {
			Total int `json:"total"`
		} `json:"flips"`
	} `json:"-"`
	raw json.RawMessage
}

func beginBacktest(t *testing.T, c *fleet.Client, asked any) (id string) {
	t.Helper()
	var b backtest
	must.Do(t, json.Unmarshal(ok(t, must.Get(c.Do(t.Context(), "POST", "/v1/backtests", asked))(t), http.StatusAccepted).Body, &b))
	return b.BacktestID
}

// ended waits for the end of a backtest, taken over or not.
func ended(t *testing.T, c *fleet.Client, id string) (b backtest) {
	t.Helper()
	eventually(t, takenOver, "the backtest succeeds", func() bool {
		a := ok(t, must.Get(c.Do(t.Context(), "GET", "/v1/backtests/"+id, nil))(t), http.StatusOK)
		var whole struct {
			Report json.RawMessage `json:"report"`
		}
		must.Do(t, json.Unmarshal(a.Body, &b))
		must.Do(t, json.Unmarshal(a.Body, &whole))
		b.raw = whole.Report
		time.Sleep(100 * time.Millisecond)
		return b.Status == "succeeded"
	})
	must.Do(t, json.Unmarshal(b.raw, &b.Report))
	return b
}

// flipsOf returns a hash over all flips in their order.
func flipsOf(t *testing.T, f *fleet.Fleet, id string) (sum string) {
	t.Helper()
	must.Do(t, f.Postgres.Pool.QueryRow(t.Context(), `SELECT count(*) || ' ' || md5(string_agg(n || flip, ',' ORDER BY n))
		FROM backtest_flips WHERE backtest_id = $1::uuid`,
		strings.TrimPrefix(id, "bt_")).Scan(&sum))
	return sum
}
