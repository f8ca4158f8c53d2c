package client

import (
	"context"
	"net/http"
	"net/url"
)

// OutcomeReport says what became of an allowed action.
type OutcomeReport struct {
	Status    string  `json:"status"`           // executed, failed or voided
	Amount    *Amount `json:"amount,omitempty"` // that was moved, if executed; nil is the check's
	Reference string  `json:"reference,omitempty"`
	Note      string  `json:"note,omitempty"`
}

// Outcome is a recorded report.
type Outcome struct {
	CheckID   string    `json:"check_id"`
	Status    string    `json:"status"`
	Amount    *Amount   `json:"amount,omitempty"`
	Reference string    `json:"reference,omitempty"`
	Note      string    `json:"note,omitempty"`
	Release   string    `json:"release"` // none, pending or done
	Flags     []string  `json:"flags"`
	Principal string    `json:"principal"`
	KeyID     string    `json:"key_id"`
	At        Timestamp `json:"at"`

	Replayed bool   `json:"-"` // the same was reported before
	Body     []byte `json:"-"` // the answer as it came
}

// ReportOutcome reports what became of an allowed check, once: the same report
// again is the same outcome. After any error but an *Error it may be recorded, and
// should be reported again.
func (c *Client) ReportOutcome(ctx context.Context, checkID string, report OutcomeReport) (*Outcome, error) {
	return fetch[Outcome](ctx, c, request{
		method: http.MethodPost, path: outcomePath(checkID), content: report, status: http.StatusCreated, again: http.StatusOK, repeatable: true,
	})
}

// GetOutcome reads what was reported of a check, last.
func (c *Client) GetOutcome(ctx context.Context, checkID string) (*Outcome, error) {
	return fetch[Outcome](ctx, c, get(outcomePath(checkID), nil))
}

func outcomePath(checkID string) string { return "/v1/checks/" + url.PathEscape(checkID) + "/outcome" }

func (o *Outcome) accept(from reply) error {
	if o.Status == "" || o.Release == "" {
		return misunderstood("it is no outcome")
	}
	o.Replayed, o.Body = from.replayed(), from.body
	return nil
}
