package client

import (
	"context"
	"net/http"
	"strings"

	"spendgate/audit/spend"
	"spendgate/hotpath/wire"
)

// UnknownOutcome is the Status of a CheckOutcome that cannot be understood. As with any
// other outcome, the action must not be carried out.
const UnknownOutcome = "unknown"

// CheckOutcome is the header Outcome of a response that shows a check: what became of the check. The
// zero value means that nothing was reported.
type CheckOutcome struct {
	Status         string // executed, failed, voided or UnknownOutcome
	ReleasePending bool   // nothing was given back yet
}

// Reported reports whether there is an outcome. It is false only for the zero value.
func (o CheckOutcome) Reported() bool { return o != CheckOutcome{} }

// nextStep says what to do with a check about which something was reported.
func (o CheckOutcome) nextStep() string {
	switch o.Status {
	case string(spend.Executed):
		return "Do not carry the action out: that was done under this check. If another one is meant, it is a new check, " +
			"with another idempotency_key."
	case UnknownOutcome:
		return "Do not carry the action out: something was reported about this check that this program does not understand."
	}
	text := "Do not carry the action out under this check. A new attempt is a new check, with another idempotency_key: act only on its answer."
	if o.ReleasePending {
		text += " It may be blocked until somebody who may release has reported, too."
	}
	return text
}

// checkOutcome reads the header, an item of RFC 8941. Any other value counts as an outcome,
// too: no check is carried out when the header cannot be understood.
func checkOutcome(h http.Header) CheckOutcome {
	values := h.Values("Outcome")
	if len(values) == 0 {
		return CheckOutcome{}
	}
	status, parameter, parameters := strings.Cut(strings.Trim(values[0], " "), ";")
	pending := strings.TrimLeft(parameter, " ") == "release=pending"
	if len(values) > 1 || !spend.Status(status).Known() || parameters && !pending {
		return CheckOutcome{Status: UnknownOutcome}
	}
	return CheckOutcome{status, pending}
}

// OutcomeReport says what became of an allowed action.
type OutcomeReport struct {
	Status    string  `json:"status"`           // executed, failed or voided
	Amount    *Amount `json:"amount,omitempty"` // the amount that was moved, if executed; nil for the check's
	Reference string  `json:"reference,omitempty"`
	Note      string  `json:"note,omitempty"`
	// Supersedes is the number of the report that this one corrects, which must be the latest; 0
	// corrects none.
	Supersedes int `json:"supersedes,omitzero"`
	// RedemptionID is the redemption whose holder reports, of a payment (S84).
	RedemptionID string `json:"redemption_id,omitempty"`
	// UnlessInDoubt refuses the report of a check that is in doubt, as CodeCheckAlreadyRedeemed.
	UnlessInDoubt bool `json:"unless_in_doubt,omitzero"`
}

// Outcome is a recorded report.
type Outcome struct {
	wire.Outcome

	Replayed bool `json:"-"` // the same was reported before
	Raw
}

// ReportOutcome reports the outcome of an allowed check. Repeating the same report gives the same
// outcome. After any error other than an *Error the report may be recorded, and should be sent again.
func (c *Client) ReportOutcome(ctx context.Context, checkID string, report OutcomeReport) (*Outcome, error) {
	return fetch[Outcome](ctx, c, create(outcomePath(checkID), report, true))
}

// GetOutcome reads the last report about a check.
func (c *Client) GetOutcome(ctx context.Context, checkID string) (*Outcome, error) {
	return fetch[Outcome](ctx, c, get(outcomePath(checkID)))
}

func outcomePath(checkID string) string { return checkPath(checkID) + "/outcome" }

func (o *Outcome) accept(from reply) error {
	if o.Status == "" || o.Release == "" {
		return misunderstood("it is no outcome")
	}
	o.Replayed, o.Body = from.replayed(), from.body
	return nil
}
