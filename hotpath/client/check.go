package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"spendgate/audit/spend"
	"spendgate/hotpath/wire"
)

// Action is a planned movement of money. Empty optional fields are not sent.
type Action struct {
	AgentID          string     `json:"agent_id"`
	PolicyID         string     `json:"policy_id"`
	ActionType       ActionType `json:"action_type,omitempty"` // if empty, it is derived from ReasonText
	Amount           Amount     `json:"amount"`
	Currency         string     `json:"currency"` // three letters
	Counterparty     string     `json:"counterparty"`
	PaymentMethod    string     `json:"payment_method,omitempty"`
	MerchantOrVendor string     `json:"merchant_or_vendor,omitempty"`
	ReasonText       string     `json:"reason_text,omitempty"`
	// IdempotencyKey makes all requests with the same key one check, for 24 hours. With a key
	// that belongs to the action, such as an order's number, a retry after a crash is safe, too.
	// Check generates a key when it is empty.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	// ApprovalID makes the check use an approval of this action (S47). It is another check than
	// the one that was escalated, even under the same idempotency key (S18).
	ApprovalID string `json:"approval_id,omitempty"`
	// PaymentKey names a payment, in place of an IdempotencyKey and an ApprovalID: it is carried out at most once,
	// however often it is asked for (S84). The result is Allowed only if its Payment says proceed for Redeem.
	PaymentKey string `json:"payment_key,omitempty"`
	// Redeem is a nonce of 16 to 64 characters, new for each call, that redeems the check in the same step.
	Redeem string `json:"redeem,omitempty"`
	// Replace judges another action than the payment's where nothing was carried out.
	Replace bool `json:"replace,omitzero"`
	// TakeOver takes the redemption of another nonce over, of at most so many hours (0: 24): the provider takes the
	// execution_id as its idempotency key.
	TakeOver            bool `json:"take_over,omitzero"`
	TakeOverWithinHours int  `json:"take_over_within_hours,omitzero"`
	// AgainAfterHours is when an executed payment is free again; 0: never.
	AgainAfterHours int `json:"again_after_hours,omitzero"`
	// Wait is how long the service may hold its answer while people decide; the service waits for 30 s at most.
	Wait time.Duration `json:"-"`

	// Metadata is context for rules. json.Number and strings keep decimals exact.
	Metadata map[string]any `json:"metadata,omitempty"`
}

// Result is the answer to an action. Fields that the service sends as null are empty.
type Result struct {
	wire.Result

	// Replayed reports that the service repeated an earlier answer, because it knew the
	// idempotency key. The action may have been carried out even if there is no Outcome.
	Replayed bool `json:"-"`
	// RedeemRequired reports that the party that moves the money must redeem the check before it
	// carries the action out. Otherwise the action cannot be reported as executed.
	RedeemRequired bool `json:"-"`
	// Outcome is what was reported about the check since; zero when nothing was. NextStep considers
	// it; the next_step in Body does not.
	Outcome CheckOutcome `json:"-"`
	// Redemption says whether somebody redeemed the check to carry the action out; zero when nobody
	// did. NextStep considers it until there is an Outcome.
	Redemption CheckRedemption `json:"-"`
	// The Body of a replay equals the first one byte for byte.
	Raw

	checked  bool // the result is the answer of Check
	payment  bool // Check asked for a payment
	proceeds bool // the answer is for that payment and its nonce, which carries it out
}

// Allowed reports whether the action may be carried out, once: the service answered a Check with 200
// and allow, nobody redeemed the check or has to first, and no outcome was reported. It is false for nil, for a
// simulated result and for one that was read later. For a Replayed result it is true even if the
// action was carried out and nobody reported it: give CheckID to the payment system as its idempotency
// key. The check of a payment is allowed only to the call whose nonce carries it out.
func (r *Result) Allowed() bool {
	if r != nil && r.payment {
		return r.proceeds
	}
	return r != nil && r.checked && r.Decision == Allow && !r.Outcome.Reported() && !r.Redemption.Redeemed() && !r.RedeemRequired
}

// Check asks whether an action may be carried out. Repetitions carry one
// idempotency key, the action's or a new one. Errors: *Error when the service
// refused the request, and then decided and recorded nothing; *UndecidedError
// when it did not answer or may have decided. On every error the result is nil.
func (c *Client) Check(ctx context.Context, a Action) (*Result, error) {
	payment, _ := spend.PaymentKey(a.PaymentKey)
	if spend.Blank(a.IdempotencyKey) && payment == "" { // the service treats a blank key as none, too (S4)
		a.IdempotencyKey = NewIdempotencyKey()
	}
	body, err := encode(a)
	if err != nil {
		return nil, err
	}
	from, unknown, err := c.send(ctx, request{
		method: http.MethodPost, path: "/v1/checks", body: body, repeatable: true, wait: a.Wait,
	})
	if err == nil && payment == "" && from.header.Get("X-Request-ID") == "" {
		err = misunderstood("a proxy drops headers, which tell a replay: X-Request-ID is missing")
	}
	if err == nil {
		var r *Result
		if r, err = read[Result](from); err == nil {
			r.payment = payment != ""
			r.proceeds = r.payment && r.proceedsFor(payment, a.Redeem)
			r.checked = true
			return r, nil
		}
	}
	if refused, ok := errors.AsType[*Error](err); ok && refused.Definite() && !unknown {
		return nil, err
	}
	return nil, &UndecidedError{IdempotencyKey: cmp.Or(a.IdempotencyKey, a.PaymentKey), Err: err}
}

// proceedsFor reports whether a complete answer says that the payment is carried out by the request with the nonce.
func (r *Result) proceedsFor(key, nonce string) bool {
	p := r.Payment
	return r.Decision == Allow && nonce != "" && p != nil && p.Proceed && p.PaymentKey == key && p.Nonce == nonce && p.State == "redeemed" &&
		p.Outcome == "" && p.ExecutionID != "" && p.RedemptionID != ""
}

// NewIdempotencyKey returns a key of 130 random bits.
func NewIdempotencyKey() string { return "go-" + rand.Text() }

// GetCheck reads the answer of an earlier check, and its outcome. The result is a record, not a
// permission.
func (c *Client) GetCheck(ctx context.Context, checkID string) (*Result, error) {
	r, err := fetch[Result](ctx, c, get(checkPath(checkID)))
	if err == nil && r.CheckID != checkID {
		return nil, misunderstood("it is another check")
	}
	return r, err
}

// accept refuses an answer that is not a complete decision.
func (r *Result) accept(from reply) error {
	if !strings.HasPrefix(r.CheckID, "chk_") || r.Decision == Undecided || r.PolicyVersion < 1 {
		return misunderstood("it is no check result")
	}
	if r.Payment != nil {
		var said struct {
			Payment struct {
				Proceed *bool `json:"proceed"`
			} `json:"payment"`
		}
		if err := decode(from.body, &said); err != nil || from.body != nil && said.Payment.Proceed == nil {
			return misunderstood("it does not say whether the payment proceeds")
		}
	}
	r.Replayed, r.Outcome, r.Body = from.replayed(), checkOutcome(from.header), from.body
	r.Redemption, r.RedeemRequired = checkRedemption(from.header), from.header.Get("Redeem") != ""
	switch {
	case r.Payment != nil: // asked for again under its key, not by another check
	case r.Outcome.Reported():
		r.NextStep = r.Outcome.nextStep()
	case r.Redemption.Redeemed():
		r.NextStep = r.Redemption.nextStep()
	}
	return nil
}

// Simulation is the answer to Simulate.
type Simulation struct {
	wire.Simulation
	Results []Result `json:"results"` // one per action, in their order

	Raw
}

// Simulate evaluates up to 100 actions by a policy and records nothing: its
// result permits nothing. Without an API key it is a demo, of up to 10 actions.
// An action without a PolicyID gets the given one.
func (c *Client) Simulate(ctx context.Context, policyID string, actions []Action) (*Simulation, error) {
	all := make([]Action, len(actions))
	for i, a := range actions {
		if a.PolicyID == "" {
			a.PolicyID = policyID
		}
		all[i] = a
	}
	body := struct {
		PolicyID string   `json:"policy_id"`
		Actions  []Action `json:"actions"`
	}{policyID, all}
	s, err := fetch[Simulation](ctx, c, post("/v1/simulate", body))
	if err == nil && len(s.Results) != len(actions) {
		return nil, misunderstood(fmt.Sprintf("%d results of %d actions", len(s.Results), len(actions)))
	}
	return s, err
}

func (s *Simulation) accept(from reply) error {
	for i := range s.Results {
		if err := s.Results[i].accept(reply{}); err != nil {
			return err
		}
	}
	s.Body = from.body
	return nil
}
