package report

import (
	"cmp"
	"slices"

	"spendgate/audit/spend"
)

// Verdict is how a check is decided, and by which rule.
type Verdict struct {
	Effect  spend.Effect
	Reason  spend.Reason
	RuleID  string // empty of an allow
	Version int    // of the policy; 0 of a candidate that is no version
}

// VerdictOf returns the verdict that a check is recorded with.
func VerdictOf(d *spend.Decision) Verdict {
	return Verdict{d.Effect, d.Reason, d.RuleID, d.PolicyVersion}
}

// maxListed is how many flips are kept by name.
const maxListed = 100_000

// Tally makes a Report of comparisons.
type Tally struct {
	checks  int64
	matrix  Matrix
	counts  Counts
	skipped map[string]int64
	fired   map[string]*Fired
}

// NewTally returns an empty one.
func NewTally() *Tally {
	return &Tally{skipped: make(map[string]int64), fired: make(map[string]*Fired)}
}

// Continue returns a Tally that adds to a report.
func Continue(r *Report) *Tally {
	t := NewTally()
	t.checks, t.matrix, t.counts = r.Coverage.Checks, r.Matrix, r.Flips
	for _, s := range r.Coverage.Skipped {
		t.skipped[s.Reason] = s.Checks
	}
	for i := range r.Rules {
		t.fired[r.Rules[i].RuleID] = &r.Rules[i]
	}
	return t
}

// Skip counts a check that cannot be compared.
func (t *Tally) Skip(reason string) {
	t.checks++
	t.skipped[reason]++
}

// Add counts a compared check, and reports whether it is a flip that is to be kept by name.
func (t *Tally) Add(a *spend.Action, recorded, candidate Verdict) (listed bool) {
	t.checks++
	cell := &t.matrix[recorded.Effect][candidate.Effect]
	cell.Checks++
	if cell.Amounts == nil {
		cell.Amounts = make(map[string]spend.Total)
	}
	cell.Amounts[a.Currency] = cell.Amounts[a.Currency].Plus(a.Amount.Total())
	if recorded.Effect != spend.Allow {
		t.rule(recorded.RuleID).Recorded.add(recorded.Effect)
	}
	if candidate.Effect != spend.Allow {
		t.rule(candidate.RuleID).Candidate.add(candidate.Effect)
	}
	if recorded.Effect == candidate.Effect {
		return false
	}
	t.counts.Total++
	switch {
	case candidate.Effect > recorded.Effect:
		t.counts.Stricter++
	case candidate.Effect == spend.Allow:
		t.counts.ToAllow++
		t.counts.Looser++
	default:
		t.counts.Looser++
	}
	if t.counts.Listed == maxListed {
		return false
	}
	t.counts.Listed++
	return true
}

func (t *Tally) rule(id string) *Fired {
	if t.fired[id] == nil {
		t.fired[id] = &Fired{RuleID: id}
	}
	return t.fired[id]
}

// Report returns the counts. Of Coverage only the counts are set.
func (t *Tally) Report() *Report {
	r := &Report{
		Coverage: Coverage{Checks: t.checks, Compared: t.checks, Skipped: []Skipped{}, MissingDays: []string{}},
		Flips:    t.counts, Matrix: t.matrix, Rules: []Fired{}, Budgets: []Peak{},
	}
	for reason, n := range t.skipped {
		r.Coverage.Skipped = append(r.Coverage.Skipped, Skipped{reason, n})
		r.Coverage.Compared -= n
	}
	slices.SortFunc(r.Coverage.Skipped, func(a, b Skipped) int { return cmp.Compare(a.Reason, b.Reason) })
	for _, f := range t.fired {
		r.Rules = append(r.Rules, *f)
	}
	slices.SortFunc(r.Rules, func(a, b Fired) int { return cmp.Compare(a.RuleID, b.RuleID) })
	return r
}
