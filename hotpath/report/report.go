package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"spendgate/audit/spend"
)

// Report is the result. Coverage comes first: it says which checks the rest is about.
type Report struct {
	Coverage Coverage `json:"coverage"`
	Flips    Counts   `json:"flips"`
	Matrix   Matrix   `json:"matrix"`
	Rules    []Fired  `json:"rules"`   // by rule_id
	Budgets  []Peak   `json:"budgets"` // of the candidate, in the policy's order
}

// Coverage says which of the recorded checks were compared.
type Coverage struct {
	From     Time      `json:"from"` // both included
	To       Time      `json:"to"`
	Checks   int64     `json:"checks"`   // of the policy, recorded in that time
	Compared int64     `json:"compared"` // all that were not skipped
	Skipped  []Skipped `json:"skipped"`  // why, by reason
	// WarmUp is the time before From that was read, so that windows are as they were then.
	WarmUp *WarmUp `json:"warm_up"`
	// MissingDays were archived, and their archives were not at hand.
	MissingDays []string `json:"missing_days"`
}

// WarmUp is the time before a comparison whose recorded checks fill its windows.
type WarmUp struct {
	From   Time  `json:"from"`
	Checks int64 `json:"checks"`
}

// Skipped counts checks that were not compared.
type Skipped struct {
	Reason string `json:"reason"`
	Checks int64  `json:"checks"`
}

// Counts are the checks that the candidate decides otherwise.
type Counts struct {
	Total    int64 `json:"total"`
	Stricter int64 `json:"stricter"` // allow to escalate or block, escalate to block
	Looser   int64 `json:"looser"`
	// ToAllow counts the looser flips that the candidate allows.
	ToAllow int64 `json:"to_allow"`
	Listed  int64 `json:"listed"` // the first ones, which are kept by name
}

// Fired counts, for a rule or the duplicate guard, the checks that it decided.
type Fired struct {
	RuleID    string  `json:"rule_id"`
	Recorded  Effects `json:"recorded"`
	Candidate Effects `json:"candidate"`
}

// Effects counts decisions that are no allow.
type Effects struct {
	Block    int64 `json:"block"`
	Escalate int64 `json:"escalate"`
}

func (e *Effects) add(effect spend.Effect) {
	switch effect {
	case spend.Block:
		e.Block++
	case spend.Escalate:
		e.Escalate++
	case spend.Allow:
	}
}

// Peak is the most that was taken from any counter of a budget.
type Peak struct {
	RuleID   string        `json:"rule_id"`
	Currency *string       `json:"currency"`
	Limit    *spend.Amount `json:"limit"`
	MaxCount *int64        `json:"max_count"`
	Used     *Highest      `json:"used"`  // null when nothing was taken, or it counts no amounts
	Count    *Highest      `json:"count"` // null when nothing was taken
}

// Highest is a usage and the counter that had it first.
type Highest struct {
	Value       spend.Total       `json:"value"`
	Per         map[string]string `json:"per"`
	WindowStart *Time             `json:"window_start"` // null of a lifetime
	// Granted is what grants had added to the limit of the counter then; empty for nothing.
	Granted spend.Total `json:"granted,omitzero"`
}

// Join has the higher of both peaks of a budget: of p, and of an earlier time.
func (p *Peak) Join(earlier *Peak) {
	p.Used, p.Count = higher(earlier.Used, p.Used), higher(earlier.Count, p.Count)
}

// higher returns the first of the highest usages.
func higher(earlier, later *Highest) *Highest {
	if later == nil || earlier != nil && earlier.Value.Cmp(later.Value) >= 0 {
		return earlier
	}
	return later
}

// Cell counts the checks with one recorded decision and one of the candidate.
type Cell struct {
	Checks  int64                  `json:"checks"`
	Amounts map[string]spend.Total `json:"amounts"` // by currency
}

// Matrix has the Cells: rows as recorded, columns as the candidate decides, by
// spend.Effect.
type Matrix [3][3]Cell

// MarshalJSON writes an object of objects, by the names of decisions.
func (m *Matrix) MarshalJSON() ([]byte, error) {
	rows := make(map[string]map[string]Cell)
	for r := range m {
		row := make(map[string]Cell)
		for c := range m[r] {
			amounts := make(map[string]spend.Total)
			maps.Copy(amounts, m[r][c].Amounts)
			row[spend.Effect(c).String()] = Cell{m[r][c].Checks, amounts}
		}
		rows[spend.Effect(r).String()] = row
	}
	return json.Marshal(rows) // sorted by name
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (m *Matrix) UnmarshalJSON(text []byte) error {
	var rows map[string]map[string]Cell
	if err := json.Unmarshal(text, &rows); err != nil {
		return err
	}
	for r := range m {
		for c := range m[r] {
			m[r][c] = rows[spend.Effect(r).String()][spend.Effect(c).String()]
		}
	}
	return nil
}

// Time is an instant as responses show it (S5).
type Time time.Time

// MarshalJSON writes RFC 3339 in UTC with milliseconds.
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(`"` + spend.TimeText(time.Time(t)) + `"`), nil
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (t *Time) UnmarshalJSON(text []byte) error { return (*time.Time)(t).UnmarshalJSON(text) }

// Parse reads what JSON returns.
func Parse(text string) (*Report, error) {
	r := new(Report)
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return nil, fmt.Errorf("cannot read a report: %w", err)
	}
	return r, nil
}

// JSON returns the canonical text of the report.
func (r *Report) JSON() string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("BUG: a report has no JSON: %v", err))
	}
	return string(text)
}
