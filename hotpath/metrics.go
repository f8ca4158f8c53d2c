package hotpath

import (
	"cmp"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"spendgate/audit/metric"
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
	with := metric.Of(reg, "")
	stages := with.Histograms("check_stage_duration_seconds",
		"Time of a check's two waits: claim (Redis, others' claims) and commit (the audit trail).",
		prometheus.ExponentialBuckets(0.00025, 2, 15), "stage")
	m := &metrics{
		decisions: with.Counters("decisions_total", "Recorded decisions. reason_code is none on allow.", "decision", "reason_code"),
		refusals: with.Counters("budget_refusals_total",
			"Recorded checks that had no room in a budget, by the rule that is reported. Beyond 1000 rules: other.", "policy_id", "rule_id"),
		outcomes: with.Counters("outcomes_total",
			"Recorded outcomes of allowed checks, by what was reported and whether something was given back.", "status", "release"),
		claim: stages.WithLabelValues("claim"), commit: stages.WithLabelValues("commit"),
		replays: with.Counter("replays_total", "Answers given again under an idempotency key, or after a lost answer."),
		limited: with.Counter("rate_refusals_total", "Requests refused by a rate limit."),
		forced: with.Counter("policies_forced_total",
			"Versions of policies made with the admin key where the version before asks people."),
		paidTwice:      with.Counter("payments_paid_twice_total", "Recorded reports that make a second check of a payment executed."),
		reloads:        with.Counter("config_reloads_total", "Reloads of policies and keys after a change."),
		reloadFailures: with.Counter("config_reload_failures_total", "Reloads that failed; checks that needed them were refused."),
	}
	m.decided.Store(&map[decision]prometheus.Counter{})
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
