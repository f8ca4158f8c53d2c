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

// The roles of keys that give back (S40, S74).
const (
	executor = "executor"
	gateway  = "gateway"
)

// releases reports whether a report by this key is counted.
func (e *evidence) releases(o *Outcome) bool {
	return slices.ContainsFunc(e.Keys, func(k Key) bool { return k.ID == o.KeyID && (k.Role == executor || k.Role == gateway) })
}

// corrections calls each with what every report of a check changes of the amount taken, relative to
// the report before; back and over are not both above zero (S40, S61).
func (e *evidence) corrections(checkID string, amount *big.Rat, each func(o *Outcome, back, over *big.Rat)) {
	before := new(big.Rat)
	for _, o := range e.outcomes[checkID] {
		back, over, _ := e.correction(o, amount)
		after := new(big.Rat).Sub(over, back)
		if more := new(big.Rat).Sub(after, before); more.Sign() > 0 {
			each(o, new(big.Rat), more)
		} else {
			each(o, more.Neg(more), new(big.Rat))
		}
		before = after
	}
}

// correction returns how much less, or more, than its amount a check took after a report (S40);
// gone means that it took nothing, and does not count. o may be nil.
func (e *evidence) correction(o *Outcome, amount *big.Rat) (back, over *big.Rat, gone bool) {
	back, over = new(big.Rat), new(big.Rat)
	if o == nil || !e.releases(o) {
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

// frees reports whether the action of a check is free after a report.
func (e *evidence) frees(o *Outcome) bool { return o.Status != "executed" && e.releases(o) }

// last returns the last report of a check; nil without reports.
func (e *evidence) last(checkID string) *Outcome {
	if of := e.outcomes[checkID]; len(of) > 0 {
		return of[len(of)-1]
	}
	return nil
}

// takenBack reports whether a report that freed the action of a check was followed by a report that
// does not free it and satisfies holds.
func (e *evidence) takenBack(free *Outcome, holds func(*Outcome) bool) bool {
	return slices.ContainsFunc(e.outcomes[free.CheckID], func(o *Outcome) bool { return o.Number > free.Number && !e.frees(o) && holds(o) })
}

// wasFree reports whether the action of a check may have been free at some moment between two
// times.
func (e *evidence) wasFree(r *Row, from, to time.Duration) bool {
	return slices.ContainsFunc(e.outcomes[r.CheckID], func(o *Outcome) bool {
		return e.frees(o) && e.at(o.AtMS) <= to+clockMargin && !e.takenBack(o, func(later *Outcome) bool { return e.reportedBy(later) < from })
	})
}

// wasFreed reports whether the action of a check was certainly free at some moment between two
// times.
func (e *evidence) wasFreed(r *Row, from, to time.Duration) bool {
	return slices.ContainsFunc(e.outcomes[r.CheckID], func(o *Outcome) bool {
		return e.frees(o) && e.reportedBy(o) < from && !e.takenBack(o, func(later *Outcome) bool { return e.at(later.AtMS) <= to+clockMargin })
	})
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

// saidBy reports whether the answer to a request has the report.
func (o *Outcome) saidBy(op *Op) bool {
	var told struct {
		Report int          `json:"report"`
		Status string       `json:"status"`
		Amount *json.Number `json:"amount"`
	}
	if op.Status != 200 && op.Status != 201 || json.Unmarshal([]byte(op.Answer), &told) != nil ||
		told.Status != o.Status || told.Report != o.Number {
		return false
	}
	return told.Status != "executed" || told.Amount != nil && decimal(told.Amount.String()) == decimal(deref(o.Amount))
}

// outcomesAreReportedOnce: the reports of a check follow one another, and those after the first are
// by keys that may release; every answered report is recorded; only allowed checks have reports
// (S39, S40, S61; G12).
func (e *evidence) outcomesAreReportedOnce() {
	for id, of := range e.outcomes {
		slices.SortFunc(of, func(a, b *Outcome) int { return a.Number - b.Number })
		row := e.rows[id]
		if row == nil || row.Decision != "allow" {
			e.findings = append(e.findings, Finding{Rule: "G12", Text: "an outcome of no allowed check: " + id})
			continue
		}
		for i, o := range of {
			if o.Number != i+1 || i > 0 && !e.releases(o) {
				e.findRow("G12", fmt.Sprintf("%s has %d outcomes, and number %d of %s at place %d", id, len(of), o.Number, o.KeyID, i+1), row)
			}
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

// releasedIsFree: a check whose release was answered blocks nothing that is sent later (S40).
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
		if of := e.rows[id]; duplicate && of != nil && e.wasFreed(of, c.Sent, c.Done) {
			e.find("G3", fmt.Sprintf("%s is a duplicate of %s, which was released before", r.CheckID, id), c)
		}
	}
}
