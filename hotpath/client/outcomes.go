package client

import (
	"context"
	"errors"
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
	body, err := encode(report)
	if err != nil {
		return nil, err
	}
	answer, _, err := c.send(ctx, request{
		method: http.MethodPost, path: outcomePath(checkID), body: body, status: http.StatusCreated, again: http.StatusOK, repeatable: true,
	})
	if err != nil {
		return nil, err
	}
	o, err := readOutcome(answer.body)
	if err == nil {
		o.Replayed = answer.header.Get("Idempotent-Replayed") == "true"
	}
	return o, err
}

// GetOutcome reads what was reported of a check, last.
func (c *Client) GetOutcome(ctx context.Context, checkID string) (*Outcome, error) {
	body, err := c.get(ctx, outcomePath(checkID))
	if err != nil {
		return nil, err
	}
	return readOutcome(body)
}

func outcomePath(checkID string) string { return "/v1/checks/" + url.PathEscape(checkID) + "/outcome" }

func readOutcome(body []byte) (*Outcome, error) {
	o := new(Outcome)
	if err := decode(body, o); err != nil {
		return nil, err
	}
	if o.Status == "" || o.Release == "" {
		return nil, errors.New("the service's answer cannot be understood: it is no outcome")
	}
	o.Body = body
	return o, nil
}
