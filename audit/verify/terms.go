package verify

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"spendgate/audit/spend"
)

// budgetSince identifies a budget from a version since which it counts.
type budgetSince struct {
	policyID, ruleID string
	since            int
}

// terms are the terms of a budget in all versions of its policy.
type terms struct {
	perAgent bool
	versions []versionTerms // in their order
}

// versionTerms are the terms of a budget in one version.
type versionTerms struct {
	limit
	version     int
	notify      []int     // the percentages of notify_at
	from, until time.Time // zero while it is in force
}

// limit is what a version of a budget allows; nil fields mean no limit.
type limit struct {
	used  *spend.Total
	count *int64
}

// part is a percentage of a limit.
type part struct {
	limit
	percent int
}

func (l limit) part(percent int) part { return part{l, percent} }

// reached reports whether a usage reaches it. Nothing reaches a percentage below 100 of a limit of 0.
func (p part) reached(used spend.Total, count int64) bool {
	counts := func(zero bool) bool { return p.percent == spend.Exhausted || !zero }
	return p.used != nil && counts(p.used.IsZero()) && used.Times(spend.Exhausted).Cmp(p.used.Times(p.percent)) >= 0 ||
		p.count != nil && counts(*p.count == 0) && count*spend.Exhausted >= *p.count*int64(p.percent)
}

// larger returns the larger of two limits; no limit is larger than any.
func (l limit) larger(other limit) limit {
	return limit{larger(l.used, other.used, spend.Total.Cmp), larger(l.count, other.count, cmp.Compare)}
}

func larger[T any](a, b *T, compare func(a, b T) int) *T {
	switch {
	case a == nil || b == nil:
		return nil
	case compare(*a, *b) < 0:
		return b
	}
	return a
}

// says reports whether the limit is the one noted in an exhaustion.
func (l limit) says(used, count string) bool {
	total, err := spend.ParseTotal(used)
	n, odd := strconv.ParseInt(count, 10, 64)
	return (l.used == nil && used == "" || l.used != nil && err == nil && total == *l.used) &&
		(l.count == nil && count == "" || l.count != nil && odd == nil && n == *l.count)
}

// inForce reports whether the version may have judged what was committed then.
func (t versionTerms) inForce(at time.Time) bool {
	return !t.from.After(at.Add(lateCommit)) && (t.until.IsZero() || !t.until.Before(at.Add(-lateCommit)))
}

// find returns the index of a version; negative if it is missing.
func (t *terms) find(version int) int {
	return slices.IndexFunc(t.versions, func(v versionTerms) bool { return v.version == version })
}

// agent returns the agent noted with a counter: the first of its subject's values.
func (t *terms) agent(subject string) string {
	var values []string
	if !t.perAgent || json.Unmarshal([]byte(subject), &values) != nil || len(values) == 0 {
		return ""
	}
	return values[0]
}

// succeed notes the time when the latest version so far was succeeded.
func (w *changeWalk) succeed(policyID string, at time.Time) {
	previous := w.budgets[policyID]
	for ruleID, b := range previous.budgets {
		of := w.terms[budgetSince{policyID, ruleID, b.Version}]
		if of == nil {
			continue
		}
		if last := &of.versions[len(of.versions)-1]; last.version == previous.version {
			last.until = at
		}
	}
}

// RuleLimits are the limits of a rule that is a budget.
type RuleLimits struct {
	RuleID, Type string
	Used         *spend.Total // nil without one
	Count        *int64
	Currency     string
	PerAgent     bool
	Notify       []int
}

var errNoObject = errors.New("a rule is no object")

// ParseLimits reads the rules of a policy's version. Their text is as it was sent: numbers may be
// written in any way, and a value that is not a number, null or blank, counts as absent (S4, S8).
func ParseLimits(rules []byte) ([]RuleLimits, error) {
	var all []json.RawMessage
	err := json.Unmarshal(rules, &all)
	limits := make([]RuleLimits, len(all))
	for i, text := range all {
		rule := saidIn(text)
		if rule == nil {
			err = errNoObject
		}
		parameters := saidIn(rule["parameters"])
		one := &limits[i]
		one.RuleID, one.Type = member[string](rule, "rule_id"), member[string](rule, "rule_type")
		if amount, err := spend.ParseAmount(string(parameters["limit"])); err == nil {
			one.Used = new(amount.Total())
		}
		if count, ok := spend.ParseInteger(string(parameters["max_count"])); ok {
			one.Count = &count
		}
		one.Currency = strings.ToUpper(strings.TrimSpace(member[string](parameters, "currency")))
		one.Notify = notifyAt(parameters["notify_at"])
		one.PerAgent = slices.Contains(member[[]string](parameters, "per"), "agent_id")
	}
	return limits, err
}

// notifyAt returns percentages, which may be written in any way.
func notifyAt(text json.RawMessage) (all []int) {
	var entries []json.RawMessage
	_ = json.Unmarshal(text, &entries) // what is no array has none
	for _, entry := range entries {
		if n, ok := spend.ParseInteger(string(entry)); ok {
			all = append(all, int(n))
		}
	}
	return all
}

// limit notes the limits that a version of a policy has.
func (w *changeWalk) limit(p PolicyVersion, rules string, budgets map[string]spend.BudgetSince, at time.Time) {
	all, _ := ParseLimits([]byte(rules)) // text that is not JSON was altered, which its hash shows
	for _, rule := range all {
		b, is := budgets[rule.RuleID]
		if !is {
			continue
		}
		key := budgetSince{p.PolicyID, rule.RuleID, b.Version}
		if w.terms[key] == nil {
			w.terms[key] = &terms{perAgent: rule.PerAgent}
		}
		w.terms[key].versions = append(w.terms[key].versions,
			versionTerms{version: p.Version, notify: rule.Notify, from: at, limit: limit{rule.Used, rule.Count}})
	}
}
