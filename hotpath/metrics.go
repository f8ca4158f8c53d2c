package hotpath

import (
	"cmp"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"spendgate/audit/spend"
)

// metrics are the Authorizer's Prometheus metrics.
type metrics struct {
	decisions      *prometheus.CounterVec
	decided        atomic.Pointer[map[decision]prometheus.Counter] // of decisions, which look them up by text; replaced, never changed
	refusals       *prometheus.CounterVec                          // by budgets
	labelled       sync.Map                                        // pairs of labels that refusals has
	labels         atomic.Int64                                    // how many
	outcomes       *prometheus.CounterVec
	claim, commit  prometheus.Observer
	replays        prometheus.Counter
	limited        prometheus.Counter
	forced         prometheus.Counter
	paidTwice      prometheus.Counter
	reloads        prometheus.Counter
	reloadFailures prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "spendgate", Name: name, Help: help})
		reg.MustRegister(c)
		return c
	}
	stages := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "spendgate", Name: "check_stage_duration_seconds",
		Help:    "Time of a check's two waits: claim (Redis, others' claims) and commit (the audit trail).",
		Buckets: prometheus.ExponentialBuckets(0.00025, 2, 15),
	}, []string{"stage"})
	m := &metrics{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "spendgate", Name: "decisions_total",
			Help: "Recorded decisions. reason_code is none on allow.",
		}, []string{"decision", "reason_code"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "spendgate", Name: "budget_refusals_total",
			Help: "Recorded checks that had no room in a budget, by the rule that is reported. Beyond 1000 rules: other.",
		}, []string{"policy_id", "rule_id"}),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "spendgate", Name: "outcomes_total",
			Help: "Recorded outcomes of allowed checks, by what was reported and whether something was given back.",
		}, []string{"status", "release"}),
		claim: stages.WithLabelValues("claim"), commit: stages.WithLabelValues("commit"),
		replays:        counter("replays_total", "Answers given again under an idempotency key, or after a lost answer."),
		limited:        counter("rate_refusals_total", "Requests refused by a rate limit."),
		forced:         counter("policies_forced_total", "Versions of policies made with the admin key where the version before asks people."),
		paidTwice:      counter("payments_paid_twice_total", "Recorded reports that make a second check of a payment executed."),
		reloads:        counter("config_reloads_total", "Reloads of policies and keys after a change."),
		reloadFailures: counter("config_reload_failures_total", "Reloads that failed; checks that needed them were refused."),
	}
	m.decided.Store(&map[decision]prometheus.Counter{})
	reg.MustRegister(m.decisions, m.refusals, m.outcomes, stages)
	return m
}

// decision has the labels of decisions. Reasons are a closed set, so there are few labels.
type decision struct {
	effect spend.Effect
	reason spend.Reason
}

// counter returns the counter of a decision.
func (m *metrics) counter(d decision) prometheus.Counter {
	known := m.decided.Load()
	if c, ok := (*known)[d]; ok {
		return c
	}
	c := m.decisions.WithLabelValues(d.effect.String(), cmp.Or(string(d.reason), "none"))
	next := maps.Clone(*known)
	next[d] = c
	m.decided.Store(&next) // of two at once, one is looked up again
	return c
}

// count counts a recorded check.
func (m *metrics) count(c *spend.Check) {
	m.counter(decision{c.Decision.Effect, c.Decision.Reason}).Inc()
	if c.Decision.Reason == spend.ReasonBudgetExceeded || c.Decision.Reason == spend.ReasonCountLimitExceeded {
		m.budgetRefused(c.Action.PolicyID, c.Decision.RuleID)
	}
}

// maxRefusalLabels bounds the series of refusals: rules are any number.
const maxRefusalLabels = 1000

func (m *metrics) budgetRefused(policyID, ruleID string) {
	pair := [2]string{policyID, ruleID}
	if _, known := m.labelled.Load(pair); !known {
		if m.labels.Load() >= maxRefusalLabels {
			pair = [2]string{"other", "other"}
		} else if _, known := m.labelled.LoadOrStore(pair, true); !known {
			m.labels.Add(1)
		}
	}
	m.refusals.WithLabelValues(pair[0], pair[1]).Inc()
}
