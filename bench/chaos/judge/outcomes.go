package judge

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// Outcome is a recorded report of what became of a check.
type Outcome struct {
	OutcomeID string  `json:"outcome_id"`
	CheckID   string  `json:"check_id"`
	AtMS      int64   `json:"at_ms"` // when it was reported
	Number    int     `json:"number"`
	Status    string  `json:"status"`
	Amount    *string `json:"amount"` // that was moved; nil unless executed
	KeyID     string  `json:"key_id"`
}

// executor is the role of keys that give back (S40).
const executor = "executor"

// releases reports whether what the key says is counted.
func (e *evidence) releases(o *Outcome) bool {
	return slices.ContainsFunc(e.Keys, func(k Key) bool { return k.ID == o.KeyID && k.Role == executor })
}

// correction returns what a report changes of what its check took (S40); gone
// means all, the count too.
func (e *evidence) correction(o *Outcome, amount *big.Rat) (back, over *big.Rat, gone bool) {
	back, over = new(big.Rat), new(big.Rat)
	if !e.releases(o) {
		return back, over, false
	}
	if o.Status != "executed" {
		return amount, over, true
	}
	moved, _ := new(big.Rat).SetString(deref(o.Amount))
	if moved.Cmp(amount) > 0 {
		over.Sub(moved, amount)
	} else {
		back.Sub(amount, moved)
	}
	return back, over, false
}

// released returns what freed the action of a check; nil when nothing did.
func (e *evidence) released(r *Row) *Outcome {
	for _, o := range e.outcomes[r.CheckID] {
		if o.Status != "executed" && e.releases(o) {
			return o
		}
	}
	return nil
}

// reportedBy returns when a report was first answered as recorded.
func (e *evidence) reportedBy(o *Outcome) time.Duration {
	first := time.Duration(1 << 62)
	for _, op := range e.reports[o.CheckID] {
		if op.Key == o.KeyID && op.Done < first && o.saidBy(op) {
			first = op.Done
		}
	}
	return first
}

// saidBy reports whether a request was answered with the report.
func (o *Outcome) saidBy(op *Op) bool {
	var told struct {
		Status string       `json:"status"`
		Amount *json.Number `json:"amount"`
	}
	if op.Status != 200 && op.Status != 201 || json.Unmarshal([]byte(op.Answer), &told) != nil || told.Status != o.Status {
		return false
	}
	return told.Status != "executed" || told.Amount != nil && decimal(told.Amount.String()) == decimal(deref(o.Amount))
}

// outcomesAreReportedOnce: of a check one report is recorded, and beside one of a
// key that may not release one of a key that may; what was answered is recorded,
// of allowed checks only (S39, S40; G12).
func (e *evidence) outcomesAreReportedOnce() {
	for id, of := range e.outcomes {
		slices.SortFunc(of, func(a, b *Outcome) int { return a.Number - b.Number })
		row := e.rows[id]
		if row == nil || row.Decision != "allow" {
			e.findings = append(e.findings, Finding{Rule: "G12", Text: "an outcome of no allowed check: " + id})
			continue
		}
		if len(of) > 2 || len(of) == 2 && (e.releases(of[0]) || !e.releases(of[1])) {
			e.findRow("G12", fmt.Sprintf("%s has %d outcomes", id, len(of)), row)
		}
	}
	for i := range e.Ops {
		op := &e.Ops[i]
		if op.Kind != Report || op.Status != 200 && op.Status != 201 {
			continue
		}
		if !slices.ContainsFunc(e.outcomes[op.Subject], func(o *Outcome) bool { return o.saidBy(op) }) {
			e.findOp("G1", fmt.Sprintf("an outcome of %s was answered and is not recorded: %s", op.Subject, op.Answer), op)
		}
	}
}

// releasedIsFree: a check whose release was answered blocks nothing that is sent
// later (S40).
func (e *evidence) releasedIsFree() {
	for _, c := range e.checks {
		if c.result == nil || c.Replayed {
			continue
		}
		r := e.rows[c.result.CheckID]
		if r == nil {
			continue
		}
		id, duplicate := r.duplicateOf()
		if of := e.rows[id]; duplicate && of != nil {
			if o := e.released(of); o != nil && e.reportedBy(o) < c.Sent {
				e.find("G3", fmt.Sprintf("%s is a duplicate of %s, which was released before", r.CheckID, id), c)
			}
		}
	}
}
