package client

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"spendgate/hotpath/wire"
)

// CheckRedemption is the header Redeemed of a response that shows a check. The zero value means that
// the check was not redeemed.
type CheckRedemption struct {
	ID      string // UnknownOutcome if the header cannot be understood
	InDoubt bool   // nobody knows whether the action was carried out
}

// Redeemed reports whether the check was redeemed. It is false only for the zero value.
func (r CheckRedemption) Redeemed() bool { return r != CheckRedemption{} }

// nextStep says what to do with a redeemed check about which nothing was reported.
func (r CheckRedemption) nextStep() string {
	if r.InDoubt {
		return "Do not carry the action out: it is in doubt whether it was carried out under this check. People find out, and report the outcome."
	}
	return "Do not carry the action out: somebody redeemed this check to do so, and reports the result as the check's outcome."
}

// checkRedemption reads the header, an item of RFC 8941. Any other value counts as a
// redemption, too.
func checkRedemption(h http.Header) CheckRedemption {
	values := h.Values("Redeemed")
	if len(values) == 0 {
		return CheckRedemption{}
	}
	id, parameter, parameters := strings.Cut(strings.Trim(values[0], " "), ";")
	inDoubt := strings.TrimLeft(parameter, " ") == "in_doubt"
	if len(values) > 1 || !strings.HasPrefix(id, "rdm_") || parameters && !inDoubt {
		return CheckRedemption{ID: UnknownOutcome}
	}
	return CheckRedemption{id, inDoubt}
}

// RedeemRequest is the action that a check is redeemed for: ActionHash, or the other fields, which
// describe the action as it is about to be carried out. Empty AgentID, PolicyID and ActionType are
// taken from the check; other empty fields are absent.
type RedeemRequest struct {
	ActionHash       string         `json:"action_hash,omitempty"`
	AgentID          string         `json:"agent_id,omitempty"`
	PolicyID         string         `json:"policy_id,omitempty"`
	ActionType       ActionType     `json:"action_type,omitempty"`
	Amount           *Amount        `json:"amount,omitempty"`
	Currency         string         `json:"currency,omitempty"`
	Counterparty     string         `json:"counterparty,omitempty"`
	PaymentMethod    string         `json:"payment_method,omitempty"`
	MerchantOrVendor string         `json:"merchant_or_vendor,omitempty"`
	Metadata         map[string]any `json:"metadata,omitempty"`
	// IdempotencyKey makes repetitions one redemption. Redeem generates one when it is empty.
	IdempotencyKey string `json:"-"`
}

// Redemption is the permission to carry an action out, once.
type Redemption struct {
	wire.Redemption

	// Replayed reports that the check was redeemed before under the same idempotency key, for example
	// when the answer to an attempt of this call was lost. It is not a second permission.
	Replayed bool `json:"-"`
	Raw
}

// Redeem redeems an allowed check before its action is carried out (S74); it succeeds once.
// Repetitions carry one idempotency key. After any error other than an *Error with status 409 the
// check may be redeemed; ask again with the same key.
func (c *Client) Redeem(ctx context.Context, checkID string, r RedeemRequest) (*Redemption, error) {
	key := r.IdempotencyKey
	if key == "" {
		key = NewIdempotencyKey()
	}
	redemption, err := fetch[Redemption](ctx, c, request{
		method: http.MethodPost, path: checkPath(checkID) + "/redeem", content: r, idempotencyKey: key, repeatable: true,
	})
	if err == nil && redemption.CheckID != checkID {
		return nil, misunderstood("it is the redemption of another check")
	}
	return redemption, err
}

func (r *Redemption) accept(from reply) error {
	if r.CheckID == "" || r.RedemptionID == "" || r.ActionHash == "" {
		return misunderstood("it is no redemption")
	}
	r.Replayed, r.Body = from.replayed(), from.body
	return nil
}

// RecordedRedemption is a redemption in a list.
type RecordedRedemption struct {
	wire.RecordedRedemption
	Raw
}

func (r *RecordedRedemption) accept(from reply) error {
	return r.take(from, r.CheckID != "" && r.RedemptionID != "", "it is no redemption")
}

// Doubt says why it is unknown what became of a check. Both fields may be empty.
type Doubt struct {
	Note string `json:"note,omitempty"`
	// RedemptionID is the redemption whose holder does not know it, of a payment (S84).
	RedemptionID string `json:"redemption_id,omitempty"`
}

// ReportInDoubt reports that it is unknown whether the action of a check that this client redeemed
// was carried out.
func (c *Client) ReportInDoubt(ctx context.Context, checkID string, doubt Doubt) (*RecordedRedemption, error) {
	return fetch[RecordedRedemption](ctx, c, create(checkPath(checkID)+"/in-doubt", doubt, true))
}

func checkPath(checkID string) string { return "/v1/checks/" + url.PathEscape(checkID) }
