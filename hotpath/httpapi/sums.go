package httpapi

import (
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/wire"
)

// getSums answers GET /v1/sums (S55).
func (a *API) getSums(x *exchange) error {
	query, err := querySums(x.query())
	if err != nil {
		return err
	}
	query.Bounds = x.access.Bounds()
	return reply(x, 200, sumsOf)(a.Store.CheckSums(x.readContext(), query))
}

// querySums reads the query of GET /v1/sums.
func querySums(query []byte) (audit.CheckQuery, error) {
	var faults spend.Faults
	q := checkQuery{CheckQuery: audit.CheckQuery{Examine: maxCounted}}
	values := parameters(query, &faults, "agent_id", "policy_id", "counterparty", "principal", "rule_id", "from", "to")
	q.queryAction(values, &faults)
	var last time.Time
	if q.From, last = queryRange(values, &faults); !last.IsZero() {
		q.Until = last.Add(time.Millisecond)
	}
	return q.CheckQuery, faults.Err()
}

func sumsOf(sums *audit.CheckSums) wire.Sums {
	shown := wire.Sums{
		Checks: countsOf(&audit.CheckCount{Of: sums.Of}), Amounts: make([]wire.CurrencySum, len(sums.Amounts)),
		Agents: make([]wire.AgentCount, len(sums.Agents)), Counterparties: make([]wire.CounterpartyCount, len(sums.Counterparties)),
		Rules: make([]wire.RuleCount, len(sums.Rules)), Latency: wire.SummedLatency(sums.Latency),
	}
	if !sums.Since.IsZero() {
		shown.Since = &wire.Timestamp{Time: sums.Since}
	}
	for i, of := range sums.Amounts {
		shown.Amounts[i] = wire.CurrencySum{
			Currency: of.Currency, Allow: of.Of[spend.Allow], Block: of.Of[spend.Block], Escalate: of.Of[spend.Escalate],
		}
	}
	for i, of := range sums.Agents {
		shown.Agents[i] = wire.AgentCount{AgentID: of.Name, Checks: of.Checks}
	}
	for i, of := range sums.Counterparties {
		shown.Counterparties[i] = wire.CounterpartyCount{Counterparty: of.Name, Checks: of.Checks}
	}
	for i, of := range sums.Rules {
		shown.Rules[i] = wire.RuleCount{PolicyID: of.PolicyID, RuleID: of.RuleID, ReasonCode: string(of.Reason), Checks: of.Checks}
	}
	return shown
}
