package judge

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Redemption is a recorded step other than a report: a check was redeemed, or has come into doubt.
type Redemption struct {
	ID      string `json:"id"`
	CheckID string `json:"check_id"`
	AtMS    int64  `json:"at_ms"`
	Step    int    `json:"step"` // its number among these and the reports of the check
	InDoubt bool   `json:"in_doubt"`
	KeyID   string `json:"key_id"`

	CommittedUS int64 `json:"committed_us,omitempty"` // Unix microseconds
}

// redeemIn is the maximum age of a check that is redeemed (S74).
const redeemIn = 15 * time.Minute

// course is what became of a check apart from its reports.
type course struct{ redeemed, doubt *Redemption }

// redemptionsAreSteps: a check is redeemed at most once, before any report, while it is an allow.
// After that only the redeemer reports on the check, until it is in
// doubt (S74; G14).
func (e *evidence) redemptionsAreSteps() {
	for i := range e.Redemptions {
		r := &e.Redemptions[i]
		c := e.courses[r.CheckID]
		if c == nil {
			c = new(course)
			e.courses[r.CheckID] = c
		}
		why := ""
		switch row := e.rows[r.CheckID]; {
		case row == nil || row.Decision != "allow":
			why = "of no allowed check"
		case r.InDoubt && (c.redeemed == nil || c.doubt != nil || r.Step != 2 || r.KeyID != c.redeemed.KeyID):
			why = "of what is not redeemed by it"
		case r.InDoubt:
			c.doubt = r
		case c.redeemed != nil || r.Step != 1:
			why = "behind another step"
		case e.at(r.AtMS) > e.at(row.AtMS)+redeemIn+clockMargin:
			why = "of a check that is too old"
		default:
			c.redeemed = r
		}
		if why != "" {
			e.findings = append(e.findings, Finding{Rule: "G14", Text: fmt.Sprintf("%s has step %d by %s: %s", r.CheckID, r.Step, r.KeyID, why)})
		}
	}
	for id, c := range e.courses {
		for _, o := range e.outcomes[id] {
			if c.redeemed != nil && o.KeyID != c.redeemed.KeyID && (o.Number == 1 && c.doubt == nil || !e.releases(o)) {
				e.findings = append(e.findings,
					Finding{Rule: "G14", Text: fmt.Sprintf("%s is redeemed by %s, and reported by %s", id, c.redeemed.KeyID, o.KeyID)})
			}
		}
	}
}

// redemption is a request for a redemption and its answer.
type redemption struct {
	*Op
	IdempotencyKey string `json:"idempotency_key"`
	ID             string `json:"redemption_id"`
}

// redemptionsAreTold: only the redeemer is told to carry a check out, and only once, except for
// retries with the same idempotency key; a refusal has a true reason (G14).
func (e *evidence) redemptionsAreTold() {
	told := make(map[string][]redemption) // by check
	for i := range e.Ops {
		r := redemption{Op: &e.Ops[i]}
		if r.Kind == Report && r.Status == 409 && r.code() == "check_already_redeemed" && !e.redeemedBefore(r.Subject, r.Done) {
			e.findOp("G14", "a report was refused as of a check that is redeemed: "+r.Answer, r.Op)
		}
		if r.Kind != Redeem || r.failed() || json.Unmarshal(r.Request, &r) != nil {
			continue
		}
		if r.Op = &e.Ops[i]; r.Status == 200 && json.Unmarshal([]byte(r.Answer), &r) == nil {
			e.redeemedFor(r, told[r.Subject])
			told[r.Subject] = append(told[r.Subject], r)
		}
	}
	for i := range e.Ops {
		r := redemption{Op: &e.Ops[i]}
		if r.Kind != Redeem || r.Status != 409 || json.Unmarshal(r.Request, &r) != nil {
			continue
		}
		if why := e.wronglyRefused(r, told[r.Subject]); why != "" {
			e.findOp("G14", fmt.Sprintf("a redemption was refused, and %s: %s", why, r.Answer), r.Op)
		}
	}
}

// redeemedFor judges an answer by the record and by the answers that others got.
func (e *evidence) redeemedFor(r redemption, others []redemption) {
	c := e.courses[r.Subject]
	if c == nil || c.redeemed == nil || "rdm_"+c.redeemed.ID != r.ID || c.redeemed.KeyID != r.Key {
		e.findOp("G14", "a redemption was answered that is not recorded: "+r.Answer, r.Op)
	}
	for _, o := range others {
		if !r.Replayed && !o.Replayed || o.Key != r.Key || o.IdempotencyKey != r.IdempotencyKey || r.IdempotencyKey == "" {
			e.findOp("G14", "two were told to carry out "+r.Subject, o.Op, r.Op)
		}
	}
}

func (e *evidence) redeemedBefore(check string, done time.Duration) bool {
	c := e.courses[check]
	return c != nil && c.redeemed != nil && e.at(c.redeemed.AtMS) <= done+clockMargin
}

// wronglyRefused says why the refusal of a redemption cannot be right; "" if it can.
func (e *evidence) wronglyRefused(r redemption, told []redemption) string {
	closed := slices.ContainsFunc(e.outcomes[r.Subject], func(o *Outcome) bool { return e.at(o.AtMS) <= r.Done+clockMargin })
	switch r.code() {
	case "check_already_redeemed":
		c := e.courses[r.Subject]
		own := slices.ContainsFunc(told, func(o redemption) bool {
			return o.Key == r.Key && o.IdempotencyKey == r.IdempotencyKey && r.IdempotencyKey != "" && o.Done < r.Sent &&
				string(o.Request) == string(r.Request)
		})
		switch {
		case !e.redeemedBefore(r.Subject, r.Done):
			return "nobody had redeemed it"
		case own && !closed && (c.doubt == nil || e.at(c.doubt.AtMS) > r.Done+clockMargin):
			return "it was its own"
		}
	case stoppedCode:
		if row := e.rows[r.Subject]; row == nil || !e.mayBeStopped(row, r.Done) {
			return "its key was not deactivated"
		}
	case frozenCode: // G17 judges
	case "check_released":
		if !closed || e.redeemedBefore(r.Subject, r.Done) {
			return "nothing was reported"
		}
	default:
		return "nothing is wrong with it"
	}
	return ""
}
