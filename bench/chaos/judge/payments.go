package judge

import (
	"encoding/json"
	"fmt"
)

// PaymentStep is a recorded version of a payment: a check of it, or a step of the course of one.
type PaymentStep struct {
	Payment string `json:"payment"` // its key
	Version int64  `json:"version"`
	CheckID string `json:"check_id"`
	ID      string `json:"id"` // of the step; empty of a check
	AtMS    int64  `json:"at_ms"`
	Status  string `json:"status"` // empty of a check
	Back    bool   `json:"back"`   // it gives the check back

	Permits     bool  `json:"permits,omitempty"`      // it allows, redeems or takes over
	CommittedUS int64 `json:"committed_us,omitempty"` // Unix microseconds; of what permits
}

// paymentsAreCarriedOutOnce: at most one check of a payment is redeemed without having been given back (G16).
func (e *evidence) paymentsAreCarriedOutOnce() {
	var last, held *PaymentStep // the version before; the redemption, or take-over, that was not given back
	for i := range e.Payments {
		s := &e.Payments[i]
		if last == nil || last.Payment != s.Payment {
			last, held = &PaymentStep{Payment: s.Payment}, nil
		}
		why := ""
		switch {
		case s.Version != last.Version+1:
			why = fmt.Sprintf("makes version %d behind version %d", s.Version, last.Version)
		case held != nil && (s.Status == "" || s.Status == "redeemed"):
			why = "comes while " + held.CheckID + " is redeemed, and was not given back"
		case s.Status == "taken_over" && (held == nil || held.CheckID != s.CheckID):
			why = "takes over what is not redeemed"
		}
		switch {
		case s.Status == "redeemed", s.Status == "taken_over":
			held = s
		case s.Back && held != nil && held.CheckID == s.CheckID:
			held = nil
		}
		last = s
		if why != "" {
			e.findings = append(e.findings, Finding{Rule: "G16", Text: fmt.Sprintf("%s of %s, step %q, %s", s.CheckID, s.Payment, s.Status, why)})
		}
	}
}

// paid is a request for a payment and its answer.
type paid struct {
	Nonce   string `json:"redeem"`
	CheckID string `json:"check_id"`
	Payment struct {
		Proceed      bool   `json:"proceed"`
		Nonce        string `json:"nonce"`
		RedemptionID string `json:"redemption_id"`
	} `json:"payment"`
}

// oneProceeds: who is told to carry out a payment has its recorded redemption, by the nonce of the request, before that ended (G16).
func (e *evidence) oneProceeds() {
	at := make(map[string]int) // by redemption_id
	for i, s := range e.Payments {
		if s.Status == "redeemed" || s.Status == "taken_over" {
			at["rdm_"+s.ID] = i
		}
	}
	told := make(map[string]*Op)          // by redemption_id
	nonces := make(map[string]string)     // the same
	redemption := make(map[string]string) // by nonce
	for i := range e.Ops {
		o := &e.Ops[i]
		var p paid
		if o.Kind != Pay || o.Status != 200 || json.Unmarshal(o.Request, &p) != nil || json.Unmarshal([]byte(o.Answer), &p) != nil {
			continue
		}
		if !p.Payment.Proceed {
			continue
		}
		id := p.Payment.RedemptionID
		step, recorded := at[id]
		switch other, twice := told[id]; {
		case !recorded || e.Payments[step].Payment != o.Subject || e.Payments[step].CheckID != p.CheckID:
			e.findOp("G16", "a payment proceeds by a redemption that is not recorded: "+o.Answer, o)
		case p.Payment.Nonce != p.Nonce:
			e.findOp("G16", "a payment proceeds for another nonce: "+o.Answer, o)
		case twice && nonces[id] != p.Nonce:
			e.findOp("G16", "two nonces were told to carry out "+o.Subject, other, o)
		case redemption[p.Nonce] != "" && redemption[p.Nonce] != id:
			e.findOp("G16", "a nonce of an earlier attempt proceeds: "+o.Answer, told[redemption[p.Nonce]], o)
		case step+1 < len(e.Payments) && e.Payments[step+1].Payment == o.Subject && e.at(e.Payments[step+1].AtMS)+clockMargin < o.Sent:
			e.findOp("G16", "a payment proceeds by a redemption that was over: "+o.Answer, o)
		}
		told[id], nonces[id], redemption[p.Nonce] = o, p.Nonce, id
	}
	e.formerGiveNothingBack(at)
}

// formerGiveNothingBack: who was taken over gives nothing back (S84). steps are redemptions and take-overs by redemption_id.
func (e *evidence) formerGiveNothingBack(steps map[string]int) {
	for i := range e.Ops {
		o := &e.Ops[i]
		var said struct {
			Status       string `json:"status"`
			RedemptionID string `json:"redemption_id"`
		}
		if o.Kind != PayReport || o.Status >= 300 || o.Status == 0 || json.Unmarshal(o.Request, &said) != nil || said.Status == "executed" {
			continue
		}
		next := steps[said.RedemptionID] + 1
		if next < len(e.Payments) && e.Payments[next].Status == "taken_over" && e.Payments[next].CheckID == o.Subject &&
			e.at(e.Payments[next].AtMS)+clockMargin < o.Sent {
			e.findOp("G16", "a redemption that was taken over gave back: "+string(o.Request), o)
		}
	}
}
