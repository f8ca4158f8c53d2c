package audit

import (
	"cmp"
	"slices"
	"time"

	"spendgate/audit/spend"
)

// topNames is how many agents, counterparties and rules CheckSums have.
const topNames = 10

// CheckSums say what the checks of a query come to (S55).
type CheckSums struct {
	Since          time.Time // nothing older was looked at; zero if the whole range was
	Of             [spend.Block + 1]int64
	Amounts        []CurrencySum // in the order of their currencies
	Agents         []NameCount   // those of most checks
	Counterparties []NameCount
	Rules          []RuleCount // that blocked or escalated
	Latency        Latency
}

// Latency says how long the node took, in milliseconds: half of the checks and 95 % of them at most, and the slowest.
type Latency struct{ P50, P95, Max int64 }

// CurrencySum has the amounts of one currency, by decision.
type CurrencySum struct {
	Currency string
	Of       [spend.Block + 1]spend.Total
}

// NameCount is a number of checks under one name.
type NameCount struct {
	Name   string
	Checks int64
}

// RuleCount is a number of checks that one rule decided for one reason.
type RuleCount struct {
	PolicyID, RuleID string
	Reason           spend.Reason
	Checks           int64
}

// Summed is what CheckSums need of a check.
type Summed struct {
	Agent, Counterparty, Currency string
	Amount                        spend.Amount
	Effect                        spend.Effect
	Rule                          RuleCount // its Checks are not read
	LatencyMS                     int64
}

// Summing adds checks up.
type Summing struct {
	of                     [spend.Block + 1]int64
	amounts                map[string]*CurrencySum
	agents, counterparties map[string]int64
	rules                  map[RuleCount]int64
	latencies              []int64
}

// NewSumming returns a Summing without checks.
func NewSumming() *Summing {
	return &Summing{
		amounts: make(map[string]*CurrencySum), agents: make(map[string]int64), counterparties: make(map[string]int64),
		rules: make(map[RuleCount]int64),
	}
}

// Add adds a check.
func (s *Summing) Add(c *Summed) {
	s.of[c.Effect]++
	if s.amounts[c.Currency] == nil {
		s.amounts[c.Currency] = &CurrencySum{Currency: c.Currency}
	}
	sum := &s.amounts[c.Currency].Of[c.Effect]
	*sum = sum.Plus(c.Amount.Total())
	s.latencies = append(s.latencies, c.LatencyMS)
	s.agents[c.Agent]++
	s.counterparties[c.Counterparty]++
	if c.Effect != spend.Allow {
		s.rules[c.Rule]++
	}
}

// Sums returns what was added.
func (s *Summing) Sums(since time.Time) *CheckSums {
	sums := &CheckSums{Since: since, Of: s.of, Agents: most(s.agents), Counterparties: most(s.counterparties)}
	for _, of := range s.amounts {
		sums.Amounts = append(sums.Amounts, *of)
	}
	slices.SortFunc(sums.Amounts, func(a, b CurrencySum) int { return cmp.Compare(a.Currency, b.Currency) })
	for rule, n := range s.rules {
		rule.Checks = n
		sums.Rules = append(sums.Rules, rule)
	}
	slices.SortFunc(sums.Rules, func(a, b RuleCount) int {
		return cmp.Or(cmp.Compare(b.Checks, a.Checks), cmp.Compare(a.PolicyID, b.PolicyID), cmp.Compare(a.RuleID, b.RuleID),
			cmp.Compare(a.Reason, b.Reason))
	})
	sums.Rules = sums.Rules[:min(len(sums.Rules), topNames)]
	if n := len(s.latencies); n > 0 {
		slices.Sort(s.latencies)
		sums.Latency = Latency{s.latencies[(n*50+99)/100-1], s.latencies[(n*95+99)/100-1], s.latencies[n-1]}
	}
	return sums
}

// most returns the names of most checks; of equal numbers, the first names.
func most(counts map[string]int64) []NameCount {
	names := make([]NameCount, 0, len(counts))
	for name, n := range counts {
		names = append(names, NameCount{name, n})
	}
	slices.SortFunc(names, func(a, b NameCount) int { return cmp.Or(cmp.Compare(b.Checks, a.Checks), cmp.Compare(a.Name, b.Name)) })
	return names[:min(len(names), topNames)]
}
